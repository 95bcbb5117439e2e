//! Entries that name a tool: its calls need no confirmation (MGP §4.4).

use mgp_types::service::{Context, ServerId};

use super::book::Access;
use super::entry::Entry;
use crate::policy::ConfirmRule;
use crate::tool::{NamedTool, NamedTools};

impl NamedTools for Access {
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<NamedTool> {
        Some(self.named(&cx.principal, server, tool, self.now())?.naming(tool))
    }
}

impl Entry {
    /// Returns what the entry decides about confirmations of the tool it names.
    pub(crate) fn naming(&self, tool: &str) -> NamedTool {
        let naming =
            NamedTool::by(format!("tool_grant of `{}` for `{tool}`", self.access.agent_id));
        match self.confirm {
            Some(ConfirmRule::Never) => naming.never_confirm(),
            None => naming,
        }
    }
}
