//! Confinement of a child: restricts which files it can access, its TCP connections, and its resources.
//!
//! This process's own program is started again as the child. The new process gives up all rights that the child must
//! not have, and then executes the child's program. So the confinement needs no code between fork and exec. Linux only
//! (Landlock); on other systems, and without a [`Keeper`], a child is not confined.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::keeper::Keeper;

/// The argument after the keeper's marker; it makes this process's program confine itself and execute another program.
pub(super) const MARKER: &str = "confine";

/// The rights of a confined child and its descendants. Access to other files is denied, and so is TCP without a right.
///
/// UDP is not restricted. Only Linux 6.12 and later denies signals to processes outside of the confinement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// The files and folders that the child can read and execute; paths that do not exist are ignored.
    pub read: Vec<PathBuf>,
    /// The files and folders that the child can also write.
    pub write: Vec<PathBuf>,
    /// If set, the child can connect to other programs over TCP.
    pub connects: bool,
    /// If set, the child can listen on TCP ports.
    pub listens: bool,
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

    /// Returns the program that confines the child, and the arguments that must precede the arguments of the child's
    /// own program.
    ///
    /// # Errors
    /// Fails if the rights cannot be passed on as an argument, because a path is not UTF-8.
    pub(super) fn arguments(&self, keeper: &Keeper) -> io::Result<(PathBuf, [OsString; 3])> {
        let rights = serde_json::to_string(self).map_err(|error| {
            let why = format!("it cannot be confined ({error}); use folders whose names are UTF-8");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
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

#[cfg(target_os = "linux")]
mod imp {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, ExitCode};

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, CreateRulesetError,
        PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
        RulesetError, Scope,
    };
    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::Confinement;

    /// The newest version of Landlock whose rights are used; an older Linux kernel restricts only
    /// the rights that it knows.
    const RIGHTS: ABI = ABI::V6;

    /// The resource limits of a confined child.
    const LIMITS: [(Resource, u64); 4] = [
        (Resource::Core, 0),
        (Resource::Fsize, 64 << 20),
        (Resource::Nofile, 512),
        (Resource::Data, 2 << 30),
    ];

    pub(super) fn is_available() -> bool {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let created = rules.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create);
        // If only the call that creates the rules fails, the system supports confinement, but lacks e.g. descriptors,
        // so return `true`. If it still lacks them when the child confines itself, the child does not start.
        matches!(
            created,
            Ok(_) | Err(RulesetError::CreateRuleset(CreateRulesetError::CreateRulesetCall { .. }))
        )
    }

    pub(super) fn run(
        rights: &Confinement,
        program: &OsStr,
        arguments: impl Iterator<Item = OsString>,
    ) -> ExitCode {
        for (resource, most) in LIMITS {
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
        if let Err(error) = restrict(rights) {
            report(&format!("the program cannot be confined: {error}"));
            return ExitCode::from(126);
        }
        let error = Command::new(program).args(arguments).exec();
        report(&format!("`{}` cannot be started: {error}", program.to_string_lossy()));
        ExitCode::from(127)
    }

    fn restrict(rights: &Confinement) -> Result<(), RulesetError> {
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS))?;
        if !rights.connects {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        if !rights.listens {
            rules = rules.handle_access(AccessNet::BindTcp)?;
        }
        let mut rules = rules.scope(Scope::from_all(RIGHTS))?.create()?;
        for path in &rights.read {
            rules = allowed(rules, path, AccessFs::from_read(RIGHTS))?;
        }
        for path in &rights.write {
            rules = allowed(rules, path, AccessFs::from_all(RIGHTS))?;
        }
        rules.restrict_self().map(drop)
    }

    /// Adds a path to the rules; for a file, rights that apply only to folders are left out.
    fn allowed(
        rules: RulesetCreated,
        path: &std::path::Path,
        access: landlock::BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
        rules.add_rule(PathBeneath::new(opened, access))
    }

    /// Writes a line to standard error, which the parent process logs.
    fn report(line: &str) {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::ffi::{OsStr, OsString};
    use std::process::ExitCode;

    use super::Confinement;

    pub(super) fn is_available() -> bool {
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
