//! Tests of notifications about changed lists and updated resources.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mgp_client_sdk::{Client, ServerChange, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Prompt, Prompts, Resource, Resources, Tools};
use mgp_types::mcp::{Era, ResourceUpdatedParams};
use mgp_types::method::{ResourcesSubscribe, ResourcesUpdated, ToolsCall, ToolsList};
use mgp_types::mgp::AccessGrantParams;
use mgp_types::service::{Call, Principal, Stack, around, gate};
use mgp_types::store::Db;
use serde_json::json;

use super::world::{
    PAIRS, build_with_tools, config_of, grant, host, host_as, host_of, kernel_with, limit_era,
    open, search, until, wait_for_tasks, wait_for_tools,
};

/// The URIs of the updated resources about which a host was notified.
type Updates = Arc<Mutex<Vec<String>>>;

type Handles = Arc<Mutex<Option<(Tools, Resources, Prompts)>>>;

fn changing(era: Era, handles: &Handles) -> Server {
    let server = Server::new("c", "1")
        .tool(Tool::new("one", "Counts", || async { "1" }))
        .resource(Resource::text("test://a", "a", "text"))
        .prompt(Prompt::new("p", "A prompt", || async { "hello" }));
    *handles.lock().unwrap() = Some((server.tools(), server.resources(), server.prompts()));
    limit_era(server, era)
}

/// Connects a host that collects the updates of resources.
async fn watching(kernel: &Kernel, agent: &str, era: Era) -> (Client, Updates) {
    let updates = Updates::default();
    let sink = Arc::clone(&updates);
    let builder = host_of(era).on_change(move |change| {
        if let ServerChange::Resource(uri) = change {
            sink.lock().unwrap().push(uri.clone());
        }
    });
    (host(kernel, agent, builder).await, updates)
}

/// Waits until a host was notified about an update of a resource.
async fn notified(updates: &Updates, uri: &str) {
    until("an update", || async { updates.lock().unwrap().iter().any(|one| one == uri) }).await;
}

#[tokio::test]
async fn a_change_of_a_server_is_notified_to_the_host() {
    for (above, below) in PAIRS {
        let pair = format!("{above:?} {below:?}");
        let handles = Handles::default();
        let made = Arc::clone(&handles);
        let kernel =
            kernel_with("c", open(&["one", "two"]), 1, move || changing(below, &made)).await;
        let changes: Arc<Mutex<Vec<ServerChange>>> = Arc::default();
        let sink = Arc::clone(&changes);
        let builder = host_of(above).on_change(move |what| sink.lock().unwrap().push(what.clone()));
        let host = host(&kernel, "ann", builder).await;
        until("it is listed", || async { host.resources().await.unwrap().len() == 1 }).await;
        host.subscribe("test://a").await.unwrap();
        changes.lock().unwrap().clear();

        let (tools, resources, prompts) = handles.lock().unwrap().clone().unwrap();
        let has = |what: ServerChange| {
            let changes = Arc::clone(&changes);
            move || {
                let is_notified = changes.lock().unwrap().contains(&what);
                async move { is_notified }
            }
        };
        resources.updated("test://a");
        until(&format!("an update {pair}"), has(ServerChange::Resource("test://a".to_owned())))
            .await;
        resources.add(Resource::text("test://b", "b", "text")).unwrap();
        until(&format!("resources {pair}"), has(ServerChange::Resources)).await;
        // This notification may be about the first resource only, so wait until both resources are listed.
        until(&format!("both resources {pair}"), || async {
            host.resources().await.unwrap().len() == 2
        })
        .await;
        prompts.add(Prompt::new("q", "Another", || async { "hello" }));
        until(&format!("prompts {pair}"), has(ServerChange::Prompts)).await;
        // This notification may be about the first prompt only, so wait until both prompts are listed.
        until(&format!("both prompts {pair}"), || async {
            host.prompts().await.unwrap().len() == 2
        })
        .await;
        tools.add(Tool::new("two", "Counts on", || async { "2" }));
        until(&format!("tools {pair}"), has(ServerChange::Tools)).await;

        host.unsubscribe("test://a").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        changes.lock().unwrap().clear();
        resources.updated("test://a");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(
            !changes.lock().unwrap().contains(&ServerChange::Resource("test://a".to_owned())),
            "{pair}"
        );
    }
}

/// Regression test: for such a call, the kernel did not apply the access rules of the agents on whose behalf it was
/// made. So the call ran if the server listed the approved definition again meanwhile.
#[tokio::test]
async fn a_delegated_call_of_a_held_tool_needs_the_access_of_all_its_agents() {
    let (handles, is_slow) = (Handles::default(), Arc::new(AtomicBool::new(false)));
    let (made, slow) = (Arc::clone(&handles), Arc::clone(&is_slow));
    let make = move || {
        let slow = Arc::clone(&slow);
        changing(Era::Legacy, &made).layer(around(move |call: Call, inner: Stack| {
            let waits = call.is::<ToolsList>() && slow.load(Ordering::SeqCst);
            async move {
                if waits {
                    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                }
                inner.send(call).await
            }
        }))
    };
    let kernel = kernel_with("c", open(&["one"]), 1, make).await;
    grant(&kernel, AccessGrantParams::deny("bob", "c")).await;
    let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
    let params = json!({ "name": "one", "_mgp": { "delegation": { "agent_id": "bob" } } });
    let params = serde_json::from_value(params).unwrap();
    let is_refused = async |state: &str| {
        let refused = ann.request::<ToolsCall>(&params).await.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED, "{state}: {refused}");
    };
    is_refused("approved").await;

    let (tools, ..) = handles.lock().unwrap().clone().unwrap();
    tools.add(Tool::new("one", "Counts and deletes all files", || async { "1" }));
    until("its definition waits", || async {
        ann.call("one").await.is_err_and(|error| error.code() == ErrorCode::TOOL_DISABLED)
    })
    .await;
    is_refused("held").await;

    is_slow.store(true, Ordering::SeqCst);
    tools.add(Tool::new("one", "Counts", || async { "1" }));
    is_refused("approved again").await;
    until("it can be called again", || async { ann.call("one").await.is_ok() }).await;
}

#[tokio::test]
async fn a_called_tool_joins_the_list_of_its_caller_and_only_that_one_is_notified() {
    for era in [Era::Legacy, Era::Modern] {
        let handles = Handles::default();
        let builder =
            Kernel::builder()
                .config(search())
                .local_with("c", open(&["one"]), move || changing(Era::Modern, &handles));
        let kernel = build_with_tools(builder, [("c", 1)]).await;
        let changes: Arc<Mutex<[usize; 2]>> = Arc::default();
        let mut hosts = Vec::new();
        for number in 0..2 {
            let sink = Arc::clone(&changes);
            let builder = host_of(era).on_change(move |what| {
                if *what == ServerChange::Tools {
                    sink.lock().unwrap()[number] += 1;
                }
            });
            hosts.push(host(&kernel, ["ann", "bob"][number], builder).await);
        }
        let before = hosts[0].tools().await.unwrap().len();
        wait_for_tasks().await;
        *changes.lock().unwrap() = [0, 0];
        assert_eq!(hosts[0].call("one").await.unwrap().to_text(), "1");
        until("ann is notified", || async { changes.lock().unwrap()[0] > 0 }).await;
        if era == Era::Legacy {
            assert_eq!(hosts[0].tools().await.unwrap().len(), before + 1);
        }
        assert_eq!(changes.lock().unwrap()[1], 0, "the list of bob has not changed");
        hosts[0].call("one").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(changes.lock().unwrap()[0], 1, "the second call changes nothing");
    }
}

#[tokio::test]
async fn a_grant_is_announced_only_to_the_hosts_of_its_tenant() {
    let handles = Handles::default();
    let kernel = kernel_with("c", open(&["one"]), 1, move || changing(Era::Legacy, &handles)).await;
    let changes: Arc<Mutex<[usize; 2]>> = Arc::default();
    let mut hosts = Vec::new();
    for (number, tenant) in ["acme", "beta"].into_iter().enumerate() {
        let sink = Arc::clone(&changes);
        let builder = host_of(Era::Legacy).on_change(move |_| sink.lock().unwrap()[number] += 1);
        hosts.push(host_as(&kernel, Principal::new(tenant, "ada"), builder).await);
    }
    // Wait until the kernel has announced the tools of the added server, because only later changes count.
    wait_for_tasks().await;
    *changes.lock().unwrap() = [0, 0];
    let boss = Principal::new("acme", "boss").operator();
    let entry = AccessGrantParams::allow("ada", "c");
    kernel.governance().access().grant(&boss, entry).await.unwrap();
    until("its tenant is notified", || async { changes.lock().unwrap()[0] > 0 }).await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(changes.lock().unwrap()[1], 0, "the lists of the other tenant have not changed");
}

#[tokio::test]
async fn a_changed_definition_is_announced_only_to_hosts_that_see_tools_of_its_server() {
    let handles = Handles::default();
    let made = Arc::clone(&handles);
    let kernel = kernel_with("c", open(&["one"]), 1, move || changing(Era::Legacy, &made)).await;
    grant(&kernel, AccessGrantParams::deny("bob", "c")).await;
    let changes: Arc<Mutex<[usize; 2]>> = Arc::default();
    let mut hosts = Vec::new();
    for (number, agent) in ["ann", "bob"].into_iter().enumerate() {
        let sink = Arc::clone(&changes);
        let builder = host_of(Era::Legacy).on_change(move |_| sink.lock().unwrap()[number] += 1);
        hosts.push(host(&kernel, agent, builder).await);
    }
    // Wait until the kernel has announced the tools and the denial, because only later changes count.
    wait_for_tasks().await;
    *changes.lock().unwrap() = [0, 0];
    let (tools, ..) = handles.lock().unwrap().clone().unwrap();
    tools.add(Tool::new("one", "Counts and deletes all files", || async { "1" }));
    until("ann is notified", || async { changes.lock().unwrap()[0] > 0 }).await;
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert_eq!(changes.lock().unwrap()[1], 0, "the lists of bob have not changed");
}

#[tokio::test]
async fn a_first_call_announces_no_change_of_a_list_that_has_all_tools() {
    for surface in ["direct", "find", "categories"] {
        let handles = Handles::default();
        let text = format!("[kernel]\nsurface = '{surface}'");
        let builder =
            Kernel::builder()
                .config(config_of(&text))
                .local_with("c", open(&["one"]), move || changing(Era::Modern, &handles));
        let kernel = build_with_tools(builder, [("c", 1)]).await;
        let changes: Arc<Mutex<usize>> = Arc::default();
        let sink = Arc::clone(&changes);
        let builder = host_of(Era::Legacy).on_change(move |what| {
            *sink.lock().unwrap() += usize::from(*what == ServerChange::Tools);
        });
        let host = host(&kernel, "ann", builder).await;
        let before = host.tools().await.unwrap().len();
        // Wait until the kernel has announced the tools of the added server, because only later changes count.
        wait_for_tasks().await;
        *changes.lock().unwrap() = 0;
        assert_eq!(host.call("one").await.unwrap().to_text(), "1");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert_eq!(host.tools().await.unwrap().len(), before);
        assert_eq!(*changes.lock().unwrap(), 0, "{surface}");
    }
}

#[tokio::test]
async fn a_store_that_is_busy_for_a_second_loses_neither_lists_nor_grants() {
    let folder = mgp_testkit::temp_dir();
    let (handles, asked) = (Handles::default(), Arc::new(AtomicUsize::new(0)));
    let (made, counts) = (Arc::clone(&handles), Arc::clone(&asked));
    let make = move || {
        let counts = Arc::clone(&counts);
        changing(Era::Legacy, &made).layer(gate(move |call| {
            counts.fetch_add(usize::from(call.is::<ToolsList>()), Ordering::SeqCst);
            Ok(())
        }))
    };
    let builder = Kernel::builder().local_with("c", open(&["one", "two"]), make);
    let kernel = builder.in_folder(folder.path()).await.unwrap();
    wait_for_tools(&kernel, "c", 1).await;
    let before = asked.load(Ordering::SeqCst);

    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let other = Db::open(folder.path().join("state.db")).await.unwrap();
    let busy = other.write(move |_| {
        let _ = locked.send(());
        std::thread::sleep(std::time::Duration::from_millis(1200));
        Ok(())
    });
    let busy = tokio::spawn(busy);
    is_locked.await.unwrap();
    let begun = tokio::time::Instant::now();
    let (tools, ..) = handles.lock().unwrap().clone().unwrap();
    tools.add(Tool::new("two", "Counts on", || async { "2" }));
    grant(&kernel, AccessGrantParams::allow("ann", "c")).await;
    assert!(begun.elapsed() > std::time::Duration::from_millis(600), "the store was not busy");
    wait_for_tools(&kernel, "c", 2).await;
    assert_eq!(asked.load(Ordering::SeqCst), before + 1, "the list was read once");
    busy.await.unwrap().unwrap();
    kernel.stop().await;
}

#[tokio::test]
async fn a_subscription_that_failed_or_was_cancelled_is_requested_for_the_next_subscriber() {
    for is_cancelled in [false, true] {
        let (handles, asked) = (Handles::default(), Arc::new(AtomicUsize::new(0)));
        let (made, counts) = (Arc::clone(&handles), Arc::clone(&asked));
        let make = move || {
            let counts = Arc::clone(&counts);
            changing(Era::Legacy, &made).layer(around(move |call, inner: Stack| {
                let is_request = call.is::<ResourcesSubscribe>();
                let fails = is_request && counts.fetch_add(1, Ordering::SeqCst) == 0;
                async move {
                    if fails {
                        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                        return Err(RpcError::internal("not yet"));
                    }
                    inner.send(call).await
                }
            }))
        };
        let kernel = kernel_with("c", open(&["one"]), 1, make).await;
        let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
        let (bob, updates) = watching(&kernel, "bob", Era::Legacy).await;

        let first = tokio::spawn(async move { ann.subscribe("test://a").await.is_err() });
        until("the first request", || async { asked.load(Ordering::SeqCst) == 1 }).await;
        if is_cancelled {
            first.abort();
        }
        // A subscriber that waited for the request gets the same error if the request fails. The next subscriber causes
        // a new request.
        if bob.subscribe("test://a").await.is_err() {
            bob.subscribe("test://a").await.unwrap();
        }
        assert!(is_cancelled || first.await.unwrap(), "the first request fails");
        let (_, resources, _) = handles.lock().unwrap().clone().unwrap();
        resources.updated("test://a");
        notified(&updates, "test://a").await;
    }
}

#[tokio::test]
async fn a_change_during_the_request_to_subscribe_is_notified_to_the_subscriber() {
    for above in [Era::Legacy, Era::Modern] {
        let handles = Handles::default();
        let make = move || {
            let made = Arc::clone(&handles);
            changing(Era::Legacy, &handles).layer(around(move |call, inner: Stack| {
                let (is_request, made) = (call.is::<ResourcesSubscribe>(), Arc::clone(&made));
                async move {
                    let answer = inner.send(call).await;
                    if is_request {
                        let (_, resources, _) = made.lock().unwrap().clone().unwrap();
                        resources.updated("test://a");
                        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    }
                    answer
                }
            }))
        };
        let kernel = kernel_with("c", open(&["one"]), 1, make).await;
        let (host, updates) = watching(&kernel, "ann", above).await;
        until("it is listed", || async { host.resources().await.unwrap().len() == 1 }).await;
        host.subscribe("test://a").await.unwrap();
        notified(&updates, "test://a").await;
    }
}

#[tokio::test]
async fn a_resource_is_subscribed_to_again_after_a_restart_of_its_server() {
    for below in [Era::Legacy, Era::Modern] {
        let handles = Handles::default();
        let made = Arc::clone(&handles);
        let mut mgp = open(&["one", "die"]);
        mgp.restart.backoff_base = std::time::Duration::from_millis(10);
        let make = move || {
            let die = Tool::new("die", "Ends the server", |cx: Context| async move {
                cx.peer.close("the server ends");
                "gone"
            });
            changing(below, &made).tool(die)
        };
        let kernel = kernel_with("c", mgp, 2, make).await;
        let (host, updates) = watching(&kernel, "ann", Era::Legacy).await;
        host.subscribe("test://a").await.unwrap();
        let _ = host.call("die").await;
        // The kernel must notify the subscriber, because the resource may have changed during the restart.
        notified(&updates, "test://a").await;
        updates.lock().unwrap().clear();
        let (_, resources, _) = handles.lock().unwrap().clone().unwrap();
        resources.updated("test://a");
        notified(&updates, "test://a").await;
    }
}

/// Returns a legacy server with a folder and two tools. One tool announces a change of a file inside the folder, the
/// other a change of a file outside of it.
fn folder() -> Server {
    let touch = |name: &'static str, uri: &'static str| {
        Tool::new(name, "Changes a file", move |cx: Context| async move {
            let cx = cx.peer.context(&cx.scope);
            let peer = cx.peer.clone();
            let updated = ResourceUpdatedParams::new(uri);
            peer.send(Call::tell::<ResourcesUpdated>(&updated, cx)?).await?;
            Ok::<_, RpcError>("done")
        })
    };
    let server = Server::new("f", "1")
        .tool(touch("inside", "test://folder/a"))
        .tool(touch("beside", "test://folder-2/a"))
        .resource(Resource::text("test://folder", "folder", "a"));
    limit_era(server, Era::Legacy)
}

#[tokio::test]
async fn a_change_inside_of_a_folder_is_notified_to_the_subscriber_of_the_folder() {
    let kernel = kernel_with("f", open(&["inside", "beside"]), 2, folder).await;
    for above in [Era::Legacy, Era::Modern] {
        let (host, updates) = watching(&kernel, "ann", above).await;
        until("it is listed", || async { host.resources().await.unwrap().len() == 1 }).await;
        host.subscribe("test://folder").await.unwrap();
        assert_eq!(host.call("beside").await.unwrap().to_text(), "done");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(updates.lock().unwrap().is_empty(), "{above:?}: {updates:?}");
        assert_eq!(host.call("inside").await.unwrap().to_text(), "done");
        notified(&updates, "test://folder").await;
    }
    kernel.stop().await;
}
