//! The shims of version managers: scripts that start an interpreter, whose version they choose at each start.
//!
//! The content of a shim does not show which program runs, so an approval or a lock file must cover the interpreter.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The version managers, each with the variable and the file that choose a version.
const MANAGERS: &[(&str, &str, &str)] = &[
    ("nodenv", "NODENV_VERSION", ".node-version"),
    ("pyenv", "PYENV_VERSION", ".python-version"),
    ("rbenv", "RBENV_VERSION", ".ruby-version"),
];

/// The maximum size of a file that names versions, in bytes.
const MAX_BYTES: u64 = 4096;

/// A shim of pyenv, rbenv or nodenv.
#[derive(Clone, Debug)]
pub struct VersionShim {
    root: PathBuf,
    program: OsString,
    variable: &'static str,
    file: &'static str,
}

impl VersionShim {
    /// Returns the shim at a path; `None` if the path is not that of a shim.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let folder = path.parent().filter(|folder| folder.ends_with("shims"))?;
        let root = folder.parent()?;
        let manager = root.file_name()?.to_str()?.trim_start_matches('.');
        let (_, variable, file) = MANAGERS.iter().copied().find(|(name, ..)| *name == manager)?;
        Some(Self { root: root.to_owned(), program: path.file_name()?.to_owned(), variable, file })
    }

    /// Returns the program that the shim starts if neither a variable nor a folder chooses a version. The call blocks.
    #[must_use]
    pub fn default_program(&self) -> Option<PathBuf> {
        self.installed(&read(&self.root.join("version"))?)
    }

    /// Returns the program that the shim starts in a folder, with these environment variables. The call blocks.
    #[must_use]
    pub fn program_in(
        &self,
        folder: &Path,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Option<PathBuf> {
        let chosen = variable(self.variable).and_then(|chosen| chosen.into_string().ok());
        let chosen =
            chosen.or_else(|| folder.ancestors().find_map(|one| read(&one.join(self.file))));
        match chosen {
            Some(versions) => self.installed(&versions),
            None => self.default_program(),
        }
    }

    /// Returns the program of the first of these versions that has it.
    fn installed(&self, versions: &str) -> Option<PathBuf> {
        let is_plain = |name: &&str| !name.starts_with('.') && !name.contains(['/', '\\']);
        let names = versions.split(|c: char| c == ':' || c.is_whitespace()).filter(is_plain);
        names
            .filter(|name| !name.is_empty())
            .map(|name| self.root.join("versions").join(name).join("bin").join(&self.program))
            .find(|program| program.is_file())
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

    #[test]
    fn a_shim_starts_the_version_that_a_variable_or_a_folder_chooses() {
        let temp = mgp_testkit::temp_dir();
        let root = temp.path().join(".pyenv");
        let project = temp.path().join("project");
        let installed = |version: &str| root.join("versions").join(version).join("bin/python3");
        for version in ["3.11.7", "3.12.1", "tools"] {
            fs::create_dir_all(installed(version).parent().unwrap()).unwrap();
            fs::write(installed(version), version).unwrap();
        }
        fs::create_dir(&project).unwrap();
        fs::write(root.join("version"), "3.13.0\n3.12.1\n").unwrap();
        let shim = VersionShim::at(&root.join("shims/python3")).unwrap();
        assert_eq!(shim.default_program(), Some(installed("3.12.1")), "3.13.0 is not installed");
        assert_eq!(shim.program_in(&project, |_| None), Some(installed("3.12.1")));
        fs::write(project.join(".python-version"), "3.11.7\n").unwrap();
        assert_eq!(shim.program_in(&project, |_| None), Some(installed("3.11.7")));
        let variable = |name: &str| (name == "PYENV_VERSION").then(|| "tools".into());
        assert_eq!(shim.program_in(&project, variable), Some(installed("tools")));
        fs::write(project.join(".python-version"), "../versions/tools\n").unwrap();
        assert_eq!(shim.program_in(&project, |_| None), None, "a path is not a version");
        assert!(VersionShim::at(&root.join("bin/pyenv")).is_none());
        assert!(VersionShim::at(&temp.path().join("other/shims/python3")).is_none());
    }
}
