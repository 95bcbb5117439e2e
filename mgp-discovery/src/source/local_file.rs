//! The files of a project that its servers run; an approval covers their content (MGP §15.2).
//!
//! If an approval covered only `mgp.toml`, a later `git pull` could replace the code. All functions here block.

use std::path::{Path, PathBuf};

use crate::config::{LocalFiles, ServerConfig};
use crate::registration::{bind_file, is_code_file, runs_arguments};

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
    /// Returns the paths at which the program may be found. A name without a path is searched in `PATH`; only the
    /// project's own `PATH` can lead into the project.
    fn places(&self) -> Vec<String> {
        if self.command.contains(std::path::is_separator) {
            return vec![self.command.to_owned()];
        }
        let endings: &[&str] =
            if cfg!(windows) { &["", ".com", ".exe", ".bat", ".cmd"] } else { &[""] };
        let folders = self.path.map(std::env::split_paths).into_iter().flatten();
        let place = |folder: PathBuf| self.folder.join(folder).join(self.command);
        let places = folders.map(|folder| place(folder).display().to_string());
        places
            .flat_map(|place| endings.iter().map(move |ending| format!("{place}{ending}")))
            .collect()
    }
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
    let places = program.places();
    for (path, real) in places.iter().filter_map(|place| find(place)).chain(named) {
        // Hash a file once, although a `PATH` can name its folder thousands of times.
        if files.contains_key(&path) {
            continue;
        }
        let bound = bind_file(&real).map_err(|reason| reason.to_string())?;
        files.insert(path, bound.sha256);
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

/// Returns the reason why a project's server must not be started; `None` if its files have the approved content.
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
