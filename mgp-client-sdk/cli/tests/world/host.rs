//! Starts programs below a separate host process. The kernel refuses operators whose ancestor started `mgp serve
//! --stdio`, but the test process must be able to act as an operator.

use std::process::Command;

/// A script that starts a program as its only child and gives it the standard streams.
///
/// The shell's own input is redirected, because a parent that shares its child's input counts as a wrapper, not as a
/// host. The redirection is in a subshell, because some shells redirect themselves while a command runs.
const SCRIPT: &str = "exec 3<&0 </dev/null; (exec \"$@\" <&3 3<&-); exit $?";

/// Returns the arguments with which `/bin/sh` becomes the host of a program.
pub(crate) fn host_args(program: &str) -> [&str; 4] {
    ["-c", SCRIPT, "host", program]
}

/// Returns a command whose parent is a host process and not the test process.
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
