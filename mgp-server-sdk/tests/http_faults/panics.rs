//! Tests that a call ends immediately if the stack panics, and that its session continues.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_testkit::until_shown;
use mgp_transport::http::HttpService;
use mgp_types::service::Stack;
use serde_json::json;

use super::direct::{is_known, legacy, open, open_to_all, send};
use super::world::{Hold, server};

/// Returns a stack that panics in tool calls, and counts in `polled` how often such calls are polled.
fn broken(polled: &Arc<AtomicUsize>) -> Stack {
    let (sound, polled) = (server(&Hold::default()).into_stack().unwrap(), Arc::clone(polled));
    Stack::from_fn(move |call| {
        let (breaks, polled) = (call.method().as_str() == "tools/call", Arc::clone(&polled));
        let mut sent = sound.send(call);
        poll_fn(move |task| {
            if breaks {
                polled.fetch_add(1, Ordering::SeqCst);
                panic!("a layer is broken");
            }
            sent.as_mut().poll(task)
        })
    })
}

#[tokio::test]
async fn a_call_that_panics_is_polled_once_and_its_session_continues() {
    let polled = Arc::default();
    let service = HttpService::new(broken(&polled), open_to_all());
    let session = open(&service).await.unwrap();
    let (sending, call) = (service.clone(), legacy(&session, 1, "now", &json!({})));
    let sent = tokio::spawn(async move { send(&sending, call).await });
    assert!(sent.await.unwrap_err().is_panic());
    until_shown(|| {
        let left = (service.running(), service.held_bytes());
        (left == (0, 0), left)
    })
    .await;
    assert_eq!(polled.load(Ordering::SeqCst), 1);
    assert!(is_known(&service, &session).await);
}
