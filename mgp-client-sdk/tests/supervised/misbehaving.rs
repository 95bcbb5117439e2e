//! Tests of servers in child processes that misbehave: the supervisor must end or replace each of them.

use std::time::Duration;

use mgp_client_sdk::gateway::{self, ServerTarget};
use mgp_client_sdk::{
    Client, EraChoice, MonitorConfig, RestState, SuperviseConfig, SupervisedClient, ToolResult as _,
};
use mgp_server_sdk::{Server, Tool};
use mgp_testkit::until;
use mgp_transport::{ChildCommand, duplex};
use mgp_types::ErrorCode;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, SpawnError};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{
    HELLO, WAIT_TIMEOUT, again, always, hello, is_alive, quick, recorded, recorded_events, script,
};

async fn rest(server: &SupervisedClient) -> RestState {
    timeout(WAIT_TIMEOUT, server.ended()).await.unwrap()
}

#[tokio::test]
async fn a_crash_loop_ends_and_is_reported_once() {
    let (builder, log) = recorded();
    let server = builder.supervise(script("exit 3"), quick(3)).unwrap();
    server.start().await;
    let rest = rest(&server).await;
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 3));
    assert_eq!(rest.limit.unwrap().restarts, 3);
    let error = server.ready().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert!(error.message().contains("exited with code 3"), "{error}");
    // Wait for one record for each failed start, and one for the end of restarts.
    until("all events are recorded", async || recorded_events(&log).len() >= 5).await;
    let events = log.events();
    for event in &events[..4] {
        assert_eq!(event.event_type.as_str(), "SERVER_CONNECTED");
        assert_eq!(event.result.as_str(), "FAILURE");
        let cause: String = event.details.as_ref().unwrap().decode("cause").unwrap().unwrap();
        assert_eq!(cause, "the server exited with code 3");
    }
    let details = events[4].details.as_ref().unwrap();
    assert_eq!(events[4].event_type.as_str(), "SERVER_DISCONNECTED");
    assert_eq!(details.decode("restart_limit_exceeded").unwrap(), Some(true));
    assert_eq!(details.decode("restarts").unwrap(), Some(3));
    sleep(Duration::from_millis(50)).await;
    assert_eq!((recorded_events(&log).len(), server.restarts()), (5, 3));
}

#[tokio::test]
async fn a_server_that_never_answers_is_stopped_with_its_tree_and_counts_as_failed() {
    let folder = mgp_testkit::temp_dir();
    let file = folder.path().join("pids");
    let text = format!("sleep 60 & echo $$ $! >> {}; cat >/dev/null; wait", file.display());
    let (builder, log) = recorded();
    let mut config = quick(1);
    config.start_timeout = Duration::from_secs(3);
    let server = builder.supervise(script(&text), config).unwrap();
    server.start().await;
    let rest = rest(&server).await;
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 1));
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(pids.split_whitespace().count(), 4, "{pids}");
    assert!(pids.split_whitespace().all(|pid| !is_alive(pid.parse().unwrap())), "{pids}");
    assert!(
        recorded_events(&log).iter().filter(|(what, _)| what == "SERVER_CONNECTED").count() == 2
    );
}

#[tokio::test]
async fn a_server_that_hangs_and_ignores_signals_is_killed() {
    let mut config = quick(0);
    config.start_timeout = Duration::from_millis(300);
    let text = "trap '' TERM; while :; do echo nonsense; sleep 0.05; done";
    let server = recorded().0.supervise(script(text), config).unwrap();
    let before = mgp_testkit::Stopwatch::start();
    server.start().await;
    assert_eq!(rest(&server).await.state, ServerState::Error);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[tokio::test]
async fn a_slow_start_is_waited_for() {
    let slow = script(&format!("sleep 0.7; {HELLO} cat >/dev/null"));
    let builder = Client::builder("test", "1").era(EraChoice::Legacy);
    // This time-out does not apply, because the supervisor limits the time of a start.
    let builder = builder.init_timeout(Duration::from_millis(100));
    let mut config = quick(5);
    config.start_timeout = Duration::from_secs(10);
    let server = builder.supervise(slow, config).unwrap();
    server.start().await;
    timeout(WAIT_TIMEOUT, server.ready()).await.unwrap().unwrap();
    assert_eq!(server.restarts(), 0);
}

#[tokio::test]
async fn a_normal_exit_is_not_restarted_unless_the_policy_is_always() {
    let server = recorded().0.supervise(hello("exit 0"), quick(5)).unwrap();
    server.start().await;
    let left = rest(&server).await;
    assert_eq!((left.state, left.restarts), (ServerState::Disconnected, 0));

    let server = recorded().0.supervise(hello("exit 0"), always(2)).unwrap();
    server.start().await;
    let left = rest(&server).await;
    assert_eq!((left.state, left.restarts), (ServerState::Error, 2));

    // An exit before the server is ready must count as a failure, even with code 0.
    let server = recorded().0.supervise(script("exit 0"), quick(1)).unwrap();
    server.start().await;
    assert_eq!(rest(&server).await.restarts, 1);
}

#[tokio::test]
async fn a_server_stopped_during_its_handshake_leaves_nothing_behind() {
    let folder = mgp_testkit::temp_dir();
    let file = folder.path().join("pids");
    let text = format!("sleep 60 & echo $$ $! > {}; cat >/dev/null; wait", file.display());
    let server = recorded().0.supervise(script(&text), quick(5)).unwrap();
    server.start().await;
    while !std::fs::read_to_string(&file).is_ok_and(|pids| pids.ends_with('\n')) {
        sleep(Duration::from_millis(5)).await;
    }
    server.stop(ShutdownReason::OperatorRequest).await;
    let pids = std::fs::read_to_string(&file).unwrap();
    assert!(pids.split_whitespace().all(|pid| !is_alive(pid.parse().unwrap())), "{pids}");
    assert_eq!((server.state().get(), server.restarts()), (ServerState::Disconnected, 0));
}

#[tokio::test]
async fn a_missing_program_is_tried_and_recorded_once() {
    let missing = ChildCommand::new("/no/such/program");
    let (builder, log) = recorded();
    let server = builder.supervise(missing, quick(2)).unwrap();
    server.start().await;
    let rest = rest(&server).await;
    assert_eq!((rest.state, rest.restarts, rest.is_start_failure), (ServerState::Error, 0, true));
    assert!(rest.reason.contains("install it"), "{}", rest.reason);
    assert_eq!(recorded_events(&log).len(), 1);
}

#[tokio::test]
async fn a_server_that_closes_its_output_is_replaced() {
    // The server closes its output and keeps running, so the client can read nothing from it any more.
    let mute = hello("exec >&-; sleep 60");
    let server = recorded().0.supervise(mute, quick(1)).unwrap();
    server.start().await;
    let rest = rest(&server).await;
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 1));
}

#[tokio::test]
async fn a_server_that_answers_no_pings_is_replaced() {
    let mut config = MonitorConfig::default();
    (config.interval, config.timeout) = (Duration::from_millis(50), Duration::from_millis(50));
    let (builder, _) = recorded();
    let builder = builder.replace_unhealthy(config);
    let server = builder.supervise(hello("cat >/dev/null"), quick(2)).unwrap();
    let mut reports = server.reports();
    server.start().await;
    // None of these children ever answers, so each of them is killed.
    let rest = rest(&server).await;
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 2));
    let recorded_events = std::iter::from_fn(|| reports.try_recv().ok());
    let ill =
        recorded_events.filter(|report| report.reason.contains("unhealthy: it does not answer"));
    assert!(ill.count() >= 3);
}

/// Returns settings with frequent pings, which leave a test the time to call the server before three are missed.
fn frequent_pings() -> MonitorConfig {
    let mut config = MonitorConfig::default();
    (config.interval, config.timeout) = (Duration::from_millis(300), Duration::from_secs(1));
    config
}

/// Returns a server in shell that handles one message at a time, and takes some seconds for each call.
fn busy(seconds: u32) -> ChildCommand {
    let content = r#"{"content":[{"type":"text","text":"done"}]}"#;
    hello(&format!(
        r#"while IFS= read -r line; do
            id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case $line in
                *tools/call*) sleep {seconds}; result='{content}';;
                *) result='{{}}';;
            esac
            [ -n "$id" ] && printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"
        done"#
    ))
}

#[tokio::test]
async fn a_server_that_is_only_busy_with_a_call_is_not_replaced() {
    // The call takes longer than three pings.
    let builder = recorded().0.replace_unhealthy(frequent_pings());
    let server = builder.supervise(busy(5), quick(5)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    assert_eq!(client.call("work").await.unwrap().to_text(), "done");
    sleep(Duration::from_secs(1)).await;
    assert!(server.restarts() == 0 && !client.is_closed());
}

#[tokio::test]
async fn a_server_that_is_only_busy_with_a_call_that_was_given_up_is_not_replaced() {
    let mut supervise = quick(5);
    supervise.stop_timeout = Duration::from_secs(6);
    let mut checks = MonitorConfig::default();
    (checks.interval, checks.timeout) = (Duration::from_secs(5), Duration::from_secs(1));
    checks.misses = 1;
    let builder = recorded().0.replace_unhealthy(checks);
    let server = builder.supervise(busy(2), supervise).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    sleep(Duration::from_millis(4500)).await;
    let work = async { client.call("work").await };
    assert!(timeout(Duration::from_millis(300), work).await.is_err());
    // The check at 5 s fails, because the server is busy until 6.5 s. If the supervisor replaced the server because of
    // this failure, it would replace it before the next check at 10 s.
    sleep(Duration::from_millis(4500)).await;
    assert!(server.restarts() == 0 && !client.is_closed());
}

#[tokio::test]
async fn a_server_that_hangs_in_a_call_is_replaced_after_the_time_of_a_stop() {
    let mut supervise = quick(5);
    supervise.stop_timeout = Duration::from_secs(12);
    let builder = recorded().0.replace_unhealthy(frequent_pings());
    let server = builder.supervise(hello("cat >/dev/null"), supervise).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    let begun = Instant::now();
    let call = tokio::spawn(async move { client.call("work").await });
    again(&server, 1).await;
    // Running calls get half of the time of a stop, which is longer than three pings.
    assert!(begun.elapsed() > Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(call.await.unwrap().unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reports_that_it_is_unhealthy_ends_its_calls_before_it_is_replaced() {
    let target = ServerTarget::in_memory(|| {
        let (here, there) = duplex();
        let work = Tool::new("work", "Works", || async {
            sleep(Duration::from_secs(20)).await;
            "done"
        });
        let server = Server::new("files", "1").tool(work).check("database", || async { false });
        let server = server.owned_by_peer();
        tokio::spawn(async move { server.serve(there.reader, there.writer).await });
        here
    });
    let resolve = move || -> BoxFuture<'static, Result<ServerTarget, SpawnError>> {
        let target = target.clone();
        Box::pin(async move { Ok(target) })
    };
    let mut checks = MonitorConfig::default();
    checks.interval = Duration::from_secs(1);
    let builder = Client::builder("test", "1").server_id("files").replace_unhealthy(checks);
    let server = gateway::supervise(builder, resolve, SuperviseConfig::default()).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    let late = client.clone();
    let work = tokio::spawn(async move { client.call("work").await });
    sleep(Duration::from_secs(10)).await;
    assert_eq!(server.state().get(), ServerState::Draining);
    let refused = late.call("work").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SERVER_DRAINING);
    assert!(refused.message().contains("unhealthy: "), "{refused}");
    assert_eq!(work.await.unwrap().unwrap().to_text(), "done");
    again(&server, 1).await;
}

#[tokio::test]
async fn a_server_marked_unhealthy_is_replaced() {
    let server = recorded().0.supervise(hello("cat >/dev/null"), quick(5)).unwrap();
    server.start().await;
    let first = server.ready().await.unwrap();
    server.mark_unhealthy(1, "no answer to pings").await;
    // The second report is about the first run again, so the supervisor ignores it.
    let next = again(&server, 1).await;
    server.mark_unhealthy(1, "no answer to pings").await;
    sleep(Duration::from_millis(50)).await;
    assert_ne!(first.pid(), next.pid());
    assert_eq!(server.restarts(), 1);
    assert!(!is_alive(first.pid().unwrap()));
}
