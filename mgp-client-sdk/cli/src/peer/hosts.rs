//! The hosts that shims serve, and the processes that may not act as an operator or as another agent.
//!
//! A host is the parent of its shim; it stays known while it lives, because an agent with a shell can end the shim.

use std::fmt;
use std::path::Path;

use super::stat::{ProcessId, ProcessStat};
use super::table::{ProcessTable, lives};

/// The bound of known hosts that live; shims of further ones are refused.
const MAX_HOSTS: usize = 1024;

/// The name that the main thread of each keeper has.
const KEEPER_NAME: &str = "mgp-keeper";

/// The programs that start what a person or a host asks for, and are no host themselves.
const SHELLS: &[&str] =
    &["bash", "busybox", "csh", "dash", "fish", "ksh", "nu", "sh", "tcsh", "xonsh", "zsh"];

/// The programs that adopt orphans.
const INITS: &[&str] = &["init", "launchd", "systemd"];

/// A host, with what its shim was started as.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    /// The process that started the shim.
    process: ProcessId,
    /// The topmost ancestor of the same program, e.g. the main process of an editor whose extensions run in another.
    root: ProcessId,
    name: String,
    control_groups: Option<String>,
    agent: String,
}

/// The known hosts.
#[derive(Debug, Default)]
pub(crate) struct HostTable(Vec<Host>);

/// The reason why a process cannot act as an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A governed server started the process.
    Server,
    /// A host, or a process of a host, started the process.
    Host { name: String, pid: i32 },
    /// The process has left its parents, and may have been started by a host.
    Detached { name: String, pid: i32 },
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("a server that the kernel governs started this process"),
            Self::Host { name, pid } => {
                write!(f, "the host `{name}` (process {pid}) started this process")
            }
            Self::Detached { name, pid } => write!(
                f,
                "this process has no terminal, and left its parents after the host `{name}` (process {pid}) was started"
            ),
        }
    }
}

impl HostTable {
    /// Returns why a process is not an operator's; `None` if nothing speaks against it.
    pub(crate) fn inside(
        &self,
        table: &impl ProcessTable,
        chain: &[ProcessStat],
        kernel: i32,
    ) -> Option<Inside> {
        if is_below_server(chain, kernel) {
            return Some(Inside::Server);
        }
        let above =
            |host: &&Host| chain.iter().any(|one| [host.process, host.root].contains(&one.id));
        if let Some(host) = self.0.iter().find(above) {
            return Some(Inside::Host { name: host.name.clone(), pid: host.root.pid });
        }
        let alive = self.0.iter().filter(|host| lives(table, host.root));
        let host = alive.into_iter().find(|host| is_detached(table, chain, host))?;
        Some(Inside::Detached { name: host.name.clone(), pid: host.root.pid })
    }

    /// Admits an agent, and records the host if the process is a shim; returns the reason of a refusal.
    pub(crate) fn admit_agent(
        &mut self,
        table: &impl ProcessTable,
        chain: &[ProcessStat],
        agent: &str,
        is_shim: bool,
        kernel: i32,
    ) -> Result<(), String> {
        if is_below_server(chain, kernel) {
            return Err(format!("{}; a server cannot act as an agent", Inside::Server));
        }
        self.0.retain(|host| lives(table, host.process) || lives(table, host.root));
        let own = is_shim.then(|| host_of(table, chain, agent)).flatten();
        self.check_name(chain, agent, own.as_ref())?;
        let Some(own) = own else { return Ok(()) };
        if !self.0.iter().any(|host| host.process == own.process) {
            // Of the ended processes of one program, one is enough.
            let is_same = |host: &Host| host.root == own.root && host.agent == own.agent;
            self.0.retain(|host| !is_same(host) || lives(table, host.process));
            if self.0.len() >= MAX_HOSTS {
                return Err(format!("the kernel serves {MAX_HOSTS} hosts; close some"));
            }
            self.0.push(own);
        }
        Ok(())
    }

    /// Refuses a name that the host above was not started with.
    fn check_name(
        &self,
        chain: &[ProcessStat],
        agent: &str,
        own: Option<&Host>,
    ) -> Result<(), String> {
        let of_process = |one: &ProcessStat| self.0.iter().find(|host| host.process == one.id);
        let (above, is_allowed) = if let Some(host) = chain.iter().find_map(of_process) {
            (host, host.agent == agent)
        } else {
            let is_below = |host: &&Host| chain.iter().any(|one| one.id == host.root);
            let Some(host) = self.0.iter().find(is_below) else { return Ok(()) };
            // Another window of the same program may be another agent.
            let is_host_itself = own.is_some_and(|own| own.root == host.root);
            let mut siblings = self.0.iter().filter(|other| other.root == host.root);
            (host, is_host_itself || siblings.any(|other| other.agent == agent))
        };
        if is_allowed {
            return Ok(());
        }
        Err(format!(
            "the host `{}` (process {}) is the agent `{}`, so what it starts cannot act as `{agent}`; start this from another process, or restart the host with this name",
            above.name, above.process.pid, above.agent
        ))
    }
}

/// Returns whether the kernel or a keeper is among the ancestors.
fn is_below_server(chain: &[ProcessStat], kernel: i32) -> bool {
    chain.iter().any(|one| one.id.pid == kernel || one.name == KEEPER_NAME)
}

/// Returns the host of a shim; `None` if a person started the shim in a terminal, or its parent has ended.
fn host_of(table: &impl ProcessTable, chain: &[ProcessStat], agent: &str) -> Option<Host> {
    let [shim, ancestors @ ..] = chain else { return None };
    // A wrapper, e.g. of a package manager, passes its own standard input on; the host has the other end of the pipe.
    let input = table.input(shim.id.pid);
    let is_wrapper = |one: &ProcessStat| input.is_some() && table.input(one.id.pid) == input;
    let skipped = ancestors.iter().take_while(|one| is_wrapper(one)).count();
    let ancestors = &ancestors[skipped..];
    let host = ancestors.first()?;
    let program = table.program(host.id.pid);
    let is_named = |names: &[&str]| {
        let file = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        file.map_or_else(|| names.contains(&&*host.name), |file| names.contains(&file))
    };
    let is_shell = is_named(SHELLS);
    if host.id.pid == 1 || is_named(INITS) || (is_shell && host.leads_terminal()) {
        return None;
    }
    let is_same = |one: &&ProcessStat| {
        !is_shell && one.id.pid != 1 && program.is_some() && table.program(one.id.pid) == program
    };
    let root = ancestors.iter().take_while(is_same).last().unwrap_or(host);
    Some(Host {
        process: host.id,
        root: root.id,
        name: mgp_types::clip(&host.name, 64),
        control_groups: table.control_groups(root.id.pid),
        agent: agent.to_owned(),
    })
}

/// Returns whether a process may be one that a host has started and let go.
///
/// Its topmost ancestor that the system knows to belong to the host's control group is then younger than the host. A
/// process in the foreground of a terminal, whose shell is above it, is a person's.
fn is_detached(table: &impl ProcessTable, chain: &[ProcessStat], host: &Host) -> bool {
    if is_at_terminal(chain) {
        return false;
    }
    let is_of_group = |one: &&ProcessStat| {
        one.id.pid != 1 && table.control_groups(one.id.pid) == host.control_groups
    };
    let Some(top) = chain.iter().rev().find(is_of_group) else { return false };
    // A parent of 0 is outside the container that the process entered.
    top.parent != 0 && top.id.started >= host.root.started
}

/// Returns whether a process runs in the foreground of a terminal whose first process is above it.
pub(crate) fn is_at_terminal(chain: &[ProcessStat]) -> bool {
    let Some(first) = chain.first() else { return false };
    let leader = chain.iter().find(|one| one.id.pid == first.session);
    first.is_in_foreground()
        && leader.is_some_and(|leader| leader.leads_terminal() && leader.terminal == first.terminal)
}

#[cfg(test)]
mod tests;
