//! Approvals that name a tool, so that its calls need no confirmation (MGP §4.4).

use mgp_types::service::{Context, ServerId};

use super::entry::Approval;
use super::permissions::Permissions;
use crate::policy::ConfirmRule;
use crate::tool::{NamedTool, NamedTools};

impl NamedTools for Permissions {
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<NamedTool> {
        let approval = self.names_tool(&cx.principal, server, tool, self.inner.entries.now())?;
        Some(approval.naming())
    }
}

impl Approval {
    /// Returns this approval as an entry that names tools, with its rule for confirming their calls.
    pub(crate) fn naming(&self) -> NamedTool {
        let naming =
            NamedTool::by(format!("permission `{}` by {}", self.permission, self.approved_by));
        match self.confirm {
            Some(ConfirmRule::Never) => naming.never_confirm(),
            None | Some(ConfirmRule::Usual) => naming,
        }
    }
}
