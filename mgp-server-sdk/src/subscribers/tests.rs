//! Tests of the table of listeners.

use std::sync::atomic::AtomicBool;

use mgp_types::service::{Reply, ScopeKind, Stack, mock};

use super::*;

fn peer() -> mock::MockPeer {
    mock::peer(Stack::from_fn(|_| async { Ok(Reply::None) }))
}

fn sent(peer: &mock::MockPeer) -> Vec<String> {
    peer.received().iter().map(|call| call.method().as_str().to_owned()).collect()
}

async fn wait_for_sending() {
    tokio::time::sleep(COALESCE_DELAY * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_sent_once_and_to_no_session_that_ended() {
    let (subscribers, peer) = (Subscribers::default(), peer());
    let scope = Scope::new(ScopeKind::Connection);
    let cx = peer.peer().context(&scope);
    subscribers.join(&cx);
    subscribers.join(&cx);
    subscribers.changed(ListKind::Tools);
    wait_for_sending().await;
    assert!(sent(&peer).is_empty(), "nothing was announced in the handshake");

    subscribers.announce(ListSet::of(&[(ListKind::Tools, true), (ListKind::Prompts, false)]));
    for _ in 0..100 {
        subscribers.changed(ListKind::Tools);
        subscribers.changed(ListKind::Prompts);
        subscribers.updated("test://a");
    }
    wait_for_sending().await;
    assert_eq!(sent(&peer), [ToolsListChanged::METHOD]);

    subscribers.watch(&cx, "test://a".to_owned()).unwrap();
    subscribers.updated("test://a");
    subscribers.updated("test://b");
    subscribers.changed(ListKind::Tools);
    wait_for_sending().await;
    assert_eq!(sent(&peer)[1..], [ToolsListChanged::METHOD, ResourcesUpdated::METHOD]);
    subscribers.unwatch(&cx, "test://a");
    subscribers.updated("test://a");

    scope.end();
    subscribers.changed(ListKind::Tools);
    wait_for_sending().await;
    assert_eq!(peer.received().len(), 3);
    assert!(subscribers.0.listeners.lock().is_empty());
    subscribers.join(&cx);
    assert!(subscribers.0.listeners.lock().is_empty(), "a scope that ended is not added again");
}

#[tokio::test(start_paused = true)]
async fn what_a_listener_did_not_take_is_sent_with_its_next_change() {
    let is_busy = AtomicBool::new(true);
    let peer = mock::peer(Stack::from_fn(move |_| {
        let is_busy = is_busy.swap(false, Ordering::Relaxed);
        async move { if is_busy { Err(RpcError::internal("busy")) } else { Ok(Reply::None) } }
    }));
    let (subscribers, scope) = (Subscribers::default(), Scope::new(ScopeKind::Connection));
    subscribers.announce(ListSet::ALL);
    let cx = peer.peer().context(&scope);
    subscribers.watch(&cx, "test://a".to_owned()).unwrap();
    subscribers.changed(ListKind::Tools);
    subscribers.updated("test://a");
    wait_for_sending().await;
    assert_eq!(sent(&peer), [ToolsListChanged::METHOD]);
    subscribers.updated("test://a");
    wait_for_sending().await;
    assert_eq!(sent(&peer)[1..], [ToolsListChanged::METHOD, ResourcesUpdated::METHOD]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_does_not_read_blocks_no_other() {
    let subscribers = Subscribers::default();
    subscribers.announce(ListSet::ALL);
    let stuck = mock::peer(Stack::from_fn(|_| std::future::pending()));
    let fine = peer();
    let scopes = [(); 2].map(|()| Scope::new(ScopeKind::Connection));
    subscribers.join(&stuck.peer().context(&scopes[0]));
    subscribers.join(&fine.peer().context(&scopes[1]));
    for _ in 0..3 {
        subscribers.changed(ListKind::Prompts);
        wait_for_sending().await;
    }
    assert_eq!((stuck.received().len(), fine.received().len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn each_spelling_of_a_uri_is_notified_and_ends_on_its_own() {
    let (subscribers, peer) = (Subscribers::default(), peer());
    let scope = Scope::new(ScopeKind::Connection);
    let cx = peer.peer().context(&scope);
    for uri in ["test://a b", "test://a%20b", "test://a%20b/c"] {
        subscribers.watch(&cx, uri.to_owned()).unwrap();
    }
    subscribers.updated("test://%61%20b");
    wait_for_sending().await;
    assert_eq!(sent(&peer), [ResourcesUpdated::METHOD; 2]);
    subscribers.unwatch(&cx, "test://a%20b");
    subscribers.updated("test://a%20b");
    wait_for_sending().await;
    assert_eq!(sent(&peer), [ResourcesUpdated::METHOD; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_change_before_a_subscription_is_added_is_sent_to_its_client_only() {
    let (subscribers, peers) = (Subscribers::default(), [peer(), peer()]);
    let scopes = [(); 2].map(|()| Scope::new(ScopeKind::Connection));
    let [earlier, cx] = [0, 1].map(|number| peers[number].peer().context(&scopes[number]));
    subscribers.watch(&earlier, "test://a".to_owned()).unwrap();
    for has_changed in [false, true] {
        let (name, mut watching) = WatchedResource::plain("test://a".to_owned());
        watching.has_changed = Some(Box::new(move || has_changed));
        subscribers.watch_as(&cx, name, watching).unwrap();
        wait_for_sending().await;
        assert_eq!(peers.each_ref().map(|peer| sent(peer).len()), [0, usize::from(has_changed)]);
    }
}

#[tokio::test]
async fn the_guard_of_a_subscription_may_use_the_table_when_it_is_dropped() {
    struct Announcer(Subscribers);

    impl Drop for Announcer {
        fn drop(&mut self) {
            self.0.updated("test://b");
        }
    }

    let (subscribers, peer) = (Subscribers::default(), peer());
    let scope = Scope::new(ScopeKind::Connection);
    let cx = peer.peer().context(&scope);
    let (uri, guard) = ("test://a".to_owned(), Announcer(subscribers.clone()));
    let watching = WatchedResource {
        uri: uri.clone(),
        has_changed: None,
        _guard: Some(Box::new(guard)),
        charge: None,
    };
    subscribers.watch_as(&cx, uri, watching).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    // Run this on a separate thread, because a deadlock would otherwise block the test itself.
    std::thread::spawn(move || {
        subscribers.unwatch(&cx, "test://a");
        done.send(())
    });
    ended.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[tokio::test]
async fn a_filter_of_listeners_may_use_the_table() {
    let (subscribers, peer) = (Subscribers::default(), peer());
    subscribers.announce(ListSet::ALL);
    let scope = Scope::new(ScopeKind::Connection);
    subscribers.watch(&peer.peer().context(&scope), "test://a".to_owned()).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    // Run this on a separate thread, because a deadlock would otherwise block the test itself.
    std::thread::spawn(move || {
        let notify_again = || {
            subscribers.changed(ListKind::Prompts);
            subscribers.updated("test://a");
            true
        };
        subscribers.changed_for(ListKind::Tools, |_, _| notify_again());
        subscribers.updated_for("test://a", |_| notify_again());
        done.send(())
    });
    ended.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[tokio::test]
async fn subscriptions_are_bounded() {
    let (subscribers, peer) = (Subscribers::default(), peer());
    let scope = Scope::new(ScopeKind::Connection);
    let cx = peer.peer().context(&scope);
    let long = subscribers.watch(&cx, "u".repeat(MAX_URI_BYTES + 1)).unwrap_err();
    assert_eq!(long.code(), mgp_types::ErrorCode::INVALID_PARAMS);
    for number in 0..MAX_WATCHED {
        subscribers.watch(&cx, number.to_string()).unwrap();
    }
    subscribers.watch(&cx, "0".to_owned()).unwrap();
    assert_eq!(subscribers.watch(&cx, "more".to_owned()).unwrap_err().code().0, 3001);
}

/// Regression test: each session had its own limit only, so one client could fill the memory with many sessions.
#[tokio::test]
async fn the_sessions_of_one_client_share_a_limit_of_subscriptions() {
    let (subscribers, peer) = (Subscribers::default(), peer());
    let scopes = [(); 4].map(|()| Scope::new(ScopeKind::Session));
    let [first, second, third, mut other] =
        scopes.each_ref().map(|scope| peer.peer().context(scope));
    other.principal = Principal::new("local", "other");
    let uri = |number: usize| format!("{number}{}", "u".repeat(MAX_URI_BYTES - 4));
    for number in 0..MAX_WATCHED {
        subscribers.watch(&first, uri(number)).unwrap();
    }
    let mut outcomes = (0..MAX_WATCHED).map(|number| subscribers.watch(&second, uri(number)));
    let refused = outcomes.find_map(Result::err).expect("both sessions have one limit");
    assert_eq!(refused.code(), mgp_types::ErrorCode::RESOURCE_EXHAUSTED);
    subscribers.watch(&first, uri(0)).expect("a known subscription counts once");
    subscribers.watch(&other, uri(0)).expect("another client has its own limit");

    scopes[0].end();
    subscribers.watch(&third, uri(0)).expect("the first session has ended");
    for scope in &scopes {
        scope.end();
    }
    assert_eq!(subscribers.0.budget.principals(), 0, "nothing is counted for ended sessions");
}
