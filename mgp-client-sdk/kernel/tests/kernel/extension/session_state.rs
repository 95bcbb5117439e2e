//! Tests of the state that callers keep for servers (extension `session_state`).

use std::sync::Arc;

use mgp_client_sdk::{Client, SessionStateJar, TestClient, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{CallerState, SessionStates};
use mgp_testkit::temp_dir;
use mgp_types::mcp::Era;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Member as _, SessionState};
use mgp_types::service::gate;
use mgp_types::sync::Mutex;

use crate::route::world::{
    PAIRS, build_with_tools, host, host_of, limit_era, open, recorded_calls, until, wait_for_tools,
};

/// A server whose tool counts its calls in the session state.
pub(crate) fn counter() -> Server {
    let count = Tool::new("list", "Counts the calls", |state: CallerState| async move {
        let calls = state.load::<u32>()?.unwrap_or_default() + 1;
        state.store(&calls)?;
        Ok::<_, RpcError>(calls.to_string())
    });
    let other = Tool::new("recent", "Keeps nothing", || async { "none" });
    Server::new("counter", "1").tool(count).tool(other).extension(SessionStates::with_key([7; 32]))
}

/// Returns the server with a layer that adds to `received` each session state that the server receives.
fn recorded(server: Server, received: &Arc<Mutex<Vec<String>>>) -> Server {
    let received = Arc::clone(received);
    server.around(gate(move |call| {
        let meta: Option<mgp_types::Object> = call.params().meta().and_then(|meta| meta.get().ok());
        if let Some(state) = meta.and_then(|meta| meta.get(SessionState::NAME).cloned()) {
            received.lock().push(state.get().unwrap());
        }
        Ok(())
    }))
}

async fn count(client: &Client, tool: &str) -> String {
    client.call(tool).await.unwrap().to_text()
}

#[tokio::test]
async fn a_client_returns_the_state_of_its_server_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let received = Arc::new(Mutex::new(Vec::new()));
        let jar = SessionStateJar::new();
        let server = recorded(limit_era(counter(), era), &received);
        let client = TestClient::with_builder(server, host_of(era).extension(jar.clone())).await;
        let first = client.call("list").await.unwrap();
        let sent = first.member::<SessionState>().unwrap().unwrap();
        assert_eq!(count(&client, "list").await, "2", "{era:?}");
        assert_eq!(received.lock().as_slice(), [sent.0], "{era:?}");
        // A result without a session state must not change the session.
        assert_eq!(count(&client, "recent").await, "none");
        assert_eq!(count(&client, "list").await, "3");
        jar.clear();
        assert_eq!(count(&client, "list").await, "1");
    }
}

#[tokio::test]
async fn a_changed_or_too_long_state_is_refused_and_the_next_call_starts_a_new_session() {
    let jar = SessionStateJar::new();
    let builder = host_of(Era::Modern).extension(jar.clone());
    let client = TestClient::with_builder(counter(), builder).await;
    count(&client, "list").await;
    for state in ["00ff".to_owned(), "f".repeat(SessionState::MAX_BYTES + 1)] {
        let refused = client.call("list").with(&SessionState(state)).await.unwrap_err();
        assert_eq!(refused.code().0, 4000, "{refused}");
        assert!(refused.to_string().contains("start a new session"), "{refused}");
        assert!(jar.is_empty());
        assert_eq!(count(&client, "list").await, "1");
    }
}

#[tokio::test]
async fn a_state_of_more_than_64_kib_is_neither_sent_nor_kept() {
    let long = Tool::new("list", "Keeps too much", |state: CallerState| async move {
        state.store(&"x".repeat(40_000))?;
        Ok::<_, RpcError>("done")
    });
    let raw = Tool::new("raw", "Returns a long state", |cx: Context| async move {
        cx.add_to_result(&SessionState("x".repeat(SessionState::MAX_BYTES + 1)))?;
        Ok::<_, RpcError>("done")
    });
    let server = Server::new("s", "1").tool(long).tool(raw);
    let server = server.extension(SessionStates::random().unwrap());
    let jar = SessionStateJar::new();
    let builder = host_of(Era::Modern).extension(jar.clone());
    let client = TestClient::with_builder(server, builder).await;
    let refused = client.call("list").await.unwrap_err();
    assert_eq!(refused.code().0, 3001, "{refused}");
    assert_eq!(count(&client, "raw").await, "done");
    assert!(jar.is_empty());
}

async fn kernel(era: Era, received: &[Arc<Mutex<Vec<String>>>; 2]) -> Kernel {
    let [one, two] = received.clone();
    let mgp = || open(&["list", "recent"]);
    let builder = Kernel::builder()
        .local_with("one", mgp(), move || recorded(limit_era(counter(), era), &one))
        .local_with("two", mgp(), move || recorded(limit_era(counter(), era), &two));
    build_with_tools(builder, [("one", 2), ("two", 2)]).await
}

#[tokio::test]
async fn through_a_kernel_each_server_gets_its_own_state_back_and_no_other_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let received = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
        let kernel = kernel(below, &received).await;
        let builder = host_of(above).extension(SessionStateJar::new());
        let ada = host(&kernel, "ada", builder).await;
        for expected in ["1", "2", "3"] {
            for tool in ["one.list", "two.list"] {
                assert_eq!(count(&ada, tool).await, expected, "{above:?} {below:?}");
            }
        }
        let [one, two] = received.map(|states| states.lock().clone());
        assert_eq!((one.len(), two.len()), (2, 2));
        assert!(one.iter().all(|state| !two.contains(state)));

        // Another agent has its own session, and cannot use the token of the first agent.
        let token = ada.call("one.list").await.unwrap().member::<SessionState>().unwrap().unwrap();
        assert!(!one.contains(&token.0), "the caller got the state of the server");
        let builder = host_of(above).extension(SessionStateJar::new());
        let bob = host(&kernel, "bob", builder).await;
        assert_eq!(count(&bob, "one.list").await, "1");
        let refused = bob.call("one.list").with(&token).await.unwrap_err();
        assert_eq!(refused.code().0, 4000, "{refused}");

        // A caller without the extension must have no session and receive no state.
        let plain = host(&kernel, "carl", host_of(above)).await;
        for _ in 0..2 {
            let result = plain.call("one.list").await.unwrap();
            assert_eq!((result.to_text().as_str(), result.meta.is_none()), ("1", true));
        }
        for client in [ada, bob, plain] {
            client.close().await;
        }
    }
}

#[tokio::test]
async fn the_audit_log_has_no_session_state() {
    let folder = temp_dir();
    let builder = Kernel::builder().local_with("one", open(&["list", "recent"]), counter);
    let kernel = builder.in_folder(folder.path()).await.unwrap();
    wait_for_tools(&kernel, "one", 2).await;
    let jar = SessionStateJar::new();
    let client = host(&kernel, "ada", host_of(Era::Modern).extension(jar)).await;
    count(&client, "list").await;
    assert_eq!(count(&client, "list").await, "2");
    let events = || recorded_calls(&kernel, "one");
    until("both calls are recorded", || async {
        events().await.matches("TOOL_EXECUTED").count() == 2
    })
    .await;
    let text = events().await;
    assert!(!text.contains("session_state") && !text.contains("state_changed"), "{text}");
    client.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_caller_that_only_offers_the_extension_still_reads_the_token() {
    let received = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let kernel = kernel(Era::Modern, &received).await;
    let builder = host_of(Era::Modern).extension(Extension::SessionState);
    let client = host(&kernel, "ada", builder).await;
    let first = client.call("one.list").await.unwrap();
    let token = first.member::<SessionState>().unwrap().unwrap();
    let second = client.call("one.list").with(&token).await.unwrap();
    assert_eq!(second.to_text(), "2");
    // The token stays the same. So parallel calls of several servers lose no state.
    assert_eq!(second.member::<SessionState>().unwrap(), Some(token));
}
