//! The hosts that the kernel serves, and the checks that keep them and their child processes from acting as an operator
//! or as another agent.
//!
//! A host starts `mgp serve --stdio`, the shim, as a child process. The kernel remembers the host until the host exits,
//! and not only until the shim exits: an agent with a shell could end the shim.

use std::fmt;
use std::path::Path;

use super::stat::{ProcessId, ProcessStat};
use super::table::{ProcessTable, lives};

/// Upper limit of known hosts that still run; beyond it, further shims are refused.
const MAX_HOSTS: usize = 1024;

/// The thread name that identifies keeper processes.
const KEEPER_NAME: &str = "mgp-keeper";

/// The thread name that identifies the first process of a container, see `first_process.rs`.
const INIT_NAME: &str = "mgp-init";

/// Shells, which start programs for a person or a host. A shell that is the first process of a terminal belongs to a
/// person, so it does not count as a host.
const SHELLS: &[&str] =
    &["bash", "busybox", "csh", "dash", "fish", "ksh", "nu", "sh", "tcsh", "xonsh", "zsh"];

/// The hosts that can be extensions of one editor. One process of the editor runs all its extensions, so their shims
/// have the same parent process.
const EXTENSIONS: &[&str] = &["cline", "continue", "vscode"];

/// The programs that adopt orphaned processes.
const INITS: &[&str] = &["init", "launchd", "systemd"];

/// A known host, with its properties at the time when its shim (`mgp serve --stdio`) connected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    /// The process that started the shim.
    process: ProcessId,
    /// The topmost process above `process` that runs the same program, e.g. the main process of an editor that runs
    /// extensions in a child; else `process` itself.
    root: ProcessId,
    name: String,
    /// `true` if the host is a shell, e.g. because a person ran `mgp serve --stdio` in a pipe.
    is_shell: bool,
    control_groups: Option<String>,
    agent: String,
}

#[derive(Debug, Default)]
pub(crate) struct HostTable(Vec<Host>);

/// The reason why a process is not accepted as an operator. The passphrase can override it, except for a process that a
/// server started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A governed server started the process.
    Server,
    /// The process is a host, or was started by one.
    Host { name: String, pid: i32, is_shell: bool },
    /// The process was detached from its parents, and a host might have started it.
    Detached { name: String, pid: i32 },
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("a server that the kernel governs started this process"),
            Self::Host { name, pid, is_shell } => {
                write!(f, "the host `{name}` (process {pid}) started this process")?;
                if *is_shell {
                    f.write_str(
                        "; this shell also started `mgp serve --stdio`, so it counts as a host until it or the kernel ends",
                    )?;
                }
                Ok(())
            }
            Self::Detached { name, pid } => write!(
                f,
                "this process has no terminal, and left its parents after the host `{name}` (process {pid}) was started"
            ),
        }
    }
}

impl HostTable {
    /// Returns the reason why a process is not allowed to act as an operator; `None` if it is allowed.
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
            let Host { name, root, is_shell, .. } = host.clone();
            return Some(Inside::Host { name, pid: root.pid, is_shell });
        }
        let mut alive = self.0.iter().filter(|host| lives(table, host.root));
        let host = alive.find(|host| is_detached(table, chain, host))?;
        Some(Inside::Detached { name: host.name.clone(), pid: host.root.pid })
    }

    /// Admits an agent, and records its host if the process is a shim; returns the reason if the agent is refused.
    /// `is_connected` returns whether `mgp connect` has changed the file of the host with this name.
    pub(crate) fn admit_agent(
        &mut self,
        table: &impl ProcessTable,
        chain: &[ProcessStat],
        agent: &str,
        is_shim: bool,
        kernel: i32,
        is_connected: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        if is_below_server(chain, kernel) {
            return Err(format!("{}; a server cannot act as an agent", Inside::Server));
        }
        self.0.retain(|host| lives(table, host.process) || lives(table, host.root));
        let own = is_shim.then(|| host_of(table, chain, agent)).flatten();
        self.check_name(chain, agent, own.as_ref(), is_connected)?;
        let Some(own) = own else { return Ok(()) };
        if !self.0.iter().any(|host| host.process == own.process) {
            // Remove entries of the same program and agent whose process has exited; the new entry replaces them.
            let is_same = |host: &Host| host.root == own.root && host.agent == own.agent;
            self.0.retain(|host| !is_same(host) || lives(table, host.process));
            if self.0.len() >= MAX_HOSTS {
                return Err(format!("the kernel serves {MAX_HOSTS} hosts; close some"));
            }
            self.0.push(own);
        }
        Ok(())
    }

    /// Refuses an agent name if the host of this process was started with another name.
    fn check_name(
        &self,
        chain: &[ProcessStat],
        agent: &str,
        own: Option<&Host>,
        is_connected: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let of_process = |one: &ProcessStat| self.0.iter().find(|host| host.process == one.id);
        let (above, is_allowed) = if let Some(host) = chain.iter().find_map(of_process) {
            // Permit another name only to a shim of another extension, which is a child of the editor in the editor's
            // session. All other descendants of the editor keep the name of the first extension, e.g. programs below a
            // shell or in a terminal. A shell that a model runs can still replace itself by such a shim, with `exec`.
            let is_started_by_host = own.is_some()
                && matches!(chain, [shim, parent, ..]
                    if parent.id == host.process && shim.session == parent.session);
            let is_extension = |name: &str| EXTENSIONS.contains(&name) && is_connected(name);
            let is_other_extension =
                || is_started_by_host && is_extension(&host.agent) && is_extension(agent);
            (host, host.agent == agent || is_other_extension())
        } else {
            let is_below = |host: &&Host| chain.iter().any(|one| one.id == host.root);
            let Some(host) = self.0.iter().find(is_below) else { return Ok(()) };
            // Two windows of one program, i.e. two processes below one root, are allowed to act as different agents. A
            // shim that is the first process of a terminal was started in a terminal of the editor, not by the editor
            // itself.
            let is_host_itself = own.is_some_and(|own| own.root == host.root)
                && !chain.first().is_some_and(ProcessStat::leads_terminal);
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

/// Returns whether the kernel or a keeper is among a process and its ancestors, i.e. whether a server started it. In a
/// container whose first process has started the kernel, orphans count too: a server may have left them.
fn is_below_server(chain: &[ProcessStat], kernel: i32) -> bool {
    let is_of_server = |one: &ProcessStat| one.id.pid == kernel || one.name == KEEPER_NAME;
    chain.iter().any(|one| is_of_server(one) || is_first_process(one))
}

/// Returns whether a process is the first one of a container, and has started the kernel.
pub(super) fn is_first_process(process: &ProcessStat) -> bool {
    process.id.pid == 1 && process.name == INIT_NAME
}

/// Returns the host of a shim; `None` if a person started the shim in a terminal, or its parent has exited.
fn host_of(table: &impl ProcessTable, chain: &[ProcessStat], agent: &str) -> Option<Host> {
    let [shim, ancestors @ ..] = chain else { return None };
    // A wrapper, e.g. `npx`, passes its own standard input on to the shim; the host holds the other end of that pipe.
    // So ancestors that share the shim's standard input are wrappers, and the first other ancestor is the host.
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
        is_shell,
        control_groups: table.control_groups(root.id.pid),
        agent: agent.to_owned(),
    })
}

/// Returns whether a host might have started a process and then detached it from its parents.
///
/// The process counts as detached if its topmost ancestor in the host's control group is younger than the host. A
/// process in the foreground of a terminal whose shell is one of its ancestors belongs to a person, and never counts as
/// detached.
fn is_detached(table: &impl ProcessTable, chain: &[ProcessStat], host: &Host) -> bool {
    if is_at_terminal(chain) {
        return false;
    }
    let is_of_group = |one: &&ProcessStat| {
        one.id.pid != 1 && table.control_groups(one.id.pid) == host.control_groups
    };
    let Some(top) = chain.iter().rev().find(is_of_group) else { return false };
    // With a parent id of 0, the process entered the container from outside, so no host in the container has started
    // it.
    top.parent != 0 && top.id.started >= host.root.started
}

/// Returns whether a process runs in the foreground of a terminal, and the terminal's first process is its ancestor.
pub(crate) fn is_at_terminal(chain: &[ProcessStat]) -> bool {
    let Some(first) = chain.first() else { return false };
    let leader = chain.iter().find(|one| one.id.pid == first.session);
    first.is_in_foreground()
        && leader.is_some_and(|leader| leader.leads_terminal() && leader.terminal == first.terminal)
}

#[cfg(test)]
mod tests;
