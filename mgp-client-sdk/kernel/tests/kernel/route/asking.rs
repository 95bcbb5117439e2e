//! Tests that questions of servers reach the right caller, for all four pairs of the eras of host and server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_discovery::{Config, Isolation};
use mgp_kernel::Kernel;
use mgp_security::{Governance, PermissionChange};
use mgp_server_sdk::Resource;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Prompt, UrlElicited};
use mgp_testkit::{hello, modern_meta, temp_dir};
use mgp_types::Payload;
use mgp_types::mcp::{
    ContentBlock, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, EmptyParams, Era,
    ListRootsResult, Role, Root, TaskSupport,
};
use mgp_types::method::{self, Request, RootsList, RootsListChanged, ToolsCall};
use mgp_types::mgp::{AccessGrantParams, ApprovalPolicy, Permission};
use mgp_types::service::{Call, CallerRequest, Method, Params, Principal, Reply, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{
    Guest, NO_ARGUMENTS, NotifyOnDrop, PAIRS, answering, build, build_with_tools, config_of, host,
    host_of, kernel_with, limit_era, open, raw_peer, until, wait_for_tools,
};

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
    build_with_tools(builder.local_with("c", mgp, move || curious(era)), [("c", 4)]).await
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
                    question.accept_with(&json!({ "name": "Ann" }))
                }
            })
            .on_url_elicitation(move |question| async move {
                assert_eq!(question.url.as_deref(), Some("https://example.com/x"));
                assert!(above == Era::Modern || question.elicitation_id.is_some(), "{below:?}");
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
async fn the_use_of_a_found_tool_that_asks_is_learned_from_its_answer() {
    let folder = temp_dir();
    let config = config_of("[kernel.search]\nlearning = true");
    let builder = Kernel::builder().config(config);
    let builder = builder.local_with("c", open(&TOOLS), || curious(Era::Modern));
    let kernel = builder.in_folder(folder.path()).await.unwrap();
    wait_for_tools(&kernel, "c", 4).await;
    let host = host(&kernel, "ann", answering(Era::Modern)).await;
    host.call("mgp_tools_discover").arg("query", "asks for a form").await.unwrap();
    let learned = || kernel.index().history().unwrap().stats().queries;
    leave_question(&host).await;
    assert_eq!(learned(), 0, "the person has not answered yet");
    assert_eq!(host.call("form").await.unwrap().to_text(), "Ann");
    assert_eq!(learned(), 1);
    kernel.stop().await;
}

#[tokio::test]
async fn a_question_that_was_left_open_takes_no_question_of_later_calls() {
    let kernel = world(Era::Legacy).await;
    let first = host(&kernel, "ann", answering(Era::Modern)).await;
    leave_question(&first).await;
    for _ in 0..2 {
        let calling = async { first.call("form").await };
        let answer = tokio::time::timeout(Duration::from_secs(20), calling).await;
        assert_eq!(answer.expect("the question is shown").unwrap().to_text(), "Ann");
    }
    // While calls of two clients are in flight, the kernel cannot find out which client a question is for. So it
    // refuses the question.
    let second = host(&kernel, "ann", answering(Era::Modern)).await;
    let asks = async || second.call("form").await.is_ok_and(|result| result.to_text() == "Ann");
    assert!(!asks().await);
    drop(first);
    until("the call of the other client has ended", asks).await;
}

#[tokio::test]
async fn a_call_that_asks_counts_once_for_quotas_and_limits_of_calls_a_minute() {
    for (above, below) in PAIRS {
        for (limit, code) in [("calls_per_day", 3002), ("calls_per_minute", 3000)] {
            let case = format!("{above:?} {below:?} {limit}");
            let text = format!("[agents.ann.limits]\n{limit} = 1\n");
            let kernel = world_with(below, config_of(&text)).await;
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let builder = host_of(above).on_elicitation(move |question: ElicitParams| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { question.accept_with(&json!({ "name": "Ann" })) }
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
    }
}

/// Removes a right that a call needs: the access of its caller or of its delegator, or a permission of its server.
async fn take_right(governance: &Governance, loses: &str) {
    let operator = Principal::local().operator();
    let camera = PermissionChange::of("c", [Permission::Camera]);
    match loses {
        "permission" => drop(governance.permissions().deny(&operator, camera).await.unwrap()),
        "approval" => drop(governance.permissions().revoke(&operator, camera).await.unwrap()),
        _ => {
            let agent = if loses == "access" { "ann" } else { "bob" };
            let entry = AccessGrantParams::deny(agent, "c");
            governance.access().grant(&operator, entry).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_call_whose_caller_loses_its_access_or_permission_during_a_question_does_not_go_on() {
    for (isolation, loses, expected) in [
        (Isolation::Shared, "access", ErrorCode::ACCESS_DENIED),
        (Isolation::PerAgent, "access", ErrorCode::ACCESS_DENIED),
        (Isolation::Shared, "permission", ErrorCode::PERMISSION_DENIED),
        (Isolation::Shared, "approval", ErrorCode::PERMISSION_DENIED),
        (Isolation::Shared, "delegator", ErrorCode::ACCESS_DENIED),
    ] {
        let (ended, answers) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (notify, counts) = (Arc::clone(&ended), Arc::clone(&answers));
        let server = move || {
            let (notify, counts) = (Arc::clone(&notify), Arc::clone(&counts));
            let form = Tool::new("form", "Asks", move |cx: Context| {
                let (end, counts) = (NotifyOnDrop(Arc::clone(&notify)), Arc::clone(&counts));
                async move {
                    let _end = end;
                    let _ = cx.elicit::<Guest>("Who comes?").await?;
                    counts.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, RpcError>("done")
                }
            });
            limit_era(Server::new("c", "1").tool(form), Era::Legacy)
        };
        let mut mgp = open(&TOOLS);
        mgp.isolation = isolation;
        if let "permission" | "approval" = loses {
            mgp.permissions_required = vec![Permission::Camera];
            mgp.permission_policy = Some(match loses {
                "approval" => ApprovalPolicy::Interactive,
                _ => ApprovalPolicy::AutoApprove,
            });
        }
        let kernel = kernel_with("c", mgp, 1, server).await;
        let governance = kernel.governance().clone();
        if loses == "approval" {
            let camera = PermissionChange::of("c", [Permission::Camera]);
            let operator = Principal::local().operator();
            governance.permissions().approve(&operator, camera).await.unwrap();
        }
        let builder = host_of(Era::Modern).on_elicitation(move |question: ElicitParams| {
            let governance = governance.clone();
            async move {
                take_right(&governance, loses).await;
                question.accept_with(&json!({ "name": "Ann" }))
            }
        });
        let host = host(&kernel, "ann", builder).await;
        let mut params = json!({ "name": "form", "arguments": {} });
        if loses == "delegator" {
            params["_mgp"] = json!({ "delegation": { "agent_id": "bob" } });
        }
        let params = serde_json::from_value(params).unwrap();
        let refused = host.request::<ToolsCall>(&params).await.err().unwrap();
        assert_eq!(refused.code(), expected, "{isolation:?} {loses}: {refused}");
        ended.notified().await;
        assert_eq!(answers.load(Ordering::SeqCst), 0, "{isolation:?} {loses}");
        kernel.stop().await;
    }
}

#[tokio::test]
async fn a_refused_page_is_a_fault_of_the_modern_server_that_asked_for_it() {
    let server = || {
        let page = Tool::new("page", "Shows", |cx: Context| async move {
            cx.elicit_url("Sign in", "http://example.com/x").id("page-1").await?;
            Ok::<_, RpcError>("visited")
        });
        limit_era(Server::new("c", "1").tool(page), Era::Modern)
    };
    let kernel = kernel_with("c", open(&["page"]), 1, server).await;
    for above in [Era::Legacy, Era::Modern] {
        let builder = host_of(above)
            .on_url_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) });
        let host = host(&kernel, "ann", builder).await;
        let refused = host.call("page").await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::UPSTREAM_ERROR, "{above:?}: {refused}");
        assert!(refused.to_string().contains("not on this machine"), "{above:?}: {refused}");
    }
}

/// Returns a server that requests the client's roots whenever it is notified of a change, as many servers do.
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
    // The kernel notifies the server when a client with roots connects, and when the roots of this client change.
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
    let kernel = build_with_tools(builder, [("c", 4)]).await;
    let roots = || host_of(Era::Legacy).roots([Root::new("file:///")]);
    let ann = host(&kernel, "ann", roots()).await;
    until("the server is connected", || async { ann.resources().await.unwrap().len() == 1 }).await;
    ann.roots_changed().await.unwrap();
    // A call must not give the server the roots either, because the server could keep them for calls of other callers.
    let refused = ann.call("roots").await;
    let is_refused = refused.as_ref().map_or(true, |result| result.is_error == Some(true));
    assert!(is_refused, "{refused:?}");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(seen.lock().unwrap().is_empty(), "{seen:?}");
    drop(ann);
    kernel.stop().await;

    let mut mgp = open(&TOOLS);
    mgp.isolation = Isolation::PerAgent;
    let kernel = kernel_with("c", mgp, 4, || curious(Era::Legacy)).await;
    let ann = host(&kernel, "ann", roots()).await;
    assert_eq!(ann.call("roots").await.unwrap().to_text(), "file:///", "an instance of its own");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_asks_and_a_slow_resource_have_the_time_limits_of_tools() {
    let server = || {
        let plan = Prompt::new("plan", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
        });
        let slow = Resource::new("test://slow", "slow", || async {
            tokio::time::sleep(Duration::from_secs(70)).await;
            "here".to_owned()
        });
        let server = Server::new("s", "1").timeout(Duration::from_hours(1));
        limit_era(server.prompt(plan).resource(slow), Era::Legacy)
    };
    let config = config_of("[kernel]\ntimeout = '2m'");
    let builder = Kernel::builder().config(config).local_with("s", open(&[]), server);
    let kernel = build(builder).await;
    for above in [Era::Legacy, Era::Modern] {
        let hour = Duration::from_hours(1);
        let builder = host_of(above).timeout(hour).max_timeout(hour).on_elicitation(
            |question: ElicitParams| async move {
                tokio::time::sleep(Duration::from_mins(5)).await;
                question.accept_with(&json!({ "name": "Ann" }))
            },
        );
        let host = host(&kernel, "ann", builder).await;
        until("the lists are known", || async {
            host.prompts().await.unwrap().len() + host.resources().await.unwrap().len() == 2
        })
        .await;
        let prompt = host.get_prompt("plan", NO_ARGUMENTS).await.unwrap();
        assert!(format!("{:?}", prompt.messages).contains("Ann"), "{above:?}: {prompt:?}");
        let read = host.read_resource("test://slow").await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("here"), "{above:?}");
    }
}

#[tokio::test]
async fn long_questions_and_answers_fit_into_the_rounds_of_a_modern_host() {
    // A modern server keeps the answers in its own state, which has a smaller limit. So the test gives it fewer and
    // shorter answers.
    for (below, questions, answer_bytes) in [(Era::Modern, 1, 10), (Era::Legacy, 3, 40_000)] {
        let server = move || {
            let model = Tool::new("model", "Thinks", move |cx: Context| async move {
                for _ in 0..questions {
                    cx.sample("x".repeat(100_000)).max_tokens(5).await?;
                }
                Ok::<_, RpcError>("done")
            });
            limit_era(Server::new("c", "1").tool(model), below)
        };
        let kernel = kernel_with("c", open(&["model"]), 1, server).await;
        let builder = host_of(Era::Modern).on_sampling(move |_| async move {
            let text = ContentBlock::text("y".repeat(answer_bytes));
            Ok(CreateMessageResult::new(Role::Assistant, vec![text], "m"))
        });
        let host = host(&kernel, "ann", builder).await;
        assert_eq!(host.call("model").await.unwrap().to_text(), "done", "{below:?}");
    }
}

#[tokio::test]
async fn the_completion_of_a_page_reaches_the_caller_of_a_task() {
    let server = || {
        let page = Tool::new("page", "Shows", |cx: Context| async move {
            cx.elicit_url("Sign in", "https://example.com/x").id("page-1").await?;
            cx.elicitation_complete("page-1").await;
            Ok::<_, RpcError>("visited")
        });
        limit_era(Server::new("c", "1").tool(page.task(TaskSupport::Optional)), Era::Legacy)
    };
    let kernel = kernel_with("c", open(&["page"]), 1, server).await;
    let over: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&over);
    let builder = host_of(Era::Legacy)
        .on_url_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
        .on_elicitation_complete(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
    let host = host(&kernel, "ann", builder).await;
    assert_eq!(host.call("page").as_task().await.unwrap().to_text(), "visited");
    until("the page is complete", || async { over.load(Ordering::SeqCst) == 1 }).await;
}

#[tokio::test]
async fn progress_after_a_question_belongs_to_the_request_with_the_answer() {
    let server = || {
        let steps = Tool::new("steps", "Asks between two steps", |cx: Context| async move {
            let _ = cx.outlet.progress(1.0, 2.0).await;
            // Wait, so that the question does not arrive before the progress.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            let _ = cx.outlet.progress(2.0, 2.0).await;
            Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
        });
        limit_era(Server::new("s", "1").tool(steps), Era::Legacy)
    };
    let kernel = kernel_with("s", open(&["steps"]), 1, server).await;
    let mut raw = raw_peer(&kernel, "ann").with_meta(modern_meta(&json!({ "elicitation": {} })));
    let steps = |messages: &[Value]| -> Vec<Value> {
        let steps = messages.iter().filter(|one| one["method"] == "notifications/progress");
        steps
            .map(|one| json!([one["params"]["progressToken"], one["params"]["progress"]]))
            .collect()
    };

    let params = json!({ "name": "steps", "arguments": {}, "_meta": { "progressToken": "p1" } });
    let first = raw.ask_all("tools/call", params).await;
    assert_eq!(steps(&first), [json!(["p1", 1])], "{first:?}");
    let asked = &first.last().unwrap()["result"];
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({
        "name": "steps", "arguments": {}, "_meta": { "progressToken": "p2" },
        "inputResponses": { (key): { "action": "accept", "content": { "name": "Ann" } } },
        "requestState": asked["requestState"],
    });
    let second = raw.ask_all("tools/call", params).await;
    assert_eq!(steps(&second), [json!(["p2", 2])], "{second:?}");
    let result = &second.last().unwrap()["result"];
    assert_eq!(result["content"][0]["text"], "Ann", "{result}");
}

/// Returns a legacy server whose tool asks a model with the progress token `t` and records the progress.
fn reporting(tool: &'static str, steps: &Arc<Mutex<Vec<String>>>) -> Server {
    let steps = Arc::clone(steps);
    let notes = Router::new().on_notification::<method::Progress, _, _>(move |_, step| {
        let (token, progress) = (step.progress_token, step.progress.to_f64());
        steps.lock().unwrap().push(format!("{tool} {token} {progress}"));
        async { Ok(()) }
    });
    let tool = Tool::new(tool, "Thinks", |cx: Context| async move {
        let talk = r#"{"messages":[],"maxTokens":5,"_meta":{"progressToken":"t"}}"#;
        let ask = CallerRequest::new("sampling/createMessage", Payload::parse(talk)?);
        Ok::<_, RpcError>(cx.ask("talk", ask).await?.as_str().to_owned())
    });
    limit_era(Server::new("s", "1").tool(tool).endpoints(notes), Era::Legacy)
}

#[tokio::test]
async fn progress_of_answers_reaches_the_server_that_asked_although_two_use_one_token() {
    let steps: Arc<Mutex<Vec<String>>> = Arc::default();
    let (for_a, for_b) = (Arc::clone(&steps), Arc::clone(&steps));
    let builder = Kernel::builder()
        .local_with("a", open(&["ask_a"]), move || reporting("ask_a", &for_a))
        .local_with("b", open(&["ask_b"]), move || reporting("ask_b", &for_b));
    let kernel = build_with_tools(builder, [("a", 1), ("b", 1)]).await;
    let mut raw = raw_peer(&kernel, "ann");
    raw.ask("initialize", hello("2025-11-25", &json!({ "sampling": {} }))).await;
    raw.notify("notifications/initialized", json!({})).await;
    for tool in ["ask_a", "ask_b"] {
        raw.send("tools/call", json!({ "name": tool, "arguments": {} })).await;
    }
    let mut questions = Vec::new();
    for _ in 0..2 {
        let asked = raw.asked("sampling/createMessage").await;
        let params = &asked["params"];
        let step = if params["systemPrompt"].as_str().unwrap().contains("`a`") { 1 } else { 2 };
        let token = &params["_meta"]["progressToken"];
        assert_eq!(token, &asked["id"], "the token belongs to this connection");
        raw.notify("notifications/progress", json!({ "progressToken": token, "progress": step }))
            .await;
        questions.push(asked);
    }
    until("both servers have their progress", || async { steps.lock().unwrap().len() == 2 }).await;
    let mut steps = steps.lock().unwrap().clone();
    steps.sort();
    assert_eq!(steps, ["ask_a t 1", "ask_b t 2"]);
    let text = json!({ "type": "text", "text": "four" });
    for question in &questions {
        raw.answer(question, json!({ "role": "assistant", "model": "m", "content": text })).await;
    }
}
