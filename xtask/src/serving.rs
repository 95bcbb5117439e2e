//! Starts server processes on free ports of loopback, for checks and benchmarks.

use crate::run::{Context, Failure, Outcome, now};
use std::{
    ffi::OsString,
    fs::File,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The time within which a server must listen, long enough for a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A running server. Dropping it kills the server and all processes in its process group.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    port: u16,
}

/// Returns a TCP port that is free at the moment.
pub(crate) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Served {
    /// Starts a server: passes a free port to `command`, starts the command that it returns, and waits until the server
    /// listens. The server's output is written to `log`.
    pub(crate) fn start(
        command: impl FnOnce(u16) -> Outcome<Command>,
        log: &Path,
    ) -> Outcome<Self> {
        let port = free_port()?;
        let mut command = command(port)?;
        let errors = File::create(log).context(log.display())?;
        let program = command.get_program().to_string_lossy().into_owned();
        own_group(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(errors.try_clone()?)
            .stderr(errors)
            .spawn()
            .context(&program)?;
        let mut served = Self { child, port };
        let end = now() + START_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = served.child.try_wait()? {
                let log = log.display();
                return Err(Failure::new(format!("{program} ended: {status}; see {log}")));
            }
            if now() > end {
                return Err(Failure::new(format!("{program} does not listen on port {port}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// Starts a server by a command given as words, in which `PORT` is replaced by the port.
    pub(crate) fn words(words: &[OsString], log: &Path) -> Outcome<Self> {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let command = |port: u16| {
            let mut filled = words.iter().map(|word| word.replace("PORT", &port.to_string()));
            let mut command = Command::new(filled.next().context("a server command")?);
            command.args(filled);
            Ok(command)
        };
        Self::start(command, log)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ended(&mut self) -> Outcome<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Kills the group first: even if the server has exited, processes that it started might still run.
        kill_group(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an amount of memory of a process from `/proc/PID/status`, in bytes; `line` is the name of a line there, e.g.
/// `VmRSS`.
pub(crate) fn memory(process: u32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Makes a program the leader of a new process group, so that [`kill_group`] can kill it with its children.
#[cfg(unix)]
pub(crate) fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Does nothing, because this system has no process groups.
#[cfg(not(unix))]
pub(crate) fn own_group(_: &mut Command) {}

/// Kills all remaining processes of a process group.
pub(crate) fn kill_group(leader: u32) {
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{leader}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
