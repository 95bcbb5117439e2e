//! Tests of operator mistakes and broken stores: they must never permit an additional call, and no call may run without
//! a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_security::{Access, ElicitApprover, Governance, Policies, ServerPolicy};
use mgp_testkit::{FaultyStore, StoreAnswer};
use mgp_types::mgp::{AccessGrantParams, AccessPermission, AuditEvent, DefaultPolicy, EntryType};
use mgp_types::service::{
    AuditError, AuditFuture, AuditSink, CallRecord, MemoryAudit, Stack, Ticket,
};
use mgp_types::store::{Store, StoreError};
use serde_json::json;

use super::raw::{self, code};
use super::world::{World, ann, mallory};

fn everyone() -> Policies {
    let mut policy = ServerPolicy::default();
    policy.default_policy = DefaultPolicy::OptOut;
    Policies::with_default(policy)
}

fn entry(permission: AccessPermission) -> AccessGrantParams {
    AccessGrantParams::new(EntryType::ServerGrant, "mallory", "disk", permission)
}

/// Returns whether a list shows any tool, and the error code of a call of the safe tool; 0 if the call ran.
async fn look(stack: &Stack) -> (bool, i64) {
    let mut agent = raw::modern(stack, mallory());
    let list = agent.ask("tools/list", json!({})).await;
    let shown = list["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    (shown, code(&agent.ask("tools/call", json!({"name": "look"})).await))
}

/// Returns the answer of a failing store. Only the operator may read the reason in it.
fn failed<T: Send + 'static>() -> StoreAnswer<T> {
    let reason = std::io::Error::other("no such file: /secret/path/of/the/operator");
    Box::pin(std::future::ready(Err(StoreError::failed(reason))))
}

#[tokio::test]
async fn a_broken_store_grants_and_shows_nothing() {
    for policies in [everyone(), Policies::default()] {
        let store =
            FaultyStore::default()
                .on_read(|store, _, read| if store.is_failing() { failed() } else { read })
                .on_commit(|store, change| {
                    if store.is_failing() { failed() } else { store.inner().commit(change) }
                });
        let governance =
            Governance::builder().store(Arc::new(store.clone())).policies(policies.clone()).build();
        let world = World { governance, ..World::new() };
        world.grant("mallory").await;
        let stack: Stack = world.disk().into_stack().unwrap();
        assert_eq!(look(&stack).await, (true, 0));
        store.set_failing(true);
        let access = world.governance.access();
        let error = access.grant(&ann(), entry(AccessPermission::Deny)).await.unwrap_err();
        assert!(!error.message().contains("/secret/"), "{error}");
        // Another process revokes access meanwhile; unreadable entries must not grant access.
        let working = Arc::new(store.inner().clone());
        let other = Access::new(working, Arc::new(MemoryAudit::new()), policies);
        other.open().await.unwrap();
        other.grant(&ann(), entry(AccessPermission::Deny)).await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(look(&stack).await, (false, 1001));
        store.set_failing(false);
        tokio::time::sleep(std::time::Duration::from_millis(1300)).await;
        assert_eq!(look(&stack).await, (false, 1001), "it is denied now");
        access.grant(&ann(), entry(AccessPermission::Allow)).await.unwrap();
        assert_eq!(look(&stack).await, (true, 0));
    }
}

/// An audit log that can be set to full.
struct Stopping {
    inner: MemoryAudit,
    full: Arc<AtomicBool>,
}

impl AuditSink for Stopping {
    fn begin(&self, start: CallRecord) -> AuditFuture<Ticket> {
        if self.full.load(Ordering::SeqCst) {
            return AuditFuture::Ready(Err(AuditError::Full));
        }
        self.inner.begin(start)
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        if self.full.load(Ordering::SeqCst) {
            return AuditFuture::Ready(Err(AuditError::Full));
        }
        self.inner.record(event)
    }
}

#[tokio::test]
async fn with_a_full_log_nothing_runs_and_nothing_changes() {
    for modern in [false, true] {
        let full = Arc::new(AtomicBool::new(false));
        let log = MemoryAudit::new();
        let sink = Stopping { inner: log.clone(), full: Arc::clone(&full) };
        let governance = Governance::builder()
            .audit(Arc::new(sink))
            .approver(ElicitApprover::everyone())
            .build();
        let world = World { governance, log, ..World::new() };
        world.grant("mallory").await;
        let stack: Stack = world.disk().into_stack().unwrap();
        let mut agent = if modern {
            raw::modern(&stack, mallory())
        } else {
            raw::legacy(&stack, mallory(), "2025-11-25").await
        };
        // The log becomes full while a person confirms the call.
        let call = agent.send("tools/call", json!({"name": "wipe"})).await;
        if modern {
            let (key, state) = raw::question(&agent.response(call).await);
            full.store(true, Ordering::SeqCst);
            let params = json!({
                "name": "wipe", "inputResponses": {(key): raw::accept_answer()}, "requestState": state,
            });
            assert_eq!(code(&agent.ask("tools/call", params).await), 3001);
        } else {
            let asked = agent.asked("elicitation/create").await;
            full.store(true, Ordering::SeqCst);
            agent.answer(&asked, raw::accept_answer()).await;
            assert_eq!(code(&agent.response(call).await), 3001);
        }
        assert_eq!(code(&agent.ask("tools/call", json!({"name": "look"})).await), 3001);
        assert_eq!(world.ran(), 0);
        let access = world.governance.access();
        assert!(access.grant(&ann(), entry(AccessPermission::Deny)).await.is_err());
        full.store(false, Ordering::SeqCst);
        assert_eq!(code(&agent.ask("tools/call", json!({"name": "look"})).await), 0);
        assert_eq!(world.ran(), 1);
    }
}
