//! The confinement of programs that agents registered (MGP §15.4).

use std::path::{Path, PathBuf};

use mgp_discovery::ProcessRights;
use mgp_transport::Confinement;

/// The folders and files that a program must be able to read in order to run. None of them contains secrets of the
/// system.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/nix/store",
    "/proc",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/etc/timezone",
];

/// The folders and files of an interpreter's installation, relative to the parent folder of its `bin`.
const BESIDE: &[&str] =
    &["bin", "lib", "lib64", "libexec", "include", "share/zoneinfo", "pyvenv.cfg"];

/// The folders of version managers (programs that install interpreters); each file in them belongs to an interpreter.
const MANAGERS: &[&str] =
    &[".pyenv", ".nvm", ".asdf", ".rbenv", ".nodenv", ".volta", ".fnm", "mise"];

/// Returns a confinement that permits a program only what these rights allow, and what every program needs to run.
pub(super) fn confinement(rights: ProcessRights) -> Confinement {
    let mut all = Confinement::new();
    all.read = SYSTEM.iter().map(PathBuf::from).collect();
    for path in &rights.read {
        all.read.extend(installations(path));
    }
    all.read.extend(rights.read);
    all.write = rights.write;
    all.write.push(PathBuf::from("/dev/null"));
    (all.connects, all.listens) = (rights.connects, rights.listens);
    all
}

/// Returns the folders of the installations of an interpreter and, if it is a link, of its target. In a virtual
/// environment of Python, the interpreter is a link to that of another installation.
fn installations(program: &Path) -> Vec<PathBuf> {
    let target = program.canonicalize();
    let target = target.iter().flat_map(|target| installation(target));
    installation(program).into_iter().chain(target).collect()
}

/// Returns the folders of the installation to which an interpreter belongs; none if its path does not reveal an
/// installation.
fn installation(program: &Path) -> Vec<PathBuf> {
    let is_manager = |folder: &&Path| {
        folder.file_name().is_some_and(|name| MANAGERS.iter().any(|known| name == *known))
    };
    if let Some(manager) = program.ancestors().find(is_manager) {
        return vec![manager.to_owned()];
    }
    let Some(folder) = program.parent() else { return Vec::new() };
    match folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bin")) {
        Some(prefix) => BESIDE.iter().map(|name| prefix.join(name)).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_reads_its_own_folders_and_not_those_of_the_user() {
        let of = |path: &str| installation(Path::new(path));
        assert_eq!(of("/home/u/.pyenv/shims/python3"), [PathBuf::from("/home/u/.pyenv")]);
        assert!(of("/opt/py/bin/python3").contains(&PathBuf::from("/opt/py/lib")));
        assert!(!of("/home/u/bin/python3").contains(&PathBuf::from("/home/u")));
        assert_eq!(of("/home/u/scripts/made.py"), Vec::<PathBuf>::new());
    }

    /// Regression test: the interpreter of a virtual environment could not read its `pyvenv.cfg`, so no script of an
    /// agent started.
    #[cfg(unix)]
    #[test]
    fn an_interpreter_of_a_virtual_environment_reads_both_installations() {
        let folder = mgp_testkit::temp_dir();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        for bin in ["base/bin", "venv/bin"] {
            std::fs::create_dir_all(at(bin)).unwrap();
        }
        std::fs::write(at("base/bin/python3.12"), "").unwrap();
        std::os::unix::fs::symlink(at("base/bin/python3.12"), at("venv/bin/python3")).unwrap();
        let read = installations(&at("venv/bin/python3"));
        for path in ["venv/pyvenv.cfg", "venv/lib", "base/lib"] {
            assert!(read.contains(&at(path)), "{path} {read:?}");
        }
    }
}
