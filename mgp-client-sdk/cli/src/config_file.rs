//! Edits configuration files and preserves their comments and order (MGP §15.2).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_discovery::{Config, Sources, keep_line_ends, limits, nearest};
use mgp_types::{PrivateFile, create_own_folder};
use toml_edit::{Decor, DocumentMut, Item, RawString, Table, TableLike, Value, value};

use crate::exit::{CliResult, Failure};
use crate::pipe;
use crate::state_option::shell_path_or;
pub(crate) use confine::ConfineValues;
pub(crate) use risks::ToolRisks;
use unwritable::unwritable;
pub(crate) use unwritable::{apply, failed};

mod confine;
mod risks;
mod unwritable;

/// The maximum time that a command waits while another program edits the same file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A configuration file that a command edits.
pub(crate) struct ConfigFile {
    file: PathBuf,
    before: Option<String>,
}

impl ConfigFile {
    /// Reads a configuration file; the file need not exist yet.
    pub(crate) fn open(file: PathBuf) -> CliResult<Self> {
        // Resolve a symbolic link, so that the edit replaces its target and not the link.
        let file = dunce::canonicalize(&file).unwrap_or(file);
        let before = match pipe::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound && file.is_symlink() => {
                return Err(Failure::dangling(&file));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&file, "read", &error)),
        };
        Ok(Self { file, before })
    }

    /// Returns the `interactive` setting of an agent, i.e. whether a person can answer its questions; `None` if not
    /// set.
    pub(crate) fn interactive(&self, agent: &str) -> Option<bool> {
        let document = self.document().ok()?;
        document.get("agents")?.get(agent)?.get("interactive")?.as_bool()
    }

    /// Returns whether `portable_names` is undecided: the agent has no entry at all, and `[kernel]` does not set it. An
    /// entry without the key counts as decided, because the operator wrote it.
    pub(crate) fn lacks_portable_names(&self, agent: &str) -> bool {
        let Ok(document) = self.document() else { return false };
        let entry = document.get("agents").and_then(|agents| agents.get(agent));
        let of_kernel = document.get("kernel").and_then(|kernel| kernel.get("portable_names"));
        entry.is_none() && of_kernel.is_none()
    }

    /// Sets keys of an agent: `interactive` (whether a person can answer its questions), if given, and
    /// `portable_names = true`, if the agent needs it. Returns whether the file changed.
    pub(crate) fn set_agent(
        &self,
        agent: &str,
        interactive: Option<bool>,
        needs_portable_names: bool,
    ) -> CliResult<bool> {
        let interactive = interactive.filter(|answer| self.interactive(agent) != Some(*answer));
        if interactive.is_none() && !needs_portable_names {
            return Ok(false);
        }
        self.change(|document| {
            let entry = agent_table(document, agent)?;
            if let Some(answer) = interactive {
                set_value(entry, "interactive", answer);
            }
            if needs_portable_names {
                set_value(entry, "portable_names", true);
            }
            Some(())
        })?;
        Ok(true)
    }

    /// Pins or unpins a tool for an agent, and returns whether that changed the file.
    pub(crate) fn pin(&self, agent: &str, tool: &str, pinned: Pinned) -> CliResult<bool> {
        let document = self.document()?;
        let is_pinned = document
            .get("agents")
            .and_then(|agents| agents.get(agent)?.get("pinned")?.as_array())
            .is_some_and(|array| array.iter().any(|name| name.as_str() == Some(tool)));
        if is_pinned == (pinned == Pinned::Yes) {
            return Ok(false);
        }
        self.change(|document| {
            let list = agent_table(document, agent)?
                .entry("pinned")
                .or_insert_with(|| value(toml_edit::Array::new()));
            let array = list.as_array_mut()?;
            array.retain(|name| name.as_str() != Some(tool));
            if pinned == Pinned::Yes {
                array.push(tool);
            }
            Some(())
        })?;
        Ok(true)
    }

    pub(crate) fn server_ids(&self) -> CliResult<Vec<String>> {
        let document = self.document()?;
        let id = |server: &dyn TableLike| server.get("id")?.as_str().map(str::to_owned);
        Ok(match document.get("servers") {
            Some(Item::ArrayOfTables(tables)) => tables.iter().filter_map(|one| id(one)).collect(),
            Some(Item::Value(Value::Array(array))) => {
                let tables = array.iter().filter_map(Value::as_inline_table);
                tables.filter_map(|table| id(table)).collect()
            }
            _ => Vec::new(),
        })
    }

    /// Refuses a server that the file does not have. The error names another configuration file that has the server, or
    /// else the server that the user probably meant.
    pub(crate) fn check_server(&self, id: &str) -> CliResult {
        let ids = self.server_ids()?;
        if ids.iter().any(|own| own == id) {
            return Ok(());
        }
        let file = self.file.display();
        if let Some(other) = Self::file_with(id) {
            let word = shell_path_or("FILE", &other);
            let other = other.display();
            return Err(Failure::failed(format!(
                "`{id}` is not in {file}, but in {other}; add `--config {word}`"
            )));
        }
        let near = nearest(id, ids.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Err(Failure::failed(format!("there is no server `{id}` in {file}{near}")))
    }

    /// Returns the configuration file that has a server, among the files that a kernel in this folder would read.
    pub(crate) fn file_with(id: &str) -> Option<PathBuf> {
        let has_it = |file: &&Path| {
            let ids = Self::open(file.to_path_buf()).and_then(|file| file.server_ids());
            ids.is_ok_and(|ids| ids.iter().any(|own| own == id))
        };
        let sources = Sources::from_env();
        // Read only plain files, because e.g. a pipe could block this command.
        let mut files = sources.files().filter(|file| file.is_file());
        files.find(has_it).map(Path::to_path_buf)
    }

    /// Switches a server on or off.
    pub(crate) fn set_enabled(&self, id: &str, is_enabled: bool) -> CliResult {
        self.change(|document| {
            let (server, _) = server_entry(document, id)?;
            if is_enabled {
                server.remove("enabled");
            } else {
                set_value(server, "enabled", false);
            }
            Some(())
        })
    }

    /// Updates a server's entry to another version: replaces texts in it, and adds environment variables or headers.
    pub(crate) fn update_server(
        &self,
        id: &str,
        published: Option<&str>,
        replacements: &BTreeMap<String, String>,
        added: &BTreeMap<String, String>,
    ) -> CliResult {
        self.change(|document| {
            let (server, _) = server_entry(document, id)?;
            for (_, item) in server.iter_mut() {
                replace_texts(item, replacements);
            }
            if let Some(published) = published {
                set_value(server, "published", published);
            }
            if added.is_empty() {
                return Some(());
            }
            let place = if server.contains_key("url") { "headers" } else { "env" };
            let map = server.entry(place).or_insert(value(toml_edit::InlineTable::new()));
            if let Some(map) = map.as_table_like_mut() {
                for (name, text) in added {
                    set_value(map, name, text);
                }
            }
            Some(())
        })
    }

    /// Removes a server and the pins of its tools; returns the removed pins.
    pub(crate) fn remove_server(&self, id: &str) -> CliResult<Vec<String>> {
        let ids = self.server_ids()?;
        // A tool belongs to the server with the longest matching id: `a.b.c` may be the tool `c` of the server `a.b`.
        let owner = |tool: &str| {
            let begins =
                |own: &&String| tool.strip_prefix(&**own).is_some_and(|rest| rest.starts_with('.'));
            ids.iter().filter(begins).max_by_key(|own| own.len()).is_some_and(|own| own == id)
        };
        let mut unpinned = Vec::new();
        self.change(|document| {
            // Fail if another command has removed the server since the file was opened.
            server_entry(document, id)?;
            for (_, agent) in document
                .get_mut("agents")
                .and_then(Item::as_table_like_mut)
                .into_iter()
                .flat_map(TableLike::iter_mut)
            {
                if let Some(array) = agent.get_mut("pinned").and_then(Item::as_array_mut) {
                    let is_own = |name: &Value| name.as_str().is_some_and(&owner);
                    let own = array.iter().filter(|name| is_own(name));
                    unpinned.extend(own.filter_map(|name| name.as_str().map(str::to_owned)));
                    array.retain(|name| !is_own(name));
                }
            }
            match document.get_mut("servers")? {
                Item::ArrayOfTables(tables) => {
                    let removed = tables.iter().filter(|table| has_id(*table, id));
                    let comments: Vec<(isize, String)> = removed
                        .filter_map(|table| Some((table.position()?, comments_above(table)?)))
                        .collect();
                    tables.retain(|table| !has_id(table, id));
                    for (at, comments) in comments.into_iter().rev() {
                        move_comments(document, at, &comments);
                    }
                }
                Item::Value(Value::Array(array)) => {
                    array.retain(|value| {
                        !value.as_inline_table().is_some_and(|table| has_id(table, id))
                    });
                }
                _ => return None,
            }
            Some(())
        })?;
        Ok(unpinned)
    }

    fn document(&self) -> CliResult<DocumentMut> {
        let text = self.before.as_deref().unwrap_or_default();
        text.parse().map_err(|_| match Config::parse(&self.file, text) {
            Err(faults) => Failure::failed(faults),
            Ok(_) => Failure::failed(format!("`{}` is not TOML", self.file.display())),
        })
    }

    /// Applies an edit and writes the file, unless the result would not be a valid configuration. Edits the current
    /// text of the file, because another command may have changed the file since it was opened.
    fn change(&self, change: impl FnOnce(&mut DocumentMut) -> Option<()>) -> CliResult {
        self.document()?;
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            create_own_folder(folder).map_err(|error| failed(&self.file, "written", &error))?;
        }
        let target = PrivateFile::new(&self.file, limits::MAX_FILE_BYTES);
        let lock = target.lock(LOCK_TIMEOUT).map_err(unwritable)?;
        let now = Self::open(self.file.clone())?;
        if now.before.is_none() && self.before.is_some() {
            let file = self.file.display();
            return Err(Failure::failed(format!(
                "`{file}` was removed by another program; try again"
            )));
        }
        let edited = now.edited(change, now.before != self.before)?;
        target.replace_keeping_mode(&lock, edited.as_bytes()).map_err(unwritable)
    }

    /// Returns the text of the file with an edit, unless it would not be a valid configuration. `was_changed` is `true`
    /// if another program changed the file after this command had checked it.
    fn edited(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> Option<()>,
        was_changed: bool,
    ) -> CliResult<String> {
        let mut document = self.document()?;
        // Add the new text below the comments of a file that has nothing else; `toml_edit` would add it above.
        let comments = if document.is_empty() {
            document.trailing().as_str().unwrap_or_default().to_owned()
        } else {
            String::new()
        };
        change(&mut document).ok_or_else(|| {
            let file = self.file.display();
            Failure::failed(if was_changed {
                format!("`{file}` was changed meanwhile, e.g. the server was removed; try again")
            } else {
                format!("`{file}` cannot be edited automatically; edit it by hand")
            })
        })?;
        let after = if comments.is_empty() {
            document.to_string()
        } else {
            document.set_trailing("");
            format!("{}\n\n{}", comments.trim_end(), document.to_string().trim_start())
        };
        let after = keep_line_ends(self.before.as_deref().unwrap_or_default(), &after);
        Config::parse(&self.file, &after)?;
        Ok(after)
    }
}

/// Returns the comments above a table that are not about this table: those up to the last blank line.
///
/// The comments at the beginning of a file also count as above its first table.
fn comments_above(table: &Table) -> Option<String> {
    let prefix = table.decor().prefix()?.as_str()?;
    let (above, _) = prefix.rsplit_once("\n\n").or_else(|| prefix.rsplit_once("\n\r\n"))?;
    above.contains('#').then(|| above.trim_end().to_owned())
}

/// Puts the comments of a removed table above the next table, or at the end of the document.
fn move_comments(document: &mut DocumentMut, removed_at: isize, comments: &str) {
    let mut next: Option<isize> = None;
    each_table(document.as_table_mut(), &mut |at, _| {
        if at > removed_at && next.is_none_or(|next| at < next) {
            next = Some(at);
        }
    });
    let Some(next) = next else {
        let trailing = document.trailing().as_str().unwrap_or_default();
        let below = trailing.trim_start_matches(['\r', '\n']);
        let gap = if below.is_empty() { "\n" } else { "\n\n" };
        let text = format!("{comments}{gap}{below}");
        return document.set_trailing(text);
    };
    each_table(document.as_table_mut(), &mut |at, decor| {
        if at == next {
            let own = decor.prefix().and_then(RawString::as_str).unwrap_or_default();
            let text = format!("{comments}\n\n{}", own.trim_start_matches(['\r', '\n']));
            decor.set_prefix(text);
        }
    });
}

/// Calls a function with the position of each table that has a header, and with the text around this header.
fn each_table(table: &mut Table, call: &mut dyn FnMut(isize, &mut Decor)) {
    if let Some(at) = table.position()
        && !table.is_dotted()
    {
        call(at, table.decor_mut());
    }
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => each_table(table, call),
            Item::ArrayOfTables(tables) => {
                for table in tables.iter_mut() {
                    each_table(table, call);
                }
            }
            _ => {}
        }
    }
}

/// Sets a key of a table; a comment after the key's earlier value stays.
fn set_value(table: &mut dyn TableLike, key: &str, new: impl Into<Value>) {
    if let Some(old) = table.get_mut(key).and_then(Item::as_value_mut) {
        replace_value(old, new);
    } else {
        table.insert(key, value(new));
    }
}

/// Replaces a value; the blanks and comments around it stay.
fn replace_value(old: &mut Value, new: impl Into<Value>) {
    let decor = old.decor().clone();
    *old = new.into();
    *old.decor_mut() = decor;
}

/// Replaces texts in a TOML value, in its tables and among the elements of its arrays: each text that is a key of
/// `replacements` becomes the value of that key.
fn replace_texts(item: &mut Item, replacements: &BTreeMap<String, String>) {
    let replace = |text: &mut Value| {
        if let Some(to) = text.as_str().and_then(|text| replacements.get(text)) {
            replace_value(text, to);
        }
    };
    if let Some(array) = item.as_array_mut() {
        array.iter_mut().for_each(replace);
    } else if let Some(map) = item.as_table_like_mut() {
        for (_, item) in map.iter_mut() {
            replace_texts(item, replacements);
        }
    } else if let Some(text) = item.as_value_mut() {
        replace(text);
    }
}

/// The choice to pin a tool, so that it is always in an agent's tool list, or to unpin it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    Yes,
    No,
}

fn has_id(server: &dyn TableLike, id: &str) -> bool {
    server.get("id").and_then(Item::as_str) == Some(id)
}

/// Returns the entry of a server, and whether it is an inline table.
fn server_entry<'a>(
    document: &'a mut DocumentMut,
    id: &str,
) -> Option<(&'a mut dyn TableLike, bool)> {
    match document.get_mut("servers")? {
        Item::ArrayOfTables(tables) => {
            let found = tables.iter_mut().find(|table| has_id(*table, id))?;
            Some((found, false))
        }
        Item::Value(Value::Array(array)) => {
            let mut tables = array.iter_mut().filter_map(Value::as_inline_table_mut);
            let found = tables.find(|table| has_id(*table, id))?;
            Some((found, true))
        }
        _ => None,
    }
}

/// Returns the table below a key, and whether it is an inline table. A missing table is added in the same form as its
/// parent.
fn child_table<'a>(
    parent: &'a mut dyn TableLike,
    key: &str,
    is_inline: bool,
) -> Option<(&'a mut dyn TableLike, bool)> {
    let child = parent.entry(key).or_insert_with(|| {
        if is_inline {
            return value(toml_edit::InlineTable::new());
        }
        let mut new = Table::new();
        new.set_implicit(true);
        Item::Table(new)
    });
    let is_inline = child.is_inline_table();
    Some((child.as_table_like_mut()?, is_inline))
}

fn agent_table<'a>(document: &'a mut DocumentMut, agent: &str) -> Option<&'a mut dyn TableLike> {
    let (agents, is_inline) = child_table(document.as_table_mut(), "agents", false)?;
    child_table(agents, agent, is_inline).map(|(entry, _)| entry)
}

/// The rule for ids of servers and names of agents in a configuration.
const ID_RULE: &str =
    "begin with a letter or digit, and use only letters, digits, `.`, `_` and `-`, at most 128";

pub(crate) fn check_agent(name: &str) -> CliResult {
    check_name(name, "agent name")
}

pub(crate) fn check_server_id(id: &str) -> CliResult {
    check_name(id, "id")
}

fn check_name(name: &str, kind: &str) -> CliResult {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_begun = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if is_begun && name.len() <= limits::MAX_ID_BYTES && name.chars().all(fits) {
        return Ok(());
    }
    let name = name.escape_debug();
    Err(Failure::usage(format!("`{name}` is not a valid {kind}; {ID_RULE}")))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_edit_keeps_the_mode_of_the_file() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        fs::write(&path, "[[servers]]\nid = \"a\"\ncommand = \"true\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        ConfigFile::open(path.clone()).unwrap().set_enabled("a", false).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("enabled = false"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn an_edit_of_a_server_that_was_removed_meanwhile_names_that_reason() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        fs::write(&path, "[[servers]]\nid = \"a\"\ncommand = \"true\"\n").unwrap();
        let file = ConfigFile::open(path.clone()).unwrap();
        ConfigFile::open(path).unwrap().remove_server("a").unwrap();
        for refused in [file.set_enabled("a", false), file.remove_server("a").map(drop)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("the server was removed; try again"), "{refused}");
        }
    }

    #[test]
    fn an_edit_keeps_the_line_ends_of_the_file() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let text = "# mine\r\n\r\n[[servers]]\r\nid = \"a\"\r\nargs = [\r\n  \"-y\",\r\n]\r\ncommand = \"true\"\r\n";
        fs::write(&path, text).unwrap();
        let edit = |is_enabled| {
            ConfigFile::open(path.clone()).unwrap().set_enabled("a", is_enabled).unwrap();
            fs::read_to_string(&path).unwrap()
        };
        assert_eq!(edit(false), format!("{text}enabled = false\r\n"));
        assert_eq!(edit(true), text);
    }

    #[test]
    fn an_edit_keeps_the_byte_order_mark_and_the_ends_of_the_other_lines() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let text = "\u{feff}# mine\r\n[[servers]]\nid = \"a\"\ncommand = \"true\"\n";
        fs::write(&path, text).unwrap();
        ConfigFile::open(path.clone()).unwrap().set_enabled("a", false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{text}enabled = false\n"));
    }

    #[test]
    fn an_edit_keeps_the_comments_behind_the_values_that_it_replaces() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let server = "[[servers]]\nid = \"a\"\ncommand = \"old\" # fast\nenabled = true # now\n";
        let text = format!("{server}\n[agents.x]\ninteractive = true # me\n");
        fs::write(&path, &text).unwrap();
        let open = || ConfigFile::open(path.clone()).unwrap();
        open().set_enabled("a", false).unwrap();
        open().set_agent("x", Some(false), false).unwrap();
        let new = BTreeMap::from([("old".to_owned(), "new".to_owned())]);
        open().update_server("a", None, &new, &BTreeMap::new()).unwrap();
        let expected = text
            .replace("\"old\"", "\"new\"")
            .replace("enabled = true", "enabled = false")
            .replace("interactive = true", "interactive = false");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn the_comments_above_a_removed_server_stay_unless_they_are_about_it() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let without = |id: &str, text: &str| {
            fs::write(&path, text).unwrap();
            ConfigFile::open(path.clone()).unwrap().remove_server(id).unwrap();
            fs::read_to_string(&path).unwrap()
        };
        let server = |id: &str| format!("[[servers]]\nid = \"{id}\"\ncommand = \"true\"\n");
        let (a, b) = (server("a"), server("b"));
        let head = "# The servers of this machine.\n# Ask before you add one.\n";
        assert_eq!(without("a", &format!("{head}\n# From `mgp servers add`\n{a}")), head);
        let rest = format!("# About b\n{b}");
        assert_eq!(without("a", &format!("{head}\n{a}\n{rest}")), format!("{head}\n{rest}"));
        assert_eq!(without("b", &format!("{head}\n{a}\n{rest}")), format!("{head}\n{a}"));
        let rest = "[agents.x]\ninteractive = true\n";
        let policy = "[servers.mgp]\ndefault_policy = \"opt-out\"\n";
        assert_eq!(
            without("a", &format!("{head}\n# About a\n{a}{policy}\n{rest}")),
            format!("{head}\n{rest}")
        );
        let tail = "# The end.\n";
        assert_eq!(without("a", &format!("{head}\n{a}\n{tail}")), format!("{head}\n{tail}"));
    }
}
