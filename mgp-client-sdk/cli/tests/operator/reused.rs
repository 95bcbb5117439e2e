//! Tests of process ids that the system uses again: a new process gets neither the rights nor the limits of an old one.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::setting::{GRANT, Setting};
use crate::wire::OPERATOR;
use crate::world::{kill, within};

/// The environment variables with which this test program connects to a kernel and then ends immediately. They name the
/// socket, and the file for the kernel's reply.
const SOCKET: &str = "MGP_TEST_LEFT_SOCKET";
const REPLY: &str = "MGP_TEST_LEFT_REPLY";

/// The file in which the system keeps the last process id that it gave; the next process gets the id after it.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// Starts the command again and again until its process has the id `pid`; returns `None` if the system does not let the
/// test choose process ids.
fn start_as(pid: u32, mut command: Command) -> Option<Child> {
    for _ in 0..500 {
        fs::write(LAST_PID, (pid - 1).to_string()).ok()?;
        let mut child = command.spawn().unwrap();
        if child.id() == pid {
            return Some(child);
        }
        let _ = (child.kill(), child.wait());
    }
    None
}

#[expect(clippy::zombie_processes, reason = "this process must end before its child")]
#[test]
fn a_connection_whose_process_has_ended_is_refused_also_if_its_id_is_used_again() {
    let Ok(socket) = env::var(SOCKET) else { return the_connection_is_refused() };
    // If the variable is set, the test has started this process: it connects, leaves the connection to a child, and
    // ends.
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(OPERATOR.as_bytes()).unwrap();
    let reply = File::create(env::var(REPLY).unwrap()).unwrap();
    let mut head = Command::new("head");
    head.arg("-n1").stdin(OwnedFd::from(stream)).stdout(reply).spawn().unwrap();
}

fn the_connection_is_refused() {
    let setting = Setting::new("");
    let kernel = setting.world.kernel().unwrap();
    let test =
        "reused::a_connection_whose_process_has_ended_is_refused_also_if_its_id_is_used_again";
    for reuses in [false, true] {
        let reply = setting.path(&format!("reply-{reuses}"));
        // Suspend the kernel, so that it accepts the connection only after the process that opened it has ended.
        kill("-STOP", kernel);
        let mut opener = Command::new(env::current_exe().unwrap());
        opener.args(["--exact", test]).env(SOCKET, setting.world.socket()).env(REPLY, &reply);
        let mut opener = opener.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = opener.id();
        assert!(opener.wait().unwrap().success());
        // A process that may act as an operator gets the id of the ended process.
        let mut sleeper = Command::new("sleep");
        sleeper.arg("60");
        let other = reuses.then(|| start_as(pid, sleeper)).flatten();
        kill("-CONT", kernel);
        let line = within(|| fs::read_to_string(&reply).ok().filter(|text| text.ends_with('\n')));
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["ok"], false, "{line}");
        assert!(line["error"].as_str().unwrap().contains("cannot be read"), "{line}");
        if let Some(mut other) = other {
            let _ = (other.kill(), other.wait());
        }
    }
    let causes: Vec<_> = setting.refusals().into_iter().map(|(cause, _)| cause).collect();
    assert_eq!(causes, ["inside server"; 2], "both are recorded");
    // The kernel accepts the test process, which is still running.
    setting.world.connect(OPERATOR).unwrap();
    setting.succeed(&GRANT);
}

#[test]
fn a_process_with_the_id_of_a_host_that_has_ended_is_not_that_host() {
    let setting = Setting::new("");
    let mut host = setting.host("MGP access grant eve files 2>refused; echo $? >>refused");
    let refused = setting.wait_for("refused");
    assert!(refused.contains("the host `sh`"), "{refused}");
    drop(host.stdin.take());
    host.wait().unwrap();
    assert!(!setting.is_granted());
    // An operator's command gets the process id that the ended host had.
    let mgp = setting.mgp(&GRANT);
    let mut shell = Command::new("sh");
    shell.args(["-c", "read go; exec \"$@\"", "sh"]).arg(mgp.get_program()).args(mgp.get_args());
    let envs = mgp.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.envs(envs).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Some(mut operator) = start_as(host.id(), shell) else { return };
    operator.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(operator.wait().unwrap().success());
    assert!(setting.is_granted());
}
