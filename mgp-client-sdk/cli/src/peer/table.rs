//! The process table of the system, read from `/proc`.

use std::path::PathBuf;

use super::stat::{ProcessId, ProcessStat};

/// Maximum number of ancestors of a process; a longer chain is refused.
const MAX_ANCESTORS: usize = 512;

/// The maximum number of times that a chain of ancestors is read, because it can change while it is read.
const ATTEMPTS: usize = 8;

/// A source of information about processes: `/proc`, or a made-up table in tests.
pub(crate) trait ProcessTable {
    fn stat(&self, pid: i32) -> Option<ProcessStat>;

    fn program(&self, pid: i32) -> Option<PathBuf>;

    /// Returns the name of the pipe or socket that is the standard input of a process.
    fn input(&self, pid: i32) -> Option<PathBuf>;

    fn control_groups(&self, pid: i32) -> Option<String>;
}

/// The process table that `/proc` shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proc;

impl ProcessTable for Proc {
    fn stat(&self, pid: i32) -> Option<ProcessStat> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        ProcessStat::parse(&String::from_utf8_lossy(&stat))
    }

    fn program(&self, pid: i32) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{pid}/exe")).ok()
    }

    fn input(&self, pid: i32) -> Option<PathBuf> {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/0")).ok()?;
        let name = link.as_os_str().as_encoded_bytes();
        (name.starts_with(b"pipe:") || name.starts_with(b"socket:")).then_some(link)
    }

    fn control_groups(&self, pid: i32) -> Option<String> {
        std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
    }
}

/// Returns a process and its ancestors, starting with the process; `None` if they cannot be read.
///
/// The system may reuse a process id while the chain is read. So each child is read again after its parent: while the
/// child still names the parent, the parent's id has not been reused. A parent that is younger than its child is not
/// accepted either.
pub(crate) fn ancestry(table: &impl ProcessTable, pid: i32) -> Option<Vec<ProcessStat>> {
    (0..ATTEMPTS).find_map(|_| read_ancestry(table, pid))
}

fn read_ancestry(table: &impl ProcessTable, pid: i32) -> Option<Vec<ProcessStat>> {
    let mut child = table.stat(pid)?;
    let mut chain = Vec::new();
    // Stop at the parent id 0. The first process has it, and so does a process that entered the container from outside.
    while child.parent != 0 {
        let parent = table.stat(child.parent)?;
        let again = table.stat(child.id.pid)?;
        let is_same = again.id == child.id && again.parent == child.parent;
        if !is_same || parent.id.started > child.id.started || chain.len() >= MAX_ANCESTORS {
            return None;
        }
        chain.push(std::mem::replace(&mut child, parent));
    }
    chain.push(child);
    Some(chain)
}

/// Returns whether the process with this id and start time still runs.
pub(crate) fn lives(table: &impl ProcessTable, id: ProcessId) -> bool {
    table.stat(id.pid).is_some_and(|stat| stat.id == id)
}

#[cfg(test)]
pub(crate) mod fake {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::*;

    /// A process table that a test makes up.
    #[derive(Default)]
    pub(crate) struct FakeTable {
        pub(crate) stats: RefCell<HashMap<i32, ProcessStat>>,
        programs: HashMap<i32, PathBuf>,
        inputs: HashMap<i32, PathBuf>,
        groups: HashMap<i32, String>,
        /// The callback after each read of a process from this table.
        pub(crate) after: Option<AfterRead>,
    }

    /// A callback that changes the table after a process was read.
    pub(crate) type AfterRead = Box<dyn Fn(&FakeTable, i32)>;

    pub(crate) fn process(pid: i32, parent: i32, started: u64) -> ProcessStat {
        let id = ProcessId { pid, started };
        let name = String::new();
        ProcessStat { id, name, parent, group: pid, session: pid, terminal: 0, foreground: -1 }
    }

    impl FakeTable {
        pub(crate) fn with(mut self, stat: ProcessStat, program: &str) -> Self {
            self.programs.insert(stat.id.pid, program.into());
            self.groups.insert(stat.id.pid, "one".to_owned());
            self.stats.get_mut().insert(stat.id.pid, stat);
            self
        }

        pub(crate) fn input(mut self, pid: i32, name: &str) -> Self {
            self.inputs.insert(pid, name.into());
            self
        }

        pub(crate) fn group(mut self, pid: i32, name: &str) -> Self {
            self.groups.insert(pid, name.to_owned());
            self
        }
    }

    impl ProcessTable for FakeTable {
        fn stat(&self, pid: i32) -> Option<ProcessStat> {
            let stat = self.stats.borrow().get(&pid).cloned();
            if let Some(after) = &self.after {
                after(self, pid);
            }
            stat
        }

        fn program(&self, pid: i32) -> Option<PathBuf> {
            self.programs.get(&pid).cloned()
        }

        fn input(&self, pid: i32) -> Option<PathBuf> {
            self.inputs.get(&pid).cloned()
        }

        fn control_groups(&self, pid: i32) -> Option<String> {
            self.groups.get(&pid).cloned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{FakeTable, process};
    use super::*;

    fn pids(chain: Option<Vec<ProcessStat>>) -> Option<Vec<i32>> {
        chain.map(|chain| chain.iter().map(|stat| stat.id.pid).collect())
    }

    fn table() -> FakeTable {
        let table = FakeTable::default().with(process(1, 0, 0), "/init");
        table.with(process(10, 1, 100), "/bin/server").with(process(20, 10, 200), "/bin/sh")
    }

    #[test]
    fn the_ancestors_are_those_up_to_the_first_process() {
        assert_eq!(pids(ancestry(&table(), 20)), Some(vec![20, 10, 1]));
        assert_eq!(pids(ancestry(&table(), 30)), None);
    }

    #[test]
    fn a_reused_id_of_a_parent_does_not_become_an_ancestor() {
        // The server exits after its child was read, and its process id is reused for a process of the operator.
        let mut table = table();
        table.after = Some(Box::new(|table, pid| {
            if pid == 20 {
                let mut stats = table.stats.borrow_mut();
                stats.insert(10, process(10, 1, 900));
                stats.insert(20, process(20, 1, 200));
            }
        }));
        assert_eq!(pids(ancestry(&table, 20)), Some(vec![20, 1]));
        // The child still names the reused id as its parent, but the new process with this id is younger than the
        // child, so it cannot be the parent.
        let reused = table_with_young_parent();
        assert_eq!(pids(ancestry(&reused, 20)), None);
    }

    fn table_with_young_parent() -> FakeTable {
        let table = FakeTable::default().with(process(1, 0, 0), "/init");
        table.with(process(10, 1, 900), "/bin/bash").with(process(20, 10, 200), "/bin/sh")
    }

    #[test]
    fn a_chain_without_an_end_is_not_read_forever() {
        let table = FakeTable::default().with(process(10, 20, 5), "/a");
        assert_eq!(pids(ancestry(&table.with(process(20, 10, 5), "/b"), 10)), None);
    }

    #[test]
    fn a_process_with_a_reused_id_is_another_one() {
        let table = table();
        assert!(lives(&table, ProcessId { pid: 10, started: 100 }));
        assert!(!lives(&table, ProcessId { pid: 10, started: 99 }));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_ancestors_are_read_from_the_system() {
        let us = i32::try_from(std::process::id()).unwrap();
        let chain = ancestry(&Proc, us).unwrap();
        let parent = std::os::unix::process::parent_id();
        assert_eq!(chain[0].id.pid, us);
        assert_eq!(chain[1].id.pid.unsigned_abs(), parent);
        assert!(chain.iter().all(|one| lives(&Proc, one.id)));
    }
}
