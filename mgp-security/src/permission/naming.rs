//! Which tools an operator's approvals name: their calls need no confirmation (MGP §4.4).
//!
//! Applies to: both.

use std::time::SystemTime;

use mgp_types::service::{Context, ServerId};

use super::permissions::Permissions;
use crate::policy::ConfirmRule;
use crate::tool::{Named, Naming};

impl Named for Permissions {
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<Naming> {
        let approval = self.names_tool(&cx.principal, server, tool, SystemTime::now())?;
        let words = format!("permission `{}` by {}", approval.permission, approval.approved_by);
        let naming = Naming::by(words);
        Some(match approval.confirm {
            Some(ConfirmRule::Never) => naming.never_confirm(),
            None => naming,
        })
    }
}
