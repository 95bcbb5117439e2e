//! Tests of the questions of a server to its client: as requests, in a result that asks for input, and refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, TestClient, ToolResult};
use mgp_server_sdk::prelude::*;
use mgp_testkit::{Alive, until};
use mgp_types::Payload;
use mgp_types::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, Role, Root,
};
use mgp_types::service::{AcceptedRequests, CallerRequest, Reply};
use serde_json::json;

use crate::script::{Script, plain};

/// Returns a server whose tool asks three questions, two of them at the same time.
fn curious() -> Server {
    Server::new("curious", "1").tool(Tool::new("ask", "Asks", |cx: Context| async move {
        let form = r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}"#;
        let talk =
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}"#;
        let sure = cx.ask("sure", CallerRequest::new("elicitation/create", Payload::parse(form)?));
        let roots = cx.ask("roots", CallerRequest::new("roots/list", Payload::empty_object()));
        let (sure, roots) = (sure.await?, roots.await?);
        let said = cx
            .ask("talk", CallerRequest::new("sampling/createMessage", Payload::parse(talk)?))
            .await?;
        Ok::<_, RpcError>(format!("{} {} {}", sure.as_str(), roots.as_str(), said.as_str()))
    }))
}

struct Friendly(Arc<AtomicUsize>);

impl mgp_client_sdk::ClientHandler for Friendly {
    fn accepted_requests(&self) -> AcceptedRequests {
        let mut asks = AcceptedRequests::default();
        (asks.elicitation, asks.sampling, asks.roots) = (true, true, true);
        asks
    }

    async fn elicit(&self, question: ElicitParams) -> Result<ElicitResult, RpcError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(question.message, "sure?");
        Ok(ElicitResult::new(ElicitAction::Accept))
    }

    async fn sample(&self, talk: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        assert_eq!(talk.max_tokens, 9);
        let answer = mgp_types::mcp::ContentBlock::text("hello");
        Ok(CreateMessageResult::new(Role::Assistant, vec![answer], "m"))
    }

    async fn roots(&self) -> Result<Vec<Root>, RpcError> {
        Ok(vec![Root::new("file:///work")])
    }
}

fn eras(builder: impl Fn() -> ClientBuilder) -> [ClientBuilder; 2] {
    [builder().era(EraChoice::Legacy), builder().era(EraChoice::Modern)]
}

#[tokio::test]
async fn handlers_answer_in_both_eras() {
    let asked = Arc::new(AtomicUsize::new(0));
    for builder in eras(|| Client::builder("c", "1").handler(Friendly(Arc::clone(&asked)))) {
        let client = TestClient::with_builder(curious(), builder).await;
        let text = client.text("ask", ()).await;
        for part in ["accept", "file:///work", "hello"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn requests_that_were_not_offered_are_refused() {
    for builder in eras(|| Client::builder("c", "1")) {
        let client = TestClient::with_builder(curious(), builder).await;
        let code = client.refusal("ask", ()).await.code().0;
        assert!(matches!(code, 1000 | -32021), "{code}");
    }
}

#[tokio::test]
async fn a_request_without_a_handler_gets_an_error() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    for method in
        ["elicitation/create", "sampling/createMessage", "roots/list", "mgp/health/ping", "x/y"]
    {
        script.write(&json!({ "jsonrpc": "2.0", "id": 5, "method": method })).await;
        let answer = script.read().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&5.into(), &(-32601).into()),
            "{answer}"
        );
    }
    script.write(&json!({ "jsonrpc": "2.0", "id": 6, "method": "ping" })).await;
    assert_eq!(script.read().await.unwrap()["result"], json!({}));
    assert!(!client.is_closed());
}

#[tokio::test]
async fn a_refused_answer_contains_nothing_of_mgp_for_a_plain_server() {
    let builder = Client::builder("c", "1")
        .on_elicitation(|_| async { Err(RpcError::new(ErrorCode::PERMISSION_DENIED, "not now")) });
    let (_client, mut script) = Script::legacy(builder, json!({})).await;
    let params = json!({ "message": "?" });
    script.send("elicitation/create", params).await;
    let answer = script.read().await.unwrap();
    assert_eq!(answer["error"], json!({ "code": 1000, "message": "not now" }));
}

#[tokio::test]
async fn a_question_that_its_server_withdraws_is_dropped_and_gets_no_answer() {
    let open = Alive::default();
    let counter = open.clone();
    let builder = plain().on_elicitation(move |_| {
        let answering = counter.begin();
        async move {
            let _answering = answering;
            std::future::pending::<Result<ElicitResult, RpcError>>().await
        }
    });
    let (_client, mut script) = Script::legacy(builder, json!({})).await;
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    script.send("elicitation/create", form).await;
    until("the question is asked", async || open.now() == 1).await;
    script.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    until("the question is dropped", async || open.now() == 0).await;
    script.write(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    assert_eq!(script.read().await.unwrap()["id"], 2);
}

#[tokio::test]
async fn rounds_carry_answers_and_state_and_are_bounded() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let builder = plain().config(|config| config.max_rounds = 2).on_elicitation(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok(ElicitResult::new(ElicitAction::Decline)) }
    });
    let (client, mut script) = Script::modern(builder, json!({})).await;
    let server = tokio::spawn(async move {
        for round in 0..3 {
            let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
            let call = script
                .serve("tools/call", json!({
                    "resultType": "input_required",
                    "inputRequests": { "k": { "method": "elicitation/create", "params": form } },
                    "requestState": format!("s{round}"),
                }))
                .await;
            if round > 0 {
                assert_eq!(call["params"]["requestState"], format!("s{}", round - 1));
                assert_eq!(call["params"]["inputResponses"]["k"]["action"], "decline");
                assert_eq!(call["params"]["arguments"], json!({ "a": 1 }));
            }
        }
        script
    });
    let error = client.call("t").arg("a", 1).await.unwrap_err();
    assert_eq!(error.message(), "the server asked questions in more than 2 rounds (`max_rounds`)");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "answers that would not be sent are not obtained");

    // A raw call must return the questions themselves.
    let mut script = server.await.unwrap();
    let (reply, _) = tokio::join!(
        client.call("t").raw(),
        script.serve("tools/call", json!({ "resultType": "input_required", "requestState": "s" }))
    );
    assert!(matches!(reply.unwrap(), Reply::InputRequired(_)));

    // A question that the client cannot answer must end the call.
    let asks = json!({ "resultType": "input_required", "inputRequests": { "k": { "method": "roots/list" } } });
    let (reply, _) = tokio::join!(client.call("t").send(), script.serve("tools/call", asks));
    assert_eq!(reply.unwrap_err().message(), "`roots/list` is not offered by this client");
}

#[tokio::test]
async fn a_result_of_an_unknown_kind_is_an_error() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let later = json!({ "resultType": "later", "content": [] });
    let (result, _) = tokio::join!(client.call("t").send(), script.serve("tools/call", later));
    assert_eq!(result.unwrap_err().message(), "a result of the unknown kind `later`");
    let absent = json!({ "content": [{ "type": "text", "text": "done" }] });
    let (result, _) = tokio::join!(client.call("t").send(), script.serve("tools/call", absent));
    assert_eq!(result.unwrap().to_text(), "done");
}

#[tokio::test]
async fn each_elicitation_mode_is_offered_separately() {
    let accept = |question: ElicitParams| async move { Ok(question.accept()) };
    for (builder, offered, mode, refused) in [
        (plain().on_elicitation(accept), json!({ "form": {} }), "form", "url"),
        (plain().on_url_elicitation(accept), json!({ "url": {} }), "url", "form"),
    ] {
        let (end, mut script) = Script::new();
        let connecting = builder.era(EraChoice::Legacy).connect(end.reader, end.writer);
        let (client, hello) = tokio::join!(connecting, script.initialize("2025-11-25", json!({})));
        assert_eq!(hello["params"]["capabilities"]["elicitation"], offered);
        let question = |mode: &str| {
            json!({ "jsonrpc": "2.0", "id": mode, "method": "elicitation/create", "params": {
                "mode": mode, "message": "?", "url": "https://example.com/", "elicitationId": "e",
                "requestedSchema": { "type": "object", "properties": {} },
            } })
        };
        script.write(&question(mode)).await;
        assert_eq!(script.read().await.unwrap()["result"]["action"], "accept");
        script.write(&question(refused)).await;
        let answer = script.read().await.unwrap();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        drop(client);
    }
}

#[tokio::test]
async fn a_completed_url_elicitation_is_reported_and_a_call_names_its_pages() {
    let (tell, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let builder = plain().on_elicitation_complete(move |id| tell.send(id.to_owned()).unwrap());
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    script.notify("notifications/elicitation/complete", json!({ "elicitationId": "e1" })).await;
    assert_eq!(heard.recv().await.as_deref(), Some("e1"));
    let refuse = async {
        let call = script.read().await.unwrap();
        let page = json!({ "mode": "url", "message": "log in", "elicitationId": "e1", "url": "https://example.com/" });
        let error = json!({ "code": -32042, "message": "log in first", "data": { "elicitations": [page] } });
        script.refuse(&call, error).await;
    };
    let (outcome, ()) = tokio::join!(client.call("t").send(), refuse);
    let pages = outcome.unwrap_err().pages();
    assert_eq!(pages[0].url.as_deref(), Some("https://example.com/"));
}

#[tokio::test]
async fn sampling_with_tools_needs_its_own_capability() {
    let answer = |_: CreateMessageParams| async {
        let text = mgp_types::mcp::ContentBlock::text("hello");
        Ok(CreateMessageResult::new(Role::Assistant, vec![text], "m"))
    };
    let talk = json!({
        "messages": [], "maxTokens": 9,
        "tools": [{ "name": "t", "inputSchema": { "type": "object" } }],
    });
    for (builder, offered, code) in [
        (plain().on_sampling(answer), json!({}), Some(-32602)),
        (plain().on_sampling_with_tools(answer), json!({ "tools": {} }), None),
        (plain().on_sampling_with_tools(answer).on_sampling(answer), json!({}), Some(-32602)),
    ] {
        let (end, mut script) = Script::new();
        let connecting = builder.era(EraChoice::Legacy).connect(end.reader, end.writer);
        let (client, hello) = tokio::join!(connecting, script.initialize("2025-11-25", json!({})));
        assert_eq!(hello["params"]["capabilities"]["sampling"], offered);
        script.send("sampling/createMessage", talk.clone()).await;
        assert_eq!(script.read().await.unwrap()["error"]["code"].as_i64(), code);
        drop(client);
    }
}

#[tokio::test]
async fn a_sampled_message_of_one_block_is_sent_without_a_list() {
    let builder = plain().on_sampling(|_| async {
        let text = mgp_types::mcp::ContentBlock::text("hello");
        Ok(CreateMessageResult::new(Role::Assistant, vec![text], "m"))
    });
    let (end, mut script) = Script::new();
    let connecting = builder.era(EraChoice::Legacy).connect(end.reader, end.writer);
    let (client, _) = tokio::join!(connecting, script.initialize("2025-06-18", json!({})));
    script.send("sampling/createMessage", json!({ "messages": [], "maxTokens": 9 })).await;
    let answer = script.read().await.unwrap();
    assert_eq!(answer["result"]["content"], json!({ "type": "text", "text": "hello" }));
    drop(client);
}

#[tokio::test]
async fn the_state_of_a_round_is_returned_unchanged_to_its_call_only() {
    let builder = plain().on_elicitation(|question| async move { Ok(question.accept()) });
    let (client, mut script) = Script::modern(builder, json!({})).await;
    let state = "{\"nonce\": \"\u{e9}\\n\u{1f600}\",  \"n\":1.0}";
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let asks = |state: Option<&str>| {
        let mut asks = json!({
            "resultType": "input_required",
            "inputRequests": { "k": { "method": "elicitation/create", "params": form } },
        });
        if let Some(state) = state {
            asks["requestState"] = state.into();
        }
        asks
    };
    for state in [Some(state), None] {
        let serve = async {
            let first = script.serve("tools/call", asks(state)).await;
            // A call that is made while another call is answered must contain neither the answers nor the state of that
            // other call.
            let second = script.read().await.unwrap();
            let third = script.read().await.unwrap();
            let (retry, other) =
                if second["params"]["name"] == "t" { (second, third) } else { (third, second) };
            assert_ne!(first["id"], retry["id"]);
            assert_eq!(retry["params"]["requestState"].as_str(), state);
            assert!(retry["params"]["inputResponses"]["k"].is_object());
            for member in ["requestState", "inputResponses"] {
                assert!(other["params"].get(member).is_none(), "{other}");
            }
            for request in [&retry, &other] {
                script.answer(request, json!({ "content": [] })).await;
            }
        };
        let (one, other, ()) =
            tokio::join!(client.call("t").send(), client.call("other").send(), async {
                serve.await;
            });
        one.unwrap();
        other.unwrap();
    }
}
