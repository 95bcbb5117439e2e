//! Entries that affect confirmations: entries that name a tool, and entries that exempt the calls of a whole server
//! (MGP §4.4).

use mgp_types::service::{Context, ServerId};

use super::book::Access;
use super::entry::Entry;
use super::rules::Moment;
use crate::policy::ConfirmRule;
use crate::tool::{NamedTool, NamedTools};

impl NamedTools for Access {
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<NamedTool> {
        let now = || self.now();
        self.view(&cx.principal).naming(server, tool, &Moment::of(&now))
    }
}

impl Entry {
    /// Returns what this entry requires about confirming calls of `tool`.
    pub(crate) fn naming(&self, tool: &str) -> NamedTool {
        let (kind, agent) = (self.access.entry_type.as_str(), &self.access.agent_id);
        let naming = NamedTool::by(format!("{kind} of `{agent}` for `{tool}`"));
        match self.confirm {
            Some(ConfirmRule::Never) => naming.never_confirm(),
            None | Some(ConfirmRule::Usual) => naming,
        }
    }
}
