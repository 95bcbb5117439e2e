//! Tests of calls that the kernel turns into tasks, and of servers' tools that run only as tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::ToolResult;
use mgp_discovery::{Config, GovernanceConfig};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, TasksConfig};
use mgp_types::mcp::{ElicitParams, Era, TaskSupport};
use tokio::sync::Notify;

use super::world::{
    Guest, PAIRS, build_with_tools, config_of, host, host_of, kernel_with, limit_era, open,
};

const TOOLS: [&str; 3] = ["slow", "only", "asks"];

fn slow(era: Era, may_end: Arc<Notify>) -> Server {
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
    let server = Server::new("s", "1")
        .tasks(tasks)
        .tool(slow.task(TaskSupport::Optional))
        .tool(only.task(TaskSupport::Required))
        .tool(asks.task(TaskSupport::Required));
    limit_era(server, era)
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
            question.accept_with(&serde_json::json!({ "name": "Ann" }))
        });
        let host = host(&kernel, "ann", builder).await;
        for (tool, expected) in [("only", "done too"), ("asks", "Ann")] {
            let result = host.call(tool).await;
            let result =
                result.unwrap_or_else(|error| panic!("{above:?} {below:?} {tool}: {error}"));
            assert_eq!(result.to_text(), expected, "{above:?} {below:?}");
        }
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
                question.accept_with(&serde_json::json!({ "name": "Ann" }))
            }
        });
        let host = host(&kernel, "ann", builder).await;
        let result = host.call("asks").await;
        let result = result.unwrap_or_else(|error| panic!("{above:?} {below:?}: {error}"));
        assert_eq!(result.to_text(), "Ann", "{above:?} {below:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{above:?} {below:?}");
    }
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
    // Without the extension `lifecycle`, the kernel itself waits for the calls of the server.
    mgp.extensions = vec!["streaming".to_owned()];
    let kernel = kernel_with("s", mgp, 1, make).await;
    let ann = host(&kernel, "ann", host_of(Era::Modern)).await;
    let call = ann.call("long");
    let running = tokio::spawn(async move { call.await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    kernel.restart_server(&"s".into()).await;
    assert_eq!(running.await.unwrap().unwrap().to_text(), "done");
}
