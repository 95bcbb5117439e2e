//! Tests of cancelling calls by id.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use mgp_types::service::mock;
use tower_layer::Layer;

use super::*;

/// Returns the layer, a client whose tool never completes, and a flag that is set when the future of the tool is
/// dropped.
fn hanging() -> (CancelLayer, mock::Client, Arc<AtomicBool>) {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let layer = CancelLayer::default();
    let tool = Stack::from_fn(move |_| {
        let flag = Flag(Arc::clone(&flag));
        async move {
            let _flag = flag;
            pending().await
        }
    });
    let client = mock::client(Stack::new(layer.layer(tool)));
    (layer, client, dropped)
}

const CALL: &str = r#"{"name":"a"}"#;

#[tokio::test]
async fn a_cancellation_right_behind_its_request_finds_it() {
    let (layer, mut client, dropped) = hanging();
    let call = client.call("tools/call", CALL);
    client.notify("notifications/cancelled", r#"{"requestId":1}"#).await.unwrap();
    assert!(matches!(call.await, Ok(Reply::None)));
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(layer.running(), 0);
}

#[tokio::test]
async fn another_scope_cannot_cancel_and_a_guessed_id_cannot_either() {
    let (layer, mut client, _) = hanging();
    let mine = client.call("tools/call", CALL);
    let scope = client.cx.scope.clone();
    client.cx.scope = mgp_types::service::Scope::new(mgp_types::service::ScopeKind::Connection);
    client.notify("notifications/cancelled", r#"{"requestId":1}"#).await.unwrap();
    client.cx.scope = scope;
    client.notify("notifications/cancelled", r#"{"requestId":"1"}"#).await.unwrap();
    assert_eq!(layer.running(), 1);
    drop(mine);
    assert_eq!(layer.running(), 0);
}

#[tokio::test]
async fn two_calls_under_one_id_are_both_left_alone() {
    let (layer, client, _) = hanging();
    let same = |stack: &Cancel<Stack>| {
        let mut cx = client.cx.clone();
        cx.key = mgp_types::service::CallKey::next();
        cx.wire_id = Some(1.into());
        let params = Params::split("tools/call", CALL.into()).unwrap();
        stack.clone().call(Call::request(mgp_types::service::Method::of("tools/call"), params, cx))
    };
    let stack = layer.layer(Stack::from_fn(|_| pending()));
    let (one, two) = (same(&stack), same(&stack));
    assert_eq!(layer.running(), 2, "calls are counted, not ids");
    assert!(layer.calls.get(client.cx.scope.id(), &1.into()).is_none());
    drop(one);
    assert!(layer.calls.get(client.cx.scope.id(), &1.into()).is_some());
    drop(two);
    assert_eq!(layer.running(), 0);
}

/// Regression test: a listener in another task was not notified if a second one began to listen.
#[tokio::test(start_paused = true)]
async fn every_listener_is_notified() {
    let signal = Arc::new(CancelSignal::new(crate::chunk::KeptBytes::default()));
    let listeners = [(); 2].map(|()| {
        let signal = Arc::clone(&signal);
        tokio::spawn(async move { signal.listen().await })
    });
    tokio::task::yield_now().await;
    signal.cancel_silently();
    for listener in listeners {
        tokio::time::timeout(std::time::Duration::from_secs(1), listener).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_listening_handler_is_signalled_not_dropped() {
    let layer = CancelLayer::default();
    let tool = Stack::from_fn(|call: Call| async move {
        let signal = call.cx().extensions.get_shared::<CancelSignal>().unwrap();
        signal.listen().await;
        Reply::of("cleaned up")
    });
    let mut client = mock::client(Stack::new(layer.layer(tool)));
    let mut call = client.call("tools/call", CALL);
    assert!(call.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_pending());
    client.notify("notifications/cancelled", r#"{"requestId":1}"#).await.unwrap();
    assert!(matches!(call.await, Ok(Reply::None)));
}
