//! Recognises the files of programs, and finds a program by its name in the same way as the shell of Windows, with the
//! extensions in `PATHEXT`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The extensions of programs that are tried if the variable `PATHEXT` is not set.
pub const PROGRAM_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// The extensions of files that the system can start as programs. `PATHEXT` also contains extensions of scripts, which
/// need an interpreter.
const STARTED: [&str; 4] = [".com", ".exe", ".bat", ".cmd"];

/// Finds the file of a program whose name has no extension, as Windows does. The file has one of those `extensions` (in
/// the form of `PATHEXT`) that need no interpreter, and is in the folder that the name contains or, if the name
/// contains none, in a folder of `path`. Returns `None` if the name has an extension, or if no such file exists.
#[must_use]
pub fn find_program(program: &OsStr, path: &OsStr, extensions: &str) -> Option<PathBuf> {
    let name = Path::new(program);
    if name.extension().is_some() {
        return None;
    }
    let is_bare = name.parent().is_some_and(|folder| folder.as_os_str().is_empty());
    let folders = if is_bare { folders(path) } else { vec![PathBuf::new()] };
    let is_started = |one: &&str| STARTED.iter().any(|other| other.eq_ignore_ascii_case(one));
    let mut files = folders.iter().flat_map(|folder| {
        extensions.split(';').filter(is_started).map(|extension| {
            let mut file = OsString::from(folder.join(name));
            file.push(extension);
            PathBuf::from(file)
        })
    });
    files.find(|file| file.is_file())
}

/// Returns whether a path is a file that this user can execute. A search for a program skips all other files.
#[cfg(unix)]
#[must_use]
pub fn is_program(file: &Path) -> bool {
    use rustix::fs::{Access, access};

    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Returns whether a path is a file. On this system, no file needs a permission to be executed.
#[cfg(not(unix))]
#[must_use]
pub fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// Returns the folders of a search path. Relative folders are left out, because the current folder could contain any
/// program.
fn folders(path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_is_found_by_its_name_without_the_extension() {
        let (first, second) = (mgp_testkit::temp_dir(), mgp_testkit::temp_dir());
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        let find = |name: &str| find_program(OsStr::new(name), &path, ".exe;.cmd");
        assert_eq!(find("npx"), None);
        let script = second.path().join("npx.cmd");
        fs::write(&script, "").unwrap();
        assert_eq!(find("npx"), Some(script.clone()));
        // A file without an extension is a script for other shells.
        fs::write(first.path().join("npx"), "").unwrap();
        assert_eq!(find("npx"), Some(script.clone()));
        let program = first.path().join("npx.exe");
        fs::write(&program, "").unwrap();
        assert_eq!(find("npx"), Some(program));
        assert_eq!(find("npx.cmd"), None, "the system finds it");
        let own = second.path().join("npx");
        assert_eq!(find(own.to_str().unwrap()), Some(script));
    }

    #[test]
    fn files_that_are_no_programs_and_folders_of_strangers_are_left_out() {
        let (first, second) = (mgp_testkit::temp_dir(), mgp_testkit::temp_dir());
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        fs::write(first.path().join("npx.js"), "").unwrap();
        let program = second.path().join("npx.exe");
        fs::write(&program, "").unwrap();
        assert_eq!(find_program(OsStr::new("npx"), &path, ".js;.exe"), Some(program));
        let mixed = std::env::join_paths([Path::new(""), Path::new("bin"), first.path()]).unwrap();
        assert_eq!(folders(&mixed), [first.path()]);
        assert!(folders(OsStr::new("")).is_empty());
    }
}
