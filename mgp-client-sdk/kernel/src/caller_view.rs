//! The servers and tools that a caller sees: one decision for calls, lists, searches and the registry (MGP §5).

use std::time::SystemTime;

use mgp_security::{Access, Definitions, Governance, MissingStatus, Permissions};
use mgp_toolindex::{Listed, Standing, StandingOf};
use mgp_types::service::{Context, Hidden, ServerId, Visibility};
use tokio::sync::watch;

/// Shows a caller the tools it has access to, without those whose definitions wait for an operator.
#[derive(Clone, Debug)]
pub(crate) struct CallerView {
    access: Access,
    definitions: Definitions,
    permissions: Permissions,
    changes: watch::Receiver<u64>,
}

impl CallerView {
    pub(crate) fn new(governance: &Governance) -> Self {
        Self {
            access: governance.access().clone(),
            definitions: governance.definitions().clone(),
            permissions: governance.permissions().clone(),
            changes: governance.changes(),
        }
    }

    /// Returns a number that changes whenever a caller may see more or less than before.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Returns whether a caller sees what belongs to a server as a whole.
    pub(crate) fn sees_server(&self, cx: &Context, server: &ServerId) -> bool {
        self.access.sees_server(cx, server).is_ok()
    }

    /// Returns whether a caller would see a tool if its definition did not wait for an operator.
    pub(crate) fn is_held(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        !self.definitions.standing(Some(server), tool).is_callable()
            && self.access.sees(cx, Some(server), tool).is_ok()
    }
}

impl Visibility for CallerView {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self.access.sees(cx, server, tool)?;
        if self.definitions.standing(server, tool).is_callable() {
            Ok(())
        } else {
            Err(Hidden::by("its definition waits for an operator"))
        }
    }
}

impl StandingOf for CallerView {
    fn standing(&self, cx: &Context, tool: &Listed) -> Standing {
        let (server, name) = (ServerId::from(tool.server_id()), tool.name());
        let assessment = self.definitions.assessment(Some(&server), name);
        let required = assessment.permissions.as_slice();
        // Most tools require none.
        if required.is_empty() {
            return Standing::Callable;
        }
        let now = SystemTime::now();
        let mut missing =
            self.permissions.missing(&cx.principal, Some(&server), name, required, None, now);
        if missing.iter().any(|missing| missing.status == MissingStatus::Denied) {
            return Standing::Refused;
        }
        // Scopes are checked against the arguments of a call, and there are none yet.
        missing.retain(|missing| missing.status != MissingStatus::OutOfScope);
        if missing.is_empty() {
            return Standing::Callable;
        }
        let how = format!("an operator decides with `mgp permissions approve {server}`");
        let permissions = missing.into_iter().map(|missing| missing.permission).collect();
        Standing::NeedsApproval { permissions, how: Some(how) }
    }
}
