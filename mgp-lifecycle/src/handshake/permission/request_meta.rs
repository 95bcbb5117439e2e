//! Adds the current grants to each request to a modern server: as `_meta["dev.cloto/mgp"].grants` (MGP §3.6), and also
//! under `dev.cloto/mgp/grants`, where servers of later revisions read them. To those servers, a permission that is
//! missing there is not granted.
//!
//! The encoded grants are cached until permissions change, so that most calls only compare revision numbers.

use std::borrow::Cow;
use std::time::SystemTime;

use mgp_types::mcp::key;
use mgp_types::service::{Call, Context, TenantId};
use mgp_types::{Object, Payload, RpcError, Timestamp};

use super::PermissionFlow;

const GRANTS: &str = "grants";
/// Maximum number of tenants in the cache; when it is reached, the cache is emptied.
const MAX_TENANTS: usize = 64;

/// The encoded grants of one server at one revision of the permissions, by tenant.
#[derive(Default)]
pub(super) struct GrantCache {
    revision: u64,
    /// The number of permission names that the server had used when the grants were encoded.
    names: usize,
    until: Option<SystemTime>,
    by_tenant: Vec<(TenantId, Encoded)>,
}

#[derive(Clone)]
struct Encoded {
    /// The grants as an object with one member: `{"grants":{…}}`.
    member: Payload,
    /// The grants themselves: `{…}`.
    grants: Payload,
}

impl PermissionFlow {
    /// Adds the grants to the `_meta` of a request, if the server declared or requested permissions.
    pub(in crate::handshake) fn add_grants(&self, call: &mut Call) -> Result<(), RpcError> {
        if self.0.state.lock().requested.is_empty() {
            return Ok(());
        }
        let encoded = self.encoded(call.cx())?;
        let meta = &mut call.hop_mut().meta;
        match meta.iter_mut().find(|(name, _)| name == key::MGP) {
            // Another layer has already added this member, so the grants are inserted into it.
            Some((_, member)) => {
                let mut joined: Object = member.get()?;
                joined.insert(GRANTS, encoded.grants.clone());
                *member = Payload::of(&joined)?;
            }
            None => meta.push((Cow::Borrowed(key::MGP), encoded.member)),
        }
        meta.push((Cow::Borrowed(key::MGP_GRANTS), encoded.grants));
        Ok(())
    }

    fn encoded(&self, cx: &Context) -> Result<Encoded, RpcError> {
        let revision = *self.0.changes.borrow();
        if let Some(cached) = self.cached(cx, revision) {
            return Ok(cached);
        }
        let notice = self.current_notice(cx);
        let grants = Payload::of(&notice.grants)?;
        let member = Payload::from_trusted(format!("{{\"{GRANTS}\":{}}}", grants.as_str()));
        let encoded = Encoded { member, grants };
        let until = notice.expires_at.as_ref().and_then(Timestamp::to_system_time);
        let mut state = self.0.state.lock();
        let names = state.requested.names().len();
        let cache = &mut state.grant_cache;
        let is_stale = cache.revision != revision || cache.names != names;
        if is_stale || cache.by_tenant.len() >= MAX_TENANTS {
            *cache = GrantCache { revision, names, ..GrantCache::default() };
        }
        // The whole cache expires when the first of its entries does.
        cache.until = [cache.until, until].into_iter().flatten().min();
        cache.by_tenant.push((cx.principal.tenant().clone(), encoded.clone()));
        Ok(encoded)
    }

    /// Returns the cached grants of a tenant, if they are current.
    fn cached(&self, cx: &Context, revision: u64) -> Option<Encoded> {
        let mut state = self.0.state.lock();
        let names = state.requested.names().len();
        let cache = &mut state.grant_cache;
        if cache.until.is_some_and(|until| until <= SystemTime::now()) {
            *cache = GrantCache::default();
        }
        if cache.revision != revision || cache.names != names {
            return None;
        }
        let tenant = cx.principal.tenant();
        let entry = cache.by_tenant.iter().find(|(known, _)| known == tenant);
        entry.map(|(_, encoded)| encoded.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use mgp_types::mgp::{GrantDecision, Permission, PermissionDecision};
    use mgp_types::service::{
        Method, Params, Peer, PermissionAuthority, Principal, Scope, ScopeKind, ServerId,
    };
    use tokio::sync::watch;

    use super::super::notice::RequestedPermissions;
    use super::*;

    /// Test authority: grants the permission for the camera to one tenant, and counts how often its grants are read.
    struct Camera {
        reads: AtomicUsize,
        changes: watch::Sender<u64>,
    }

    #[async_trait::async_trait]
    impl PermissionAuthority for Camera {
        async fn decide(
            &self,
            cx: &Context,
            server: &ServerId,
            _: Vec<Permission>,
        ) -> PermissionDecision {
            self.standing(cx, server, &[])
        }

        fn standing(&self, cx: &Context, _: &ServerId, _: &[Permission]) -> PermissionDecision {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let mut grants = BTreeMap::new();
            if cx.principal.tenant().as_str() == "a" {
                grants.insert(Permission::Camera, GrantDecision::Approved.into());
            }
            PermissionDecision::new("", grants)
        }

        fn changes(&self) -> watch::Receiver<u64> {
            self.changes.subscribe()
        }
    }

    fn call(tenant: &str) -> Call {
        let principal = Principal::new(tenant, "ada");
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), principal);
        Call::request(Method::of("tools/call"), Params::none(), cx)
    }

    fn flow(camera: &Arc<Camera>) -> PermissionFlow {
        let grantor = Arc::clone(camera) as Arc<dyn PermissionAuthority>;
        let flow = PermissionFlow::new("files".into(), grantor, Duration::from_secs(1));
        flow.0.state.lock().requested = RequestedPermissions::of([Permission::Camera]);
        flow
    }

    #[track_caller]
    fn check(flow: &PermissionFlow, tenant: &str, expected: &str) {
        let mut call = call(tenant);
        flow.add_grants(&mut call).unwrap();
        let [(name, value), (later, grants)] = &*call.hop().meta else {
            panic!("two members: {:?}", call.hop().meta)
        };
        assert_eq!((&**name, value.as_str()), ("dev.cloto/mgp", expected));
        assert_eq!(&**later, "dev.cloto/mgp/grants");
        assert_eq!(format!(r#"{{"grants":{}}}"#, grants.as_str()), expected);
    }

    #[test]
    fn grants_are_encoded_once_per_tenant_until_something_changes() {
        let camera =
            Arc::new(Camera { reads: AtomicUsize::new(0), changes: watch::Sender::new(0) });
        let flow = flow(&camera);
        for _ in 0..3 {
            check(&flow, "a", r#"{"grants":{"camera":"approved"}}"#);
            check(&flow, "b", r#"{"grants":{"camera":"deferred"}}"#);
        }
        assert_eq!(camera.reads.load(Ordering::Relaxed), 2);
        camera.changes.send_modify(|number| *number += 1);
        check(&flow, "b", r#"{"grants":{"camera":"deferred"}}"#);
        assert_eq!(camera.reads.load(Ordering::Relaxed), 3);
        for tenant in 0..2 * MAX_TENANTS {
            check(&flow, &tenant.to_string(), r#"{"grants":{"camera":"deferred"}}"#);
        }
        assert!(flow.0.state.lock().grant_cache.by_tenant.len() <= MAX_TENANTS);
    }

    #[test]
    fn other_members_with_the_same_name_are_kept() {
        let camera =
            Arc::new(Camera { reads: AtomicUsize::new(0), changes: watch::Sender::new(0) });
        let mut call = call("a");
        let other = Payload::from_trusted(r#"{"delegation":{"depth":1},"grants":{}}"#);
        call.hop_mut().meta.push((Cow::Borrowed(key::MGP), other));
        flow(&camera).add_grants(&mut call).unwrap();
        let meta = &call.hop().meta;
        assert_eq!(meta.len(), 2);
        let found: Object = meta[0].1.get().unwrap();
        assert_eq!(found.get("delegation").unwrap().as_str(), r#"{"depth":1}"#);
        assert_eq!(found.get("grants").unwrap().as_str(), r#"{"camera":"approved"}"#);
    }
}
