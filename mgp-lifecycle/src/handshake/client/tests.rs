//! Tests of the client side of the handshake.

use mgp_types::service::{HttpFailure, Peer, Principal, Scope, ScopeKind, Stack};
use tokio::time::Instant;

use super::*;

fn context() -> Context {
    Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local())
}

async fn connect_to(server: &Stack, cx: &Context) -> Result<Arc<PeerInfo>, ConnectError> {
    let offer = ClientOffer::new(Implementation::new("c", "1"));
    connect(server, cx, &offer, &ConnectConfig::default()).await
}

fn modern_answer() -> Result<Reply, RpcError> {
    Reply::of(&DiscoverResult::new(vec![Revision::MODERN], ServerCapabilities::new()))
}

fn legacy_answer() -> Result<Reply, RpcError> {
    let (all, info) = (ServerCapabilities::new(), Implementation::new("s", "1"));
    Reply::of(&InitializeResult::new(Revision::LATEST_LEGACY, all, info))
}

#[tokio::test]
async fn a_refusal_that_names_a_revision_is_retried_once_with_it() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for refusals in [1, 2] {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let server = Stack::from_fn(move |call: Call| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                if call.is::<Initialize>() {
                    return Err(RpcError::method_not_found(Initialize::METHOD));
                }
                if number < refusals {
                    let data =
                        r#"{"supported":["2030-01-01","2026-07-28"],"requested":"2026-07-28"}"#;
                    return Err(RpcError::new(ErrorCode::UNSUPPORTED_VERSION, "no")
                        .data(Payload::from_trusted(data)));
                }
                modern_answer()
            }
        });
        let result = connect_to(&server, &context()).await;
        assert_eq!(result.is_ok(), refusals == 1);
        // After the second refusal the client treats the server as legacy, and the server then refuses
        // `initialize`, too.
        assert_eq!(requests.load(Ordering::Relaxed), if refusals == 1 { 2 } else { 3 });
    }
}

/// Connects to a server that needs this number of seconds to start. A modern server then answers all waiting requests;
/// a legacy server never answers the probe.
async fn connect_after(seconds: u64, answers: Era) -> Result<Era, ConnectError> {
    let ready = Instant::now() + Duration::from_secs(seconds);
    let server = Stack::from_fn(move |call: Call| async move {
        let is_probe = call.is::<ServerDiscover>();
        match (answers, is_probe) {
            (Era::Legacy, true) => std::future::pending().await,
            (Era::Legacy, false) => legacy_answer(),
            (_, true) => {
                tokio::time::sleep_until(ready).await;
                modern_answer()
            }
            // A modern server refuses `initialize` when it has started, i.e. at the same time as it answers the probe.
            (_, false) => {
                tokio::time::sleep_until(ready).await;
                Err(RpcError::method_not_found(Initialize::METHOD))
            }
        }
    });
    let cx = context();
    let facts = connect_to(&server, &cx).await?;
    assert_eq!(cx.scope.state::<HandshakeState>().facts().era, facts.era);
    Ok(facts.era)
}

#[tokio::test]
async fn only_a_server_that_also_refuses_initialize_is_modern_without_a_description() {
    for (accepts, era) in [(true, Era::Legacy), (false, Era::Modern)] {
        let server = Stack::from_fn(move |call: Call| async move {
            if accepts && !call.is::<ServerDiscover>() {
                return legacy_answer();
            }
            let unknown = RpcError::method_not_found(call.method().as_str());
            Err(unknown.because(HttpFailure::StatusWithError(404)))
        });
        let cx = context();
        let facts = connect_to(&server, &cx).await.unwrap();
        assert_eq!((facts.era, facts.capabilities.is_some()), (era, accepts));
        assert_eq!(cx.scope.state::<HandshakeState>().facts().era, era);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_does_not_decide_in_time_leaves_the_decision_to_the_policy() {
    struct Undecided;
    #[async_trait]
    impl ConnectGate for Undecided {
        async fn decide(&self, _: Arc<PeerInfo>, _: Context) -> ConnectDecision {
            std::future::pending().await
        }
    }
    let cx = context();
    let mut facts = PeerInfo::new(Revision::MODERN);
    facts.permissions_required = vec!["camera".to_owned()];
    let facts = Arc::new(facts);
    for (on_deferred, proceeds) in
        [(UngrantedPolicy::Proceed, true), (UngrantedPolicy::Close, false)]
    {
        let permission_gate: Option<Arc<dyn ConnectGate>> = Some(Arc::new(Undecided));
        let config = ConnectConfig { permission_gate, on_deferred, ..ConnectConfig::default() };
        match run_gate(&facts, &cx, &config).await {
            Ok(()) => assert!(proceeds),
            Err(ConnectError::Deferred(names)) => {
                assert_eq!((names, proceeds), (vec!["camera".to_owned()], false));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_starts_slowly_does_not_count_as_a_legacy_one() {
    for seconds in [5, 12, 29] {
        assert_eq!(connect_after(seconds, Era::Modern).await.unwrap(), Era::Modern);
    }
    let late = connect_after(31, Era::Modern).await;
    assert!(matches!(late, Err(ConnectError::TimedOut(_))), "{late:?}");
    assert_eq!(connect_after(0, Era::Legacy).await.unwrap(), Era::Legacy);
}
