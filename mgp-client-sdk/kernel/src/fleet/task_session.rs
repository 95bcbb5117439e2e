//! Chooses the session for calls of tools that a server of both eras runs only as tasks.

use mgp_types::service::Context;

use super::era_choice::{SessionNeeds, SessionUse};
use super::managed_server::ManagedServer;

impl ManagedServer {
    /// Returns whether the calls of this caller go to the legacy session of a server of both eras.
    pub(crate) fn uses_legacy_session(&self, cx: &Context) -> bool {
        let session_use = SessionUse::Call;
        session_use.needs_legacy(cx)
            && self.lists().eras().needs(session_use) == SessionNeeds::OnePerEra
    }

    pub(crate) fn has_required_task(&self, tool: &str) -> bool {
        self.lists().eras().task_tools.contains(tool)
    }

    /// Records that the server has refused to run a tool without a task.
    pub(crate) fn note_required_task(&self, tool: &str) {
        self.lists().eras().task_tools.add(tool);
    }
}
