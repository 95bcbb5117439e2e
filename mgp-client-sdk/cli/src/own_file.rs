//! Changes a configuration of the user's, and keeps what a person wrote there (MGP §15.2).
//!
//! Applies to: both.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_discovery::{Config, limits};
use mgp_types::PrivateFile;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::exit::{Ended, Failure};

/// How long another program that writes it is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A configuration that is to be changed.
pub(crate) struct OwnFile {
    file: PathBuf,
    before: Option<String>,
}

impl OwnFile {
    /// Reads it; it need not be there yet.
    pub(crate) fn open(file: PathBuf) -> Ended<Self> {
        // Of a link, what it leads to is written, so that the link stays.
        let file = file.canonicalize().unwrap_or(file);
        let before = match fs::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&file, "read", &error)),
        };
        Ok(Self { file, before })
    }

    /// Whether a person sits at an agent, where it is said.
    pub(crate) fn interactive(&self, agent: &str) -> Option<bool> {
        let document = self.document().ok()?;
        document.get("agents")?.get(agent)?.get("interactive")?.as_bool()
    }

    /// Says whether a person sits at an agent.
    pub(crate) fn set_interactive(&self, agent: &str, interactive: bool) -> Ended {
        if self.interactive(agent) == Some(interactive) {
            return Ok(());
        }
        self.change(|document| {
            let agents = document.entry("agents").or_insert_with(|| {
                let mut agents = Table::new();
                agents.set_implicit(true);
                Item::Table(agents)
            });
            let agents = agents.as_table_like_mut()?;
            let entry = agents.entry(agent).or_insert_with(|| Item::Table(Table::new()));
            entry.as_table_like_mut()?.insert("interactive", value(interactive));
            Some(())
        })
    }

    /// Pins a tool for an agent, or no longer; false where that was so.
    pub(crate) fn pin(&self, agent: &str, tool: &str, pinned: Pinned) -> Ended<bool> {
        let document = self.document()?;
        let there = document
            .get("agents")
            .and_then(|agents| agents.get(agent)?.get("pinned")?.as_array())
            .is_some_and(|array| array.iter().any(|name| name.as_str() == Some(tool)));
        if there == (pinned == Pinned::Yes) {
            return Ok(false);
        }
        self.change(|document| {
            let agents = document.entry("agents").or_insert_with(|| {
                let mut agents = Table::new();
                agents.set_implicit(true);
                Item::Table(agents)
            });
            let entry = agents
                .as_table_like_mut()?
                .entry(agent)
                .or_insert_with(|| Item::Table(Table::new()));
            let list = entry
                .as_table_like_mut()?
                .entry("pinned")
                .or_insert_with(|| value(toml_edit::Array::new()));
            let array = list.as_array_mut()?;
            match pinned {
                Pinned::Yes => array.push(tool),
                Pinned::No => array.retain(|name| name.as_str() != Some(tool)),
            }
            Some(())
        })?;
        Ok(true)
    }

    /// Takes a server out; false where the file has none of this id.
    pub(crate) fn remove_server(&self, id: &str) -> Ended<bool> {
        let document = self.document()?;
        let is_it =
            |server: &dyn toml_edit::TableLike| server.get("id").and_then(Item::as_str) == Some(id);
        let servers = document.get("servers");
        let there = servers.is_some_and(|servers| match servers {
            Item::ArrayOfTables(tables) => tables.iter().any(|table| is_it(table)),
            Item::Value(toml_edit::Value::Array(array)) => {
                array.iter().filter_map(toml_edit::Value::as_inline_table).any(|table| is_it(table))
            }
            _ => false,
        });
        if !there {
            return Ok(false);
        }
        self.change(|document| {
            match document.get_mut("servers")? {
                Item::ArrayOfTables(tables) => tables.retain(|table| !is_it(table)),
                Item::Value(toml_edit::Value::Array(array)) => {
                    array
                        .retain(|value| !value.as_inline_table().is_some_and(|table| is_it(table)));
                }
                _ => return None,
            }
            Some(())
        })?;
        Ok(true)
    }

    fn document(&self) -> Ended<DocumentMut> {
        let text = self.before.as_deref().unwrap_or_default();
        text.parse().map_err(|_| match Config::parse(&self.file, text) {
            Err(faults) => Failure::failed(faults),
            Ok(_) => Failure::failed(format!("`{}` is not TOML", self.file.display())),
        })
    }

    /// Changes the document, unless what comes out could not be read.
    fn change(&self, change: impl FnOnce(&mut DocumentMut) -> Option<()>) -> Ended {
        let mut document = self.document()?;
        // A file of comments alone begins with them, and not with what is added.
        let comments = if document.is_empty() {
            document.trailing().as_str().unwrap_or_default().to_owned()
        } else {
            String::new()
        };
        change(&mut document).ok_or_else(|| {
            let file = self.file.display();
            Failure::failed(format!(
                "`{file}` has a form that nothing can be changed in; edit it yourself"
            ))
        })?;
        let after = if comments.is_empty() {
            document.to_string()
        } else {
            document.set_trailing("");
            format!("{}\n\n{}", comments.trim_end(), document.to_string().trim_start())
        };
        Config::parse(&self.file, &after)?;
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| failed(&self.file, "written", &error))?;
        }
        let target = PrivateFile::new(&self.file, limits::FILE_BYTES);
        let turn = target.turn(PATIENCE)?;
        let now = fs::read_to_string(&self.file).ok();
        if now != self.before {
            let file = self.file.display();
            return Err(Failure::failed(format!("`{file}` was changed meanwhile; try again")));
        }
        Ok(target.replace(&turn, after.as_bytes())?)
    }
}

/// Whether a tool is always in an agent's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    Yes,
    No,
}

fn failed(file: &Path, verb: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be {verb}: {error}", file.display()))
}

/// A name that can stand in a configuration.
pub(crate) fn check_agent(name: &str) -> Ended {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.is_empty() && name.len() <= limits::ID_BYTES && name.chars().all(fits) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{}` is no name of an agent: letters, digits, `.`, `_` and `-` are",
        name.escape_debug()
    )))
}

/// A file that was not there, for its owner alone; a link that was there is not followed.
pub(crate) fn create(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Puts a text in the place of a file of somebody else's, and what it was into a file beside it.
///
/// Its mode stays; what is new is for its owner alone, the back-up too.
pub(crate) fn swap(file: &Path, before: Option<&str>, after: &str) -> io::Result<Option<PathBuf>> {
    let beside = |end: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let backup = match before {
        Some(before) => {
            let mut numbers = 1..10_000;
            let (path, mut backup) = loop {
                let Some(number) = numbers.next() else {
                    return Err(io::Error::other("there are too many back-ups beside it"));
                };
                let path = beside(&format!(".bak{number}"));
                match create(&path) {
                    Ok(file) => break (path, file),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            };
            backup.write_all(before.as_bytes())?;
            Some(path)
        }
        None => None,
    };
    let fresh = beside(&format!(".new{}", std::process::id()));
    let written = create(&fresh).and_then(|mut new| {
        new.write_all(after.as_bytes())?;
        if let Ok(metadata) = fs::metadata(file) {
            new.set_permissions(metadata.permissions())?;
        }
        new.sync_all()?;
        fs::rename(&fresh, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written.map(|()| backup)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_backup_follows_no_link_that_was_planted() {
        let folder = std::env::temp_dir().join(format!("mgp-swap-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (file, elsewhere) = (folder.join("mcp.json"), folder.join("elsewhere"));
        fs::write(&file, "old").unwrap();
        symlink(&elsewhere, folder.join("mcp.json.bak1")).unwrap();
        let backup = swap(&file, Some("old"), "new").unwrap().unwrap();
        assert!(!elsewhere.exists(), "the link was followed");
        assert_eq!(backup, folder.join("mcp.json.bak2"));
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((text(&backup), text(&file)), ("old".to_owned(), "new".to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
