//! Tests of callbacks through a gateway, from the server to the caller of its call.

use mgp_client_sdk::{CallbackAnswer, Client, Hop, ToolResult as _, gateway};
use mgp_server_sdk::Server;
use mgp_testkit::RawPeer;
use serde_json::{Value, json};

use super::world::{ERAS, TRANSPORTS, answering, connect};

/// Returns a gateway that forwards the calls of tools.
fn forwarding(hop: Hop) -> Server {
    Server::new("gateway", "1").endpoints(
        mgp_types::service::Router::new()
            .route("tools/call", mgp_types::service::Stack::from_fn(move |call| hop.send(call))),
    )
}

/// Returns the answer to `initialize` by a server with callbacks.
fn hello() -> Value {
    let mgp = json!({ "version": "0.3.0", "extensions": ["callbacks"] });
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {}, "mgp": mgp },
        "serverInfo": { "name": "script", "version": "1" },
    })
}

/// Answers a call with the answer to a question under the id `cb-001`.
async fn ask_in_call(script: &mut RawPeer, message: &str) {
    let call = script.asked("tools/call").await;
    let question = json!({
        "callback_id": "cb-001",
        "request_id": call["id"],
        "type": "confirmation",
        "message": message,
        "options": ["confirm", "cancel"],
    });
    script.notify("notifications/mgp.callback.request", question).await;
    let response = script.asked("mgp/callback/respond").await;
    let accepted = json!({ "callback_id": "cb-001", "status": "accepted" });
    script.answer(&response, accepted).await;
    let text: &Value = &response["params"]["response"];
    script.answer(&call, json!({ "content": [{ "type": "text", "text": text }] })).await;
}

#[tokio::test]
async fn a_question_whose_id_was_used_before_reaches_the_caller_of_its_own_call() {
    let (here, there) = mgp_transport::duplex();
    let mut script = RawPeer::new(there.reader, there.writer);
    let server = tokio::spawn(async move {
        script.serve("initialize", hello()).await;
        for message in ["Delete tmp?", "Drop prod?", "Drop prod?"] {
            ask_in_call(&mut script, message).await;
        }
        script
    });
    let builder = gateway::pass_callbacks(
        Client::builder("gateway", "1"),
        |_, _| std::future::ready(Ok(CallbackAnswer::Dismissed)),
        |_, _| {},
    );
    let client = builder.era(ERAS[0]).connect(here.reader, here.writer).await.unwrap();
    let hop = Hop::new("files", client);
    for (answer, message) in
        [("confirm", "Delete tmp?"), ("cancel", "Drop prod?"), ("confirm", "Drop prod?")]
    {
        let (builder, questions) = answering(&[Some(answer)]);
        let host = connect(forwarding(hop.clone()), builder, ERAS[0], TRANSPORTS[0]).await;
        assert_eq!(host.call("wipe").await.unwrap().to_text(), answer, "{message}");
        let asked = questions.next(0).await.message.unwrap_or_default();
        assert!(asked.ends_with(message), "{asked}");
    }
    drop(server);
}

#[tokio::test]
async fn a_repeated_notification_is_shown_once() {
    let (here, there) = mgp_transport::duplex();
    let mut script = RawPeer::new(there.reader, there.writer);
    let (builder, questions) = answering(&[Some("seen"), Some("seen"), Some("seen")]);
    let connecting = Box::pin(builder.era(ERAS[0]).connect(here.reader, here.writer));
    let (client, _) = tokio::join!(connecting, script.serve("initialize", hello()));
    let client = client.unwrap();
    let mut note = async |message: &str| {
        let notice = json!({ "callback_id": "cb-001", "type": "notification", "message": message });
        script.notify("notifications/mgp.callback.request", notice).await;
    };
    note("saved").await;
    questions.next(0).await;
    note("saved").await;
    note("closed").await;
    assert_eq!(questions.next(1).await.message.as_deref(), Some("closed"));
    assert_eq!(questions.len(), 2);
    drop(client);
}
