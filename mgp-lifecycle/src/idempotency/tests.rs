//! Tests of calls with idempotency keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mgp_types::mcp::Revision;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{SessionState, Suggestion};
use mgp_types::service::{
    BoxFuture, Call, CallerRequest, ConsumerGone, Outlet, OutletItem, PeerInfo, Principal, Reply,
    Sink, Stack, StreamLimit, connection_lost, mock,
};
use mgp_types::store::{Change, MemoryStore, Store as _};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError, Sealer};
use tower_layer::Layer as _;

use super::stored::SPACE;
use super::{Idempotency, IdempotencyLayer, IdempotencyLimits};
use crate::{ProposalLayer, RoundsLayer};

type Answer = Result<Reply, RpcError>;

/// A server that counts the calls it runs.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn client(
        &self,
        layer: &IdempotencyLayer,
        run: impl Fn() -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> mock::Client {
        let runs = Arc::clone(&self.0);
        let tool = Stack::from_fn(move |_: Call| {
            runs.fetch_add(1, Ordering::Relaxed);
            run()
        });
        let mut client = mock::client(Stack::new(ProposalLayer::new().layer(layer.layer(tool))));
        let mut caller = PeerInfo::default();
        caller.mgp = Some(ExtensionSet::PROPOSALS);
        client.cx.caller = caller.into();
        client
    }

    /// Returns a modern client of a tool that asks its caller first; only the runs after the answer are counted.
    fn asking_client(
        &self,
        layer: &IdempotencyLayer,
        run: impl Fn() -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> mock::Client {
        let (runs, run) = (Arc::clone(&self.0), Arc::new(run));
        let tool = Stack::from_fn(move |call: Call| {
            let (runs, run) = (Arc::clone(&runs), Arc::clone(&run));
            async move {
                let question = CallerRequest::new("elicitation/create", Payload::empty_object());
                call.cx().ask("sure", question).await?;
                runs.fetch_add(1, Ordering::Relaxed);
                run().await
            }
        });
        let rounds = RoundsLayer::new(Sealer::random().unwrap()).layer(layer.layer(tool));
        let mut client = mock::client(Stack::new(ProposalLayer::new().layer(rounds)));
        let mut caller = PeerInfo::new(Revision::MODERN);
        caller.mgp = Some(ExtensionSet::PROPOSALS);
        caller.accepts.elicitation = true;
        client.cx.caller = caller.into();
        client
    }
}

/// Runs the first round of a call with the key `k`; returns the parameters of the second round.
async fn second_round(client: &mut mock::Client) -> String {
    let asked = client.call("tools/call", &params("k", "pay", "{}")).await.unwrap();
    let Reply::InputRequired(asked) = asked else { panic!("it must ask") };
    let state = asked.state.unwrap();
    format!(
        r#"{{"name":"pay","arguments":{{}},"_meta":{{"idempotency_key":"k"}},
            "inputResponses":{{"sure":{{}}}},"requestState":"{state}"}}"#
    )
}

fn ok() -> BoxFuture<'static, Answer> {
    Box::pin(async { Ok(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#))) })
}

fn fail(error: RpcError) -> impl Fn() -> BoxFuture<'static, Answer> {
    move || Box::pin(std::future::ready(Err(error.clone())))
}

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(Idempotency::in_memory())
}

async fn limited(limits: IdempotencyLimits) -> IdempotencyLayer {
    let store = Arc::new(MemoryStore::new());
    IdempotencyLayer::new(Idempotency::with_limits(store, limits).await.unwrap())
}

fn params(key: &str, tool: &str, arguments: &str) -> String {
    format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{{"idempotency_key":"{key}"}}}}"#)
}

async fn call(client: &mut mock::Client, key: &str) -> Result<Payload, RpcError> {
    client.request("tools/call", &params(key, "pay", r#"{"a":1,"b":2}"#)).await
}

fn was_replay(result: &Payload) -> bool {
    let meta: Object = result.get::<Object>().unwrap().decode("_meta").unwrap().unwrap();
    assert!(meta.get("original_timestamp").is_some() && meta.get("idempotency_key").is_some());
    meta.decode("was_replay").unwrap().unwrap()
}

#[tokio::test]
async fn a_key_runs_once_and_its_repetitions_are_replays() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), ok);
    assert!(!was_replay(&call(&mut client, "k").await.unwrap()));
    // The same arguments in a different order make the same call.
    let again = params("k", "pay", r#"{ "b":2, "a":1 }"#);
    assert!(was_replay(&client.request("tools/call", &again).await.unwrap()));
    assert_eq!(runs.count(), 1);
    call(&mut client, "other").await.unwrap();
    client.request("tools/call", r#"{"name":"pay"}"#).await.unwrap();
    client.request("tools/call", r#"{"name":"pay"}"#).await.unwrap();
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn a_tool_that_could_not_ask_its_caller_has_run() {
    let runs = Runs::default();
    let count = Arc::clone(&runs.0);
    let tool = Stack::from_fn(move |call: Call| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let question = CallerRequest::new("elicitation/create", Payload::empty_object());
            call.cx().ask("sure", question).await.map(Reply::raw)
        }
    });
    let mut client = mock::client(Stack::new(ProposalLayer::new().layer(layer().layer(tool))));
    let mut caller = PeerInfo::new(Revision::LATEST_LEGACY);
    caller.mgp = Some(ExtensionSet::PROPOSALS);
    client.cx.caller = caller.into();
    for _ in 0..2 {
        let error = call(&mut client, "k").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    }
    assert_eq!(runs.count(), 1);
}

/// A sink (receiver of partial results) that refuses all items.
struct Refusing;

impl Sink for Refusing {
    fn send(&self, _: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        Box::pin(std::future::ready(Err(ConsumerGone)))
    }
}

/// Returns a client of a tool that sends a chunk after a while; the chunk is refused.
fn refusing_client() -> mock::Client {
    let tool = Stack::from_fn(|call: Call| async move {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        call.cx().outlet.text("half").await?;
        ok().await
    });
    let mut client = mock::client(Stack::new(ProposalLayer::new().layer(layer().layer(tool))));
    let mut caller = PeerInfo::default();
    caller.mgp = Some(ExtensionSet::PROPOSALS);
    client.cx.caller = caller.into();
    client.cx.outlet = Outlet::new(Arc::new(Refusing));
    client
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_has_left_streams_to_its_end() {
    // The connection of this client is closed from the beginning, so the caller counts as having left.
    let mut client = refusing_client();
    call(&mut client, "k").await.unwrap();
    // The limit on the total size of the chunks still applies, so the call fails.
    client.cx.extensions.insert(StreamLimit::new(1));
    call(&mut client, "other").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_refused_chunk_ends_a_call_only_if_its_caller_still_waits() {
    let mut client = refusing_client();
    client.cx.peer = mock::peer(Stack::from_fn(|_| async { Ok(Reply::None) })).peer();
    // The chunk is refused although the caller has not left, e.g. because of a limit.
    call(&mut client, "waits").await.unwrap_err();
    let limit = std::time::Duration::from_millis(10);
    tokio::time::timeout(limit, call(&mut client, "leaves")).await.unwrap_err();
    assert!(was_replay(&call(&mut client, "leaves").await.unwrap()));
}

#[tokio::test]
async fn a_key_with_other_arguments_is_a_conflict() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), ok);
    call(&mut client, "k").await.unwrap();
    let other = client.request("tools/call", &params("k", "pay", r#"{"a":2}"#)).await;
    let conflict = other.unwrap_err();
    assert_eq!(conflict.code(), ErrorCode::INVALID_PARAMS);
    let details = conflict.as_recovery().unwrap().details.as_ref().unwrap();
    assert_eq!(details.get("reason").unwrap().as_str(), r#""IDEMPOTENCY_CONFLICT""#);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_check_finds_a_conflict_and_neither_uses_a_key_nor_runs_its_call() {
    let (keys, runs) = (Idempotency::in_memory(), Runs::default());
    let mut client = runs.client(&IdempotencyLayer::new(keys.clone()), ok);
    let check = Stack::from_fn(move |call: Call| {
        std::future::ready(keys.check(&call).map(|()| Reply::empty()))
    });
    let mut checks = mock::client(Stack::new(ProposalLayer::new().layer(check)));
    checks.cx.caller = client.cx.caller.clone();
    checks.request("tools/call", &params("k", "pay", "{}")).await.unwrap();
    assert!(!was_replay(&call(&mut client, "k").await.unwrap()));
    checks.request("tools/call", &params("k", "pay", r#"{"b":2,"a":1}"#)).await.unwrap();
    let refused = checks.request("tools/call", &params("k", "pay", "{}")).await.unwrap_err();
    assert!(refused.message().contains("other arguments"), "{refused}");
    assert_eq!(runs.count(), 1);
    let brief = r#"{"name":"pay","_meta":{"idempotency_key":"l","idempotency_ttl_seconds":0}}"#;
    client.request("tools/call", brief).await.unwrap();
    // The key has expired, so it can be used for another call.
    checks.request("tools/call", &params("l", "pay", r#"{"a":2}"#)).await.unwrap();
}

#[tokio::test]
async fn a_key_belongs_to_its_caller_and_tool() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), ok);
    call(&mut client, "k").await.unwrap();
    client.request("tools/call", &params("k", "refund", r#"{"a":1,"b":2}"#)).await.unwrap();
    client.cx.principal = Principal::local().agent("bob");
    call(&mut client, "k").await.unwrap();
    client.cx.server = Some("bank".into());
    call(&mut client, "k").await.unwrap();
    assert_eq!(runs.count(), 4);
    call(&mut client, "k").await.unwrap();
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn an_expired_key_runs_again() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), ok);
    let brief = r#"{"name":"pay","_meta":{"idempotency_key":"k","idempotency_ttl_seconds":0}}"#;
    for _ in 0..3 {
        assert!(!was_replay(&client.request("tools/call", brief).await.unwrap()));
    }
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn a_malformed_key_is_refused() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), ok);
    for key in ["", "a b", "ä", &"k".repeat(129)] {
        assert_eq!(call(&mut client, key).await.unwrap_err().code(), ErrorCode::INVALID_PARAMS);
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn keys_and_results_are_bounded() {
    let mut limits = IdempotencyLimits::default();
    (limits.caller_keys, limits.caller_results, limits.result) = (3, 30, 20);
    let runs = Runs::default();
    let mut client = runs.client(&limited(limits).await, ok);
    for key in ["a", "b", "c"] {
        call(&mut client, key).await.unwrap();
    }
    assert_eq!(call(&mut client, "d").await.unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
    // Each result has 14 bytes. The oldest result was removed to make room, but its call does not run again.
    let error = call(&mut client, "a").await.unwrap_err();
    assert!(error.message().contains("no longer kept"), "{error}");
    assert!(was_replay(&call(&mut client, "b").await.unwrap()));
    assert_eq!(runs.count(), 3);
    client.cx.principal = Principal::local().agent("bob");
    call(&mut client, "a").await.unwrap();

    limits.result = 10;
    let mut client = runs.client(&limited(limits).await, ok);
    call(&mut client, "a").await.unwrap();
    assert!(call(&mut client, "a").await.is_err(), "longer than a result may be");
    assert_eq!(runs.count(), 5);
}

#[tokio::test]
async fn the_newest_results_are_kept_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let before = IdempotencyLayer::new(Idempotency::open(store.clone()).await.unwrap());
    let runs = Runs::default();
    for key in ["a", "b", "c", "d", "e", "f"] {
        call(&mut runs.client(&before, ok), key).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    // There is room for the result of one call only.
    let limits = IdempotencyLimits { caller_results: 20, ..IdempotencyLimits::default() };
    let after = IdempotencyLayer::new(Idempotency::with_limits(store, limits).await.unwrap());
    let mut client = runs.client(&after, ok);
    assert!(was_replay(&call(&mut client, "f").await.unwrap()));
    let refused = call(&mut client, "a").await.unwrap_err();
    assert!(refused.message().contains("no longer kept"), "{refused}");
    assert_eq!(runs.count(), 6);
}

#[tokio::test]
async fn a_later_tenant_does_not_get_the_results_of_a_removed_one() {
    let (runs, store) = (Runs::default(), Arc::new(MemoryStore::new()));
    let keys = Idempotency::open(store.clone()).await.unwrap();
    let answers = async |keys: &Idempotency| {
        let mut client = runs.client(&IdempotencyLayer::new(keys.clone()), ok);
        let mut replays = Vec::new();
        for tenant in ["acme", "acme-2"] {
            client.cx.principal = Principal::new(tenant, "ann");
            replays.push(was_replay(&call(&mut client, "k").await.unwrap()));
        }
        replays
    };
    assert_eq!(answers(&keys).await, [false, false]);
    let tenants = || {
        let mut callers = keys.callers();
        callers.sort_by_key(|caller| caller.tenant().clone());
        callers.iter().map(|caller| caller.tenant().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(tenants(), ["acme", "acme-2"]);
    keys.remove_tenant(&"acme".into()).await.unwrap();
    assert_eq!(tenants(), ["acme-2"]);
    let of_next_process = Idempotency::open(store).await.unwrap();
    assert_eq!(answers(&of_next_process).await, [false, true]);
    assert_eq!(answers(&keys).await, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_call_that_outlasts_the_removal_of_its_tenant_is_not_stored() {
    let (runs, keys) = (Runs::default(), Idempotency::in_memory());
    let slow = || -> BoxFuture<'static, Answer> {
        Box::pin(async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            ok().await
        })
    };
    let mut client = runs.client(&IdempotencyLayer::new(keys.clone()), slow);
    client.cx.principal = Principal::new("acme", "ann");
    let running = tokio::spawn(client.call("tools/call", &params("k", "pay", "{}")));
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    keys.remove_tenant(&"acme".into()).await.unwrap();
    running.await.unwrap().unwrap();
    client.request("tools/call", &params("k", "pay", "{}")).await.unwrap_err();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_run_that_a_kill_interrupted_is_not_repeated_unless_its_tool_may_be() {
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::default();
    let keys = Idempotency::open(store.clone()).await.unwrap();
    let mut client = runs.client(&IdempotencyLayer::new(keys), || Box::pin(std::future::pending()));
    let call_once = tokio::spawn(client.call("tools/call", &params("k", "pay", "{}")));
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    // The next process finds the entry that this process stored before the run.
    let open = || async { IdempotencyLayer::new(Idempotency::open(store.clone()).await.unwrap()) };
    let mut client = runs.client(&open().await, ok);
    let refused = client.request("tools/call", &params("k", "pay", "{}")).await.unwrap_err();
    assert!(refused.message().contains("may have had effects"), "{refused}");
    assert!(!refused.as_recovery().unwrap().is_retryable());
    assert_eq!(runs.count(), 1);
    let mut client = runs.client(&open().await.may_repeat(|_| true), ok);
    assert!(!was_replay(&client.request("tools/call", &params("k", "pay", "{}")).await.unwrap()));
    assert_eq!(runs.count(), 2);
    call_once.abort();
}

#[tokio::test]
async fn a_round_whose_caller_left_is_not_run_again() {
    let runs = Runs::default();
    let mut client = runs.asking_client(&layer(), || Box::pin(std::future::pending()));
    let second = second_round(&mut client).await;
    let running = tokio::spawn(client.call("tools/call", &second));
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let refused = client.request("tools/call", &second).await.unwrap_err();
    assert!(refused.message().contains("may have had effects"), "{refused}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_round_whose_server_was_lost_is_not_run_again() {
    let runs = Runs::default();
    let mut client = runs.asking_client(&layer(), fail(connection_lost("it died")));
    let second = second_round(&mut client).await;
    client.request("tools/call", &second).await.unwrap_err();
    let refused = client.request("tools/call", &second).await.unwrap_err();
    assert!(refused.message().contains("may have had effects"), "{refused}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn the_round_after_a_question_runs_once() {
    let runs = Runs::default();
    let mut client = runs.asking_client(&layer(), ok);
    let second = second_round(&mut client).await;
    assert!(!was_replay(&client.request("tools/call", &second).await.unwrap()));
    assert!(was_replay(&client.request("tools/call", &second).await.unwrap()));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn only_a_call_that_did_not_run_frees_its_key() {
    for (error, is_free, again) in [
        (RpcError::new(ErrorCode::SERVER_NOT_READY, "starting"), true, "starting"),
        (RpcError::new(ErrorCode::INVALID_TOOL_ARGS, "no"), true, "no"),
        (connection_lost("it died"), false, "may have had effects"),
        (RpcError::new(ErrorCode::TIMEOUT, "late"), false, "may have had effects"),
        // If the server returned an error, the call counts as ended, as after any other answer.
        (RpcError::internal("broken"), false, "broken"),
    ] {
        let runs = Runs::default();
        let mut client = runs.client(&layer(), fail(error.clone()));
        assert_eq!(call(&mut client, "k").await.unwrap_err().code(), error.code());
        let second = call(&mut client, "k").await.unwrap_err();
        assert!(second.message().contains(again), "{error}: {second}");
        assert_eq!(runs.count(), 1 + u32::from(is_free), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_goes_away_during_a_call_leaves_its_outcome_unknown() {
    let runs = Runs::default();
    let gone = RpcError::new(ErrorCode::SERVER_RESTARTING, "restarting");
    let hints: Recovery = serde_json::from_str(r#"{"details":{"started":true}}"#).unwrap();
    let mut client = runs.client(&layer(), fail(gone.recovery(hints)));
    call(&mut client, "k").await.unwrap_err();
    let second = call(&mut client, "k").await.unwrap_err();
    assert!(second.message().contains("may have had effects"), "{second}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_call_that_became_a_task_does_not_free_its_key() {
    let runs = Runs::default();
    let mut client = runs.client(&layer(), || {
        let Reply::Complete(task) = Reply::empty() else { panic!("an empty result is complete") };
        Box::pin(async { Ok(Reply::Task(task)) })
    });
    let params = params("k", "pay", "{}");
    assert!(matches!(client.call("tools/call", &params).await, Ok(Reply::Task(_))));
    let second = client.call("tools/call", &params).await.unwrap_err();
    assert!(second.message().contains("may have had effects"), "{second}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_unreadable_key_is_never_run() {
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::default();
    let open = || async { IdempotencyLayer::new(Idempotency::open(store.clone()).await.unwrap()) };
    call(&mut runs.client(&open().await, ok), "k").await.unwrap();
    let id = store.load(SPACE).await.unwrap().records[0].key.clone();
    store.commit(Change::new().put(SPACE, id, Payload::from_trusted("7"))).await.unwrap();
    call(&mut runs.client(&open().await, ok), "k").await.unwrap_err();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_replay_restores_no_session_state_to_a_caller_that_has_another_one_now() {
    let tool = Stack::from_fn(|call: Call| async move {
        call.cx().add_to_result(&SessionState("second".to_owned()))?;
        ok().await
    });
    let mut client = mock::client(Stack::new(ProposalLayer::new().layer(layer().layer(tool))));
    let mut caller = PeerInfo::default();
    caller.mgp = Some(ExtensionSet::PROPOSALS);
    client.cx.caller = caller.into();
    for (state, is_restored) in [("first", true), ("first", true), ("second", false)] {
        let call = params("k", "pay", "{}");
        let with_state = format!(r#""_meta":{{"session_state":"{state}","#);
        let call = call.replace(r#""_meta":{"#, &with_state);
        let result = client.request("tools/call", &call).await.unwrap();
        assert_eq!(result.as_str().contains("session_state"), is_restored, "{result:?}");
    }
}

#[tokio::test]
async fn a_replay_has_the_members_that_its_tool_added_and_its_caller_negotiated() {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let all = ExtensionSet::PROPOSALS;
    for (negotiated, is_seen) in
        [(all, true), (all, true), (all.without(Extension::IntentHints), false)]
    {
        // For each caller, open the keys again from the same store, as a restarted process does.
        let keys = Idempotency::open(store.clone()).await.unwrap();
        let count = Arc::clone(&runs.0);
        let tool = Stack::from_fn(move |call: Call| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                call.cx().add_to_result(&Suggestion::new("newest"))?;
                ok().await
            }
        });
        let once = IdempotencyLayer::new(keys).layer(tool);
        let mut client = mock::client(Stack::new(ProposalLayer::new().layer(once)));
        let mut caller = PeerInfo::default();
        caller.mgp = Some(negotiated);
        client.cx.caller = caller.into();
        let result = call(&mut client, "k").await.unwrap();
        assert_eq!(result.as_str().contains("newest"), is_seen, "{result:?}");
    }
    assert_eq!(runs.count(), 1);
}
