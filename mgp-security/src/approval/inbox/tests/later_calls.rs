//! Approvals of later calls: equal calls that wait at the same time, and revocations while the store fails.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::service::BoxFuture;
use mgp_types::store::{Change, LoadedRecords, PendingEvent, Store, StoreError};
use tokio::sync::watch;

use super::*;

fn for_an_hour() -> ApprovalTerm {
    ApprovalTerm::Tool { until: (SystemTime::now() + Duration::from_hours(1)).into() }
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_later_calls_also_answers_an_equal_call_that_waits() {
    let world = World::open().await;
    let ask = || {
        let (inbox, cx) = (world.inbox.clone(), world.cx.clone());
        tokio::spawn(async move { inbox.decide(&cx, wipe(&agent("eve"), "all")).await.unwrap() })
    };
    let asked = [ask(), ask()];
    tokio::time::sleep(Duration::from_secs(1)).await;
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert_eq!(listed.len(), 1, "equal calls share a request");
    world.inbox.approve_for(&ann(), &listed[0].id, &for_an_hour(), None).await.unwrap();
    for asked in asked {
        assert_eq!(asked.await.unwrap().answer, GrantDecision::Approved);
    }
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert!(listed.iter().all(|request| request.state != RequestState::Open), "{listed:?}");
}

/// A store whose changes of requests fail while it is broken.
#[derive(Default)]
struct Brittle {
    inner: MemoryStore,
    is_broken: AtomicBool,
}

impl Store for Brittle {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.load(space)
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.changes(space, since)
    }

    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        let is_of_requests = change.writes_to("approvals").next().is_some();
        if is_of_requests && self.is_broken.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(StoreError::Busy("it is broken"))));
        }
        self.inner.commit(change)
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.inner.revision()
    }

    fn pending_events(
        &self,
        log: &str,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        self.inner.pending_events(log, most)
    }

    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        self.inner.acknowledge(log, through)
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_that_failed_half_way_can_be_repeated() {
    let store = Arc::new(Brittle::default());
    let inbox = Inbox::new(store.clone(), Arc::new(MemoryAudit::new()));
    inbox.open().await.unwrap();
    let cx = mock::client(Stack::new(Router::new())).cx;
    let question = wipe(&agent("eve"), "all");
    let waits = id(&inbox.decide(&cx, question.clone()).await.unwrap());
    inbox.approve_for(&ann(), &waits, &for_an_hour(), None).await.unwrap();
    let kept = inbox.calls().list(&ann(), None).await.unwrap();
    let names = [Permission::from(kept[0].id.as_str())];

    store.is_broken.store(true, Ordering::Relaxed);
    inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap_err();
    store.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap(), kept);
    assert!(inbox.calls().list(&ann(), None).await.unwrap().is_empty());
    assert_eq!(inbox.decide(&cx, question).await.unwrap().answer, GrantDecision::Deferred);
}
