//! What an import would do to a configuration, and doing it (MGP §15.2).
//!
//! Applies to: both.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::PrivateFile;
use toml_edit::DocumentMut;

use super::{Import, write};
use crate::config::{Config, limits};
use crate::error::Error;
use crate::expand::clear_secrets;
use crate::source::{Origin, text_of};

/// How long another import is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many back-ups are kept beside a file.
const BACKUPS: u64 = 10;

/// What would become of a file; nothing was written yet.
#[derive(Clone, PartialEq)]
#[must_use = "nothing is written until it is applied"]
pub struct Plan {
    file: PathBuf,
    before: Option<String>,
    after: String,
    lines: Vec<Line>,
}

/// What became of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The file it is from.
    pub source: PathBuf,
    /// Its name there.
    pub name: String,
    /// Whether it was taken.
    pub fate: Fate,
    /// What could not be taken, and what is left to do.
    pub notes: Vec<String>,
}

/// Whether a server was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was, under an id.
    Added(String),
    /// It was not, for a reason.
    Left(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, name, fate, notes } = self;
        let name = name.escape_debug();
        match fate {
            Fate::Added(id) => write!(f, "{name} from {}: added as `{id}`", source.display())?,
            Fate::Left(why) => write!(f, "{name} from {}: left out, {why}", source.display())?,
        }
        notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

impl Plan {
    /// Plans to add the servers of other hosts to a file of ours; servers it has stay as they are.
    ///
    /// # Errors
    /// [`Error`] when our file cannot be read, or is broken as a whole.
    pub fn new(file: impl Into<PathBuf>, imports: &[Import]) -> Result<Self, Error> {
        let file = file.into();
        // Of a link, what it leads to is written, so that the link stays.
        let file = file.canonicalize().unwrap_or(file);
        let before = text_of(&file, Origin::User)?;
        let text = before.clone().unwrap_or_default();
        let there = Config::parse(&file, &text)?;
        let mut taken: HashSet<String> = there.kept_ids;
        let mut document: DocumentMut = text.parse().map_err(|_| Error::Foreign {
            path: file.clone(),
            reason: "it is not TOML".to_owned(),
        })?;
        let mut lines = Vec::new();
        for import in imports {
            for (name, entry, notes) in &import.servers {
                let from = import.source.display().to_string();
                let mut notes = notes.clone();
                let fate = match id(name) {
                    Some(id) if taken.contains(&id) => {
                        Fate::Left(format!("there is a server `{id}` already"))
                    }
                    None => Fate::Left("nothing of its name can be an id".to_owned()),
                    Some(id) => {
                        let mut alone = DocumentMut::new();
                        write::add(&mut alone, &id, entry, &from);
                        match alone_works(&file, &alone.to_string(), &mut notes) {
                            Err(why) => Fate::Left(why),
                            Ok(()) if !write::add(&mut document, &id, entry, &from) => Fate::Left(
                                "`servers` has a form that nothing can be added to".to_owned(),
                            ),
                            Ok(()) => {
                                taken.insert(id.clone());
                                Fate::Added(id)
                            }
                        }
                    }
                };
                lines.push(Line { source: import.source.clone(), name: name.clone(), fate, notes });
            }
            lines.extend(import.refused.iter().map(|refused| Line {
                source: import.source.clone(),
                name: refused.name.clone(),
                fate: Fate::Left(refused.why.clone()),
                notes: Vec::new(),
            }));
        }
        let after = document.to_string();
        Config::parse(&file, &after)?;
        Ok(Self { file, before, after, lines })
    }

    /// A line for each server.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The text that the file would have. Secrets that stood in clear text stand in it as they did.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.after
    }

    /// Whether the file stays as it is.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| matches!(line.fate, Fate::Left(_)))
    }

    /// Writes the file, for its owner alone, and what it was into a file beside it, whose path is answered; the last ten
    /// of those are kept. Blocks.
    ///
    /// # Errors
    /// [`Error::Changed`] when the file is no longer what was planned for; [`Error`] when it cannot be written.
    pub fn apply(&self) -> Result<Option<PathBuf>, Error> {
        if self.is_idle() {
            return Ok(None);
        }
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let failed = |source| Error::Io { path: folder.to_owned(), verb: "made", source };
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let target = PrivateFile::new(&self.file, limits::FILE_BYTES);
        let turn = target.turn(PATIENCE)?;
        if text_of(&self.file, Origin::User)? != self.before {
            return Err(Error::Changed { path: self.file.clone() });
        }
        let backup = match &self.before {
            None => None,
            Some(before) => {
                let failed =
                    |source| Error::Io { path: self.file.clone(), verb: "backed up", source };
                let (path, old) = backups(&self.file).map_err(failed)?;
                let backup = PrivateFile::new(&path, limits::FILE_BYTES);
                backup.replace(&turn, before.as_bytes())?;
                // One that cannot be removed is in nobody's way.
                for old in old {
                    let _ = std::fs::remove_file(old);
                }
                Some(path)
            }
        };
        target.replace(&turn, self.after.as_bytes())?;
        Ok(backup)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("file", &self.file)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

/// Whether an entry reads as we wrote it; secrets in it are noted.
fn alone_works(file: &Path, text: &str, notes: &mut Vec<String>) -> Result<(), String> {
    let parsed = Config::parse(file, text).map_err(|_| "it cannot be written down".to_owned())?;
    let Some(server) = parsed.config.servers.first() else {
        let why = parsed.findings.first().map(|finding| finding.what.clone());
        return Err(why.unwrap_or_else(|| "it cannot be written down".to_owned()));
    };
    notes.extend(clear_secrets(server).iter().map(ToString::to_string));
    Ok(())
}

/// A name as an id: other characters become `-`.
fn id(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let id: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let id = id.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id: String = id.chars().take(limits::ID_BYTES).collect();
    (!id.is_empty()).then_some(id)
}

/// The next back-up of a file, and those that are too many beside it then.
fn backups(file: &Path) -> std::io::Result<(PathBuf, Vec<PathBuf>)> {
    let named = |number: u64| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    let own = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = |name: &str| name.strip_prefix(own)?.strip_prefix(".bak")?.parse::<u64>().ok();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut known = Vec::new();
    for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        known.extend(entry?.file_name().to_str().and_then(number));
    }
    let next = known.iter().max().map_or(1, |last| last.saturating_add(1));
    known.retain(|number| number.saturating_add(BACKUPS) <= next);
    Ok((named(next), known.into_iter().map(named).collect()))
}
