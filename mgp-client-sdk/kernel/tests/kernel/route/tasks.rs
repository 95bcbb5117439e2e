//! Tests of tasks: of calls that the kernel runs as tasks for its callers, and of tools that their servers run only as
//! tasks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::ToolResult;
use mgp_discovery::{Config, GovernanceConfig};
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_lifecycle::TaskTicket;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, TasksConfig};
use mgp_testkit::{hello, temp_dir, until};
use mgp_types::Payload;
use mgp_types::mcp::{ElicitParams, Era, ListToolsResult, TaskStatus, TaskSupport, key};
use mgp_types::method::{KernelReload, ToolsList};
use mgp_types::mgp::KernelReloadParams;
use mgp_types::service::{Call, Principal, Reply, Stack, around};
use serde_json::json;
use tokio::sync::Notify;

use super::world::{
    Guest, NotifyOnDrop, PAIRS, build_with_tools, config_of, host, host_as, host_of, kernel_with,
    limit_era, open, raw_peer_as, raw_peer_of, recorded_calls, wait_for_tools,
};

const TOOLS: [&str; 3] = ["slow", "only", "asks"];

/// Returns a server of both eras.
fn jobs(may_end: Arc<Notify>) -> Server {
    let slow = Tool::new("slow", "Takes long", move || {
        let may_end = Arc::clone(&may_end);
        async move {
            may_end.notified().await;
            "done"
        }
    });
    let only = Tool::new("only", "Runs as a task", || async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        "done too"
    });
    let asks = Tool::new("asks", "Asks as a task", |cx: Context| async move {
        cx.begin_task().await?;
        let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
        Ok::<_, RpcError>(guest.map_or_else(|| "declined".to_owned(), |guest| guest.name))
    });
    let mut tasks = TasksConfig::default();
    tasks.poll_interval = Duration::from_millis(300);
    Server::new("s", "1")
        .tasks(tasks)
        .tool(slow.task(TaskSupport::Optional))
        .tool(only.task(TaskSupport::Required))
        .tool(asks.task(TaskSupport::Required))
}

fn slow(era: Era, may_end: Arc<Notify>) -> Server {
    limit_era(jobs(may_end), era)
}

/// Builds a kernel with the server `s`. This folder contains the kernel's state with the audit log.
async fn audited(builder: KernelBuilder, folder: &Path, tools: usize) -> Kernel {
    let kernel = builder.in_folder(folder).await.unwrap();
    wait_for_tools(&kernel, "s", tools).await;
    kernel
}

async fn world(era: Era) -> (Kernel, Arc<Notify>) {
    world_with(era, Config::default()).await
}

async fn world_with(era: Era, config: Config) -> (Kernel, Arc<Notify>) {
    let may_end = Arc::new(Notify::new());
    let ends = Arc::clone(&may_end);
    let make = move || slow(era, Arc::clone(&ends));
    let builder = Kernel::builder().config(config);
    let kernel = build_with_tools(builder.local_with("s", open(&TOOLS), make), [("s", 3)]).await;
    (kernel, may_end)
}

#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_is_called_like_any_other() {
    for (above, below) in PAIRS {
        let (kernel, _) = world(below).await;
        let builder = host_of(above).on_elicitation(|question: ElicitParams| async move {
            assert_eq!(question.message, "The server `s` asks:\nWho comes?");
            question.accept_with(&json!({ "name": "Ann" }))
        });
        let host = host(&kernel, "ann", builder).await;
        for (tool, expected) in [("only", "done too"), ("asks", "Ann")] {
            let result = host.call(tool).await;
            let result =
                result.unwrap_or_else(|error| panic!("{above:?} {below:?} {tool}: {error}"));
            assert_eq!(result.to_text(), expected, "{above:?} {below:?}");
            // The host must not see the id of the server's task, because the kernel does not know that task.
            let task = result.meta.as_ref().and_then(|meta| meta.get(key::RELATED_TASK));
            assert!(task.is_none(), "{above:?} {below:?} {tool}: {task:?}");
        }
    }
}

#[tokio::test]
async fn the_status_message_of_a_servers_task_is_shown_in_the_task_of_the_host() {
    for (above, below) in PAIRS {
        let may_end = Arc::new(Notify::new());
        let ends = Arc::clone(&may_end);
        let make = move || {
            let ends = Arc::clone(&ends);
            let copy = Tool::new("copy", "Copies as a task", move |cx: Context| {
                let ends = Arc::clone(&ends);
                async move {
                    cx.begin_task().await?;
                    TaskTicket::of(&cx).unwrap().set_status_message("half is copied");
                    ends.notified().await;
                    Ok::<_, RpcError>("copied")
                }
            });
            let mut tasks = TasksConfig::default();
            tasks.poll_interval = Duration::from_millis(100);
            let server = Server::new("s", "1").tasks(tasks);
            limit_era(server.tool(copy.task(TaskSupport::Required)), below)
        };
        let builder = Kernel::builder().local_with("s", open(&["copy"]), make);
        let kernel = build_with_tools(builder, [("s", 1)]).await;
        let host = host(&kernel, "ann", host_of(above)).await;
        let created = host.call("copy").as_task().raw().await.unwrap();
        let created: serde_json::Value = created.get().unwrap();
        let task = created.get("task").unwrap_or(&created);
        let id =
            task["taskId"].as_str().unwrap_or_else(|| panic!("{above:?} {below:?}: {created}"));
        let what = format!("the message is shown: {above:?} {below:?}");
        until(&what, async || {
            let task = host.get_task(id).await.unwrap();
            task.status_message.as_deref() == Some("half is copied")
        })
        .await;
        may_end.notify_one();
        until("the task ends", async || {
            host.get_task(id).await.unwrap().status == TaskStatus::Completed
        })
        .await;
    }
}

/// Removes from modern lists the member that shows which tools run only as tasks, because definitions of tools in MCP
/// 2026-07-28 have no such member.
fn undeclared(server: Server) -> Server {
    server.layer(around(|call: Call, next: Stack| async move {
        let is_list = call.is::<ToolsList>() && call.cx().caller.era == Era::Modern;
        let reply = next.send(call).await?;
        if !is_list {
            return Ok(reply);
        }
        let mut list: ListToolsResult = reply.get()?;
        for tool in &mut list.tools {
            tool.execution = None;
        }
        Reply::of(&list)
    }))
}

/// Regression test: the server refused calls of such a tool with code −32021 (missing client capability).
#[tokio::test]
async fn a_tool_that_does_not_declare_that_it_runs_only_as_a_task_is_called_like_any_other() {
    for above in [Era::Legacy, Era::Modern] {
        for limits in ["", "[agents.ann.limits]\ncalls_per_minute = 1000\nrunning = 2\n"] {
            let builder = Kernel::builder().config(config_of(limits));
            let make = || undeclared(slow(Era::Modern, Arc::default()));
            let folder = temp_dir();
            let builder = builder.local_with("s", open(&TOOLS), make);
            let kernel = audited(builder, folder.path(), 3).await;
            let builder = host_of(above).on_elicitation(|question: ElicitParams| async move {
                question.accept_with(&json!({ "name": "Ann" }))
            });
            let host = host(&kernel, "ann", builder).await;
            let result = host.call("only").await;
            let result = result.unwrap_or_else(|error| panic!("{above:?} {limits:?}: {error}"));
            assert_eq!(result.to_text(), "done too", "{above:?} {limits:?}");
            // The audit log must contain only one call, because the kernel repeated the refused call as part of the
            // same call.
            let recorded = recorded_calls(&kernel, "s").await;
            let calls: Vec<serde_json::Value> = serde_json::from_str(&recorded).unwrap();
            assert_eq!(calls.len(), 1, "{recorded}");
            let result = host.call("asks").await;
            let result = result.unwrap_or_else(|error| panic!("{above:?} {limits:?}: {error}"));
            assert_eq!(result.to_text(), "Ann", "{above:?} {limits:?}");
        }
    }
}

/// Regression test: if no limits were configured, the record of a call did not contain that its task had failed.
#[tokio::test]
async fn a_call_is_recorded_with_the_outcome_of_its_task() {
    for below in [Era::Legacy, Era::Modern] {
        let make = move || {
            let fails = Tool::new("fails", "Fails", || async { ToolError("broken".to_owned()) });
            limit_era(Server::new("s", "1").tool(fails.task(TaskSupport::Required)), below)
        };
        let folder = temp_dir();
        let builder = Kernel::builder().local_with("s", open(&["fails"]), make);
        let kernel = audited(builder, folder.path(), 1).await;
        let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let result = host.call("fails").await.unwrap();
        assert_eq!(result.is_error, Some(true), "{below:?}");
        let recorded = recorded_calls(&kernel, "s").await;
        assert!(recorded.contains(r#""is_error":true"#), "{below:?}: {recorded}");
    }
}

/// Returns a server of both eras that asks questions of legacy callers only, and has tasks in the modern era only, like
/// a server with `FastMCP` 4.
fn apart() -> Server {
    let server = jobs(Arc::default()).offer(|offer| {
        if let Some(mgp) = &mut offer.mgp {
            mgp.asks_in_rounds = false;
        }
    });
    undeclared(server).layer(around(|call: Call, next: Stack| async move {
        if call.cx().caller.era == Era::Legacy && call.tool().is_some() {
            let missing =
                r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
            let error = RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, "needs a task");
            return Err(error.data(Payload::parse(missing)?));
        }
        next.send(call).await
    }))
}

/// Regression test: for a legacy host that answers questions, the kernel opens a legacy session. The server refused
/// calls in this session with code −32021 (missing client capability).
#[tokio::test]
async fn a_tool_that_runs_as_a_task_of_the_modern_era_is_called_by_a_legacy_host() {
    let folder = temp_dir();
    let builder = Kernel::builder().local_with("s", open(&TOOLS), apart);
    let kernel = audited(builder, folder.path(), 3).await;
    let builder = host_of(Era::Legacy).on_elicitation(|question: ElicitParams| async move {
        question.accept_with(&json!({ "name": "Ann" }))
    });
    let host = host(&kernel, "ann", builder).await;
    for (tool, expected) in [("only", "done too"), ("asks", "Ann"), ("only", "done too")] {
        let result = host.call(tool).await;
        let result = result.unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!(result.to_text(), expected, "{tool}");
    }
    // The legacy session refuses only the first call of each tool, and only if the tool does not declare that it
    // requires a task.
    let calls: Vec<serde_json::Value> =
        serde_json::from_str(&recorded_calls(&kernel, "s").await).unwrap();
    let refused = calls.iter().filter(|call| call["result"] == "FAILURE").count();
    assert!(refused <= 2, "{calls:?}");
}

/// Regression test: the official SDKs for TypeScript refuse to call a tool without a task if the tool requires one.
#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_is_listed_as_one_that_may_run_as_one() {
    for below in [Era::Legacy, Era::Modern] {
        let (kernel, _) = world_with(below, config_of("[kernel]\nsurface = 'direct'")).await;
        let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let tools = host.list_tools().await.unwrap();
        let only = tools.iter().find(|tool| tool.name == "only").unwrap();
        let support = only.execution.as_ref().and_then(|execution| execution.task_support.as_ref());
        assert_eq!(support, Some(&TaskSupport::Optional), "{below:?}");
    }
}

/// Regression test: the time limits of the configuration did not apply to the tasks of servers.
#[tokio::test]
async fn a_task_is_cancelled_when_the_time_of_its_call_is_over() {
    for below in [Era::Legacy, Era::Modern] {
        let dropped = Arc::new(Notify::new());
        let notify = Arc::clone(&dropped);
        let make = move || {
            let notify = Arc::clone(&notify);
            let endless = Tool::new("endless", "Never ends", move || {
                let guard = NotifyOnDrop(Arc::clone(&notify));
                async move {
                    std::future::pending::<()>().await;
                    drop(guard);
                    "done"
                }
            });
            limit_era(Server::new("s", "1").tool(endless.task(TaskSupport::Required)), below)
        };
        let config = config_of("[kernel]\ntimeout = '4s'\nmax_timeout = '4s'\n");
        let builder = Kernel::builder().config(config).local_with("s", open(&["endless"]), make);
        let kernel = build_with_tools(builder, [("s", 1)]).await;
        let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let error = host.call("endless").send().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TIMEOUT, "{below:?}");
        let ended = tokio::time::timeout(Duration::from_secs(20), dropped.notified()).await;
        ended.unwrap_or_else(|_| panic!("{below:?}: the task still runs"));
    }
}

/// Regression test: the kernel called such a tool without a task, so the caller's task ended after `timeout`.
#[tokio::test]
async fn a_task_of_a_tool_that_may_run_as_one_has_the_time_of_a_task() {
    for below in [Era::Legacy, Era::Modern] {
        let config = config_of("[kernel]\ntimeout = '3s'\nmax_timeout = '1m'\n");
        let (kernel, may_end) = world_with(below, config).await;
        let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let call = host.call("slow").as_task();
        let running = tokio::spawn(async move { call.await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        may_end.notify_one();
        let result = running.await.unwrap();
        let result = result.unwrap_or_else(|error| panic!("{below:?}: {error}"));
        assert_eq!(result.to_text(), "done", "{below:?}");
    }
}

#[tokio::test]
async fn a_question_of_a_task_is_asked_once_although_the_call_has_limits() {
    let limits = "[agents.ann.limits]\ncalls_per_minute = 1000\nrunning = 2\n";
    for (above, below) in PAIRS {
        let config = config_of(limits);
        let (kernel, _) = world_with(below, config).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let builder = host_of(above).on_elicitation(move |question: ElicitParams| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(question.message, "The server `s` asks:\nWho comes?");
                question.accept_with(&json!({ "name": "Ann" }))
            }
        });
        let host = host(&kernel, "ann", builder).await;
        let result = host.call("asks").await;
        let result = result.unwrap_or_else(|error| panic!("{above:?} {below:?}: {error}"));
        assert_eq!(result.to_text(), "Ann", "{above:?} {below:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{above:?} {below:?}");
    }
}

/// Regression test: each answer of a modern host without tasks started the server's task again.
#[tokio::test]
async fn the_answers_of_a_host_without_tasks_continue_the_task_that_asks() {
    for limits in ["", "[agents.ann.limits]\ncalls_per_minute = 1000\nrunning = 2\n"] {
        let effects = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&effects);
        let make = move || {
            let counted = Arc::clone(&counted);
            let asks = Tool::new("asks", "Asks twice as a task", move |cx: Context| {
                let counted = Arc::clone(&counted);
                async move {
                    cx.begin_task().await?;
                    counted.fetch_add(1, Ordering::Relaxed);
                    let mut names = Vec::new();
                    for question in ["Who comes?", "Who else?"] {
                        let guest = cx.elicit::<Guest>(question).await?.accepted();
                        names.push(guest.map_or_else(String::new, |guest| guest.name));
                    }
                    Ok::<_, RpcError>(names.join(" and "))
                }
            });
            let mut tasks = TasksConfig::default();
            tasks.poll_interval = Duration::from_millis(100);
            let server = Server::new("s", "1").tasks(tasks);
            limit_era(server.tool(asks.task(TaskSupport::Required)), Era::Modern)
        };
        let builder = Kernel::builder().config(config_of(limits));
        let builder = builder.local_with("s", open(&["asks"]), make);
        let kernel = build_with_tools(builder, [("s", 1)]).await;
        let builder = host_of(Era::Modern).on_elicitation(|question: ElicitParams| async move {
            let name = if question.message.ends_with("Who comes?") { "Ann" } else { "Bob" };
            question.accept_with(&json!({ "name": name }))
        });
        let host = host(&kernel, "ann", builder).await;
        // A call whose progress is observed offers no tasks.
        let result = host.call("asks").progress(|_| {}).await;
        let result = result.unwrap_or_else(|error| panic!("{limits:?}: {error}"));
        assert_eq!(result.to_text(), "Ann and Bob", "{limits:?}");
        assert_eq!(effects.load(Ordering::Relaxed), 1, "{limits:?}");
    }
}

#[tokio::test]
async fn a_task_that_asks_a_host_without_tasks_is_cancelled_when_the_host_leaves() {
    let dropped = Arc::new(Notify::new());
    let notify = Arc::clone(&dropped);
    let make = move || {
        let notify = Arc::clone(&notify);
        let asks = Tool::new("asks", "Asks as a task", move |cx: Context| {
            let guard = NotifyOnDrop(Arc::clone(&notify));
            async move {
                cx.begin_task().await?;
                let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
                drop(guard);
                Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
            }
        });
        limit_era(Server::new("s", "1").tool(asks.task(TaskSupport::Required)), Era::Modern)
    };
    let folder = temp_dir();
    let builder = Kernel::builder().local_with("s", open(&["asks"]), make);
    let kernel = audited(builder, folder.path(), 1).await;
    let builder = host_of(Era::Modern).on_elicitation(|_: ElicitParams| async move {
        Err(RpcError::internal("the window was closed"))
    });
    let host = host(&kernel, "ann", builder).await;
    // A call whose progress is observed offers no tasks.
    host.call("asks").progress(|_| {}).send().await.unwrap_err();
    let early = tokio::time::timeout(Duration::from_millis(300), dropped.notified()).await;
    assert!(early.is_err(), "the call waits for its next round");
    host.close().await;
    let ended = tokio::time::timeout(Duration::from_secs(20), dropped.notified()).await;
    ended.expect("the task still runs");
    let recorded = recorded_calls(&kernel, "s").await;
    let calls: Vec<serde_json::Value> = serde_json::from_str(&recorded).unwrap();
    assert_eq!(calls.len(), 1, "{recorded}");
    assert_eq!(calls[0]["result"], "FAILURE", "{recorded}");
}

#[tokio::test]
async fn a_task_belongs_to_its_caller_and_ends_with_its_call() {
    for below in [Era::Legacy, Era::Modern] {
        let (kernel, may_end) = world(below).await;
        let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let bob = host(&kernel, "bob", host_of(Era::Legacy)).await;
        let call = ann.call("slow").as_task();
        let running = tokio::spawn(async move { call.await });
        let task = loop {
            let page = ann.list_tasks_page(None).await.unwrap();
            if let Some(task) = page.tasks.first() {
                break task.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert!(bob.list_tasks_page(None).await.unwrap().tasks.is_empty(), "{below:?}");
        assert!(bob.get_task(&task.task_id).await.is_err(), "{below:?}");
        assert!(bob.cancel_task(&task.task_id).await.is_err(), "{below:?}");
        assert!(ann.get_task(&task.task_id).await.is_ok(), "{below:?}");
        may_end.notify_one();
        assert_eq!(running.await.unwrap().unwrap().to_text(), "done", "{below:?}");

        let call = ann.call("slow").as_task();
        let running = tokio::spawn(async move { call.await });
        let task = loop {
            let page = ann.list_tasks_page(None).await.unwrap();
            if let Some(task) = page.tasks.iter().find(|one| one.task_id != task.task_id) {
                break task.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        ann.cancel_task(&task.task_id).await.unwrap();
        assert!(running.await.unwrap().is_err(), "{below:?}");
    }
}

#[tokio::test]
async fn a_modern_caller_that_supports_tasks_gets_one() {
    for below in [Era::Legacy, Era::Modern] {
        let (kernel, may_end) = world(below).await;
        let host = host(&kernel, "ann", host_of(Era::Modern)).await;
        let call = host.call("slow").as_task();
        let running = tokio::spawn(async move { call.await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        may_end.notify_one();
        assert_eq!(running.await.unwrap().unwrap().to_text(), "done", "{below:?}");
    }
}

#[tokio::test]
async fn a_tool_of_the_same_name_that_the_caller_does_not_see_prevents_no_task() {
    let may_end = Arc::new(Notify::new());
    let ends = Arc::clone(&may_end);
    let other = || Server::new("z", "1").tool(Tool::new("slow", "Is hidden", || async { "other" }));
    let builder = Kernel::builder()
        .local_with("s", open(&TOOLS), move || slow(Era::Legacy, Arc::clone(&ends)))
        .local_with("z", GovernanceConfig::default(), other);
    let kernel = build_with_tools(builder, [("s", 3), ("z", 1)]).await;
    let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
    may_end.notify_one();
    assert_eq!(ann.call("slow").as_task().await.unwrap().to_text(), "done");
}

#[tokio::test]
async fn a_restart_waits_for_the_task_that_a_call_became() {
    let make = || {
        let long = Tool::new("long", "Takes long", || async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            "done"
        });
        limit_era(Server::new("s", "1").tool(long.task(TaskSupport::Required)), Era::Modern)
    };
    let mut mgp = open(&["long"]);
    // The server does not offer the extension `lifecycle`, so the kernel itself waits for the calls of the server.
    mgp.extensions = vec!["streaming".to_owned()];
    let kernel = kernel_with("s", mgp, 1, make).await;
    let ann = host(&kernel, "ann", host_of(Era::Modern)).await;
    let call = ann.call("long");
    let running = tokio::spawn(async move { call.await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    kernel.restart_server(&"s".into()).await;
    assert_eq!(running.await.unwrap().unwrap().to_text(), "done");
}

/// Regression test: two agents could keep all tasks of the kernel for a day, so that others got none.
#[tokio::test]
async fn agents_that_take_all_tasks_they_can_leave_some_for_others() {
    let kernel = kernel_with("s", open(&["endless"]), 1, endless).await;
    let call = json!({ "name": "endless", "arguments": {}, "task": { "ttl": 86_400_000 } });
    let (mut sessions, mut taken) = (Vec::new(), Vec::new());
    let stack = kernel.server().into_stack().unwrap();
    for agent in ["ann", "bob", "cat"] {
        // A second session of an agent gets no further tasks.
        let mut count = 0;
        for _ in 0..2 {
            let mut session = raw_peer_of(stack.clone(), agent);
            session.ask("initialize", hello("2025-11-25", &json!({}))).await;
            session.notify("notifications/initialized", json!({})).await;
            let refused = loop {
                let answer = session.ask("tools/call", call.clone()).await;
                if !answer["result"]["task"].is_object() {
                    break answer.to_string();
                }
                count += 1;
            };
            let expected = format!("you may keep at most {count} tasks now; cancel some");
            assert!(refused.contains(&expected), "{refused}");
            sessions.push(session);
        }
        taken.push(count);
    }
    assert_eq!(taken, [64, 13, 10]);
}

/// Returns a server with a tool that never ends.
fn endless() -> Server {
    let endless = Tool::new("endless", "Never ends", || async {
        std::future::pending::<()>().await;
        "done"
    });
    let mut tasks = TasksConfig::default();
    (tasks.max_tasks, tasks.max_per_principal) = (1000, 1000);
    Server::new("s", "1").tasks(tasks).tool(endless.task(TaskSupport::Optional))
}

#[tokio::test]
async fn a_later_tenant_does_not_get_the_tasks_of_a_removed_one() {
    let kernel = kernel_with("s", open(&["endless"]), 1, endless).await;
    let stack = kernel.server().into_stack().unwrap();
    let mut callers = Vec::new();
    for tenant in ["acme", "beta"] {
        let mut ann = raw_peer_as(stack.clone(), Principal::new(tenant, "ann"));
        ann.ask("initialize", hello("2025-11-25", &json!({}))).await;
        ann.notify("notifications/initialized", json!({})).await;
        let call = json!({ "name": "endless", "arguments": {}, "task": {} });
        let begun = ann.ask("tools/call", call).await;
        assert!(begun["result"]["task"].is_object(), "{begun}");
        callers.push(ann);
    }
    let operator = Principal::local().operator();
    let operator = host_as(&kernel, operator, host_of(Era::Legacy)).await;
    let mut removal = KernelReloadParams::new();
    removal.forget_tenants.push("acme".to_owned());
    operator.request::<KernelReload>(&removal).await.unwrap();
    for (ann, left) in callers.iter_mut().zip([0, 1]) {
        let listed = ann.ask("tasks/list", json!({})).await;
        assert_eq!(listed["result"]["tasks"].as_array().unwrap().len(), left, "{listed}");
    }
}
