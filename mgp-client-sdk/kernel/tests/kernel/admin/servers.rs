//! Tests of the methods with which operators start and stop servers, read the kernel's description of itself, and query
//! its audit log and events.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_security::AuditQuery;
use mgp_server_sdk::{Server, Tool};
use mgp_types::method::{
    KernelAudit, KernelEvents, KernelExplain, KernelInfo, KernelReload, KernelServers,
    KernelServersDrain, KernelServersLogs, KernelServersRestart, KernelServersStart,
    KernelServersStop, KernelStop,
};
use mgp_types::mgp::{
    ExplainedOutcome, KernelAuditParams, KernelEventsParams, KernelExplainParams, KernelInfoParams,
    KernelReloadParams, KernelServerLogsParams, KernelServerParams, KernelServersParams,
    KernelStopParams, ServerState,
};
use mgp_types::service::ServerId;

use super::world::World;
use crate::route::world::{kernel_with, open, recorded};

#[tokio::test]
async fn a_server_is_stopped_stays_down_and_is_started_again() {
    let world = World::new().await;
    let (operator, agent) = (world.operator().await, world.agent().await);
    let clock = KernelServerParams::new("clock");
    let result = operator.request::<KernelServersStop>(&clock).await.unwrap();
    assert_eq!(result.status, ServerState::Disconnected);
    assert!(agent.call("now").await.is_err(), "no call starts what an operator stopped");
    assert_eq!(world.kernel.servers()[0].status, ServerState::Disconnected);

    let result = operator.request::<KernelServersStart>(&clock).await.unwrap();
    assert_eq!(result.status, ServerState::Connected);
    assert!(agent.call("now").await.is_ok());
    let result = operator.request::<KernelServersRestart>(&clock).await.unwrap();
    assert_eq!(result.status, ServerState::Connected);

    let mut list = KernelServersParams::new();
    list.server_id = Some("clock".to_owned());
    let server = &operator.request::<KernelServers>(&list).await.unwrap().servers[0];
    assert_eq!((server.name.as_deref(), server.version.as_deref()), (Some("clock"), Some("1.2")));
    assert!(server.tokens > 0 && server.tools == 3 && server.mgp_version.is_some(), "{server:?}");

    let query = AuditQuery::new().server("clock").event_type("dev.cloto.administered");
    let events = recorded(&world.kernel, query).await;
    for method in ["stop", "start", "restart"] {
        assert!(events.contains(&format!("mgp/kernel/servers/{method}")), "{events}");
    }
}

#[tokio::test]
async fn a_drained_server_finishes_its_calls_before_it_stops() {
    let world = World::new().await;
    let (operator, agent) = (world.operator().await, world.agent().await);
    let running = tokio::spawn(async move { agent.call("slow").await });
    mgp_testkit::sleep_in_parts(Duration::from_millis(100)).await;
    let clock = KernelServerParams::new("clock");
    let result = operator.request::<KernelServersDrain>(&clock).await.unwrap();
    assert_eq!(result.status, ServerState::Disconnected);
    assert!(running.await.unwrap().is_ok(), "the call was finished");
}

#[tokio::test]
async fn a_server_receives_the_reason_for_which_it_is_stopped() {
    let reasons: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&reasons);
    let make = move || {
        let log = Arc::clone(&log);
        let server = Server::new("s", "1").tool(Tool::new("t", "Does something", || async { "x" }));
        server.drain_handle().on_transition(move |change| {
            if change.new_state == ServerState::Draining {
                log.lock().unwrap().extend(change.reason);
            }
            Box::pin(std::future::ready(()))
        });
        server
    };
    let kernel = kernel_with("s", open(&["t"]), 1, make).await;
    kernel.restart_server(&ServerId::from("s")).await.unwrap();
    kernel.stop().await;
    assert_eq!(*reasons.lock().unwrap(), ["operator_request", "kernel_shutdown"]);
}

#[tokio::test]
async fn an_unknown_server_is_named_in_the_error() {
    let world = World::new().await;
    let operator = world.operator().await;
    let error = operator.request::<KernelServersStop>(&KernelServerParams::new("clok")).await;
    assert!(error.unwrap_err().to_string().contains("no server `clok`"));
    let params = KernelServerLogsParams::new("clock");
    let lines = operator.request::<KernelServersLogs>(&params).await.unwrap().lines;
    assert!(lines.is_empty(), "a server in this process has no standard error");
}

#[tokio::test]
async fn the_kernel_describes_itself_and_can_be_stopped() {
    let world = World::new().await;
    let operator = world.operator().await;
    world.kernel.set_endpoints(|reachable| reachable.http = Some("http://127.0.0.1:1".to_owned()));
    let info = operator.request::<KernelInfo>(&KernelInfoParams::new()).await.unwrap();
    assert_eq!((info.servers, info.tools, info.pid), (1, 3, std::process::id()));
    assert_eq!(info.http.as_deref(), Some("http://127.0.0.1:1"));
    let mut params = KernelStopParams::new();
    params.timeout_ms = Some(5000);
    assert!(operator.request::<KernelStop>(&params).await.unwrap().accepted);
    assert_eq!(world.kernel.stop_requested().await, Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn a_kernel_whose_audit_log_is_closed_can_be_stopped_but_not_changed() {
    let world = World::new().await;
    let operator = world.operator().await;
    world.kernel.governance().log().cloned().unwrap().close().await.unwrap();
    let reload = operator.request::<KernelReload>(&KernelReloadParams::new()).await;
    assert!(reload.unwrap_err().to_string().contains("the audit log is closed"));
    let explain = KernelExplainParams::new("ada", "clock.now");
    let explained = operator.request::<KernelExplain>(&explain).await.unwrap();
    assert_eq!(explained.outcome, ExplainedOutcome::Refuse, "{explained:?}");
    assert!(explained.reason.unwrap().contains("so every call is refused"));
    assert!(operator.request::<KernelStop>(&KernelStopParams::new()).await.unwrap().accepted);
    assert_eq!(world.kernel.stop_requested().await, None);
}

#[tokio::test]
async fn a_server_shows_how_many_of_its_definitions_wait() {
    let world = World::new().await;
    let operator = world.operator().await;
    let lacks = |world: &World| world.kernel.servers()[0].lacks.clone();
    assert_eq!(lacks(&world), None);
    world.has_new_text.store(true, Ordering::Relaxed);
    operator.request::<KernelServersRestart>(&KernelServerParams::new("clock")).await.unwrap();
    world.until("the reason is shown", |world| lacks(world).is_some()).await;
    let server = world.kernel.servers().remove(0);
    let why = "1 definition waits for an operator; see `mgp tools ls clock --waiting`";
    assert_eq!(server.lacks.as_deref(), Some(why));
    world.until("the others are found", |world| world.kernel.servers()[0].tools == 2).await;
}

#[tokio::test]
async fn unknown_types_results_and_severities_are_refused_with_the_known_ones() {
    let world = World::new().await;
    let operator = world.operator().await;
    let query = async |event_type: Option<&str>, result: Option<&str>| {
        let mut params = KernelAuditParams::new();
        params.event_type = event_type.map(Into::into);
        params.result = result.map(str::to_owned);
        operator.request::<KernelAudit>(&params).await
    };
    for (event_type, result, known) in [
        (Some("TOOL_BLOCKT"), None, "TOOL_BLOCKED, "),
        (Some("tool_blocked"), None, "TOOL_BLOCKED, "),
        (None, Some("blocked"), "BLOCKED, "),
        (None, Some(""), "BLOCKED, "),
    ] {
        let error = query(event_type, result).await.unwrap_err();
        assert_eq!(error.code().0, -32602, "{event_type:?} {result:?}: {error}");
        assert!(error.to_string().contains(known), "{error}");
    }
    for event_type in
        ["TOOL_BLOCKED", "RISK_LEVEL_OVERRIDE", "TOOL_CREATED_DYNAMIC", "com.example.custom_event"]
    {
        assert!(query(Some(event_type), Some("DENIED")).await.is_ok(), "{event_type}");
    }
    let mut params = KernelEventsParams::new();
    params.min_severity = Some("loud".into());
    let error = operator.request::<KernelEvents>(&params).await.unwrap_err();
    assert_eq!(error.code().0, -32602, "{error}");
    assert!(error.to_string().contains("info, warning, error"), "{error}");
    params.min_severity = Some("error".into());
    assert!(operator.request::<KernelEvents>(&params).await.is_ok());
}
