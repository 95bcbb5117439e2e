//! The process at the other end of the local socket; its ancestors are read from `/proc`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;

use mgp_types::service::PeerProcess;
use mgp_types::sync::Mutex;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::UnixStream;

use super::Place;
use super::hosts::{HostTable, Inside, is_at_terminal, is_first_process};
use super::stat::ProcessStat;
use super::table::{Proc, ProcessTable as _, ancestry};

/// The cause if `/proc` shows only the processes of this user, and so not e.g. the `sudo` above a command.
const HIDDEN: &str =
    "`/proc` hides the processes of other users (`hidepid`, or `ProtectProc=` of systemd)";

/// The process that opened a connection to the local socket.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Option<PeerProcess>,
    lineage: Lineage,
}

#[derive(Debug)]
enum Lineage {
    /// The process and its ancestors, starting with the process.
    Known(Vec<ProcessStat>),
    /// The process runs in another container that shares the state folder.
    Elsewhere,
    /// The process has ended, or `/proc` does not show it, for this reason.
    Unknown(String),
}

/// The known hosts, shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<HostTable>);

impl Peer {
    /// Identifies the process that opened a connection; must be called as soon as the connection is accepted.
    pub(crate) fn of(stream: &UnixStream) -> Self {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).unwrap_or_default();
        let Some(raw) = Pid::from_raw(pid) else {
            return Self { process: None, lineage: Lineage::Elsewhere };
        };
        // Open a pidfd, a descriptor of the process. Before Linux 6.5 this needs the process id, which the system may
        // have reused if the process ended before its connection was accepted.
        let descriptor = getsockopt(stream, sockopt::PeerPidfd).ok();
        let descriptor = descriptor.or_else(|| pidfd_open(raw, PidfdFlags::empty()).ok());
        let chain = ancestry(&Proc, pid);
        let process = chain.as_deref().map(process_of);
        // While the process of the pidfd runs, its id cannot be reused, so the ancestors that were just read belong to
        // this process.
        let lineage = match (chain, descriptor) {
            (Some(chain), Some(descriptor)) if !has_ended(&descriptor) => Lineage::Known(chain),
            _ => Lineage::Unknown(unreadable()),
        };
        Self { process, lineage }
    }

    /// Returns the process as the audit log records it; `None` if it is not known.
    pub(crate) fn process(&self) -> Option<&PeerProcess> {
        self.process.as_ref()
    }
}

impl Hosts {
    /// Returns where a process runs in relation to servers and hosts.
    pub(crate) fn place(&self, peer: &Peer) -> Place {
        match &peer.lineage {
            Lineage::Known(chain) => place(&self.0.lock(), chain),
            Lineage::Elsewhere => {
                Place::Inside("this process is outside the container of the kernel".to_owned())
            }
            Lineage::Unknown(reason) => Place::Barred(reason.clone()),
        }
    }

    /// Admits an agent, and records its host if the process is a shim; returns the reason if the agent is refused.
    /// `is_connected` returns whether `mgp connect` has changed the file of the host with this name.
    pub(crate) fn admit_agent(
        &self,
        peer: &Peer,
        agent: &str,
        is_shim: bool,
        is_connected: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        match &peer.lineage {
            Lineage::Known(chain) => {
                let mut hosts = self.0.lock();
                hosts.admit_agent(&Proc, chain, agent, is_shim, own_pid(), is_connected)
            }
            Lineage::Elsewhere => Ok(()),
            Lineage::Unknown(reason) => Err(reason.clone()),
        }
    }

    /// Records a known host: the process that started this kernel and is connected to it over stdio.
    pub(crate) fn admit_own_host(&self, agent: &str) {
        let Some(chain) = own_ancestry() else { return };
        // This process takes the place of the shim in this check. The kernel's process id is given as 0, because
        // otherwise this process, the first of the chain, would count as a kernel that started the shim.
        let admitted = self.0.lock().admit_agent(&Proc, &chain, agent, true, 0, |_| false);
        if let Err(reason) = admitted {
            tracing::warn!(%reason, "host not recorded");
        }
    }
}

/// Returns where this process runs, for a command that works without a kernel.
pub(crate) fn own_place() -> Place {
    match own_ancestry() {
        Some(chain) => place(&HostTable::default(), &chain[1..]).at(is_at_terminal(&chain)),
        None => Place::Barred(unreadable()),
    }
}

impl Place {
    fn at(self, is_at_terminal: bool) -> Self {
        match self {
            Self::Outside { .. } => Self::Outside { is_at_terminal },
            inside => inside,
        }
    }
}

fn place(hosts: &HostTable, chain: &[ProcessStat]) -> Place {
    match hosts.inside(&Proc, chain, own_pid()) {
        None => Place::Outside { is_at_terminal: is_at_terminal(chain) },
        Some(inside @ Inside::Server) => Place::Barred(inside.to_string()),
        Some(inside) => Place::Inside(inside.to_string()),
    }
}

/// Returns the reason of a failed read of ancestors. Reads `/proc` again to find the cause, e.g. too many open files.
fn unreadable() -> String {
    let hidden = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        hides_processes(&mounts).then(|| io::Error::other(HIDDEN))
    };
    unreadable_because(File::open("/proc/self/stat").err().or_else(hidden))
}

/// Returns whether a table of mounts has a `/proc` that hides the processes of other users.
fn hides_processes(mounts: &str) -> bool {
    let is_proc = |line: &str| line.split(' ').nth(4) == Some("/proc");
    mounts.lines().any(|line| is_proc(line) && line.contains("hidepid="))
}

fn unreadable_because(error: Option<io::Error>) -> String {
    let cause = error.map(|error| format!(": {error}")).unwrap_or_default();
    format!("the ancestors of this process cannot be read{cause}")
}

/// Returns this process and its ancestors, except the first process of a container, which may have started this kernel.
fn own_ancestry() -> Option<Vec<ProcessStat>> {
    let mut chain = ancestry(&Proc, own_pid())?;
    chain.retain(|one| !is_first_process(one));
    Some(chain)
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

fn process_of(chain: &[ProcessStat]) -> PeerProcess {
    let program = |at: usize| {
        let program = Proc.program(chain.get(at)?.id.pid)?;
        Some(program.to_string_lossy().into_owned())
    };
    let mut process = PeerProcess::new(chain[0].id.pid.unsigned_abs());
    (process.program, process.parent) = (program(0), program(1));
    process
}

fn has_ended(process: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut polled, Some(&now)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_unreadable_ancestors_has_the_cause() {
        let bare = "the ancestors of this process cannot be read";
        assert_eq!(unreadable(), bare);
        let because = unreadable_because(Some(io::Error::other("too many open files")));
        assert_eq!(because, format!("{bare}: too many open files"));
    }

    #[test]
    fn a_proc_that_hides_processes_is_found_in_the_table_of_mounts() {
        let root = "26 1 254:0 / / rw,relatime - ext4 /dev/vda rw";
        let plain = "45 26 0:21 / /proc rw,relatime - proc proc rw";
        assert!(!hides_processes(&format!("{root}\n{plain}\n")));
        assert!(hides_processes(&format!("{root}\n{plain},hidepid=invisible\n")));
        assert!(!hides_processes(&format!("{root}\n{}", plain.replace("/proc ", "/x/hidepid= "))));
    }
}
