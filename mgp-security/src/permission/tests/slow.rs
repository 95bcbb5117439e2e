//! Tests with a slow store: a change that was passed to it is completed even if its caller stops waiting.

use mgp_testkit::FaultyStore;
use mgp_types::service::PermissionAuthority as _;
use mgp_types::store::Store as _;

use super::*;

/// Creates a store that needs some time for a change, like a file. The change runs in a separate task, so it is made
/// even if the caller stops waiting.
fn slow(store: &MemoryStore, takes: Duration) -> FaultyStore {
    FaultyStore::new(store.clone()).on_commit(move |store, change| {
        let store = store.inner().clone();
        let kept = tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            store.commit(change).await
        });
        Box::pin(async move { kept.await.unwrap() })
    })
}

async fn runs_once(policy: ApprovalPolicy, approver: Option<Arc<dyn Approver>>, takes: u64) {
    let (store, audit) = (MemoryStore::new(), MemoryAudit::new());
    let slow = slow(&store, Duration::from_secs(takes));
    let permissions = Permissions::new(
        Arc::new(slow.with_answer_timeout(Duration::from_mins(5))),
        Arc::new(audit.clone()),
        Policies::with_default(governed(policy)),
        approver,
    );
    permissions.open().await.unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut client = mock::client(stack(&permissions, &ran));
    client.request("tools/call", r#"{"name":"camera"}"#).await.unwrap();
    client.request("tools/call", r#"{"name":"camera"}"#).await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    let types: Vec<_> = audit.events().iter().map(|event| event.event_type.to_string()).collect();
    assert_eq!(types, ["PERMISSION_GRANTED"], "it was told once that it is granted");
    assert_eq!(store.load("permissions").await.unwrap().records.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn auto_approve_writes_its_approval_although_nobody_can_be_asked() {
    runs_once(ApprovalPolicy::AutoApprove, None, 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_is_kept_however_long_that_takes() {
    let clerk = Clerk::new(GrantDecision::Approved);
    runs_once(ApprovalPolicy::Interactive, Some(Arc::new(Desk(clerk))), 60).await;
}

/// A caller waits for the store no longer than the store's `answer_timeout`. The change that the caller passed to the
/// store is not lost.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_late_refuses_and_what_it_was_given_still_counts() {
    let (store, audit) = (MemoryStore::new(), MemoryAudit::new());
    let slow = slow(&store, Duration::from_secs(3));
    let policies = Policies::with_default(governed(ApprovalPolicy::AutoApprove));
    let permissions = Permissions::new(Arc::new(slow), Arc::new(audit.clone()), policies, None);
    permissions.open().await.unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut client = mock::client(stack(&permissions, &ran));
    let start = tokio::time::Instant::now();
    let late = client.request("tools/call", r#"{"name":"camera"}"#).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(late.message().contains("is not known"), "{late}");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    tokio::time::sleep(Duration::from_secs(9)).await;
    client.request("tools/call", r#"{"name":"camera"}"#).await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let told: Vec<_> = audit.events().iter().map(|event| event.event_type.to_string()).collect();
    assert_eq!(told, ["PERMISSION_GRANTED"], "told once, and not forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_comes_after_the_connection_went_on_still_comes() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let (permissions, cx) = (world.permissions.clone(), world.client.cx.clone());
    let deciding =
        async move { permissions.decide(&cx, &server(), vec![Permission::Camera]).await };
    let mut deciding = tokio::spawn(deciding);
    // A client that opens a connection waits at most a minute for the decision.
    let early = tokio::time::timeout(Duration::from_mins(1), &mut deciding).await;
    assert!(early.is_err(), "{early:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    clerk.gate.add_permits(1);
    let decision = deciding.await.unwrap();
    assert_eq!(decision.grants[&Permission::Camera].decision(), GrantDecision::Approved);
}

/// An approver whose time limit can change.
struct Patient {
    desk: Desk,
    limit: Arc<Mutex<Duration>>,
}

#[async_trait]
impl Approver for Patient {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        self.desk.decide(cx, question).await
    }

    fn timeout(&self) -> Duration {
        *self.limit.lock()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_as_long_as_its_approver_may_take_now() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let limit = Arc::new(Mutex::new(Duration::from_secs(30)));
    let patient = Patient { desk: Desk(Arc::clone(&clerk)), limit: Arc::clone(&limit) };
    let permissions = Permissions::new(
        Arc::new(MemoryStore::new()),
        Arc::new(MemoryAudit::new()),
        Policies::with_default(governed(ApprovalPolicy::Interactive)),
        Some(Arc::new(patient)),
    );
    permissions.open().await.unwrap();
    *limit.lock() = Duration::from_hours(1);
    let ran = Arc::new(AtomicUsize::new(0));
    let mut client = mock::client(stack(&permissions, &ran));
    let waiting = tokio::spawn(client.call("tools/call", r#"{"name":"camera"}"#));
    tokio::time::sleep(Duration::from_mins(40)).await;
    clerk.gate.add_permits(1);
    waiting.await.unwrap().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}
