//! A host as a process of its own: the kernel refuses operators below the parent of a shim.

use std::process::Command;

/// Passes the standard streams on to its one child; its own input is another, so it does not count as a wrapper.
///
/// In a subshell, because some shells redirect themselves while a command runs.
const SCRIPT: &str = "exec 3<&0 </dev/null; (exec \"$@\" <&3 3<&-); exit $?";

/// Returns the arguments of `/bin/sh` that make it the host of a program.
pub(crate) fn host_args(program: &str) -> [&str; 4] {
    ["-c", SCRIPT, "host", program]
}

/// Returns a command whose parent is a host, and not the process of the test.
pub(crate) fn below_host(command: &Command) -> Command {
    let mut host = Command::new("/bin/sh");
    host.args(host_args(command.get_program().to_str().unwrap())).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => host.env(name, value),
            None => host.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        host.current_dir(folder);
    }
    host
}
