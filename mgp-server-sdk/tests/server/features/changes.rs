//! Tests of change notifications to legacy sessions, to subscribers of resources, and on modern streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{
    ChangeNotifier, EventHub, Prompt, Resource, ResourceSubscriber, ResourceSubscription, Resources,
};
use mgp_types::mcp::Era;
use mgp_types::method::Initialized;
use mgp_types::service::Router;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::wire::{ERAS, Wire, code};

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", || async { "did it" })
}

fn server() -> Server {
    Server::new("changing", "1")
        .tool(tool("a"))
        .tool(tool("b"))
        .prompt(Prompt::new("p", "A prompt", || async { "" }))
        .resource(Resource::text("test://watched", "watched", "now"))
        .resource(Resource::template("test://{n}/x", "family", || async { "" }))
}

fn methods(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|notice| notice["method"].as_str().unwrap()).collect()
}

async fn names(wire: &mut Wire) -> Vec<String> {
    let list = wire.ask("tools/list", json!({})).await.unwrap();
    let tools = list["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_burst_of_changes_is_one_message_to_each_session() {
    let server = server();
    let (tools, prompts, resources) = (server.tools(), server.prompts(), server.resources());
    let stack = server.into_stack().unwrap();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(Wire::to(&stack, Era::Legacy, json!({})).await);
    }
    let mut modern = Wire::to(&stack, Era::Modern, json!({})).await;
    for number in 0..20 {
        tools.add(tool(&number.to_string()));
        assert!(tools.remove(&number.to_string()));
    }
    prompts.add(Prompt::new("q", "Another", || async { "" }));
    resources.add(Resource::text("test://more", "more", "")).unwrap();
    for wire in &mut sessions {
        let notices = wire.notices().await;
        assert_eq!(
            methods(&notices),
            [
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
                "notifications/resources/list_changed",
            ]
        );
        assert!(wire.notices().await.is_empty());
    }
    assert!(modern.notices().await.is_empty(), "a modern peer is notified on a stream it opened");
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_not_announced() {
    let server = server();
    let tools = server.tools();
    let mut wire = Wire::join(server, Era::Legacy).await;
    assert!(!tools.remove("nothing") && !tools.disable("nothing") && tools.enable("a"));
    assert!(wire.notices().await.is_empty());
}

#[tokio::test]
async fn ten_thousand_tools_are_added_one_by_one_in_seconds() {
    let tools = Server::new("many", "1").tools();
    let started = Instant::now();
    for number in 0..10_000 {
        tools.add(tool(&number.to_string()));
    }
    tools.add(tool("17"));
    assert_eq!(tools.len(), 10_000);
    // If the server copied all earlier tools for each new tool, this would take minutes in a debug build.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_server_that_starts_without_tools_announces_the_first_one() {
    let server = Server::new("hub", "1");
    let tools = server.tools();
    let mut wire = Wire::join(server, Era::Legacy).await;
    assert_eq!(wire.hello["capabilities"]["tools"], json!({ "listChanged": true }));
    tools.add(tool("a"));
    assert_eq!(wire.notice().await["method"], "notifications/tools/list_changed");
    assert_eq!(names(&mut wire).await, ["a"]);
}

#[tokio::test]
async fn a_session_is_notified_only_between_its_start_and_its_end() {
    let server = server();
    let tools = server.tools();
    let stack = server.into_stack().unwrap();
    let wire = Wire::to(&stack, Era::Legacy, json!({})).await;
    let scope = wire.scope.clone();
    drop(wire);
    while !scope.is_ended() {
        tokio::task::yield_now().await;
    }
    tools.add(tool("c"));

    let mut early = Wire::to(&stack, Era::Modern, json!({})).await;
    early.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    tools.add(tool("d"));
    assert!(early.notices().await.is_empty());
}

#[tokio::test]
async fn a_disabled_tool_is_neither_listed_nor_called() {
    for era in [Era::Legacy, Era::Modern] {
        let server = server();
        let tools = server.tools();
        let mut wire = Wire::join(server, era).await;
        assert_eq!(names(&mut wire).await, ["a", "b"]);
        assert!(tools.disable("a") && !tools.disable("nothing"));
        if era == Era::Legacy {
            assert_eq!(wire.notice().await["method"], "notifications/tools/list_changed");
        }
        assert_eq!(names(&mut wire).await, ["b"]);
        let refused = wire.ask("tools/call", json!({ "name": "a" })).await.unwrap();
        assert_eq!(refused["isError"], true);
        assert_eq!(refused["structuredContent"]["code"], 4002);
        assert!(tools.enable("a"));
        assert_eq!(names(&mut wire).await, ["a", "b"]);
        let result = wire.ask("tools/call", json!({ "name": "a" })).await.unwrap();
        assert_eq!(result["content"][0]["text"], "did it");
    }
}

#[tokio::test]
async fn a_tool_exists_only_for_callers_to_which_it_is_visible() {
    let vault = tool("vault").visible_to(|cx| cx.caller.accepts.roots);
    let server = Server::new("s", "1").tool(tool("all")).tool(vault);
    let stack = server.into_stack().unwrap();
    for era in ERAS {
        let mut wire = Wire::to(&stack, era, json!({ "roots": {} })).await;
        assert_eq!(names(&mut wire).await, ["all", "vault"]);
        let result = wire.ask("tools/call", json!({ "name": "vault" })).await.unwrap();
        assert_eq!(result["content"][0]["text"], "did it");

        let mut wire = Wire::to(&stack, era, json!({})).await;
        assert_eq!(names(&mut wire).await, ["all"]);
        let hidden = wire.ask("tools/call", json!({ "name": "vault" })).await;
        let unknown = wire.ask("tools/call", json!({ "name": "attic" })).await;
        let [hidden, unknown] = [hidden, unknown].map(|answer| format!("{answer:?}"));
        assert!(!hidden.contains("did it"), "{hidden}");
        assert_eq!(hidden, unknown.replace("attic", "vault"), "{era:?}");
    }
}

#[tokio::test]
async fn a_session_is_notified_also_if_the_author_handles_its_start() {
    let (started, start) = (Arc::new(AtomicUsize::new(0)), Router::new());
    let seen = Arc::clone(&started);
    let start = start.on_notification::<Initialized, _, _>(move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    let server = server().endpoints(start);
    let tools = server.tools();
    let mut wire = Wire::join(server, Era::Legacy).await;
    assert_eq!(started.load(Ordering::Relaxed), 1);
    tools.add(tool("c"));
    assert_eq!(wire.notice().await["method"], "notifications/tools/list_changed");
}

/// Reports changes of the resources that have subscribers, and of a resource that has none.
fn update(resources: &Resources) {
    for _ in 0..3 {
        resources.updated("test://watched");
    }
    resources.updated("test://7/x");
    resources.updated("test://other");
}

#[tokio::test]
async fn only_subscribers_are_notified_until_they_unsubscribe() {
    let server = server();
    let resources = server.resources();
    let stack = server.into_stack().unwrap();
    let mut wire = Wire::to(&stack, Era::Legacy, json!({})).await;
    let mut other = Wire::to(&stack, Era::Legacy, json!({})).await;
    let watched = json!({ "uri": "test://watched" });
    assert_eq!(wire.ask("resources/subscribe", watched.clone()).await.unwrap(), json!({}));
    wire.ask("resources/subscribe", watched.clone()).await.unwrap();
    wire.ask("resources/subscribe", json!({ "uri": "test://7/x" })).await.unwrap();
    update(&resources);
    let notices = wire.notices().await;
    assert_eq!(methods(&notices), ["notifications/resources/updated"; 2]);
    assert_eq!(notices[0]["params"], json!({ "uri": "test://7/x" }));
    assert_eq!(notices[1]["params"], watched);
    assert!(other.notices().await.is_empty());

    wire.ask("resources/unsubscribe", watched.clone()).await.unwrap();
    wire.ask("resources/unsubscribe", watched).await.unwrap();
    update(&resources);
    assert_eq!(wire.notices().await.len(), 1);

    resources.add(Resource::text("test://7/x", "replaced", "old")).unwrap();
    resources.add(Resource::text("test://7/x", "replaced", "new")).unwrap();
    let messages = wire.notices().await;
    assert_eq!(
        methods(&messages),
        ["notifications/resources/list_changed", "notifications/resources/updated"]
    );

    let unknown = wire.ask("resources/subscribe", json!({ "uri": "test://nothing" })).await;
    assert_eq!(code(&unknown), -32002);
    assert_eq!(code(&wire.ask("resources/subscribe", json!({})).await), -32602);
    assert_eq!(code(&wire.ask("resources/unsubscribe", json!({ "uri": 1 })).await), -32602);
}

#[tokio::test]
async fn a_modern_stream_carries_what_was_requested_and_is_offered() {
    let server = server();
    let (tools, prompts, resources) = (server.tools(), server.prompts(), server.resources());
    let mut wire = Wire::join(server, Era::Modern).await;
    let wish = json!({
        "notifications": { "toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["test://watched", "test://none"] }
    });
    let id = wire.send("subscriptions/listen", wish).await;
    let mark = json!({ "io.modelcontextprotocol/subscriptionId": id });
    let acknowledged = wire.notice().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"],
        json!({
            "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["test://watched"] },
            "_meta": mark,
        })
    );
    tools.add(tool("c"));
    prompts.add(Prompt::new("q", "Another", || async { "" }));
    update(&resources);
    let notices = wire.notices().await;
    assert_eq!(
        methods(&notices),
        ["notifications/tools/list_changed", "notifications/resources/updated"]
    );
    assert_eq!(notices[0]["params"], json!({ "_meta": mark }));
    assert_eq!(notices[1]["params"], json!({ "uri": "test://watched", "_meta": mark }));

    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    wire.write(&cancel).await;
    assert_eq!(names(&mut wire).await, ["a", "b", "c"]);
    tools.add(tool("d"));
    assert!(wire.notices().await.is_empty(), "the stream is closed");
    assert_eq!(code(&wire.ask("subscriptions/listen", json!({})).await), -32602);
}

#[tokio::test]
async fn subscribers_are_notified_however_they_escape_a_uri() {
    for era in ERAS {
        let server =
            server().resource(Resource::template("note://{name}", "note", || async { "" }));
        let resources = server.resources();
        let mut wire = Wire::join(server, era).await;
        let uri = "note://a%20b";
        if era == Era::Legacy {
            wire.ask("resources/subscribe", json!({ "uri": uri })).await.unwrap();
        } else {
            let wish = json!({ "notifications": { "resourceSubscriptions": [uri] } });
            wire.send("subscriptions/listen", wish).await;
            let acknowledged = wire.notice().await;
            assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"][0], uri);
        }
        resources.updated("note://a b");
        resources.updated("note://a%2520b");
        let notices = wire.notices().await;
        assert_eq!(methods(&notices), ["notifications/resources/updated"], "{era:?}");
        assert_eq!(notices[0]["params"]["uri"], uri);
    }
}

/// A subscriber for resources that are stored elsewhere; some of them never answer.
struct Elsewhere;

#[async_trait]
impl ResourceSubscriber for Elsewhere {
    async fn subscribe(&self, _: &Context, uri: &str) -> Result<ResourceSubscription, RpcError> {
        if uri.starts_with("hung://") {
            std::future::pending::<()>().await;
        }
        Ok(ResourceSubscription::new(uri))
    }
}

#[tokio::test]
async fn a_notifier_keeps_the_features_that_were_added_before_it() {
    let notifier = ChangeNotifier::new();
    let server =
        Server::new("n", "1").logging().change_notifier(&notifier, Elsewhere).tool(tool("a"));
    let wire = Wire::join(server, Era::Legacy).await;
    assert!(wire.hello["capabilities"]["logging"].is_object(), "{}", wire.hello);
}

#[test]
fn a_notifier_after_resources_or_prompts_is_refused_instead_of_dropping_them() {
    let with_prompt = Server::new("n", "1").prompt(Prompt::new("p", "A prompt", || async { "" }));
    let with_resource = Server::new("n", "1").resource(Resource::text("test://a", "a", "now"));
    for server in [with_prompt, with_resource] {
        let server = server.change_notifier(&ChangeNotifier::new(), Elsewhere);
        let error = server.into_stack().unwrap_err().to_string();
        assert!(error.contains("`change_notifier`"), "{error}");
    }
}

#[tokio::test]
async fn an_event_hub_after_a_channel_is_refused_instead_of_dropping_the_channel() {
    let hub = EventHub::new();
    let server = || Server::new("n", "1");
    let late = server().channel("a.b", "Changes").event_hub(&hub);
    let error = late.into_stack().unwrap_err().to_string();
    assert!(error.contains("call `event_hub` first"), "{error}");
    assert!(server().event_hub(&hub).channel("a.b", "Changes").into_stack().is_ok());
}

#[tokio::test(start_paused = true)]
async fn resources_that_never_answer_do_not_keep_a_stream_from_its_start() {
    let notifier = ChangeNotifier::new();
    let server = Server::new("n", "1")
        .change_notifier(&notifier, Elsewhere)
        .tool(tool("a"))
        .resource(Resource::text("test://a", "a", "now"));
    let mut wire = Wire::join(server, Era::Modern).await;
    let uris = ["hung://1", "test://b", "hung://2", "test://a"];
    let wish =
        json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": uris } });
    let began = Instant::now();
    wire.send("subscriptions/listen", wish).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    notifier.tools_changed(|_, _| true);
    notifier.updated("test://b", |_| true);
    let acknowledged = wire.notice().await;
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://b", "test://a"] })
    );
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // The changes before the acknowledgement must not be lost.
    assert_eq!(wire.notice().await["method"], "notifications/tools/list_changed");
    assert_eq!(wire.notice().await["params"]["uri"], "test://b");
    notifier.tools_changed(|_, _| true);
    assert_eq!(wire.notice().await["method"], "notifications/tools/list_changed");
    notifier.updated("test://a", |_| true);
    assert_eq!(wire.notice().await["params"]["uri"], "test://a");
}
