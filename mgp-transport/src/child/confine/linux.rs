//! Confines this process with Landlock (files, TCP, signals) and seccomp (all other sockets), and executes the program
//! of the child.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _,
    CreateRulesetError, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{Access, access};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

use super::{Confinement, DELAYED, Ports};

/// The newest version of Landlock whose rights are used; an older Linux kernel restricts only
/// the rights that it knows.
const RIGHTS: ABI = ABI::V6;

/// The resource limits of a child that has any.
const LIMITS: [(Resource, u64); 4] = [
    (Resource::Core, 0),
    (Resource::Fsize, 64 << 20),
    (Resource::Nofile, 512),
    (Resource::Data, 2 << 30),
];

/// The maximum number of bytes that are read of the first line of a script.
const MAX_LINE_BYTES: u64 = 4096;

pub(super) fn is_available() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let created = rules.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create);
    // If only the call that creates the rules fails, the system supports confinement, but lacks e.g. descriptors, so
    // return `true`. If it still lacks them when the child confines itself, the child does not start.
    matches!(
        created,
        Ok(_) | Err(RulesetError::CreateRuleset(CreateRulesetError::CreateRulesetCall { .. }))
    )
}

pub(super) fn can_restrict_truncation() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::Truncate).is_ok()
}

pub(super) fn can_restrict_tcp() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessNet::from_all(ABI::V4)).is_ok()
}

pub(super) fn run(
    rights: &Confinement,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    if rights.limits_resources {
        for (resource, most) in LIMITS {
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
    }
    if let Err(error) = restrict(rights) {
        report(&format!("the program cannot be confined: {error}"));
        return ExitCode::from(126);
    }
    for folder in &rights.folders {
        // A program that needs the folder names it in its own error.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
    let mut command = Command::new(program);
    for (name, value) in std::env::vars_os() {
        if let Some(delayed) = name.to_str().and_then(|name| name.strip_prefix(DELAYED)) {
            command.env(delayed, value).env_remove(&name);
        }
    }
    let program = program.to_string_lossy();
    if let Some(interpreter) = denied_interpreter(Path::new(&*program)) {
        let interpreter = interpreter.display();
        report(&format!(
            "`{program}` cannot be started: its interpreter `{interpreter}` is not among the files that the confined server may read; permit the server to read it, or move `{program}` out of the folders that the server can write"
        ));
        return ExitCode::from(127);
    }
    let error = command.args(arguments).exec();
    report(&format!("`{program}` cannot be started: {error}"));
    ExitCode::from(127)
}

/// Returns the interpreter that the first line of a script names, if only the confinement denies this process to read
/// the interpreter.
fn denied_interpreter(script: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &Path| {
        let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
        let is_path = name.components().count() > 1;
        let file = if is_path { Some(name.to_owned()) } else { files.find(|file| file.is_file()) };
        // Opening a named pipe would block.
        file.filter(|file| file.is_file())
    };
    let mut line = String::new();
    let begin = fs::File::open(found(script)?).ok()?.take(MAX_LINE_BYTES);
    BufReader::new(begin).read_line(&mut line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let named = Path::new(words.next()?);
    let searched = words.find(|word| !word.starts_with('-')).filter(|_| named.ends_with("env"));
    let interpreter = found(searched.map_or(named, Path::new))?;
    let opened = fs::File::open(&interpreter);
    let is_denied = opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    // Landlock does not change the result of this call.
    (is_denied && access(interpreter.as_path(), Access::READ_OK).is_ok()).then_some(interpreter)
}

fn restrict(rights: &Confinement) -> Result<(), String> {
    let status = restrict_files(rights).map_err(|error| error.to_string())?;
    if rights.required && status == RulesetStatus::NotEnforced {
        return Err("the system does not enforce Landlock".to_owned());
    }
    drop_capabilities().map_err(|error| error.to_string())?;
    match restrict_sockets(rights) {
        Err(error) if rights.required => Err(error),
        _ => Ok(()),
    }
}

/// Gives up the capabilities of root with which the child could leave the confinement, e.g. read the variables of
/// other processes or load code into the system; changes nothing for other users. As Landlock sets `no_new_privs`, the
/// program does not get them back.
fn drop_capabilities() -> rustix::io::Result<()> {
    let kept = CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        *set &= kept;
    }
    set_capabilities(None, sets)
}

/// Restricts files, TCP and signals with Landlock.
fn restrict_files(rights: &Confinement) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS))?;
    let tcp = [(&rights.connects, AccessNet::ConnectTcp), (&rights.listens, AccessNet::BindTcp)];
    for (_, access) in tcp.iter().filter(|(ports, _)| **ports != Ports::All) {
        rules = rules.handle_access(*access)?;
    }
    let mut rules = rules.scope(Scope::from_all(RIGHTS))?.create()?;
    for path in &rights.read {
        rules = allowed(rules, path, &rights.hidden, AccessFs::from_read(RIGHTS))?;
    }
    for path in &rights.write {
        rules = allowed(rules, path, &rights.hidden, AccessFs::from_all(RIGHTS))?;
    }
    for (ports, access) in tcp {
        if let Ports::Only(ports) = ports {
            for port in ports {
                rules = rules.add_rule(NetPort::new(*port, access))?;
            }
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Adds a path to the rules; for a file, rights that apply only to folders are left out. Adds nothing if a link is in
/// the path, because another process could have replaced a part of the path since it was checked.
fn allowed(
    mut rules: RulesetCreated,
    path: &Path,
    hidden: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let real = fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd()));
    if real.ok().as_deref() != Some(path) {
        return Ok(rules);
    }
    if hidden.iter().any(|hidden| hidden.starts_with(path)) {
        for path in beside(path, hidden) {
            rules = allowed(rules, &path, &[], access)?;
        }
        return Ok(rules);
    }
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
    rules.add_rule(PathBeneath::new(opened, access))
}

/// Returns everything below a folder except the hidden folders in it: rights hold for a whole folder, so each folder
/// that contains a hidden one is replaced by what is in it. Links are left out by [`allowed`].
fn beside(folder: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let above = hidden.iter().flat_map(|hidden| hidden.ancestors().skip(1));
    let is_hidden = |path: &Path| hidden.iter().any(|hidden| path.starts_with(hidden));
    let folders: BTreeSet<_> =
        above.filter(|above| above.starts_with(folder) && !is_hidden(above)).collect();
    let entries = folders.iter().flat_map(|above| fs::read_dir(above).into_iter().flatten());
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| !hidden.iter().any(|hidden| hidden.starts_with(path))).collect()
}

// The numbers of `linux/socket.h`, `linux/net.h` and `linux/in.h`, which are the same for all architectures that the
// filter supports.
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
/// The bits of a socket's type; the others are flags.
const SOCK_TYPE: u64 = 0xf;
const IPPROTO_TCP: u64 = 6;
const MSG_FASTOPEN: u64 = 0x2000_0000;

/// The instructions that refuse, with ENOSYS, each system call whose number has the bit of the x32 interface of x86-64:
/// such a call is not compared with the rules. No other architecture has numbers so large.
const WITHOUT_X32: [sock_filter; 3] = [
    // Load the number; if it is smaller than the bit, skip the next instruction, which returns.
    sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
    sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS.unsigned_abs() },
];

/// Denies, with a seccomp filter, the sockets that Landlock does not restrict: Unix sockets, UDP, and protocols other
/// than TCP.
fn restrict_sockets(rights: &Confinement) -> Result<(), String> {
    let mut filter = WITHOUT_X32.to_vec();
    filter.extend(socket_filter(rights).map_err(|error| error.to_string())?);
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

fn socket_filter(rights: &Confinement) -> Result<BpfProgram, seccompiler::BackendError> {
    let connects = rights.connects != Ports::None;
    let has_tcp = connects || rights.listens != Ports::None;
    // Node.js fails if it cannot list the network interfaces, which it does with a netlink socket.
    let families = [
        (AF_NETLINK, true),
        (AF_UNIX, rights.local_sockets),
        (AF_INET, has_tcp),
        (AF_INET6, has_tcp),
    ];
    let allowed = families.iter().filter(|(_, is_allowed)| *is_allowed);
    let other_family = allowed.map(|(family, _)| not(0, *family)).collect::<Result<Vec<_>, _>>()?;
    let mut denied = vec![
        SeccompRule::new(other_family)?,
        SeccompRule::new(vec![is(0, AF_NETLINK)?, not(2, 0)?])?,
    ];
    for family in [AF_INET, AF_INET6] {
        // Protocols such as MPTCP are not restricted by Landlock.
        let stream = [is(0, family)?, bits(1, SOCK_TYPE, SOCK_STREAM)?];
        let other_protocol = [not(2, 0)?, not(2, IPPROTO_TCP)?];
        denied.push(SeccompRule::new(stream.into_iter().chain(other_protocol).collect())?);
        let allowed = |kind| kind == SOCK_STREAM || kind == SOCK_DGRAM && connects;
        for kind in (0..=SOCK_TYPE).filter(|kind| !allowed(*kind)) {
            denied.push(SeccompRule::new(vec![is(0, family)?, bits(1, SOCK_TYPE, kind)?])?);
        }
    }
    // Landlock does not restrict a connection whose first packet has data.
    let fast_open = |flags| SeccompRule::new(vec![bits(flags, MSG_FASTOPEN, MSG_FASTOPEN)?]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = [
        (libc::SYS_socket, denied),
        (libc::SYS_sendto, vec![fast_open(3)?]),
        (libc::SYS_sendmsg, vec![fast_open(2)?]),
        (libc::SYS_sendmmsg, vec![fast_open(3)?]),
        // The filter does not see the operations of a ring.
        (libc::SYS_io_uring_setup, Vec::new()),
        // The limits of another process: with them, the server could end it, or prevent it from writing files.
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![not(0, 0)?])?]),
    ]
    .into();
    if !rights.local_sockets {
        // The user's keys, e.g. tickets of Kerberos, and memory that other programs share.
        let shared = [libc::SYS_keyctl, libc::SYS_request_key, libc::SYS_shmget, libc::SYS_shmat];
        // A TCP socket without an address gets a free port by `listen`, which Landlock does not restrict.
        let listens = (rights.listens == Ports::None).then_some(libc::SYS_listen);
        rules.extend(shared.into_iter().chain(listens).map(|call| (call, Vec::new())));
    }
    let denied = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?.try_into()
}

/// Returns the condition that an argument of a system call is this value.
fn is(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// Returns the condition that an argument of a system call is not this value.
fn not(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// Returns the condition that the bits `mask` of an argument of a system call have this value.
fn bits(
    argument: u8,
    mask: u64,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

/// Writes a line to standard error, which the parent process logs.
fn report(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_beside_hidden_folders_is_found_although_one_of_them_does_not_exist() {
        let folder = mgp_testkit::temp_dir();
        let at = |path: &str| folder.path().join(path);
        for path in ["config/mgp/inner", "config/git", "local/state", "work/mgp"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        let hidden = ["config/mgp", "config/mgp/inner", "local/state", "none/mgp"].map(at);
        let mut found = beside(folder.path(), &hidden);
        found.sort();
        assert_eq!(found, [at("config/git"), at("work")]);
        assert_eq!(beside(&at("local/state"), &hidden), Vec::<PathBuf>::new());
    }
}
