//! Tests that questions of servers reach the right caller, for all four pairs of eras of host and server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_discovery::{Config, Isolation};
use mgp_kernel::Kernel;
use mgp_server_sdk::Resource;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, UrlElicited};
use mgp_types::Payload;
use mgp_types::mcp::{
    CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, EmptyParams, Era,
    ListRootsResult, Root,
};
use mgp_types::method::{Request, RootsList, RootsListChanged, ToolsCall};
use mgp_types::service::{Call, Method, Params, Reply, Router};

use crate::world::{PAIRS, build, host, host_of, limit_era, open, until, wait_for_tools};

#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// The guest's name.
    name: String,
}

fn curious(era: Era) -> Server {
    let form = Tool::new("form", "Asks", |cx: Context| async move {
        let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
        Ok::<_, RpcError>(guest.map_or_else(|| "declined".to_owned(), |guest| guest.name))
    });
    let page = Tool::new("page", "Shows", |cx: Context| async move {
        let visited = cx.elicit_url("Sign in", "https://example.com/x").id("page-1").await?;
        cx.elicitation_complete("page-1").await;
        Ok::<_, RpcError>(if matches!(visited, UrlElicited::Agreed) {
            "visited"
        } else {
            "not visited"
        })
    });
    let model = Tool::new("model", "Thinks", |cx: Context| async move {
        let answer = cx.sample("2+2?").max_tokens(5).await?;
        Ok::<_, RpcError>(format!("{answer:?}"))
    });
    let roots = Tool::new("roots", "Looks", |cx: Context| async move {
        let roots = cx.roots().await?;
        Ok::<_, RpcError>(roots.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(","))
    });
    limit_era(Server::new("c", "1").tool(form).tool(page).tool(model).tool(roots), era)
}

const TOOLS: [&str; 4] = ["form", "page", "model", "roots"];

async fn world(era: Era) -> Kernel {
    world_with(era, Config::default()).await
}

async fn world_with(era: Era, config: Config) -> Kernel {
    let mut mgp = open(&TOOLS);
    mgp.roots = true;
    let builder = Kernel::builder().config(config);
    let kernel = build(builder.local_with("c", mgp, move || curious(era))).await;
    wait_for_tools(&kernel, "c", 4).await;
    kernel
}

#[tokio::test]
async fn each_question_reaches_the_caller_and_its_answer_the_server() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let over: Arc<AtomicUsize> = Arc::default();
        let counted_ends = Arc::clone(&over);
        let builder = host_of(above)
            .on_elicitation(move |question: ElicitParams| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    assert_eq!(question.message, "The server `c` asks:\nWho comes?");
                    let content = serde_json::from_str(r#"{"name":"Ann"}"#).unwrap();
                    let mut answer = ElicitResult::new(ElicitAction::Accept);
                    answer.content = Some(content);
                    Ok(answer)
                }
            })
            .on_url_elicitation(|question| async move {
                assert_eq!(question.url.as_deref(), Some("https://example.com/x"));
                Ok(ElicitResult::new(ElicitAction::Accept))
            })
            .on_elicitation_complete(move |id| {
                assert_eq!(id, "page-1");
                counted_ends.fetch_add(1, Ordering::SeqCst);
            })
            .on_sampling(|_| async {
                Ok(serde_json::from_str::<CreateMessageResult>(
                    r#"{"role":"assistant","model":"m","content":{"type":"text","text":"four"}}"#,
                )
                .unwrap())
            })
            .roots([Root::new("file:///work")]);
        let host = host(&kernel, "ann", builder).await;
        let pair = format!("{above:?} {below:?}");
        assert_eq!(host.call("form").await.unwrap().to_text(), "Ann", "{pair}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{pair}");
        assert_eq!(host.call("page").await.unwrap().to_text(), "visited", "{pair}");
        if (above, below) == (Era::Legacy, Era::Legacy) {
            until("the page is complete", || async { over.load(Ordering::SeqCst) == 1 }).await;
        }
        assert!(host.call("model").await.unwrap().to_text().contains("four"), "{pair}");
        assert_eq!(host.call("roots").await.unwrap().to_text(), "file:///work", "{pair}");
        kernel.stop().await;
    }
}

/// Calls the tool that asks, and leaves its question without an answer.
async fn leave_question(host: &Client) {
    let params = Params::tool("form", &Payload::empty_object());
    let call = Call::request(Method::from_static(ToolsCall::METHOD), params, host.context());
    let reply = host.stack().send(call).await.unwrap();
    assert!(matches!(reply, Reply::InputRequired(_)), "{reply:?}");
}

#[tokio::test]
async fn a_question_that_was_left_open_takes_no_question_of_later_calls() {
    let kernel = world(Era::Legacy).await;
    let answering = || {
        host_of(Era::Modern).on_elicitation(|question: ElicitParams| async move {
            question.accept_with(&serde_json::json!({ "name": "Ann" }))
        })
    };
    let first = host(&kernel, "ann", answering()).await;
    leave_question(&first).await;
    for _ in 0..2 {
        let calling = async { first.call("form").await };
        let answer = tokio::time::timeout(Duration::from_secs(20), calling).await;
        assert_eq!(answer.expect("the question is shown").unwrap().to_text(), "Ann");
    }
    // While the calls of two clients are in flight, it is unclear which of them a question is for.
    let second = host(&kernel, "ann", answering()).await;
    let asks = async || second.call("form").await.is_ok_and(|result| result.to_text() == "Ann");
    assert!(!asks().await);
    drop(first);
    until("the call of the other client has ended", asks).await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_call_that_asks_counts_once_for_quotas_and_limits_of_calls_a_minute() {
    for (above, below) in PAIRS {
        for (limit, code) in [("calls_per_day", 3002), ("calls_per_minute", 3000)] {
            let case = format!("{above:?} {below:?} {limit}");
            let text = format!("[agents.ann.limits]\n{limit} = 1\n");
            let kernel = world_with(below, Config::parse("mgp.toml", &text).unwrap().config).await;
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let builder = host_of(above).on_elicitation(move |question: ElicitParams| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { question.accept_with(&serde_json::json!({ "name": "Ann" })) }
            });
            let host = host(&kernel, "ann", builder).await;
            let result = host.call("form").await;
            let result = result.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!((result.to_text().as_str(), asked.load(Ordering::SeqCst)), ("Ann", 1));
            let refused = host.call("form").await.unwrap_err();
            assert_eq!(refused.code().0, code, "{case}: {refused}");
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{case}");
            kernel.stop().await;
        }
    }
}

#[tokio::test]
async fn a_caller_that_offers_nothing_is_asked_nothing() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let host = host(&kernel, "ann", host_of(above)).await;
        for tool in TOOLS {
            let refused = host.call(tool).await;
            let is_refused = refused.as_ref().map_or(true, |result| result.is_error == Some(true));
            assert!(is_refused, "{above:?} {below:?} {tool}: {refused:?}");
        }
        kernel.stop().await;
    }
}

#[tokio::test]
async fn a_caller_that_offers_forms_only_gets_no_url() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let builder = host_of(above)
            .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) });
        let host = host(&kernel, "ann", builder).await;
        assert_eq!(host.call("form").await.unwrap().to_text(), "declined", "{above:?} {below:?}");
        let refused = host.call("page").await;
        let text = match &refused {
            Ok(result) => result.to_text(),
            Err(error) => error.to_string(),
        };
        assert!(text.contains("url"), "{above:?} {below:?}: {text}");
        kernel.stop().await;
    }
}

/// Returns a server that asks for the client's roots whenever they change, as many servers do.
fn looking(seen: &Arc<Mutex<Vec<String>>>) -> Server {
    let seen = Arc::clone(seen);
    let router = Router::new().on_notification::<RootsListChanged, _, _>(move |cx, _| {
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let peer = cx.peer.clone();
            let call =
                Call::ask::<RootsList>(&EmptyParams::new(), peer.context(&cx.scope)).unwrap();
            let answer = peer.send(call).await;
            let word = match answer.and_then(|reply| reply.get::<ListRootsResult>()) {
                Ok(result) => result.roots.iter().map(|root| root.uri.clone()).collect(),
                Err(error) => error.message().to_owned(),
            };
            seen.lock().unwrap().push(word);
        });
        async { Ok(()) }
    });
    limit_era(
        Server::new("l", "1").resource(Resource::text("a://a", "a", "a")).endpoints(router),
        Era::Legacy,
    )
}

#[tokio::test]
async fn roots_outside_of_calls_come_from_the_only_client_that_offers_them() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let made = Arc::clone(&seen);
    let mut mgp = open(&[]);
    mgp.roots = true;
    let kernel = build(Kernel::builder().local_with("l", mgp, move || looking(&made))).await;
    let plain = host(&kernel, "plain", host_of(Era::Legacy)).await;
    until("the server is connected", || async { plain.resources().await.unwrap().len() == 1 })
        .await;
    let has = |word: &'static str| {
        let seen = Arc::clone(&seen);
        move || {
            let has = seen.lock().unwrap().iter().any(|line| line.contains(word));
            async move { has }
        }
    };
    // The server is notified when a client with roots connects, and when that client's roots change.
    let ann = host(&kernel, "ann", host_of(Era::Legacy).roots([Root::new("file:///ann")])).await;
    until("the roots of ann", has("file:///ann")).await;
    seen.lock().unwrap().clear();
    ann.roots_changed().await.unwrap();
    until("they are read again", has("file:///ann")).await;
    seen.lock().unwrap().clear();

    let bob = host(&kernel, "bob", host_of(Era::Legacy).roots([Root::new("file:///bob")])).await;
    until("two clients offer roots", has("no call is in flight")).await;
    assert!(!seen.lock().unwrap().iter().any(|line| line.contains("file:")), "{seen:?}");
    drop((ann, bob));
    kernel.stop().await;
}

#[tokio::test]
async fn an_agent_that_only_connects_widens_no_server_that_others_share() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let made = Arc::clone(&seen);
    let builder = Kernel::builder().local_with("l", open(&[]), move || looking(&made)).local_with(
        "c",
        open(&TOOLS),
        || curious(Era::Legacy),
    );
    let kernel = build(builder).await;
    wait_for_tools(&kernel, "c", 4).await;
    let roots = || host_of(Era::Legacy).roots([Root::new("file:///")]);
    let ann = host(&kernel, "ann", roots()).await;
    until("the server is connected", || async { ann.resources().await.unwrap().len() == 1 }).await;
    ann.roots_changed().await.unwrap();
    // A call must not get the roots either, because the server could keep them for calls of other callers.
    let refused = ann.call("roots").await;
    let is_refused = refused.as_ref().map_or(true, |result| result.is_error == Some(true));
    assert!(is_refused, "{refused:?}");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(seen.lock().unwrap().is_empty(), "{seen:?}");
    drop(ann);
    kernel.stop().await;

    let mut mgp = open(&TOOLS);
    mgp.isolation = Isolation::PerAgent;
    let kernel = build(Kernel::builder().local_with("c", mgp, || curious(Era::Legacy))).await;
    wait_for_tools(&kernel, "c", 4).await;
    let ann = host(&kernel, "ann", roots()).await;
    assert_eq!(ann.call("roots").await.unwrap().to_text(), "file:///", "an instance of its own");
    kernel.stop().await;
}
