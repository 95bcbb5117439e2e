//! Callbacks through a gateway: from the server to the caller of its call, in each pair of eras.

use mgp_client_sdk::{CallbackAnswer, Client, ClientBuilder, Hop, ToolResult as _, gateway};
use mgp_server_sdk::Server;
use mgp_testkit::RawPeer;
use mgp_types::mcp::ElicitAction;
use serde_json::{Value, json};

use super::world::{ERAS, TRANSPORTS, answering, connect, curious};

/// Returns a gateway in front of the curious server.
async fn gateway_to(era: mgp_client_sdk::EraChoice) -> Server {
    let builder = gateway::pass_callbacks(
        Client::builder("gateway", "1"),
        |_, question| {
            // The gateway itself answers for a caller that cannot be asked, as an operator would.
            let is_ours = question.message.as_deref() == Some("Delete 3 files?");
            std::future::ready(Ok(if is_ours {
                CallbackAnswer::text("confirm")
            } else {
                CallbackAnswer::Dismissed
            }))
        },
        |_, _| {},
    );
    let client = connect(curious(), builder, era, TRANSPORTS[0]).await;
    forwarding(Hop::new("files", client))
}

/// Returns a gateway that forwards the calls of tools.
fn forwarding(hop: Hop) -> Server {
    Server::new("gateway", "1").endpoints(
        mgp_types::service::Router::new()
            .route("tools/call", mgp_types::service::Stack::from_fn(move |call| hop.send(call))),
    )
}

#[tokio::test]
async fn a_callback_reaches_the_caller_as_a_callback_with_the_name_of_the_server() {
    for below in ERAS {
        for above in ERAS {
            for transport in TRANSPORTS {
                let (builder, questions) = answering(&[Some("Ann"), Some("blue"), None]);
                let client = connect(gateway_to(below).await, builder, above, transport).await;
                let text = client.call("greet").await.unwrap().to_text();
                assert_eq!(text, "Ann likes blue", "{above:?} over {below:?} {transport:?}");
                let asked = questions.all();
                let message = "The server `files` asks:\nWho are you?";
                assert_eq!(asked[0].message.as_deref(), Some(message));
                assert_ne!(asked[0].callback_id, asked[1].callback_id);
            }
        }
    }
}

#[tokio::test]
async fn a_caller_with_forms_gets_a_form_and_any_other_is_answered_for() {
    for above in ERAS {
        for transport in TRANSPORTS {
            // The server behind the gateway is legacy here, because a modern one would itself end the request to ask.
            let forms: ClientBuilder = Client::builder("c", "1").on_elicitation(|form| {
                assert!(form.message.starts_with("The server `files` asks:\n"), "{}", form.message);
                std::future::ready(if form.message.ends_with("Who are you?") {
                    form.accept_with(&json!({ "answer": "Ann" }))
                } else if form.message.ends_with("colour?") {
                    form.accept_with(&json!({ "answer": "red" }))
                } else {
                    Ok(mgp_types::mcp::ElicitResult::new(ElicitAction::Decline))
                })
            });
            let client = connect(gateway_to(ERAS[0]).await, forms, above, transport).await;
            assert_eq!(client.call("greet").await.unwrap().to_text(), "Ann likes red", "{above:?}");
            assert_eq!(client.call("delete").await.unwrap().to_text(), "kept", "{above:?}");
            for below in ERAS {
                let plain = Client::builder("c", "1");
                let client = connect(gateway_to(below).await, plain, above, transport).await;
                assert_eq!(client.call("delete").await.unwrap().to_text(), "deleted", "{above:?}");
                assert_eq!(client.call("hasty").await.unwrap_err().code().0, 3003, "{above:?}");
            }
        }
    }
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
        let mgp = json!({ "version": "0.3.0", "extensions": ["callbacks"] });
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "mgp": mgp },
            "serverInfo": { "name": "script", "version": "1" },
        });
        script.serve("initialize", hello).await;
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
