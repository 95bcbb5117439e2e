//! Decides which tools a caller can find. The same rules decide which tools the caller may call and list (MGP §16.5,
//! §5).

use std::sync::Arc;

use mgp_types::service::{Context, CredentialGrant, ServerId, Visibility};
use mgp_types::sync::Mutex;

use crate::catalog::{Allowed, AllowedKey, Extent};

/// A function whose result changes whenever the tools that any caller can see might have changed.
pub(super) type Version = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A policy that decides which tools one caller of the index can find.
pub struct Caller {
    cx: Context,
    visibility: Option<Arc<dyn Visibility>>,
    /// The id of the [`Endpoints`](crate::Endpoints), and the version of their access decisions. Both are part of the
    /// key of cached decisions; `None` if decisions are not cached.
    version: Option<(u64, u64)>,
    /// The id of the server whose tool was checked last. It is kept because tools are checked server by server, so that
    /// most checks need not create an id.
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
        let mut last = self.last.lock();
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

    fn cache_key(&self) -> Option<AllowedKey> {
        let principal = &self.cx.principal;
        // Quote the names, so that two different lists of names never form the same key.
        let agent = principal.as_agent().map(|agent| format!("{:?}", agent.as_str()));
        let authority = principal.authority();
        let (tenant, subject) = (principal.tenant().as_str(), principal.subject().as_str());
        let permissions =
            self.cx.extensions.get::<CredentialGrant>().map(CredentialGrant::permissions);
        let (decisions_id, version) = self.version?;
        let key = format!(
            "{decisions_id}/{tenant:?}/{subject:?}/{agent:?}/{authority:?}/{permissions:?}"
        );
        Some(AllowedKey::new(key, version))
    }

    fn extent(&self) -> Extent {
        if self.visibility.is_some() { Extent::Some } else { Extent::All }
    }
}

mgp_types::opaque_debug!(Caller);
