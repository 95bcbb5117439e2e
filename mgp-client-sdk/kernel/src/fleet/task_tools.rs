//! Tools that servers of both eras run only as tasks.
//!
//! Such a server has tasks in the modern era only, and refuses calls of these tools in its legacy session. In the
//! modern era, tools do not declare that they require a task, so the kernel remembers the first refusal.

use std::collections::BTreeSet;

use mgp_types::sync::Mutex;

/// The maximum number of remembered tools of a server.
const MAX_TOOLS: usize = 1_000;

/// A mark in the extensions of a call that runs as a task in the server's main session. It keeps the call out of the
/// legacy session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InMainSession;

/// The names of the tools that a server has refused to run without a task.
#[derive(Default)]
pub(super) struct TaskTools(Mutex<BTreeSet<String>>);

impl TaskTools {
    pub(super) fn contains(&self, tool: &str) -> bool {
        self.0.lock().contains(tool)
    }

    pub(super) fn add(&self, tool: &str) {
        let mut tools = self.0.lock();
        if tools.len() >= MAX_TOOLS {
            tools.clear();
        }
        tools.insert(tool.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_renames_its_tools_does_not_fill_the_memory() {
        let tools = TaskTools::default();
        for number in 0..=MAX_TOOLS {
            tools.add(&number.to_string());
        }
        assert_eq!(tools.0.lock().len(), 1);
    }
}
