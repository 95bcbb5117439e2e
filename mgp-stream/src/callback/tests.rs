//! Tests of callbacks: owners, options, time-outs, repeated notifications, and races.

use std::sync::Arc;
use std::time::Duration;

use mgp_testkit::Random;
use mgp_types::mcp::Revision;
use mgp_types::mgp::{CallbackRequestParams, CallbackType, Extension, ExtensionSet};
use mgp_types::service::{
    BoxFuture, Call, CallerAccess, CallerChannel, CallerRequest, Outlet, OutletItem, PeerInfo,
    Principal, Reply, Scope, ScopeKind, Stack, mock,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde_json::Value;
use tokio::sync::mpsc;
use tower_layer::Layer as _;

use super::*;

fn question(kind: CallbackType, options: &[&str]) -> CallbackRequestParams {
    let mut question = CallbackRequestParams::new("", kind);
    question.message = Some("Delete 3 files?".to_owned());
    question.options = options.iter().map(|&option| option.to_owned()).collect();
    question.timeout_ms = Some(60_000);
    question
}

/// Returns a client that negotiated callbacks, the notifications that are sent to it, and the layer. The tool that the
/// client can call asks for a confirmation, and returns whether it was confirmed.
fn client() -> (mock::Client, mpsc::Receiver<OutletItem>, CallbackLayer) {
    let layer = CallbackLayer::default();
    let tool = Stack::from_fn(|call: Call| async move {
        let question = question(CallbackType::Confirmation, &["confirm", "cancel"]);
        let answer = ask_callback(call.cx(), "q", question.clone()).await?;
        Reply::of(&answer.confirms(&question))
    });
    let mut client = mock::client(Stack::new(layer.layer(tool)));
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    facts.mgp = Some(ExtensionSet::EMPTY.with(Extension::Callbacks));
    client.cx.caller = Arc::new(facts);
    let (outlet, sent) = Outlet::channel(1_000);
    client.cx.outlet = outlet;
    (client, sent, layer)
}

async fn asked(sent: &mut mpsc::Receiver<OutletItem>) -> Value {
    match sent.recv().await {
        Some(OutletItem::Callback(params)) => serde_json::from_str(params.as_str()).unwrap(),
        other => panic!("expected a callback, got {other:?}"),
    }
}

async fn respond(client: &mut mock::Client, id: &Value, response: &str) -> Result<Value, RpcError> {
    let params = format!(r#"{{"callback_id":{id},"response":{response}}}"#);
    let result = client.request("mgp/callback/respond", &params).await?;
    Ok(serde_json::from_str::<Value>(result.as_str()).unwrap()["status"].clone())
}

const CALL: &str = r#"{"name":"a"}"#;

#[tokio::test]
async fn an_answer_reaches_its_call_and_counts_once() {
    let (mut client, mut sent, layer) = client();
    let call = tokio::spawn(client.call("tools/call", CALL));
    let first = asked(&mut sent).await;
    assert_eq!(first["request_id"], 1);
    assert_eq!(first["type"], "confirmation");
    assert_eq!(first["options"], serde_json::json!(["confirm", "cancel"]));
    assert_eq!(first["timeout_ms"], 60_000);
    let id = &first["callback_id"];
    assert_eq!(id.as_str().unwrap().len(), 32, "128 random bits");
    // An invalid answer is refused, and the question stays open.
    for wrong in [r#""maybe""#, r#""Confirm""#, "true", "{}", "1"] {
        let refused = respond(&mut client, id, wrong).await.unwrap_err();
        assert_eq!(refused.code().0, -32602, "{wrong}");
        assert!(refused.message().contains("dismiss the question"), "{refused}");
    }
    assert_eq!(layer.open(), 1);
    assert_eq!(respond(&mut client, id, r#""confirm""#).await.unwrap(), "accepted");
    assert_eq!(respond(&mut client, id, r#""cancel""#).await.unwrap(), "already_processed");
    assert_eq!(respond(&mut client, &"cb-001".into(), r#""confirm""#).await.unwrap(), "unknown");
    assert_eq!(call.await.unwrap().unwrap().as_body().unwrap().as_raw().as_str(), "true");
    assert_eq!(layer.open(), 0);
}

#[tokio::test]
async fn an_answer_right_behind_the_cancellation_of_its_call_is_not_accepted() {
    let (mut client, mut sent, layer) = client();
    let signal = Arc::new(crate::cancel::CancelSignal::new(crate::chunk::KeptBytes::default()));
    client.cx.extensions.insert_shared(Arc::clone(&signal));
    // The cancelled call is not dropped. It still waits when the answer arrives, and is polled again only after that.
    let call = tokio::spawn(client.call("tools/call", CALL));
    let id = asked(&mut sent).await["callback_id"].clone();
    assert_eq!(layer.open(), 1);
    signal.cancel_silently();
    assert_eq!(layer.open(), 0, "it does not count");
    assert_eq!(respond(&mut client, &id, r#""confirm""#).await.unwrap(), "unknown");
    assert_eq!(call.await.unwrap().unwrap_err().code().0, 3003);
}

#[tokio::test]
async fn only_the_owner_of_the_request_answers() {
    let (mut client, mut sent, layer) = client();
    let call = tokio::spawn(client.call("tools/call", CALL));
    let id = asked(&mut sent).await["callback_id"].clone();
    let own = client.cx.clone();
    for kind in [ScopeKind::Connection, ScopeKind::Session, ScopeKind::Request] {
        client.cx.scope = Scope::new(kind);
        assert_eq!(respond(&mut client, &id, r#""confirm""#).await.unwrap(), "unknown");
    }
    client.cx = own;
    client.cx.principal = Principal::new("other", "t");
    assert_eq!(respond(&mut client, &id, r#""confirm""#).await.unwrap(), "unknown");
    assert_eq!(layer.open(), 1, "the question is still open");
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_is_repeated_and_confirms_nothing() {
    let (mut client, mut sent, layer) = client();
    let error = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(error.code().0, 3003, "{error}");
    let mut ids = Vec::new();
    let mut attempts = Vec::new();
    while let Ok(OutletItem::Callback(params)) = sent.try_recv() {
        let params: Value = serde_json::from_str(params.as_str()).unwrap();
        ids.push(params["callback_id"].clone());
        attempts.push(params["_mgp"]["attempt"].as_u64());
    }
    assert_eq!(attempts, [None, Some(2), Some(3), Some(4)]);
    ids.dedup();
    assert_eq!(ids.len(), 1, "it keeps its id");
    assert_eq!(respond(&mut client, &ids[0], r#""confirm""#).await.unwrap(), "unknown", "late");
    assert_eq!(layer.open(), 0);
}

#[tokio::test]
async fn one_session_has_a_bounded_number_of_open_questions() {
    let (mut client, mut sent, layer) = client();
    let mut calls = Vec::new();
    for _ in 0..64 {
        calls.push(tokio::spawn(client.call("tools/call", CALL)));
        asked(&mut sent).await;
    }
    assert_eq!(client.request("tools/call", CALL).await.unwrap_err().code().0, 3001);
    client.cx.scope = Scope::new(ScopeKind::Session);
    calls.push(tokio::spawn(client.call("tools/call", CALL)));
    asked(&mut sent).await;
    assert_eq!(layer.open(), 65, "another session has its own bound");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[test]
fn only_a_clear_answer_confirms() {
    let given = |text: &str| CallbackAnswer::Given(Payload::from_trusted(text.to_owned()));
    for (options, response, confirms) in [
        (&["confirm", "cancel"][..], "\"confirm\"", true),
        (&["confirm", "cancel"], "\"cancel\"", false),
        (&["cancel", "confirm"], "\"cancel\"", false),
        (&["No", "Yes"], "\"No\"", false),
        (&[], "true", true),
        (&[], "false", false),
        (&[], "\"maybe\"", false),
        (&[], "{}", false),
        (&[], "null", false),
    ] {
        let question = question(CallbackType::Confirmation, options);
        assert_eq!(given(response).confirms(&question), confirms, "{options:?} {response}");
    }
    let asked = question(CallbackType::Confirmation, &["yes", "no"]);
    assert_eq!(CallbackAnswer::Declined.into_response(&asked).as_str(), "\"no\"");
    let odd = question(CallbackType::Confirmation, &["delete", "delete more"]);
    assert_eq!(CallbackAnswer::Declined.into_response(&odd).as_str(), "null");
}

/// Regression test: an object was refused as the answer to an input, although a form with several fields requests an
/// object.
#[test]
fn an_input_can_be_answered_with_any_json() {
    let asked = question(CallbackType::Input, &[]);
    for response in [r#""Ann""#, "5", "false", r#"{"a":[1]}"#] {
        let response = Payload::from_trusted(response);
        let answer = CallbackAnswer::read(&asked, &response).unwrap();
        assert_eq!(answer, CallbackAnswer::Given(response));
    }
    let asked = question(CallbackType::Selection, &[]);
    assert!(CallbackAnswer::read(&asked, &Payload::from_trusted("5")).is_err());
}

#[tokio::test(start_paused = true)]
async fn answers_time_outs_cancels_and_disconnects_in_any_order_leave_no_entry() {
    for seed in 1..300_u64 {
        let mut dice = Random(seed);
        let (mut client, mut sent, layer) = client();
        let mut calls = Vec::new();
        for _ in 0..=dice.below(4) {
            let call = tokio::spawn(client.call("tools/call", CALL));
            calls.push((call, asked(&mut sent).await["callback_id"].clone(), false));
        }
        let mut sent = Some(sent);
        for _ in 0..8 {
            let index = usize::try_from(dice.below(calls.len() as u64)).unwrap();
            let (call, id, confirmed) = &mut calls[index];
            match dice.below(6) {
                0 | 1 => {
                    let status = respond(&mut client, id, r#""confirm""#).await.unwrap();
                    *confirmed |= status == "accepted";
                }
                2 => drop(respond(&mut client, id, r#""cancel""#).await.unwrap()),
                3 => call.abort(),
                4 => tokio::time::sleep(Duration::from_secs(dice.below(40))).await,
                _ => drop(sent.take()),
            }
        }
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(layer.open(), 0, "seed {seed}");
        for (call, _, confirmed) in calls {
            let Ok(outcome) = call.await else { continue };
            let said_yes =
                outcome.is_ok_and(|reply| reply.as_body().unwrap().as_raw().as_str() == "true");
            assert!(!said_yes || confirmed, "seed {seed}: confirmed without an answer");
        }
    }
}

/// A caller that answers each question with the same result (the second field), and stores the questions.
struct Caller(std::sync::Mutex<Vec<CallerRequest>>, &'static str);

impl CallerChannel for Caller {
    fn ask(&self, _: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        self.0.lock().unwrap().push(ask);
        Box::pin(std::future::ready(Payload::parse(self.1)))
    }
}

/// Makes the caller of a client answer all MCP requests of the tool with `answer`. Returns the caller, which stores the
/// requests.
fn answer_all(client: &mut mock::Client, answer: &'static str) -> Arc<Caller> {
    let caller = Arc::new(Caller(std::sync::Mutex::default(), answer));
    client.cx.caller_access = CallerAccess::Channel(Arc::clone(&caller) as Arc<_>);
    caller
}

#[tokio::test]
async fn a_caller_that_only_opens_urls_is_refused_in_the_way_of_its_era() {
    let (mut client, _sent, _) = client();
    let caller = answer_all(&mut client, "{}");
    for (revision, code, needed) in [
        (Revision::V2025_11_25, ErrorCode::PERMISSION_DENIED, None),
        (
            Revision::MODERN,
            ErrorCode::MISSING_CLIENT_CAPABILITY,
            Some(r#"{"requiredCapabilities":{"elicitation":{"form":{}}}}"#),
        ),
    ] {
        let mut facts = PeerInfo::new(revision);
        facts.accepts.elicitation = true;
        facts.capabilities = Some(Payload::from_trusted(r#"{"elicitation":{"url":{}}}"#));
        client.cx.caller = Arc::new(facts);
        let question = question(CallbackType::Confirmation, &[]);
        let refused = ask_callback(&client.cx, "q", question).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert_eq!(refused.as_data().map(Payload::as_str), needed);
    }
    assert!(caller.0.lock().unwrap().is_empty(), "the caller got no question");
}

#[tokio::test]
async fn a_completion_is_sampling_for_a_caller_that_offers_it() {
    let (mut client, _sent, _) = client();
    let mut question: CallbackRequestParams = serde_json::from_str(
        r#"{"callback_id":"llm-1","type":"llm_completion","timeout_ms":9000,
            "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"}],
            "model_hints":{"speed_priority":0.7,"provider":"small"}}"#,
    )
    .unwrap();
    question.message = Some("The server `s` asks:".to_owned());
    let answer = r#"{"role":"assistant","model":"m","content":{"type":"text","text":"four"}}"#;
    let caller = answer_all(&mut client, answer);
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    assert!(!can_ask_callback(&client.cx, &question), "neither callbacks nor sampling");
    facts.accepts.sampling = true;
    client.cx.caller = Arc::new(facts);
    assert!(can_ask_callback(&client.cx, &question));
    let answer = ask_callback(&client.cx, "q", question).await.unwrap();
    let CallbackAnswer::Given(response) = answer else { panic!("{answer:?}") };
    let response: Value = serde_json::from_str(response.as_str()).unwrap();
    assert_eq!((&response["content"], &response["model"]), (&"four".into(), &"m".into()));
    let asked = caller.0.lock().unwrap().remove(0);
    assert_eq!(asked.method(), "sampling/createMessage");
    let params: Value = serde_json::from_str(asked.params().as_str()).unwrap();
    assert_eq!(params["systemPrompt"], "The server `s` asks:\nBe brief.");
    assert_eq!(params["messages"][0]["content"]["text"], "2+2?");
    assert_eq!(params["modelPreferences"]["hints"][0]["name"], "small");
}
