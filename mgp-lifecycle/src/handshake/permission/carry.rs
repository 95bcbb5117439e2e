//! What a modern server is told with each request: `_meta["dev.cloto/mgp"].grants` (MGP §3.6; checklist D11).
//!
//! It is encoded once and kept until something changes, so that a call costs a look at a number.
//!
//! Applies to: outbound.

use std::borrow::Cow;
use std::time::SystemTime;

use mgp_types::mcp::key;
use mgp_types::service::{Call, Context, TenantId};
use mgp_types::{Object, Payload, RpcError, Timestamp};

use super::PermissionFlow;

/// The member of `dev.cloto/mgp` that has the grants.
const GRANTS: &str = "grants";
/// For how many tenants it is kept; beyond that all are encoded anew.
const MAX_TENANTS: usize = 64;

/// The encoded grants of one server, as they stood at a revision.
#[derive(Default)]
pub(super) struct Carried {
    revision: u64,
    /// How many names the server had used.
    names: usize,
    until: Option<SystemTime>,
    by_tenant: Vec<(TenantId, Encoded)>,
}

/// The grants as text.
#[derive(Clone)]
struct Encoded {
    /// `{"grants":{…}}`.
    member: Payload,
    /// `{…}`.
    grants: Payload,
}

impl PermissionFlow {
    /// Writes what stands into the `_meta` of a request, where the server declared permissions or asked for some.
    pub(in crate::handshake) fn stamp(&self, call: &mut Call) -> Result<(), RpcError> {
        let reads_old_key = {
            let state = self.state();
            if state.wanted.is_empty() {
                return Ok(());
            }
            state.reads_old_key
        };
        let encoded = self.encoded(call.cx())?;
        let meta = &mut call.hop_mut().meta;
        match meta.iter_mut().find(|(name, _)| name == key::MGP) {
            // Somebody said more under this name.
            Some((_, member)) => {
                let mut joined: Object = member.get()?;
                joined.insert(GRANTS, encoded.grants.clone());
                *member = Payload::of(&joined)?;
            }
            None => meta.push((Cow::Borrowed(key::MGP), encoded.member)),
        }
        if reads_old_key {
            meta.push((Cow::Borrowed(key::MGP_GRANTS), encoded.grants));
        }
        Ok(())
    }

    fn encoded(&self, cx: &Context) -> Result<Encoded, RpcError> {
        let revision = *self.0.changes.borrow();
        if let Some(kept) = self.kept(cx, revision) {
            return Ok(kept);
        }
        let told = self.told(cx);
        let grants = Payload::of(&told.grants)?;
        let member = Payload::from_trusted(format!("{{\"{GRANTS}\":{}}}", grants.as_str()));
        let encoded = Encoded { member, grants };
        let until = told.expires_at.as_ref().and_then(Timestamp::to_system_time);
        let mut state = self.state();
        let names = state.wanted.names().len();
        let carried = &mut state.carried;
        let is_stale = carried.revision != revision || carried.names != names;
        if is_stale || carried.by_tenant.len() >= MAX_TENANTS {
            *carried = Carried { revision, names, ..Carried::default() };
        }
        // The first of them to expire has all of them encoded anew.
        carried.until = [carried.until, until].into_iter().flatten().min();
        carried.by_tenant.push((cx.principal.tenant().clone(), encoded.clone()));
        Ok(encoded)
    }

    /// What is kept for a tenant, if it still holds.
    fn kept(&self, cx: &Context, revision: u64) -> Option<Encoded> {
        let mut state = self.state();
        let names = state.wanted.names().len();
        let carried = &mut state.carried;
        if carried.until.is_some_and(|until| until <= SystemTime::now()) {
            *carried = Carried::default();
        }
        if carried.revision != revision || carried.names != names {
            return None;
        }
        let tenant = cx.principal.tenant();
        let found = carried.by_tenant.iter().find(|(known, _)| known == tenant);
        found.map(|(_, encoded)| encoded.clone())
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
        BoxFuture, Grantor, Method, Params, Peer, Principal, Scope, ScopeKind, ServerId,
    };
    use tokio::sync::watch;

    use super::super::told::Wanted;
    use super::*;

    /// Grants the camera to one tenant, and counts how often it is asked what stands.
    struct Camera {
        looked: AtomicUsize,
        changes: watch::Sender<u64>,
    }

    impl Grantor for Camera {
        fn decide(
            &self,
            cx: &Context,
            server: &ServerId,
            _: Vec<Permission>,
        ) -> BoxFuture<'static, PermissionDecision> {
            Box::pin(std::future::ready(self.standing(cx, server)))
        }

        fn standing(&self, cx: &Context, _: &ServerId) -> PermissionDecision {
            self.looked.fetch_add(1, Ordering::Relaxed);
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
        let grantor = Arc::clone(camera) as Arc<dyn Grantor>;
        let flow = PermissionFlow::new("files".into(), grantor, Duration::from_secs(1));
        flow.state().wanted = Wanted::of([Permission::Camera]);
        flow
    }

    #[track_caller]
    fn check(flow: &PermissionFlow, tenant: &str, expected: &str) {
        let mut call = call(tenant);
        flow.stamp(&mut call).unwrap();
        let [(name, value)] = &*call.hop().meta else {
            panic!("one member: {:?}", call.hop().meta)
        };
        assert_eq!((&**name, value.as_str()), ("dev.cloto/mgp", expected));
    }

    #[test]
    fn it_is_encoded_once_for_each_tenant_until_something_changes() {
        let camera =
            Arc::new(Camera { looked: AtomicUsize::new(0), changes: watch::Sender::new(0) });
        let flow = flow(&camera);
        for _ in 0..3 {
            check(&flow, "a", r#"{"grants":{"camera":"approved"}}"#);
            check(&flow, "b", r#"{"grants":{"camera":"deferred"}}"#);
        }
        assert_eq!(camera.looked.load(Ordering::Relaxed), 2);
        camera.changes.send_modify(|number| *number += 1);
        check(&flow, "b", r#"{"grants":{"camera":"deferred"}}"#);
        assert_eq!(camera.looked.load(Ordering::Relaxed), 3);
        for tenant in 0..2 * MAX_TENANTS {
            check(&flow, &tenant.to_string(), r#"{"grants":{"camera":"deferred"}}"#);
        }
        assert!(flow.state().carried.by_tenant.len() <= MAX_TENANTS);
    }

    #[test]
    fn other_members_of_the_same_name_stay() {
        let camera =
            Arc::new(Camera { looked: AtomicUsize::new(0), changes: watch::Sender::new(0) });
        let mut call = call("a");
        let other = Payload::from_trusted(r#"{"delegation":{"depth":1},"grants":{}}"#);
        call.hop_mut().meta.push((Cow::Borrowed(key::MGP), other));
        flow(&camera).stamp(&mut call).unwrap();
        let meta = &call.hop().meta;
        assert_eq!(meta.len(), 1);
        let found: Object = meta[0].1.get().unwrap();
        assert_eq!(found.get("delegation").unwrap().as_str(), r#"{"depth":1}"#);
        assert_eq!(found.get("grants").unwrap().as_str(), r#"{"camera":"approved"}"#);
    }
}
