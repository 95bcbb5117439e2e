//! Records of the hosts' files as they were before `mgp connect`. `mgp disconnect` uses them to restore the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_discovery::import::parse_json;
use mgp_types::{PrivateFile, Sha256Hash};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::syntax::Syntax;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::state;

/// The maximum size of each file of records of changes to hosts' files, including what mgp removed from them.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// The name of the file in the state folder that stores the records of connected hosts' files.
const FILE_NAME: &str = "connected.json";

/// The maximum time that a command waits while another command changes the same file.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of the entry of mgp in hosts' files.
pub(crate) const ENTRY: &str = "mgp";

/// The records of all hosts' files that `mgp connect` has changed.
#[derive(Default, Deserialize, Serialize)]
struct Records {
    files: BTreeMap<PathBuf, Record>,
}

/// The record of one file that `mgp connect` has changed.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The path of a copy of the file before the change; `None` if there was no file.
    pub(crate) before: Option<PathBuf>,
    /// The SHA-256 of the copy in `before`.
    before_sha256: String,
    /// The SHA-256 of the file after the change.
    after_sha256: String,
    /// The entry of mgp in the file after the change, as JSON.
    #[serde(default)]
    entry: Option<String>,
    /// The entries that `mgp connect` has removed from the file: entries of servers that mgp has too, if `--replace`
    /// was given, and an entry of another server that had mgp's name.
    pub(crate) taken: Vec<TakenEntry>,
}

/// An entry that mgp removed from a host's file.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct TakenEntry {
    /// The keys of the objects that contained the entry, outermost first.
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
    /// The text that was removed, in the syntax of the file; [`Syntax::insert`] puts it back.
    value: String,
}

impl TakenEntry {
    /// Returns whether a text has an entry of this name below the same keys.
    pub(super) fn is_in(&self, syntax: Syntax, text: &str) -> bool {
        let members = syntax.members(text, &self.path);
        members.is_ok_and(|all| all.iter().any(|(name, _)| *name == self.name))
    }
}

/// The result of taking mgp out of the text of a host's file.
pub(crate) struct Restored {
    /// The text; `None` if there was no file before mgp was connected.
    pub(crate) text: Option<String>,
    /// `true` if the text is byte for byte the file before mgp was connected.
    pub(crate) is_exact: bool,
    /// The differences from the file before mgp was connected.
    pub(crate) differs: Vec<String>,
}

/// Returns the SHA-256 of a text in the form in which the stored records have it.
pub(super) fn digest(text: &str) -> String {
    Sha256Hash::digest(text.as_bytes()).to_string()
}

impl Record {
    pub(crate) fn new(
        before: Option<(PathBuf, &str)>,
        after: &str,
        entry: String,
        taken: Vec<TakenEntry>,
    ) -> Self {
        let before_sha256 = before.as_ref().map_or_else(String::new, |(_, text)| digest(text));
        let before = before.map(|(path, _)| path);
        Self { before, before_sha256, after_sha256: digest(after), entry: Some(entry), taken }
    }

    /// Returns the record of a file; `None` if `mgp connect` has not changed the file.
    pub(crate) fn read(global: &Global, file: &Path) -> CliResult<Option<Self>> {
        Ok(read_all::<Records>(&state_file(global, FILE_NAME)?)?.files.remove(file))
    }

    /// Writes the record of a file, or removes it if `record` is `None`.
    pub(crate) fn write(global: &Global, file: &Path, record: Option<Self>) -> CliResult {
        state::create_folder(global)?;
        let records = state_file(global, FILE_NAME)?;
        let lock = records.lock(LOCK_TIMEOUT)?;
        let mut all: Records = read_all(&records)?;
        match record {
            Some(record) => all.files.insert(file.to_owned(), record),
            None => all.files.remove(file),
        };
        Ok(records.replace(&lock, &serde_json::to_vec(&all)?)?)
    }

    /// Returns the copy of the file before the change; `None` if the copy has been changed or removed since.
    fn copy(&self) -> Option<String> {
        let text = fs::read_to_string(self.before.as_ref()?).ok()?;
        (digest(&text) == self.before_sha256).then_some(text)
    }

    /// Returns whether `mgp connect` wrote the entry with mgp's name, even if the entry was edited since. An entry that
    /// cannot be read as the entry of a server counts only if it still has the program that `mgp connect` wrote.
    fn is_own(&self, now: Option<&str>, starts_mgp: Option<bool>) -> bool {
        let (None, Some(now), Some(written)) = (starts_mgp, now, &self.entry) else {
            return starts_mgp != Some(false);
        };
        let program = program_of(now);
        program.is_some() && program == program_of(written)
    }

    /// Returns the text of a file without the entry of mgp, and with the removed entries put back. An entry of another
    /// program that has replaced mgp's entry stays. `starts_mgp` is `None` if the entry cannot be read as the entry of
    /// a server.
    pub(crate) fn restore(
        &self,
        syntax: Syntax,
        table: &[String],
        now: &str,
        starts_mgp: Option<bool>,
    ) -> Result<Restored, String> {
        let copy = self.copy();
        if digest(now) == self.after_sha256 && (copy.is_some() || self.before.is_none()) {
            return Ok(Restored { text: copy, is_exact: true, differs: Vec::new() });
        }
        let mut differs = Vec::new();
        let members = syntax.members(now, table)?;
        let entry = members.into_iter().find(|(name, _)| name == ENTRY).map(|(_, entry)| entry);
        let is_own = self.is_own(entry.as_deref(), starts_mgp);
        if is_own
            && entry.is_some()
            && self.entry.is_some()
            && !is_same(entry.as_ref(), self.entry.as_ref())
        {
            differs.push(format!(
                "the entry `{ENTRY}` was changed since mgp was connected; the changed entry is in the copy of the previous file, which `mgp undo` restores"
            ));
        }
        if !is_own && copy.is_none() && self.taken.iter().all(|taken| taken.name != ENTRY) {
            differs.push(format!(
                "the entry `{ENTRY}` starts another program, or cannot be read, and stays as it is"
            ));
        }
        let mut text = if is_own { without_mgp(syntax, table, now)? } else { now.to_owned() };
        for TakenEntry { path, name, value } in self.taken.iter().rev() {
            let is_there = syntax.members(&text, path)?.iter().any(|(there, _)| there == name);
            if is_there {
                let earlier = self.before.as_ref().filter(|_| copy.is_some());
                let earlier =
                    earlier.map(|path| format!("; `{}` has the earlier one", path.display()));
                let earlier = earlier.unwrap_or_default();
                differs
                    .push(format!("`{name}` was added again since, and stays as it is{earlier}"));
                continue;
            }
            match syntax.insert(&text, path, name, value)? {
                Some(with) => text = with,
                None => differs.push(format!(
                    "`{}` is not in the file any more, so `{name}` was not restored",
                    path.join(".")
                )),
            }
        }
        if let Some(copy) = &copy {
            differs.extend(differences(syntax, copy, &text, table)?);
        }
        Ok(Restored { text: Some(text), is_exact: false, differs })
    }
}

/// Returns whether an entry with mgp's name belongs to mgp: it starts mgp, or mgp wrote it and the host has only
/// switched it off. `record` is the record of the file.
pub(super) fn is_own(record: Option<&Record>, now: &str, starts_mgp: Option<bool>) -> bool {
    let is_off = |entry: Value| entry["disabled"] == true || entry["enabled"] == false;
    let is_written = || record.is_some_and(|record| record.is_own(Some(now), starts_mgp));
    starts_mgp == Some(true) || (parse_json(now).is_ok_and(is_off) && is_written())
}

/// Returns the program in an entry of a host's file; `None` if the entry has none or cannot be read.
pub(super) fn program_of(entry: &str) -> Option<Value> {
    let entry = parse_json(entry).ok()?;
    // Look for both keys: files of Goose have the program under `cmd`, and files of other hosts under `command`.
    let program = ["command", "cmd"].iter().find_map(|key| entry.get(*key))?;
    // Take the first element of a list: in a file of OpenCode, the list has the program and then the arguments.
    Some(program.get(0).unwrap_or(program).clone())
}

/// Removes the entry of mgp from the text of a file.
pub(crate) fn without_mgp(syntax: Syntax, table: &[String], text: &str) -> Result<String, String> {
    let removed = syntax.remove(text, table, ENTRY)?;
    Ok(removed.map_or_else(|| text.to_owned(), |(text, _)| text))
}

/// Removes entries from a text; returns the new text and the removed entries.
pub(crate) fn take(
    syntax: Syntax,
    mut text: String,
    entries: impl IntoIterator<Item = (Vec<String>, String)>,
) -> Result<(String, Vec<TakenEntry>), String> {
    let mut taken = Vec::new();
    for (path, name) in entries {
        if let Some((without, value)) = syntax.remove(&text, &path, &name)? {
            text = without;
            taken.push(TakenEntry { path, name, value });
        }
    }
    Ok((text, taken))
}

/// Describes what has changed in a host's file since mgp was connected: keys at the top level, and servers.
fn differences(
    syntax: Syntax,
    before: &str,
    now: &str,
    table: &[String],
) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (path, prefix) in
        [(vec![], String::new()), (table.to_vec(), format!("{}.", table.join(".")))]
    {
        let pairs = |text| -> Result<BTreeMap<String, String>, String> {
            Ok(syntax.members(text, &path)?.into_iter().collect())
        };
        let (old, new) = (pairs(before)?, pairs(now)?);
        let all = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
        let changed = all.filter(|name| !is_same(old.get(*name), new.get(*name)));
        let changed = changed.filter(|name| !prefix.is_empty() || Some(*name) != table.first());
        names.extend(changed.map(|name| format!("`{prefix}{name}`")));
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!("changed since mgp was connected, and kept: {}", names.join(", "))])
}

/// Returns whether two JSON values are equal, even if they are written differently.
pub(super) fn is_same(one: Option<&String>, other: Option<&String>) -> bool {
    let value = |text: &String| serde_json::from_str::<Value>(text).ok();
    match (one, other) {
        (Some(one), Some(other)) => {
            one == other || value(one).is_some_and(|one| Some(one) == value(other))
        }
        (one, other) => one == other,
    }
}

/// Returns the hosts' files that have a record, i.e. that `mgp connect` has changed.
pub(super) fn files(global: &Global) -> CliResult<Vec<PathBuf>> {
    files_in(&state::folder(global)?)
}

/// Returns whether a file of the host with this name has a record in a state folder.
pub(crate) fn is_connected(folder: &Path, host: &str) -> bool {
    let files = files_in(folder).unwrap_or_default();
    files.iter().filter_map(|file| KnownHost::from_file(file)).any(|known| known.name() == host)
}

fn files_in(folder: &Path) -> CliResult<Vec<PathBuf>> {
    // Do not create the folder, because `mgp doctor` calls this function and must change nothing.
    let file = PrivateFile::new(folder.join(FILE_NAME), MAX_BYTES);
    Ok(read_all::<Records>(&file)?.files.into_keys().collect())
}

/// Returns a file of the state folder. The folder is not created, because some callers must change nothing.
pub(super) fn state_file(global: &Global, name: &str) -> CliResult<PrivateFile> {
    let folder = state::folder(global)?;
    state::check_folder(&folder)?;
    Ok(PrivateFile::new(folder.join(name), MAX_BYTES))
}

/// Returns what a JSON file of the state folder contains, or the default if the file does not exist yet.
pub(super) fn read_all<T: Default + DeserializeOwned>(file: &PrivateFile) -> CliResult<T> {
    let Some(bytes) = file.read()? else { return Ok(T::default()) };
    serde_json::from_slice(&bytes).map_err(|error| {
        let path = file.path().display();
        Failure::failed(format!("`{path}` is damaged ({error}); move it away to go on without it"))
    })
}
