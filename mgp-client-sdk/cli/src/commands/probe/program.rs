//! Finds the program of a server.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mgp_transport::{SkippedFolder, is_program};

/// Checks that the program of a server exists. `written` is the command in the configuration.
pub(super) fn check_program(
    written: &str,
    command: &str,
    cwd: &Path,
    path: Option<&OsStr>,
) -> Result<(), String> {
    let Err(error) = find_program(command, cwd, path) else { return Ok(()) };
    // Look for arguments in the command as it is written. If it contains a `/`, even in an argument, it was taken for a
    // path and completed with the folder of the configuration file.
    let fix = arguments_fix(written, cwd, path).filter(|_| written != command);
    Err(fix.map_or(error, |fix| format!("the program `{written}` does not exist; {fix}")))
}

/// Finds a program like the operating system does; errors name the remedy.
pub(in crate::commands) fn find_program(
    command: &str,
    cwd: &Path,
    path: Option<&OsStr>,
) -> Result<PathBuf, String> {
    if !cwd.is_dir() {
        let (exists, cwd) = (cwd.exists(), cwd.display());
        return Err(if exists {
            format!("its folder `{cwd}` is a file; correct `cwd`")
        } else {
            format!("its folder `{cwd}` does not exist; create it, or correct `cwd`")
        });
    }
    if command.contains(std::path::is_separator) {
        let file = cwd.join(command);
        return match (file.is_file(), is_program(&file)) {
            (true, true) => Ok(file),
            (true, false) => Err(format!("`{command}` is not executable; run `chmod +x` on it")),
            _ if file.is_dir() => {
                Err(format!("`{command}` is a folder; name the program in it as `command`"))
            }
            _ => {
                let fix = arguments_fix(command, cwd, path);
                let fix = fix.unwrap_or_else(|| "correct `command`".to_owned());
                Err(format!("the program `{command}` does not exist; {fix}"))
            }
        };
    }
    let folders = path.map_or_else(mgp_transport::search_path, OsStr::to_owned);
    let files = std::env::split_paths(&folders).map(|folder| cwd.join(folder).join(command));
    let files = files.flat_map(|file| {
        let windows = ["exe", "cmd", "bat"].map(|end| file.with_extension(end));
        std::iter::once(file).chain(windows.into_iter().filter(|_| cfg!(windows)))
    });
    files.into_iter().find(|file| is_program(file)).ok_or_else(|| {
        let fix = arguments_fix(command, cwd, path);
        if let Some(skipped) = SkippedFolder::with_program(command).filter(|_| fix.is_none()) {
            let remedy = skipped.remedy();
            return format!(
                "the program `{command}` is not on the PATH, but in a folder that is left out: {skipped}; {remedy}"
            );
        }
        let fix = fix.unwrap_or_else(|| "install it, or use its full path".to_owned());
        format!(
            "the program `{command}` is not on the PATH, nor in the usual folders of this user; {fix}"
        )
    })
}

/// Returns the remedy for a command that contains arguments after the program, as in a shell; `None` for any other
/// command.
fn arguments_fix(command: &str, cwd: &Path, path: Option<&OsStr>) -> Option<String> {
    let (program, _) = command.split_once(' ')?;
    find_program(program, cwd, path).ok()?;
    Some(format!("write only `{program}` as `command`, and the words after it as `args`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_found_is_an_error_with_the_remedy() {
        let here = Path::new("/");
        assert!(find_program("sh", here, None).is_ok());
        assert!(
            find_program("no-such-program", here, None).unwrap_err().contains("not on the PATH")
        );
        assert!(find_program("sh", here, Some(OsStr::new("/nowhere"))).is_err());
        assert!(
            find_program("./no-such-program", here, None).unwrap_err().contains("does not exist")
        );
        assert!(find_program("sh", Path::new("/nowhere"), None).unwrap_err().contains("folder"));
        for line in ["sh -c true", "sh -c ./no-such-program"] {
            assert!(find_program(line, here, None).unwrap_err().ends_with("after it as `args`"));
        }
        let (line, path) = ("sh -c ./no-such-program", "/etc/sh -c ./no-such-program");
        let error = check_program(line, path, here, None).unwrap_err();
        assert!(error.contains("`sh -c ./") && error.ends_with("after it as `args`"), "{error}");
        assert!(find_program("./", here, None).unwrap_err().contains("is a folder"));
        let file = std::env::current_exe().unwrap();
        assert!(find_program("sh", &file, None).unwrap_err().contains("is a file"));
    }
}
