//! The files of a project that its servers run; an approval covers their content (MGP §15.2).
//!
//! If an approval covered only `mgp.toml`, a later `git pull` could replace the code. All functions here block.

use std::path::{Path, PathBuf};

use crate::config::{LocalFiles, ServerConfig};
use crate::registration::{bind_file, is_code_file, runs_arguments};

/// Finds the project's code files that a program and its arguments name, and returns their hashes. The texts are
/// expanded; `file` is the project's configuration, and `folder` the absolute working directory of the program.
///
/// Other files that arguments name are treated as data, which may change without a new approval.
///
/// # Errors
/// Returns the reason why a file cannot be read.
pub(crate) fn local_files<'a>(
    file: &Path,
    command: &str,
    args: impl IntoIterator<Item = &'a str>,
    folder: &Path,
) -> Result<LocalFiles, String> {
    let mut files = LocalFiles::new();
    let file = std::path::absolute(file).unwrap_or_default();
    let Some(project) = file.parent().and_then(|folder| dunce::canonicalize(folder).ok()) else {
        return Ok(files);
    };
    // Ignore a program without a path, because it is found in `PATH` and never in the project.
    let program = Some(command).filter(|command| command.contains(std::path::is_separator));
    // If the program runs code that its arguments name, the first argument that is a file counts as code even without
    // an extension of code.
    let mut is_script = runs_arguments(Path::new(command));
    let named = args.into_iter().filter_map(|arg| {
        let found = plain_file(arg, folder, &project)?;
        let is_first = !arg.starts_with('-') && std::mem::take(&mut is_script);
        (is_first || is_code_file(&found.0)).then_some(found)
    });
    let program = program.and_then(|command| plain_file(command, folder, &project));
    for (path, real) in program.into_iter().chain(named) {
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

/// Returns the reason why a project's server must not be started; `None` if its files have the approved content. The
/// texts must be expanded, as for [`local_files`].
pub(crate) fn changed_file<'a>(
    server: &ServerConfig,
    command: &str,
    args: impl IntoIterator<Item = &'a str>,
    folder: &Path,
) -> Option<String> {
    let approved = server.approved_files.as_ref()?;
    let now = match local_files(&server.file, command, args, folder) {
        Ok(now) => now,
        Err(reason) => return Some(reason),
    };
    let changed = now.iter().find(|(path, sha256)| approved.get(*path) != Some(sha256))?;
    Some(format!(
        "`{}` is not the file that was approved; read it, then run `mgp trust` in the project",
        changed.0.display()
    ))
}
