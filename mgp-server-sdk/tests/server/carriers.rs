//! Tests of the stream on which each kind of message reaches the peer: over stdio, and over HTTP in both eras
//! (`docs/carriers.md`).
//!
//! One tool sends most kinds of messages, because the stream does not depend on which code sends a message.

#[expect(dead_code, reason = "these stories need less of it")]
#[path = "../http_faults/caller.rs"]
mod caller;
#[expect(dead_code, reason = "these stories need less of it")]
#[path = "../http_faults/wire.rs"]
mod wire;

use std::sync::Arc;

use caller::{Caller, result_text};
use mgp_server_sdk::prelude::*;
use mgp_transport::http::{HttpConfig, HttpService};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::ExtensionSet;
use mgp_types::service::{Call, ConsumerGone, Method, Params};
use mgp_types::{Payload, RpcError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc};
use wire::{Event, Response};

/// The methods of the messages that the tool `tell` sends through the outlet of its call, in order of arrival.
const OF_THE_CALL: [&str; 6] = [
    "notifications/mgp.stream.chunk",
    "notifications/progress",
    "notifications/mgp.stream.progress",
    "notifications/message",
    "notifications/mgp.event",
    "notifications/mgp.callback.request",
];
/// The method of the message with the last chunk; it is sent when the call of the tool `tell` ends.
const END: &str = "notifications/mgp.stream.chunk";
/// The methods of the messages that the tool `tell` sends directly to its peer; they belong to no call.
const OF_NO_CALL: [&str; 2] = ["notifications/mgp.lifecycle", "notifications/mgp.audit"];
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// A server over HTTP.
pub(crate) struct World {
    address: std::net::SocketAddr,
    service: HttpService,
    tools: mgp_server_sdk::Tools,
    late: Late,
}

mod world {
    pub(crate) use super::World;
}

/// A handle by which the test makes tools send progress after their calls have ended, and learns whether that
/// succeeded.
#[derive(Clone)]
struct Late {
    go: Arc<Notify>,
    received: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Result<(), ConsumerGone>>>>,
    hears: mpsc::UnboundedSender<Result<(), ConsumerGone>>,
}

impl Default for Late {
    fn default() -> Self {
        let (hears, received) = mpsc::unbounded_channel();
        Self { go: Arc::default(), received: Arc::new(tokio::sync::Mutex::new(received)), hears }
    }
}

impl Late {
    async fn outcome(&self) -> Result<(), ConsumerGone> {
        self.go.notify_one();
        self.received.lock().await.recv().await.unwrap()
    }
}

async fn to_peer(cx: &Context, method: &str, params: &Value) -> Result<(), RpcError> {
    let params = Params::split(method, params.to_string().into())?;
    let out = cx.peer.context(&cx.scope);
    cx.peer.send(Call::notification(Method::of(method), params, out)).await.map(drop)
}

async fn tell(cx: Context) -> Result<&'static str, RpcError> {
    let payload = |value: Value| Payload::of(&value);
    let block = payload(json!({ "type": "text", "text": "whole" }))?;
    let log = payload(json!({ "level": "info", "data": "log" }))?;
    let event = payload(json!({ "subscription_id": "s", "type": "event" }))?;
    let callback = payload(json!({ "callback_id": "c" }))?;
    for item in [
        OutletItem::chunk(block),
        OutletItem::Progress(Progress { progress: 1.0, total: Some(2.0), ..Progress::default() }),
        OutletItem::Log(log),
        OutletItem::Event(event),
        OutletItem::Callback(callback),
    ] {
        cx.outlet.send(item).await.map_err(|_| RpcError::internal("no listener"))?;
    }
    for method in OF_NO_CALL {
        to_peer(&cx, method, &json!({})).await?;
    }
    Ok("whole")
}

#[derive(Deserialize, JsonSchema)]
struct Amount {
    n: u32,
}

fn server(late: &Late) -> Server {
    let late = late.clone();
    let later = Tool::new("later", "Says something when its call is over", move |cx: Context| {
        let late = late.clone();
        tokio::spawn(async move {
            late.go.notified().await;
            let _ = late.hears.send(cx.outlet.progress(2.0, 2.0).await);
        });
        async { "answered" }
    });
    let many = Tool::new(
        "many",
        "Tells its peer n times",
        |Args(Amount { n }): Args<Amount>, cx: Context| async move {
            for number in 0..n {
                to_peer(&cx, OF_NO_CALL[1], &json!({ "number": number })).await?;
            }
            Ok::<_, RpcError>("messages")
        },
    );
    let aloud = Tool::new(
        "aloud",
        "Sends n chunks",
        |Args(Amount { n }): Args<Amount>, outlet: Outlet| async move {
            let mut text = String::new();
            for number in 0..n {
                let word = format!("{number} ");
                outlet.text(&word).await.map_err(|_| RpcError::internal("no listener"))?;
                text += &word;
            }
            Ok::<_, RpcError>(text)
        },
    );
    Server::new("carriers", "1")
        .offer(|offer| offer.mgp.as_mut().unwrap().extensions = ExtensionSet::STANDARD)
        .logging()
        .tool(Tool::new("tell", "Says one of each", tell))
        .tool(later)
        .tool(many)
        .tool(aloud)
}

/// The capabilities of a peer that supports all of MGP.
fn everything() -> Value {
    let all: Vec<_> = ExtensionSet::STANDARD.iter().map(|one| one.as_str().to_owned()).collect();
    json!({ "mgp": { "version": "0.6.0", "extensions": all } })
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({
        "name": name,
        "arguments": arguments,
        "_meta": { "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" },
        "_mgp": { "stream": true },
    })
}

impl World {
    async fn open(change: impl FnOnce(&mut HttpConfig)) -> Self {
        let late = Late::default();
        let server = server(&late);
        let tools = server.tools();
        let bound = server.http("127.0.0.1:0").no_auth().config(change).bind().await.unwrap();
        let (address, service) = (bound.local_addr(), bound.service());
        tokio::spawn(bound.run());
        Self { address, service, tools, late }
    }

    fn change_tools(&self) {
        self.tools.add(Tool::new("new", "Is new", || async { "" }));
    }
}

fn methods(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.data["method"].as_str().unwrap_or("answer")).collect()
}

async fn events(response: &mut Response, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(response.event().await.unwrap());
    }
    events
}

/// Waits until the server has stored messages that no client has read.
async fn stored(world: &World, bytes: usize) {
    while world.service.stored_bytes() < bytes {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn stdio_carries_everything_in_the_order_it_was_sent() {
    let late = Late::default();
    let server = server(&late);
    let tools = server.tools();
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, server.into_stack().unwrap()).run());
    let (mut writer, mut lines) = (here.writer, BufReader::new(here.reader).lines());
    let hello = mgp_testkit::hello("2025-11-25", &everything());
    let tell = call("tell", &json!({}));
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tell }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call("later", &json!({})) }),
    ] {
        writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut next = async || {
        let line = lines.next_line().await.unwrap().unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        message["method"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned)
    };
    assert_eq!(next().await, "1");
    let mut output: Vec<String> = Vec::new();
    while output.len() < OF_THE_CALL.len() + OF_NO_CALL.len() + 3 {
        output.push(next().await);
    }
    // The two calls run concurrently, so the answer to the second may be in any position.
    output.retain(|message| message != "3");
    assert_eq!(output, [OF_THE_CALL.as_slice(), &OF_NO_CALL, &[END, "2"]].concat());
    // The call has ended, but its connection is still open, so messages of the call can still be sent.
    assert_eq!(late.outcome().await, Ok(()));
    let progress = [next().await, next().await];
    assert_eq!(progress, [OF_THE_CALL[1], OF_THE_CALL[2]]);
    tools.add(Tool::new("new", "Is new", || async { "" }));
    assert_eq!(next().await, LIST_CHANGED);
}

#[tokio::test]
async fn legacy_http_has_a_stream_for_each_call_and_one_for_the_session() {
    let world = World::open(|_| {}).await;
    let caller = Caller::legacy(&world, everything(), None).await;
    let mut session = caller.get(None).await;
    let mut response = caller.request(1, "tools/call", call("tell", &json!({}))).await;
    let messages = response.rest().await;
    assert_eq!(methods(&messages), [OF_THE_CALL.as_slice(), &[END, "answer"]].concat());
    assert_eq!(methods(&events(&mut session, 2).await), OF_NO_CALL);
    world.change_tools();
    assert_eq!(methods(&events(&mut session, 1).await), [LIST_CHANGED]);

    // After a call has ended, its messages can only be sent on the session's stream, so they must arrive there.
    let answered = caller.request(2, "tools/call", call("later", &json!({}))).await;
    assert_eq!(result_text(&answered.message().await), "answered");
    assert_eq!(world.late.outcome().await, Ok(()));
    let late = events(&mut session, 2).await;
    assert_eq!(methods(&late), [OF_THE_CALL[1], OF_THE_CALL[2]]);

    // The ids of the events are consecutive numbers, so the client has missed no event.
    let ids: Vec<_> = messages.iter().map(|event| event.id.clone().unwrap()).collect();
    let numbered = |id: &String| id.split_once('-').unwrap().1.parse::<usize>().unwrap();
    assert_eq!(ids.iter().map(numbered).collect::<Vec<_>>(), (0..ids.len()).collect::<Vec<_>>());
    assert_eq!(late[1].id.as_deref(), Some("0-4"));
}

#[tokio::test]
async fn unread_messages_of_a_legacy_session_are_stored_until_they_are_read() {
    let world = World::open(|_| {}).await;
    let caller = Caller::legacy(&world, everything(), None).await;
    world.change_tools();
    stored(&world, 1).await;
    let mut session = caller.get(None).await;
    assert_eq!(methods(&events(&mut session, 1).await), [LIST_CHANGED]);
    drop(session);
    // A client that disconnects can open the stream again and receive the messages that it has missed.
    let mut session = caller.get(None).await;
    assert!(world.tools.remove("new"));
    let changed = events(&mut session, 1).await;
    assert_eq!(changed[0].id.as_deref(), Some("0-1"), "nothing is sent twice");
    drop(session);
    let mut again = caller.get(Some("0-0")).await;
    assert_eq!(events(&mut again, 1).await, changed);
}

/// The oldest events are dropped first, which only a gap in the event ids shows.
#[tokio::test]
async fn stored_events_are_bounded_and_their_ids_show_the_gap() {
    let world = World::open(|config| config.replay_bytes = 2_000).await;
    let caller = Caller::legacy(&world, everything(), None).await;
    let answer = caller.request(1, "tools/call", call("many", &json!({ "n": 100 }))).await;
    assert_eq!(result_text(&answer.message().await), "messages");
    assert!(world.service.stored_bytes() <= 2_000);
    let mut session = caller.get(None).await;
    let first = session.event().await.unwrap();
    let number = first.data["params"]["number"].as_u64().unwrap();
    assert!((50..100).contains(&number), "{first:?}");
    assert_eq!(first.id, Some(format!("0-{number}")));
    let rest = events(&mut session, usize::try_from(99 - number).unwrap()).await;
    assert_eq!(rest.last().unwrap().data["params"]["number"], 99);
}

/// The member `index` of the chunks shows which of them the server dropped, and the answer contains the whole text.
#[tokio::test]
async fn chunks_that_were_dropped_are_in_the_answer() {
    let world = World::open(|config| config.replay_bytes = 2_000).await;
    let caller = Caller::legacy(&world, everything(), None).await;
    let mut cut = caller.request(1, "tools/call", call("aloud", &json!({ "n": 5_000 }))).await;
    let seen = cut.event().await.unwrap();
    assert_eq!(seen.data["params"]["index"], 0);
    drop(cut);
    while world.service.running() > 0 {
        tokio::task::yield_now().await;
    }
    let mut rest = caller.get(seen.id.as_deref()).await.rest().await;
    let answer = rest.pop().unwrap().data;
    let all = (0..5_000).fold(String::new(), |all, number| format!("{all}{number} "));
    assert_eq!(result_text(&answer), all);
    let index = |event: &Event| event.data["params"]["index"].as_u64().unwrap();
    assert!(rest.first().is_none_or(|event| index(event) > 1), "there is no gap");
    assert!(rest.windows(2).all(|pair| index(&pair[0]) + 1 == index(&pair[1])), "a second hole");
}

#[tokio::test]
async fn modern_http_has_the_response_of_the_request_and_nothing_else() {
    let world = World::open(|_| {}).await;
    let caller = Caller::modern(&world, everything(), None);
    let mut response = caller.request(1, "tools/call", call("tell", &json!({}))).await;
    let messages = response.rest().await;
    assert_eq!(
        methods(&messages),
        [OF_THE_CALL.as_slice(), &OF_NO_CALL, &[END, "answer"]].concat()
    );
    assert!(messages.iter().all(|event| event.id.is_none()), "a response cannot be resumed");

    let answered = caller.request(2, "tools/call", call("later", &json!({}))).await;
    assert_eq!(result_text(&answered.message().await), "answered");
    assert_eq!(world.late.outcome().await, Err(ConsumerGone), "its stream is over");

    // The server sends notifications of changes to a modern client only on the stream that the client opened for them.
    world.change_tools();
    let wish = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = caller.request(3, "subscriptions/listen", wish).await;
    let acknowledged = listening.event().await.unwrap();
    assert_eq!(acknowledged.data["method"], "notifications/subscriptions/acknowledged");
    assert!(world.tools.remove("new"));
    assert_eq!(methods(&events(&mut listening, 1).await), [LIST_CHANGED]);
    drop(listening);
    while world.service.running() > 0 {
        tokio::task::yield_now().await;
    }
    world.change_tools();
    assert_eq!(world.service.stored_bytes(), 0, "nothing is stored without a reader");
}

/// A peer that did not request a kind of messages must not receive it, in either era.
#[tokio::test]
async fn items_that_were_not_requested_are_not_made() {
    let world = World::open(|_| {}).await;
    for caller in
        [Caller::legacy(&world, json!({}), None).await, Caller::modern(&world, json!({}), None)]
    {
        let arguments = json!({ "name": "aloud", "arguments": { "n": 3 } });
        let answer = caller.request(1, "tools/call", arguments).await;
        assert!(!answer.is_events());
        assert_eq!(result_text(&answer.message().await), "0 1 2 ");
    }
}
