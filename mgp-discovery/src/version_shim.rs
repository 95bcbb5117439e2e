//! The shims of version managers such as pyenv, rbenv, nodenv, asdf and mise. A shim is a program that chooses at each
//! start which version of an interpreter it starts. The choice depends on variables, files in the working directory and
//! arguments.
//!
//! The content of a shim does not show which program runs, so neither an approval nor a lock file can cover it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The name of the program to which the shims of Volta are links.
const VOLTA: &str = "volta-shim";

/// The maximum size of the file that names the default version, in bytes.
const MAX_BYTES: u64 = 4096;

/// A shim of a version manager.
#[derive(Clone, Debug)]
pub struct VersionShim {
    root: PathBuf,
    program: OsString,
}

impl VersionShim {
    /// Returns the shim at a path, even if the path is a link to a shim; `None` if the path leads to no shim. The call
    /// blocks.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let program = path.file_name()?;
        let file = dunce::canonicalize(path).ok()?;
        // Scoop, on Windows, puts a file `NAME.shim` with a fixed target next to each of its launchers. So such a
        // launcher always starts the same program and is not a shim in this sense.
        if path.with_extension("shim").is_file() {
            return None;
        }
        // The shims of mise are links to the program of mise, so check the folder of the link too.
        let link = dunce::canonicalize(path.parent()?).ok()?;
        let is_volta = file.file_stem().is_some_and(|name| name == VOLTA);
        let mut folders = [file.parent()?, &link].into_iter();
        let folder = folders.find(|folder| is_volta || folder.ends_with("shims"))?;
        Some(Self { root: folder.parent()?.to_owned(), program: program.to_owned() })
    }

    /// Returns the program of the default version. Returns `None` if only the manager can determine the version, e.g.
    /// if its file has `system` or a part of a version. The call blocks.
    #[must_use]
    pub fn default_program(&self) -> Option<PathBuf> {
        let versions = read(&self.root.join("version"))?;
        let is_plain = |name: &&str| !name.starts_with('.') && !name.contains(['/', '\\']);
        let folders = versions
            .split(|c: char| c == ':' || c.is_whitespace())
            .filter(|name| !name.is_empty())
            .map(|name| {
                Some(name).filter(is_plain).map(|name| self.root.join("versions").join(name))
            });
        for folder in folders {
            let folder = folder.filter(|folder| folder.is_dir())?;
            let program = folder.join("bin").join(&self.program);
            if program.is_file() {
                return Some(program);
            }
        }
        None
    }
}

/// Returns the text of a small file.
fn read(file: &Path) -> Option<String> {
    if !file.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(file).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn create(file: &Path) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }

    #[test]
    fn the_default_program_is_that_of_the_first_version_which_has_it() {
        let temp = mgp_testkit::temp_dir();
        let root = dunce::canonicalize(temp.path()).unwrap().join("managed");
        let installed = |version: &str| root.join("versions").join(version).join("bin/python3");
        create(&installed("3.12.1"));
        fs::create_dir(root.join("versions/tools")).unwrap();
        create(&root.join("shims/python3"));
        let shim = VersionShim::at(&root.join("shims/python3")).unwrap();
        assert_eq!(shim.default_program(), None);
        let expected = Some(installed("3.12.1"));
        let cases = [
            ("3.12.1\n", expected.clone()),
            ("tools:3.12.1\n", expected),
            ("system 3.12.1\n", None),
            ("3.13.0\n3.12.1\n", None),
            ("3.12\n", None),
            ("../versions/3.12.1\n", None),
        ];
        for (versions, program) in cases {
            fs::write(root.join("version"), versions).unwrap();
            assert_eq!(shim.default_program(), program, "{versions}");
        }
        create(&root.join("bin/pyenv"));
        assert!(VersionShim::at(&root.join("bin/pyenv")).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_shim_and_a_link_among_shims_are_shims() {
        use std::os::unix::fs::symlink;

        let temp = mgp_testkit::temp_dir();
        let at = |path: &str| temp.path().join(path);
        create(&at("env/shims/ruby"));
        create(&at("bin/mise"));
        create(&at("volta/bin/volta-shim"));
        symlink(at("env/shims/ruby"), at("bin/ruby")).unwrap();
        symlink(at("bin/mise"), at("env/shims/node")).unwrap();
        symlink(at("env/shims"), at("linked")).unwrap();
        symlink("volta-shim", at("volta/bin/npm")).unwrap();
        for path in ["bin/ruby", "env/shims/node", "linked/ruby", "volta/bin/npm"] {
            let shim = VersionShim::at(&at(path)).expect(path);
            assert_eq!(Some(&*shim.program), Path::new(path).file_name());
        }
        assert!(VersionShim::at(&at("bin/mise")).is_none());
    }
}
