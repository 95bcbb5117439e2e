//! Confinement of a child: restricts which files it can access, its TCP connections, and its resources.
//!
//! This process's own program is started again as the child. The new process gives up all rights that the child must
//! not have, and then executes the child's program. So the confinement needs no code between fork and exec. Linux only
//! (Landlock and seccomp, on x86-64, ARM64 and RISC-V); on other systems, and without a [`Keeper`], a child cannot be
//! confined.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::keeper::Keeper;

/// The argument after the keeper's marker; it makes this process's program confine itself and execute another program.
pub(super) const MARKER: &str = "confine";

/// The beginning of the names under which the launcher gets variables of the dynamic loader, so that they have an
/// effect only after the confinement: a library in a folder that the child can write would run without it.
pub(super) const DELAYED: &str = "MGP_CONFINED_";

/// The maximum size of the rights as an argument; Linux permits 128 KiB.
const MAX_RIGHTS_BYTES: usize = 128_000;

/// The rights of a confined child and its descendants. Access to other files is denied, and so is each socket without
/// a right.
///
/// A right to connect includes UDP, which resolves names, to any port. Names and attributes of files stay visible.
/// Only Linux 6.12 and later denies signals to processes outside of the confinement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// The files and folders that the child can read and execute. Paths that do not exist, and paths with a link in
    /// them, are ignored.
    pub read: Vec<PathBuf>,
    /// The files and folders that the child can also write.
    pub write: Vec<PathBuf>,
    /// The real paths of folders to which a right for a folder above does not extend. Of such a folder above, the child
    /// can access everything else that exists when it starts.
    pub hidden: Vec<PathBuf>,
    /// Folders that are created with the rights of the child before it starts.
    pub folders: Vec<PathBuf>,
    /// The TCP ports of other programs to which the child can connect.
    pub connects: Ports,
    /// The TCP ports on which the child can listen.
    pub listens: Ports,
    /// If set, the child can connect to Unix sockets, e.g. of Docker or D-Bus, whose programs are not confined.
    pub local_sockets: bool,
    /// If set, the child has at most 512 open files, 2 GiB of data, and 64 MiB for each file.
    pub limits_resources: bool,
    /// If set, the child is not started if the system cannot enforce all of these restrictions. Otherwise the system
    /// enforces those that it can.
    pub required: bool,
}

/// A set of TCP ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ports {
    /// No port.
    #[default]
    None,
    /// These ports.
    Only(Vec<u16>),
    /// All ports.
    All,
}

impl Confinement {
    /// Creates a confinement without any right.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the system can confine processes.
    #[must_use]
    pub fn is_supported() -> bool {
        imp::is_available()
    }

    /// Returns whether children of this process can be confined: a [`Keeper`] is installed, and the system supports
    /// confinement.
    #[must_use]
    pub fn is_available() -> bool {
        Keeper::is_installed() && Self::is_supported()
    }

    /// Returns the reason why a child with these rights must not be started; `None` if it can be.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        if !self.required {
            return None;
        }
        if !Self::is_available() {
            return Some("only Linux 6.2 and later with Landlock can confine it");
        }
        if !imp::can_restrict_truncation() {
            return Some("only Linux 6.2 and later can prevent it from emptying files");
        }
        let restricts_tcp = self.connects != Ports::All || self.listens != Ports::All;
        (restricts_tcp && !imp::can_restrict_tcp())
            .then_some("only Linux 6.7 and later can restrict its TCP connections")
    }

    /// Returns the program that confines the child, and the arguments that must precede the arguments of the child's
    /// own program.
    ///
    /// # Errors
    /// Fails if the rights cannot be passed on as an argument, because a path is not UTF-8 or there are too many paths.
    pub(super) fn arguments(&self, keeper: &Keeper) -> io::Result<(PathBuf, [OsString; 3])> {
        let rights = serde_json::to_string(self).map_err(|error| {
            let why = format!("it cannot be confined ({error}); use folders whose names are UTF-8");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        if rights.len() > MAX_RIGHTS_BYTES {
            let why = "it cannot be confined, because its rights have too many paths";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (program, marker) = keeper.program();
        Ok((program.clone(), [marker.clone(), MARKER.into(), rights.into()]))
    }
}

/// Gives up all rights except those in the first argument, and executes the program in the second argument with the
/// remaining arguments.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let rights = arguments.next().and_then(|rights| serde_json::from_str(rights.to_str()?).ok());
    let (Some(rights), Some(program)) = (rights, arguments.next()) else {
        return ExitCode::from(2);
    };
    imp::run(&rights, &program, arguments)
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod linux;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
use self::linux as imp;

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod imp {
    use std::ffi::{OsStr, OsString};
    use std::process::ExitCode;

    use super::Confinement;

    pub(super) fn is_available() -> bool {
        false
    }

    pub(super) fn can_restrict_truncation() -> bool {
        false
    }

    pub(super) fn can_restrict_tcp() -> bool {
        false
    }

    pub(super) fn run(_: &Confinement, _: &OsStr, _: impl Iterator<Item = OsString>) -> ExitCode {
        ExitCode::from(2)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_child_whose_rights_cannot_be_passed_on_is_not_started() {
        let keeper = Keeper::this_program("keeper");
        let mut rights = Confinement::new();
        rights.write.push(PathBuf::from("/tmp/own"));
        let (_, arguments) = rights.arguments(&keeper).unwrap();
        let read: Confinement = serde_json::from_str(arguments[2].to_str().unwrap()).unwrap();
        assert_eq!(read, rights);
        rights.write.push(PathBuf::from(OsStr::from_bytes(b"/tmp/\xff")));
        let error = rights.arguments(&keeper).unwrap_err();
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }
}
