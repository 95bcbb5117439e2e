//! The working folders of a script's commands, which `cd` and `pushd` change.

use super::{
    argv::{Args, Refusal},
    lex::{Runs, Simple, Word, assignment},
    paths::{belongs_to_system, system_path_in},
};

/// The maximum number of folders that lead to files of the system. A script with more is refused.
const MAX_FOLDERS: usize = 6;
/// The maximum number of changes of the folder in one script.
const MAX_CHANGES: usize = 256;
/// The maximum length of a working folder in bytes.
const MAX_FOLDER: usize = 512;
/// Paths that are files of the system in some folders.
const PROBES: [&str; 4] = [".bashrc", "etc/passwd", "a/.bashrc", "hooks/x"];

/// The folders in which the commands of a script may run, if relative paths in them can lead to files of the system.
/// The folder in which the script starts is not among them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The folders of all commands so far. They are never removed, because `cd` can fail.
    all: Vec<String>,
    /// The folder of the last `cd` with an absolute path, and of those with a relative path after it.
    last: Option<String>,
    /// The folders of the commands that only run after a `cd` succeeded, e.g. of `b` in `cd a && b`.
    sure: Option<Vec<String>>,
    /// The number of changes so far.
    count: usize,
}

impl Changes {
    /// Returns the folders in which a command can run.
    pub(super) fn folders_of(&mut self, command: &Simple) -> &[String] {
        if command.runs != Runs::AfterSuccess {
            self.sure = None;
        }
        self.sure.as_deref().unwrap_or(&self.all)
    }

    /// Stores the folders to which a command changes. `forms` are the forms of its words.
    ///
    /// # Errors
    /// A description of the problem if there are too many folders, or if a folder is too long.
    pub(super) fn keep(&mut self, command: &Simple, forms: &[Vec<Word>]) -> Result<(), Refusal> {
        for target in forms.iter().flat_map(|words| targets(words)) {
            self.sure = None;
            self.count += 1;
            if self.count > MAX_CHANGES {
                return Err(format!("more than {MAX_CHANGES} changes of the working folder"));
            }
            self.add(target)?;
        }
        if let [cd, folder] = command.words.as_slice()
            && cd.text == "cd"
            && is_absolute(&folder.text)
            && !folder.expands
            && !command.is_piped
            && command.runs != Runs::Unknown
        {
            let folder = Some(folder.text.clone()).filter(|folder| is_risky(folder));
            self.sure = Some(folder.into_iter().collect());
        }
        Ok(())
    }

    /// Stores the folders to which `cd` changes with the operand `target`.
    fn add(&mut self, target: &str) -> Result<(), Refusal> {
        if target.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        if is_absolute(target) {
            self.last = Some(target.to_owned());
            found.push(target.to_owned());
        } else if target == "-" || target.starts_with(['+', '$', '~']) {
            // The folder is unknown.
            self.last = None;
        } else {
            // A relative path after `cd` to a folder of the system adds nothing: such a folder already refuses each
            // command that can write.
            let open = self.all.iter().filter(|folder| !is_of_system(folder));
            found.extend(open.chain(&self.last).map(|folder| format!("{folder}/{target}")));
            self.last = self.last.take().map(|folder| format!("{folder}/{target}"));
            // Without a known folder, a path such as `../lib` is usually one of the project.
            found.extend(Some(target.to_owned()).filter(|target| !target.contains("..")));
        }
        self.last = self.last.take().map(without_dots);
        if self.last.as_ref().is_some_and(|folder| folder.len() > MAX_FOLDER) {
            return Err(format!("a working folder is longer than {MAX_FOLDER} bytes"));
        }
        for folder in found.into_iter().map(without_dots) {
            if self.all.contains(&folder)
                || !is_risky(&folder)
                || is_of_system(&folder) && self.all.iter().any(|other| is_of_system(other))
            {
                continue;
            }
            if self.all.len() == MAX_FOLDERS || folder.len() > MAX_FOLDER {
                return Err("too many or too long working folders of the system".to_owned());
            }
            self.all.push(folder);
        }
        Ok(())
    }
}

/// Returns the folders to which a command can change: the operands of `cd` and similar commands, and the values of
/// variables that `cd` reads.
fn targets(words: &[Word]) -> Vec<&str> {
    let is_prefix = |word: &&Word| {
        matches!(word.text.as_str(), "time" | "command" | "builtin" | "noglob" | "nocorrect")
            || word.text.starts_with('-')
            || assignment(word).is_some()
    };
    let set = words.iter().filter_map(assignment);
    let read = set.filter(|(name, _)| matches!(*name, "HOME" | "OLDPWD" | "CDPATH"));
    let mut all: Vec<&str> = read.flat_map(|(_, value)| value.split(':')).collect();
    let own = words.iter().take_while(is_prefix).count();
    let Some((command, arguments)) = words[own..].split_first() else { return all };
    let operands: Vec<&str> = Args(arguments).operands().collect();
    match command.text.as_str() {
        "cd" | "chdir" if operands.is_empty() => all.push("~"),
        "pushd" | "popd" if operands.is_empty() => all.push("-"),
        "cd" | "chdir" | "pushd" | "popd" => all.extend(operands),
        _ => {}
    }
    all
}

/// Returns whether a folder is absolute, and does not depend on an unknown variable.
fn is_absolute(folder: &str) -> bool {
    let first = folder.split('/').next().unwrap_or_default();
    folder.starts_with(['/', '~']) && !matches!(first, "~+" | "~-")
        || first == "$HOME"
        || folder.get(1..2) == Some(":")
}

/// Returns an absolute path without `.` and `..`. Other paths are returned as they are.
fn without_dots(folder: String) -> String {
    if !folder.starts_with('/') {
        return folder;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns whether all files in a folder belong to the system.
fn is_of_system(folder: &str) -> bool {
    belongs_to_system(&format!("{folder}/x"))
}

/// Returns whether a relative path in a folder can lead to a file of the system.
fn is_risky(folder: &str) -> bool {
    is_of_system(folder) || PROBES.iter().any(|path| system_path_in(folder, path).is_some())
}
