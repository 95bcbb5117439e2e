//! What a caller sees: one decision for calls, lists, searches and the registry (MGP §5; DESIGN §5).
//!
//! Applies to: inbound.

use std::time::SystemTime;

use mgp_security::{Access, Definitions, Governance, MissingStatus, Permissions};
use mgp_toolindex::{Listed, Standing, StandingOf};
use mgp_types::service::{Context, Hidden, ServerId, Visibility};
use tokio::sync::watch;

/// Shows a caller the tools it has access to, without those that wait for an operator.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    access: Access,
    definitions: Definitions,
    permissions: Permissions,
    changes: watch::Receiver<u64>,
}

impl Seen {
    pub(crate) fn new(governance: &Governance) -> Self {
        Self {
            access: governance.access().clone(),
            definitions: governance.definitions().clone(),
            permissions: governance.permissions().clone(),
            changes: governance.changes(),
        }
    }

    /// A number that moves whenever somebody may see more or less than before.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }
}

impl Seen {
    /// Whether a caller sees what belongs to a server as a whole.
    pub(crate) fn sees_server(&self, cx: &Context, server: &ServerId) -> bool {
        self.access.sees_server(cx, server).is_ok()
    }

    /// Whether a caller would see a tool, did its definition not wait for an operator.
    pub(crate) fn is_held(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        !self.definitions.standing(Some(server), tool).is_callable()
            && self.access.sees(cx, Some(server), tool).is_ok()
    }
}

impl Visibility for Seen {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self.access.sees(cx, server, tool)?;
        if self.definitions.standing(server, tool).is_callable() {
            Ok(())
        } else {
            Err(Hidden::by("its definition waits for an operator"))
        }
    }
}

impl StandingOf for Seen {
    fn standing(&self, cx: &Context, tool: &Listed) -> Standing {
        let (server, name) = (ServerId::from(tool.server_id()), tool.name());
        let assessment = self.definitions.assessment(Some(&server), name);
        let needed = assessment.permissions.as_slice();
        // Most tools need nothing.
        if needed.is_empty() {
            return Standing::Callable;
        }
        let at = SystemTime::now();
        let mut missing =
            self.permissions.missing(&cx.principal, Some(&server), name, needed, None, at);
        if missing.iter().any(|missing| missing.status == MissingStatus::Denied) {
            return Standing::Refused;
        }
        // What a call is about is known with its arguments only.
        missing.retain(|missing| missing.status != MissingStatus::OutOfScope);
        if missing.is_empty() {
            return Standing::Callable;
        }
        let how = format!("an operator decides with `mgp permissions approve {server}`");
        let permissions = missing.into_iter().map(|missing| missing.permission).collect();
        Standing::NeedsApproval { permissions, how: Some(how) }
    }
}
