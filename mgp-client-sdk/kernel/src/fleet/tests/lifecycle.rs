//! Tests of the effects of a stop or a restart of a server on waiting requests, on lists that the server no longer has,
//! and on subscriptions to the instances of agents. Also tests of the description of a server whose list cannot be
//! read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{ServerChange, TestClient};
use mgp_discovery::{Isolation, ServerConfig};
use mgp_server_sdk::{Prompt, Resource, Resources, Server, Tool};
use mgp_testkit::{until, until_shown};
use mgp_types::mcp::{Era, ListParams, Revision};
use mgp_types::method::{Request as _, ResourcesList, ResourcesSubscribe, ToolsList};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Reply, Stack, around, gate};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tower_layer::layer_fn;

use super::{World, clock, counting_host, kernel_with, open};
use crate::Kernel;
use crate::dispatch::context_of_agent;
use crate::fleet::start_permits::PERMIT_TIMEOUT;
use crate::fleet::{ListGroup, SessionUse};

#[tokio::test(start_paused = true)]
async fn a_subscription_that_a_restarted_server_refuses_at_first_is_requested_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&requests);
    let news = move || {
        let counts = Arc::clone(&counts);
        let refuses_second = gate(move |call| {
            let subscribes = call.method().as_str() == ResourcesSubscribe::METHOD;
            let is_refused = subscribes && counts.fetch_add(1, Ordering::SeqCst) == 1;
            if is_refused { Err(RpcError::invalid_params("loading")) } else { Ok(()) }
        });
        Server::new("news", "1")
            .resource(Resource::text("test://news", "news", "none"))
            .offer(|offer| offer.revisions.retain(|one: &Revision| one.era() == Era::Legacy))
            .layer(refuses_second)
    };
    let kernel = kernel_with("news", news).await;
    let changed = ServerChange::Resource("test://news".to_owned());
    let (host, updates) = counting_host(&kernel, changed).await;
    until("a resource is listed", async || !host.resources().await.unwrap().is_empty()).await;
    host.subscribe("test://news").await.unwrap();
    assert_eq!((requests.load(Ordering::SeqCst), updates.load(Ordering::SeqCst)), (1, 0));
    kernel.restart_server(&"news".into()).await;
    until("the subscription is requested again", async || {
        requests.load(Ordering::SeqCst) >= 3 && updates.load(Ordering::SeqCst) > 0
    })
    .await;
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_its_permit_continues_although_its_operator_stops_waiting() {
    let world = World::new(Isolation::Shared).await;
    let id = "clock".into();
    world.kernel.stop_server(&id).await;
    let permits = world.take_permits().await;
    let start = timeout(Duration::from_secs(1), world.kernel.start_server(&id));
    assert!(start.await.is_err());
    drop(permits);
    world.becomes(ServerState::Connected).await;
    world.kernel.stop().await;
}

/// Checks that a list request waits for a server during its first start, but does not wait any more once `end` has
/// ended this start.
#[cfg(unix)]
async fn check_waiting_list<F>(end: impl FnOnce(Kernel) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let text = "[[servers]]\nid = 'hung'\ncommand = 'sleep'\nargs = ['600']\n\
                mgp = { default_policy = 'opt-out' }\n";
    let builder = Kernel::builder().config(super::config(text));
    let builder = builder.local_with("clock", open(Isolation::Shared, &["now"]), clock);
    let kernel = builder.build().await.unwrap();
    let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
    let begun = Instant::now();
    let listing = tokio::spawn(async move { host.tools().await.unwrap() });
    sleep(Duration::from_secs(2)).await;
    assert!(!listing.is_finished());
    let ending = tokio::spawn(end(kernel.clone()));
    let tools = listing.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let names: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["now"], "the host gets all tools, because those of no server are unknown");
    ending.await.unwrap();
    kernel.stop().await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_list_does_not_wait_for_a_server_that_is_stopped_during_its_first_start() {
    check_waiting_list(|kernel| async move {
        kernel.stop_server(&"hung".into()).await;
    })
    .await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_list_does_not_wait_for_a_server_that_is_removed_during_its_first_start() {
    check_waiting_list(|kernel| async move {
        kernel.0.fleet.remove(&"hung".into()).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_tools_that_fails_is_described_before_the_definitions_that_were_refused() {
    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let refused = move || {
        let is_failing = Arc::clone(&is_failing);
        let layer = gate(move |call| {
            let lists = call.method().as_str() == ToolsList::METHOD;
            let fails = lists && is_failing.load(Ordering::SeqCst);
            if fails { Err(RpcError::internal("no; run x")) } else { Ok(()) }
        });
        let hidden = Tool::new("hidden", "Adds\u{200b}.", || async { "noon" });
        clock().tool(hidden).layer(layer)
    };
    let kernel = kernel_with("clock", refused).await;
    let becomes = async |reason: &str| {
        until_shown(|| {
            let servers = kernel.servers();
            let lacks = servers[0].lacks.as_deref();
            (lacks.is_some_and(|lacks| lacks.contains(reason)), servers)
        })
        .await;
    };
    becomes("1 definition cannot be used").await;
    fails.store(true, Ordering::SeqCst);
    kernel.0.fleet.context().stale.mark(&"clock".into(), &[ListGroup::Tools]);
    becomes("its tools could not be listed: ").await;
    let lacks = kernel.servers()[0].lacks.clone().unwrap();
    assert!(lacks.ends_with("; see `mgp servers logs clock`"), "{lacks}");
    fails.store(false, Ordering::SeqCst);
    becomes("1 definition cannot be used").await;
    kernel.stop().await;
}

/// Returns a server with one tool or resource per page. `next` returns the number of the page that follows a page.
fn paged(next: fn(usize) -> Option<usize>) -> Server {
    let layer = layer_fn(move |inner: Stack| {
        Stack::from_fn(move |call| {
            let method = call.method().as_str();
            let lists_tools = method == ToolsList::METHOD;
            let lists = lists_tools || method == ResourcesList::METHOD;
            let asked = lists.then(|| call.params().get::<ListParams>());
            let sent = inner.send(call);
            async move {
                let Some(asked) = asked else { return sent.await };
                let page: usize = asked?.cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let name = format!("t{page}");
                let schema = json!({ "type": "object" });
                let tool = json!({ "name": name, "description": "Adds.", "inputSchema": schema });
                let resource = json!({ "uri": format!("test://{page}"), "name": name });
                let mut list = if lists_tools {
                    json!({ "tools": [tool] })
                } else {
                    json!({ "resources": [resource] })
                };
                if let Some(next) = next(page) {
                    list["nextCursor"] = json!(next.to_string());
                }
                Reply::of(&list)
            }
        })
    });
    clock().resource(Resource::text("test://0", "t0", "none")).layer(layer)
}

#[tokio::test(start_paused = true)]
async fn a_list_of_resources_of_more_than_two_hundred_pages_is_read() {
    let long = || paged(|page| (page < 249).then_some(page + 1));
    let kernel = kernel_with("long", long).await;
    let host = TestClient::new(kernel.server()).await;
    until("all are read", async || host.resources().await.unwrap().len() == 250).await;
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_more_than_a_hundred_pages_is_read_and_one_without_an_end_in_part() {
    let long = || paged(|page| (page < 149).then_some(page + 1));
    let builder = Kernel::builder()
        .local_with("long", open(Isolation::Shared, &["now"]), long)
        .local_with("endless", open(Isolation::Shared, &["now"]), || paged(|_| Some(0)));
    let kernel = builder.build().await.unwrap();
    let tools = |server: &str| kernel.index().tools_of(server).len();
    until("all pages are read", async || tools("long") == 150).await;
    until("the first page is read", async || tools("endless") == 1).await;
    let lacks = || {
        let servers = kernel.servers();
        let endless = servers.iter().find(|server| server.id.as_str() == "endless");
        endless.and_then(|server| server.lacks.clone()).unwrap_or_default()
    };
    until("the reason is shown", async || !lacks().is_empty()).await;
    let expected = "only 1 tools were read, because it repeats the cursor of a page; see \
                    `mgp servers logs endless`";
    assert_eq!(lacks(), expected);
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_of_resources_that_a_server_fails_to_return_is_read_again() {
    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let handles: Arc<Mutex<Vec<Resources>>> = Arc::default();
    let made = Arc::clone(&handles);
    let loading = move || {
        let is_failing = Arc::clone(&is_failing);
        let layer = gate(move |call| {
            let lists = call.method().as_str() == ResourcesList::METHOD;
            let fails = lists && is_failing.swap(false, Ordering::SeqCst);
            if fails { Err(RpcError::internal("not yet")) } else { Ok(()) }
        });
        let server = clock().resource(Resource::text("test://a", "a", "none"));
        made.lock().push(server.resources());
        server.layer(layer)
    };
    let kernel = kernel_with("clock", loading).await;
    let host = TestClient::new(kernel.server()).await;
    let lists = async |count: usize| {
        for _ in 0..1000 {
            if host.resources().await.unwrap().len() == count {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("the list is not read again");
    };
    lists(1).await;
    // Wait until the kernel has read the list a second time, so that only a later read fails.
    sleep(Duration::from_secs(5)).await;
    fails.store(true, Ordering::SeqCst);
    handles.lock()[0].add(Resource::text("test://b", "b", "none")).unwrap();
    lists(2).await;
    assert!(!fails.load(Ordering::SeqCst), "one read failed");
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_after_an_approval_starts_a_stopped_server_to_read_its_tools_again() {
    let kernel = kernel_with("clock", clock).await;
    let fleet = &kernel.0.fleet;
    let server = fleet.get("clock").unwrap();
    until("the lists are read", async || !server.lists_may_be_outdated()).await;
    server.client().stop(ShutdownReason::IdleTimeout).await;
    fleet.reread_tools(&"clock".into()).await;
    assert!(server.lists_may_be_outdated());
    // Start the server to read its lists, as a call of an unknown tool does.
    server.sync(server.start_timeout()).await;
    assert!(!server.lists_may_be_outdated());
    assert_eq!(server.state(), ServerState::Connected);
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_connects_again_is_listed_before_the_pause_after_its_last_list_has_ended() {
    let kernel = kernel_with("clock", clock).await;
    let server = kernel.0.fleet.get("clock").unwrap();
    until("the lists are read", async || !server.lists_may_be_outdated()).await;
    // Record twelve reads without a change. After them, the kernel pauses for a minute.
    for _ in 0..12 {
        server.refresh_queue().note_read(ListGroup::Tools, Instant::now());
    }
    server.client().stop(ShutdownReason::IdleTimeout).await;
    let begun = Instant::now();
    server.start().await;
    server.listed().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_new_tool_does_not_wait_for_the_pause_after_the_last_list() {
    let handles = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&handles);
    let growing = move || {
        let server = clock();
        made.lock().push(server.tools());
        server
    };
    let mgp = open(Isolation::Shared, &["now", "later", "last"]);
    let kernel = Kernel::builder().local_with("clock", mgp, growing).build().await.unwrap();
    let host = TestClient::new(kernel.server()).await;
    let server = kernel.0.fleet.get("clock").unwrap();
    until("the lists are read", async || !server.lists_may_be_outdated()).await;
    for (known, tool, name) in [(1, "later", "clock.later"), (2, "last", "last")] {
        for _ in 0..12 {
            server.refresh_queue().note_read(ListGroup::Tools, Instant::now());
        }
        handles.lock()[0].add(Tool::new(tool, "The time later", || async { "one" }));
        sleep(Duration::from_secs(2)).await;
        assert_eq!(kernel.index().tools_of("clock").len(), known, "the new list is not read yet");
        let begun = Instant::now();
        host.call(name).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_tools_of_a_server_that_connected_late() {
    let slow = || {
        let layer = layer_fn(|inner: Stack| {
            Stack::from_fn(move |call| {
                let lists_tools = call.method().as_str() == ToolsList::METHOD;
                let sent = inner.send(call);
                async move {
                    if lists_tools {
                        sleep(Duration::from_secs(3)).await;
                    }
                    sent.await
                }
            })
        });
        clock().layer(layer)
    };
    let kernel = kernel_with("clock", slow).await;
    let server = kernel.0.fleet.get("clock").unwrap();
    // Let requests wait no longer for the lists. The kernel also does this when the first attempt to start the server
    // fails.
    server.finish_first_sync();
    let host = TestClient::new(kernel.server()).await;
    until("it is connected", async || server.state() == ServerState::Connected).await;
    assert!(kernel.index().tools_of("clock").is_empty(), "the list is being read");
    host.call("clock.now").await.unwrap();
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_whose_tools_could_not_be_listed_can_be_repeated() {
    let loading = || {
        clock().layer(gate(|call| {
            let lists_tools = call.method().as_str() == ToolsList::METHOD;
            if lists_tools { Err(RpcError::internal("loading")) } else { Ok(()) }
        }))
    };
    let kernel = kernel_with("clock", loading).await;
    let host = TestClient::new(kernel.server()).await;
    let refused = host.call("clock.now").await.unwrap_err().to_string();
    assert!(refused.contains("the tools of `clock` could not be listed"), "{refused}");
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_list_that_a_server_no_longer_offers_is_announced() {
    let made = Arc::new(AtomicUsize::new(0));
    let changing = move || {
        let is_first = made.fetch_add(1, Ordering::SeqCst) == 0;
        let prompt = Prompt::new("p", "Asks", || async { "p" });
        if is_first { clock().prompt(prompt) } else { clock() }
    };
    let kernel = kernel_with("clock", changing).await;
    let (host, changes) = counting_host(&kernel, ServerChange::Prompts).await;
    until("a prompt is listed", async || !host.prompts().await.unwrap().is_empty()).await;
    // Wait, because earlier changes may be announced a moment later.
    sleep(Duration::from_secs(5)).await;
    let before = changes.load(Ordering::SeqCst);
    kernel.restart_server(&"clock".into()).await;
    sleep(Duration::from_secs(5)).await;
    assert!(changes.load(Ordering::SeqCst) > before, "the change was not announced");
    assert!(host.prompts().await.unwrap().is_empty());
    kernel.stop().await;
}

/// Updates the resource in all instances of the server until the subscriber is notified.
async fn is_notified(world: &World, updates: &AtomicUsize) {
    // Wait until the notifications about the new connection have arrived.
    sleep(Duration::from_secs(5)).await;
    let before = updates.load(Ordering::SeqCst);
    until("a notification arrives", async || {
        for resources in world.resources.lock().iter() {
            resources.updated("test://news");
        }
        updates.load(Ordering::SeqCst) > before
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_subscription_starts_again_with_its_server() {
    let world = World::new(Isolation::PerAgent).await;
    let (_host, updates) = world.subscriber().await;
    let id = "clock".into();
    is_notified(&world, &updates).await;
    world.kernel.stop_server(&id).await;
    world.kernel.start_server(&id).await;
    is_notified(&world, &updates).await;
    world.kernel.restart_server(&id).await;
    is_notified(&world, &updates).await;

    // Replace the server, as a reload of the configuration does.
    let fleet = &world.kernel.0.fleet;
    let config = ServerConfig::clone(&world.server().config());
    fleet.remove(&id).await;
    fleet.add(config).unwrap();
    is_notified(&world, &updates).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_subscription_starts_again_only_with_a_permit_of_its_own() {
    let world = World::new(Isolation::PerAgent).await;
    let (_host, updates) = world.subscriber().await;
    is_notified(&world, &updates).await;
    let (fleet, id) = (&world.kernel.0.fleet, "clock".into());
    let config = ServerConfig::clone(&world.server().config());
    fleet.remove(&id).await;
    let (starts, resumes) = (world.take_permits().await, world.take_resume_permits().await);
    let made = world.made();
    fleet.add(config.clone()).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.made(), made, "an instance started without a permit");
    drop(starts);
    let state = world.kernel.start_server(&id).await;
    assert_eq!(state, Some(ServerState::Connected), "the server waits for the instance");
    drop(resumes);
    is_notified(&world, &updates).await;

    // Even if the test occupies all permits for starts of servers, the instance must start, because it needs a permit
    // of another kind.
    fleet.remove(&id).await;
    let (starts, made) = (world.take_permits().await, world.made());
    fleet.add(config).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(world.made() > made, "the instance took one of the other permits");
    drop(starts);
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_events_are_subscribed_to_starts_again_with_its_server() {
    let striking = || clock().channel("clock.struck", "An hour is over");
    let builder =
        Kernel::builder().local_with("clock", open(Isolation::PerAgent, &["now"]), striking);
    let kernel = builder.build().await.unwrap();
    let client = TestClient::new(kernel.server()).await;
    until("the tool is known", async || client.call("now").await.is_ok()).await;
    let events = client.events().subscribe(["clock.*"]).await.unwrap();
    let restart = async || {
        kernel.restart_server(&"clock".into()).await;
        sleep(Duration::from_secs(5)).await;
        kernel.servers()[0].instances
    };
    assert_eq!(restart().await, Some(1));
    events.unsubscribe().await.unwrap();
    assert_eq!(restart().await, Some(0), "only its next call starts it");
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_tools_of_a_server_ends_with_its_run() {
    let silent = || {
        clock().layer(around(|call, inner: Stack| async move {
            if call.method().as_str() == ToolsList::METHOD {
                std::future::pending::<()>().await;
            }
            inner.send(call).await
        }))
    };
    let kernel = kernel_with("clock", silent).await;
    let server = kernel.0.fleet.get("clock").unwrap();
    until("it is connected", async || server.state() == ServerState::Connected).await;
    let run = server.client().supervised().current().borrow().as_ref().unwrap().run;
    let waiting = Arc::clone(&server);
    let listed = tokio::spawn(async move { waiting.listed().await });
    sleep(Duration::from_secs(1)).await;
    assert!(!listed.is_finished());
    server.client().mark_unhealthy(run, "lost").await;
    assert!(timeout(Duration::from_secs(5), listed).await.is_ok());
    kernel.stop().await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn many_calls_of_a_server_that_hangs_do_not_delay_the_start_of_another() {
    let text = "[[servers]]\nid = 'hung'\ncommand = 'sleep'\nargs = ['600']\n\
                mgp = { default_policy = 'opt-out' }\n";
    let builder = Kernel::builder().config(super::config(text));
    let builder = builder.local_with("clock", open(Isolation::Shared, &["now"]), clock);
    let kernel = builder.build().await.unwrap();
    let [hung, clock] = ["hung", "clock"].map(|id| kernel.0.fleet.get(id).unwrap());
    until("the lists are read", async || !clock.lists_may_be_outdated()).await;
    until("it starts", async || hung.state() == ServerState::Connecting).await;
    for server in [&hung, &clock] {
        server.client().stop(ShutdownReason::IdleTimeout).await;
    }
    let cx = context_of_agent("ann");
    for _ in 0..20 {
        let (hung, cx) = (Arc::clone(&hung), cx.clone());
        tokio::spawn(async move { hung.wake_for(&cx, SessionUse::Call).await.map(drop) });
    }
    sleep(Duration::from_millis(10)).await;
    let begun = Instant::now();
    clock.wake_for(&cx, SessionUse::Call).await.unwrap();
    assert!(begun.elapsed() < PERMIT_TIMEOUT / 2, "{:?}", begun.elapsed());
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_start_of_a_replaced_server_can_be_tried_again() {
    let world = World::new(Isolation::Shared).await;
    let server = world.server();
    server.client().stop(ShutdownReason::IdleTimeout).await;
    let permits = world.take_permits().await;
    let client = world.client.clone();
    let call = tokio::spawn(async move { client.call("which").await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    server.hold().set_replaced();
    drop(permits);
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SERVER_RESTARTING, "{refused}");
    world.kernel.stop().await;
}

/// A shell script of a server that exits when its tools are requested.
#[cfg(unix)]
const ENDS: &str = r#"
read -r line
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id"
while read -r line; do case "$line" in *tools/list*) exit 3 ;; esac; done
"#;

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_ends_when_it_is_asked_for_its_tools_has_not_started() {
    let text =
        "[[servers]]\nid = 'ends'\nera = 'legacy'\ncommand = 'sh'\nargs = ['-c', '''SCRIPT''']\n";
    let config = super::config(&text.replace("SCRIPT", ENDS));
    let kernel = Kernel::builder().config(config).build().await.unwrap();
    let server = kernel.0.fleet.get("ends").unwrap();
    until("it has failed", async || server.state() == ServerState::Restarting).await;
    for _ in 0..3 {
        assert_ne!(server.operator_start(None).await, ServerState::Connected);
        assert_ne!(server.operator_restart(None).await, ServerState::Connected);
    }
    kernel.stop().await;
}

/// A shell script of a server that answers each request for its tools with an empty list.
#[cfg(unix)]
const EMPTY: &str = r#"
while read -r line; do
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*initialize\"*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
*tools/list*) result='{"tools":[]}' ;;
*) continue ;;
esac
printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[cfg(unix)]
#[tokio::test]
async fn a_call_of_an_unknown_tool_starts_a_server_whose_first_start_failed() {
    let folder = mgp_testkit::temp_dir();
    let later = folder.path().join("later");
    let text = "[[servers]]\nid = 'late'\nera = 'legacy'\ncommand = 'sh'\ncwd = 'FOLDER'\n\
                args = ['-c', '''SCRIPT''']\n";
    let text = text.replace("FOLDER", later.to_str().unwrap()).replace("SCRIPT", EMPTY);
    let kernel = Kernel::builder().config(super::config(&text)).build().await.unwrap();
    let server = kernel.0.fleet.get("late").unwrap();
    until("it has failed", async || server.state() == ServerState::Error).await;
    until("nothing waits for it", async || !server.lists_may_be_outdated()).await;
    std::fs::create_dir(&later).unwrap();
    // Try to start the server again, as a call of an unknown tool does.
    server.sync(server.start_timeout()).await;
    assert_eq!(server.state(), ServerState::Connected);
    kernel.stop().await;
}
