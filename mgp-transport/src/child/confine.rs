//! Confinement of a child: the files it reads and writes, its TCP connections, and its resources.
//!
//! The program itself, run again, gives up these rights and then becomes the child, so nothing runs between fork and
//! exec. Linux only (Landlock); on other systems, and without a [`Keeper`], a child is not confined.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::keeper::Keeper;

/// The second argument of a program that is to confine itself and then run another program.
pub(super) const MARKER: &str = "confine";

/// The rights of a confined child; everything else is refused to it and to its descendants.
///
/// UDP, signals and programs of the system are not restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// The files and folders that the child reads and executes; paths that do not exist are ignored.
    pub read: Vec<PathBuf>,
    /// The files and folders that it also writes.
    pub write: Vec<PathBuf>,
    /// If set, it may connect to other programs over TCP.
    pub connects: bool,
    /// If set, it may listen on TCP ports.
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

    /// Returns whether children of this process can be confined: a [`Keeper`] is installed, and the system supports it.
    #[must_use]
    pub fn is_available() -> bool {
        Keeper::is_installed() && Self::is_supported()
    }

    /// Returns the arguments that a program gets before those of the confined one.
    pub(super) fn arguments(&self, keeper: &Keeper) -> Option<(PathBuf, [OsString; 3])> {
        let rights = serde_json::to_string(self).ok()?;
        let (program, marker) = keeper.program();
        Some((program.clone(), [marker.clone(), MARKER.into(), rights.into()]))
    }
}

/// Gives up all rights but those in the first argument, and becomes the program of the others.
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
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
        Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
    };
    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::Confinement;

    /// The newest set of rights that is used; an older kernel restricts what it knows.
    const RIGHTS: ABI = ABI::V6;

    /// The limits of a confined child.
    const LIMITS: [(Resource, u64); 4] = [
        (Resource::Core, 0),
        (Resource::Fsize, 64 << 20),
        (Resource::Nofile, 512),
        (Resource::Data, 2 << 30),
    ];

    pub(super) fn is_available() -> bool {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        rules.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
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

    /// Adds a path; rights of folders are left out for a file.
    fn allowed(
        rules: RulesetCreated,
        path: &std::path::Path,
        access: landlock::BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
        rules.add_rule(PathBeneath::new(opened, access))
    }

    /// Writes a line to the standard error, which the parent logs.
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
