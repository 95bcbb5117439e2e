//! Tests of the notices of a server that stops, and of requests to stop a server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, ClientHandler, EraChoice, ToolResult as _};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::duplex;
use mgp_types::ErrorCode;
use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::script::Script;

type ReceivedStates = Arc<Mutex<Vec<LifecycleParams>>>;

fn hearing() -> (ClientBuilder, ReceivedStates) {
    let received = ReceivedStates::default();
    let hook = Arc::clone(&received);
    let builder = Client::builder("test", "1");
    (builder.on_lifecycle(move |change| hook.lock().unwrap().push(change.clone())), received)
}

/// Waits until `count` states were received, and returns them.
async fn states(received: &ReceivedStates, count: usize) -> Vec<String> {
    let all = async {
        while received.lock().unwrap().len() < count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(Duration::from_secs(30), all).await;
    received.lock().unwrap().iter().map(|change| change.new_state.to_string()).collect()
}

#[tokio::test]
async fn both_eras_are_notified_of_a_drain_and_finish_their_calls() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (here, there) = duplex();
        let (begun, ends) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, may_end) = (Arc::clone(&begun), Arc::clone(&ends));
        let nap = Tool::new("nap", "Sleeps", move || {
            let (begins, may_end) = (Arc::clone(&begins), Arc::clone(&may_end));
            async move {
                begins.notify_one();
                may_end.notified().await;
                "slept"
            }
        });
        let server = Server::new("s", "1").tool(nap).owned_by_peer();
        let serving = tokio::spawn(server.serve(there.reader, there.writer));
        let (builder, received) = hearing();
        let client = builder.era(era).connect(here.reader, here.writer).await.unwrap();
        if era == EraChoice::Modern {
            // Wait until the client has opened the stream on which it gets changes of the server's state.
            mgp_testkit::sleep_in_parts(Duration::from_millis(100)).await;
        }
        let running = {
            let client = client.clone();
            tokio::spawn(async move { client.call("nap").await })
        };
        begun.notified().await;

        let mgp = client.mgp();
        let time = Duration::from_secs(30);
        let start = Instant::now();
        let asked = mgp.shutdown(ShutdownReason::ConfigurationChange, time).await.unwrap();
        assert_eq!((asked.accepted, asked.pending_requests), (true, Some(1)));
        let again = mgp.shutdown(ShutdownReason::IdleTimeout, time).await.unwrap();
        assert!(again.accepted);
        let late = client.call("nap").await.unwrap_err();
        assert_eq!(late.code(), ErrorCode::SERVER_DRAINING);
        assert!(late.recovery().unwrap().is_retryable(), "it is restarted");

        ends.notify_one();
        assert_eq!(running.await.unwrap().unwrap().to_text(), "slept");
        client.closed().await;
        serving.await.unwrap().unwrap();
        assert!(start.elapsed() < time / 2, "{:?}", start.elapsed());
        assert_eq!(states(&received, 2).await, ["draining", "disconnected"], "{era:?}");
        let reason = received.lock().unwrap()[0].reason.clone();
        assert_eq!(reason.as_deref(), Some("configuration_change"));
    }
}

/// A handler that stores the states that it receives.
struct StateLog(ReceivedStates);

impl ClientHandler for StateLog {
    fn state_changed(&self, change: &LifecycleParams) {
        self.0.lock().unwrap().push(change.clone());
    }
}

#[tokio::test]
async fn states_are_read_in_any_spelling_and_with_missing_members() {
    let received = ReceivedStates::default();
    let builder = Client::builder("test", "1").handler(StateLog(Arc::clone(&received)));
    let mgp = json!({"mgp": {"version": "0.3.0", "extensions": ["lifecycle"]}});
    let (client, mut script) = Script::legacy(builder, mgp).await;
    let method = "notifications/mgp.lifecycle";
    script.notify(method, json!({"new_state": "DRAINING", "previous_state": "Connected"})).await;
    script.notify(method, json!({"new_state": "reconnecting", "timestamp": "soon"})).await;
    // The client must ignore notifications without a valid state.
    let broken: [Value; 3] = [json!({}), json!({"new_state": 7}), json!({"new_state": null})];
    for params in broken {
        script.notify(method, params).await;
    }
    script
        .notify(method, json!({"new_state": "disconnected", "server_id": "mind", "more": [1]}))
        .await;
    let names = states(&received, 3).await;
    assert!(names.starts_with(&["draining".to_owned()]), "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("disconnected"), "{names:?}");
    assert_eq!(received.lock().unwrap()[0].previous_state, Some(ServerState::Connected));
    let (pinged, _) = tokio::join!(client.ping(), script.serve("ping", json!({})));
    pinged.unwrap();
}

#[tokio::test]
async fn a_client_without_the_extension_receives_no_states() {
    let (builder, received) = hearing();
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    script.notify("notifications/mgp.lifecycle", json!({"new_state": "draining"})).await;
    let (pinged, _) = tokio::join!(client.ping(), script.serve("ping", json!({})));
    pinged.unwrap();
    assert!(received.lock().unwrap().is_empty());
}
