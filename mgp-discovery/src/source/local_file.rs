//! The files of a project that its servers run; an approval covers their content (MGP §15.2).
//!
//! If an approval covered only `mgp.toml`, a later `git pull` could replace the code. All functions here block.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::{LocalFiles, ServerConfig};
use crate::registration::{bind_file, is_code_file, runs_arguments};

/// The maximum number of a project's folders in its own `PATH`.
const MAX_FOLDERS: usize = 64;

/// The maximum length, in bytes, of all arguments whose words are searched in a project's folders.
const MAX_SEARCHED: usize = 8 * 1024;

/// The number of bytes at the beginning of a script in which its interpreter is named.
const SHEBANG_BYTES: u64 = 256;

/// The program with which a server of a project starts; the texts are expanded.
pub(crate) struct ProjectProgram<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: Vec<&'a str>,
    /// The `PATH` in the `env` of the server.
    pub(crate) path: Option<&'a str>,
    /// The absolute working directory.
    pub(crate) folder: &'a Path,
}

impl ProjectProgram<'_> {
    /// Returns the project's folders in its own `PATH`. Only they can lead into the project.
    fn folders(&self, project: &Path) -> Result<Vec<PathBuf>, String> {
        let is_of_project = |folder: &PathBuf| {
            let written = std::path::absolute(folder);
            written.is_ok_and(|folder| folder.starts_with(project))
                || dunce::canonicalize(folder).is_ok_and(|folder| folder.starts_with(project))
        };
        let all = self.path.map(std::env::split_paths).into_iter().flatten();
        let all: BTreeSet<PathBuf> = all.map(|folder| self.folder.join(folder)).collect();
        let folders: Vec<PathBuf> = all.into_iter().filter(is_of_project).collect();
        if folders.len() > MAX_FOLDERS {
            return Err(format!("`PATH` has more than {MAX_FOLDERS} folders of the project"));
        }
        let length: usize = self.args.iter().map(|arg| arg.len()).sum();
        if !folders.is_empty() && length > MAX_SEARCHED {
            return Err(format!(
                "`PATH` has folders of the project, and `args` more than {MAX_SEARCHED} bytes"
            ));
        }
        Ok(folders)
    }
}

/// Returns the paths at which the programs that a text names may be found. The text can be a name, an argument of
/// `env`, a command for a shell, or the first line of a script.
fn places(folders: &[PathBuf], text: &str) -> Vec<String> {
    let endings: &[&str] =
        if cfg!(windows) { &["", ".com", ".exe", ".bat", ".cmd"] } else { &[""] };
    let ends_word = |c: char| c.is_whitespace() || "\"'`;&|()<>=".contains(c);
    let words: BTreeSet<&str> =
        text.split(ends_word).filter(|word| !word.is_empty() && !is_path(word)).collect();
    let in_folder = |folder: &PathBuf| {
        let named = words.iter().map(|word| folder.join(word).display().to_string());
        let ended = named.flat_map(|place| endings.iter().map(move |end| format!("{place}{end}")));
        ended.collect::<Vec<_>>()
    };
    folders.iter().flat_map(in_folder).collect()
}

fn is_path(text: &str) -> bool {
    text.contains(std::path::is_separator)
}

/// Returns the line of a script that names its interpreter; `None` if the file has none.
fn shebang(file: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(SHEBANG_BYTES).read_to_end(&mut start).ok()?;
    let start = String::from_utf8_lossy(&start);
    start.strip_prefix("#!")?.lines().next().map(str::to_owned)
}

/// Finds the project's code files that a program and its arguments name, and returns their hashes. `file` is the
/// project's configuration.
///
/// Other files that arguments name are treated as data, which may change without a new approval.
///
/// # Errors
/// Returns the reason why a file cannot be read.
pub(crate) fn local_files(file: &Path, program: &ProjectProgram<'_>) -> Result<LocalFiles, String> {
    let mut files = LocalFiles::new();
    let file = std::path::absolute(file).unwrap_or_default();
    let Some(project) = file.parent().and_then(|folder| dunce::canonicalize(folder).ok()) else {
        return Ok(files);
    };
    // If the program runs code that its arguments name, the first argument that is a file counts as code even without
    // an extension of code.
    let mut is_script = runs_arguments(Path::new(program.command));
    let find = |text: &str| plain_file(text, program.folder, &project);
    let named = program.args.iter().filter_map(|arg| {
        let found = find(arg)?;
        let is_first = !arg.starts_with('-') && std::mem::take(&mut is_script);
        (is_first || is_code_file(&found.0)).then_some(found)
    });
    let mut left: Vec<_> = named.collect();
    let folders = program.folders(&project)?;
    let searched = |text: &str| -> Vec<(PathBuf, PathBuf)> {
        places(&folders, text).iter().filter_map(|place| find(place)).collect()
    };
    let texts = program.args.iter().chain([&program.command]);
    left.extend(texts.flat_map(|text| searched(text)));
    left.extend(find(program.command).filter(|_| is_path(program.command)));
    while let Some((path, real)) = left.pop() {
        // Hash a file once, although several places can lead to it.
        if files.contains_key(&path) {
            continue;
        }
        let bound = bind_file(&real).map_err(|reason| reason.to_string())?;
        files.insert(path, bound.sha256);
        left.extend(shebang(&real).map(|line| searched(&line)).unwrap_or_default());
    }
    Ok(files)
}

/// Returns the file that an argument or the value of an option names, as its path relative to the project and its real
/// path; `None` if it is not a file of the project.
fn plain_file(text: &str, folder: &Path, project: &Path) -> Option<(PathBuf, PathBuf)> {
    let value = match text.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => text,
    };
    let real = dunce::canonicalize(folder.join(value)).ok().filter(|real| real.is_file())?;
    // A link in the project counts as a file of the project wherever it leads, because the project's author decides
    // where it leads.
    let path = std::path::absolute(folder.join(value)).ok()?;
    let path = path.strip_prefix(project).or_else(|_| real.strip_prefix(project)).ok()?;
    Some((path.to_owned(), real))
}

/// Returns the reason why a project's server must not be started; `None` if its files have the approved content, or if
/// the server needs no approval.
pub(crate) fn changed_file(server: &ServerConfig, program: &ProjectProgram<'_>) -> Option<String> {
    let approved = server.approved_files.as_ref()?;
    let now = match local_files(&server.file, program) {
        Ok(now) => now,
        Err(reason) => return Some(reason),
    };
    let changed = now.iter().find(|(path, sha256)| approved.get(*path) != Some(sha256))?;
    Some(format!(
        "`{}` is not the file that was approved; read it, then run `mgp trust` in the project",
        changed.0.display()
    ))
}
