//! What a caller may find: the decision that guards its calls and lists (MGP §16.5, §5).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mgp_types::service::{Authority, Context, ServerId, Visibility};

use crate::catalog::{Allowed, AllowedKey, Extent};

/// A number that changes whenever a caller may be allowed more or less than before.
pub(super) type Version = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A caller as the index sees it.
pub struct Caller {
    cx: Context,
    visibility: Option<Arc<dyn Visibility>>,
    /// Whose decisions they are, and the number that changes with them; none where each is made anew.
    version: Option<(u64, u64)>,
    /// The server asked about last: tools come server by server, and each question needs its id shared.
    last: Mutex<Option<ServerId>>,
}

impl Caller {
    pub(super) fn new(
        cx: &Context,
        visibility: Option<&Arc<dyn Visibility>>,
        version: Option<(u64, u64)>,
    ) -> Self {
        Self { cx: cx.clone(), visibility: visibility.cloned(), version, last: Mutex::default() }
    }

    pub(super) fn cx(&self) -> &Context {
        &self.cx
    }

    fn server(&self, id: &str) -> ServerId {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(known) if known.as_str() == id => known.clone(),
            _ => last.insert(id.into()).clone(),
        }
    }
}

impl Allowed for Caller {
    fn allows(&self, server: &str, tool: &str) -> bool {
        let Some(visibility) = &self.visibility else { return true };
        visibility.sees(&self.cx, Some(&self.server(server)), tool).is_ok()
    }

    fn standing(&self) -> Option<AllowedKey> {
        let principal = &self.cx.principal;
        // Quoted, so that no name can pass for two.
        let agent = principal.as_agent().map(|agent| format!("{:?}", agent.as_str()));
        let operator = principal.authority() == Authority::Operator;
        let (tenant, subject) = (principal.tenant().as_str(), principal.subject().as_str());
        let (whose, version) = self.version?;
        let who = format!("{whose}/{tenant:?}/{subject:?}/{agent:?}/{operator}");
        Some(AllowedKey::new(who, version))
    }

    fn extent(&self) -> Extent {
        if self.visibility.is_some() { Extent::Some } else { Extent::All }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.cx.principal).finish()
    }
}
