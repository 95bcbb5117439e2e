//! Tests of questions through a hop to a server, in the four pairs of eras of caller and server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolRouter};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{
    Call, CallerRequest, InputRequired, Method, Params, Reply, Stack, around,
};
use tower_layer::Layer;

use super::world::{both, config, hop, kernel, person};

const ACCEPT: &str = r#"{"action":"accept","content":{"ok":true}}"#;

fn question() -> Payload {
    Payload::parse(
        r#"{"message":"Delete 15 files?","requestedSchema":{"type":"object","properties":{}}}"#,
    )
    .unwrap()
}

/// A gate that asks the caller to confirm each tool call, and counts the confirmations and the calls that ended.
#[derive(Clone, Default)]
struct Confirm {
    confirmed: Arc<AtomicUsize>,
    audited: Arc<AtomicUsize>,
}

impl Confirm {
    fn layer(&self) -> impl Layer<Stack, Service = Stack> + use<> {
        let gate = self.clone();
        around(move |call: Call, inner: Stack| {
            let gate = gate.clone();
            async move {
                if call.tool().is_none() {
                    return inner.send(call).await;
                }
                let cx = call.cx().clone();
                cx.ask("confirm", CallerRequest::new("elicitation/create", question())).await?;
                cx.once("confirmed", || async {
                    gate.confirmed.fetch_add(1, Ordering::SeqCst);
                    Ok(true)
                })
                .await?;
                let reply = inner.send(call).await?;
                if matches!(reply, Reply::Complete(_)) {
                    gate.audited.fetch_add(1, Ordering::SeqCst);
                }
                Ok(reply)
            }
        })
    }
}

/// Returns a server whose tool asks two questions, and between them computes a value once per call; `made` counts the
/// computations.
fn asking(made: &Arc<AtomicUsize>) -> Server {
    let made = Arc::clone(made);
    let tool = Tool::new("ask", "Asks twice", move |cx: Context| {
        let made = Arc::clone(&made);
        async move {
            let first =
                cx.ask("first", CallerRequest::new("elicitation/create", question())).await?;
            cx.once("made", || async {
                made.fetch_add(1, Ordering::SeqCst);
                Ok(1_u32)
            })
            .await?;
            let second =
                cx.ask("second", CallerRequest::new("elicitation/create", question())).await?;
            Ok::<_, RpcError>(format!("{} {}", first.as_str(), second.as_str()))
        }
    });
    Server::new("below", "1").tool(tool)
}

/// Calls a tool as a modern client does: answers each round and calls again.
async fn in_rounds(
    client: &Client,
    tool: &str,
    answer: &str,
) -> Result<(CallToolResult, usize), RpcError> {
    let mut asked = 0;
    let mut carried: Option<(Payload, Option<Payload>)> = None;
    for _ in 0..10 {
        let params = Params::tool(tool, &Payload::empty_object());
        let mut call =
            Call::request(Method::from_static(ToolsCall::METHOD), params, client.context());
        if let Some((responses, state)) = carried.take() {
            call.hop_mut().input_responses = Some(responses);
            call.hop_mut().request_state = state;
        }
        match client.stack().send(call).await? {
            Reply::InputRequired(InputRequired { asks, state }) => {
                asked += asks.len();
                let responses: Vec<String> =
                    asks.iter().map(|(key, _)| format!("\"{key}\":{answer}")).collect();
                let responses = Payload::parse(format!("{{{}}}", responses.join(",")))?;
                carried = Some((responses, state.map(|state| Payload::of(&state).unwrap())));
            }
            reply => return Ok((reply.get()?, asked)),
        }
    }
    panic!("the call asks for ever");
}

/// Checks one pair of eras, `above` and `below` the hop: the tool asks two questions and the gate one, and each
/// question reaches the caller once.
async fn cell(above: EraChoice, below: EraChoice) {
    let (made, asked, gate) = (Arc::default(), Arc::default(), Confirm::default());
    let hop = hop(asking(&made), config(below), gate.layer()).await;
    let end = kernel(ToolRouter::new().route("ask", hop.clone()));
    let mut config = config(above);
    config.handlers = person(ACCEPT, &asked);
    let client = Client::connect(end.reader, end.writer, config).await.unwrap();
    let (result, questions) = if above == EraChoice::Modern {
        in_rounds(&client, "ask", ACCEPT).await.unwrap()
    } else {
        let result = client.call_tool("ask", &Payload::empty_object()).await.unwrap();
        (result, asked.load(Ordering::SeqCst))
    };
    assert_eq!(result.content, CallToolResult::text(format!("{ACCEPT} {ACCEPT}")).content);
    assert_eq!(questions, 3, "two questions of the tool and one of the gate");
    assert_eq!(gate.confirmed.load(Ordering::SeqCst), 1, "one confirmation for the logical call");
    assert_eq!(gate.audited.load(Ordering::SeqCst), 1, "one final event for the logical call");
    assert_eq!(made.load(Ordering::SeqCst), 1, "a kept value is made once");
    assert_eq!(hop.parked(), 0);
}

#[test]
fn a_parked_call_ends_with_the_connection_of_its_caller() {
    both(|| async {
        let below = config(EraChoice::Legacy);
        let hop = hop(asking(&Arc::default()), below, Confirm::default().layer()).await;
        let end = kernel(ToolRouter::new().route("ask", hop.clone()));
        let client = Client::connect(end.reader, end.writer, config(EraChoice::Modern)).await;
        let client = client.unwrap();
        let params = Params::tool("ask", &Payload::empty_object());
        let method = Method::from_static(ToolsCall::METHOD);
        let call = Call::request(method, params, client.context());
        let reply = client.stack().send(call).await.unwrap();
        assert!(matches!(reply, Reply::InputRequired(_)), "{reply:?}");
        assert_eq!(hop.parked(), 1);
        drop(client);
        while hop.parked() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn each_question_reaches_the_caller_once_in_each_pair_of_eras() {
    let eras = [EraChoice::Legacy, EraChoice::Modern];
    for (above, below) in eras.into_iter().flat_map(|above| eras.map(|below| (above, below))) {
        both(|| cell(above, below));
    }
}
