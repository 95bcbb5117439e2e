//! Tests of individual rules for health answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mgp::{HealthStatus, PingResult, ShutdownParams, ShutdownResult, StatusResult};
use mgp_types::service::{Context, Router, ServerId, Stack, mock};
use tokio::time::{Instant, sleep};
use tower_layer::Layer;

use super::*;
use crate::Fleet;

fn checks(status: &StatusResult) -> String {
    serde_json::to_string(status.checks.as_ref().unwrap()).unwrap()
}

fn panic_now() -> bool {
    panic!("a bug")
}

/// Yields, so that spawned tasks run.
async fn run_tasks() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_worst_check_decides_the_status() {
    #[track_caller]
    fn check(status: &StatusResult, expected: &HealthStatus) {
        assert_eq!(&status.status, expected);
    }
    check(&Health::new().status().await, &HealthStatus::Healthy);
    let well = Health::new().check("a", || async {}).optional_check("b", || async { true });
    check(&well.status().await, &HealthStatus::Healthy);
    let limited = Health::new().optional_check("b", || async { false });
    check(&limited.status().await, &HealthStatus::Degraded);
    let failing = Health::new()
        .optional_check("b", || async { HealthStatus::Degraded })
        .check("a", || async { Err::<(), _>("no route to host") });
    let status = failing.status().await;
    check(&status, &HealthStatus::Unhealthy);
    assert_eq!(checks(&status), r#"{"b":"degraded","a":false}"#);
}

#[tokio::test(start_paused = true)]
async fn checks_run_concurrently_and_each_has_a_time_limit() {
    let slow = |name| (name, || async { sleep(Duration::from_millis(900)).await });
    let (a, b) = (slow("a"), slow("b"));
    let health = Health::new()
        .check(a.0, a.1)
        .check(b.0, b.1)
        .check("hangs", std::future::pending::<bool>)
        .check("panics", || async { panic_now() })
        .resource("lost", std::future::pending::<u64>)
        .resource("queue", || async { 7 });
    let begin = Instant::now();
    let status = health.status().await;
    assert!(begin.elapsed() < Duration::from_millis(1_100), "{:?}", begin.elapsed());
    assert_eq!(checks(&status), r#"{"a":true,"b":true,"hangs":false,"panics":false}"#);
    let resources = status.resources.unwrap();
    assert_eq!(resources.get("queue").unwrap().as_str(), "7");
    assert!(resources.get("lost").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_requests_runs_a_check_once_a_second() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let health = Health::new().check("a", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { true }
    });
    for _ in 0..100 {
        health.status().await;
        let _ = health.ping();
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    sleep(Duration::from_secs(1)).await;
    health.status().await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

/// A check that blocks its thread cannot be ended, so no second run may be started meanwhile.
#[test]
fn a_check_that_blocks_has_failed_and_is_not_started_again_until_it_returns() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let config = HealthConfig {
        timeout: Duration::from_millis(20),
        fresh: Duration::ZERO,
        ..HealthConfig::default()
    };
    let health = Health::with_config(config).check("stuck", move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let blocked = Arc::clone(&blocked);
        async move { blocked.lock().is_ok_and(|blocked| blocked.recv().is_ok()) }
    });
    let requested = health.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        for _ in 0..3 {
            let _ = sender.send((requested.status().await.status, requested.ping().status));
        }
    });
    for _ in 0..3 {
        let (status, ping) = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!((status, ping), (HealthStatus::Unhealthy, HealthStatus::Unhealthy));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    for _ in 0..100 {
        let _ = release.send(());
    }
    runtime.block_on(async {
        while health.status().await.status != HealthStatus::Healthy {
            tokio::task::yield_now().await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_ping_does_not_wait_and_returns_the_latest_result() {
    let health = Health::new().server_id("clock").check("db", || async {
        sleep(Duration::from_millis(500)).await;
        false
    });
    let begin = Instant::now();
    let ping = health.ping();
    assert_eq!((ping.status, ping.server_id.as_deref()), (HealthStatus::Healthy, Some("clock")));
    assert_eq!(begin.elapsed(), Duration::ZERO);
    sleep(Duration::from_millis(600)).await;
    assert_eq!(health.ping().status, HealthStatus::Unhealthy, "the first ping had started it");
}

#[tokio::test(start_paused = true)]
async fn pings_alone_detect_a_check_that_recovers() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let health = Health::new().check("db", move || {
        let before = counted.fetch_add(1, Ordering::Relaxed);
        async move { before > 0 }
    });
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(health.ping().status);
        run_tasks().await;
        sleep(Duration::from_secs(1)).await;
    }
    let [first, second, third, _] = &seen[..] else { panic!("four pings") };
    assert_eq!((first, second), (&HealthStatus::Healthy, &HealthStatus::Unhealthy));
    assert_eq!(third, &HealthStatus::Healthy);
}

#[tokio::test(start_paused = true)]
async fn counts_are_read_when_they_are_requested() {
    let running = Arc::new(AtomicUsize::new(3));
    let counted = Arc::clone(&running);
    let health = Health::new()
        .tools_total(|| 5)
        .tools_available(|| 4)
        .pending_requests(move |_| counted.load(Ordering::Relaxed) as u64)
        .open_connections(|| 2);
    sleep(Duration::from_secs(61)).await;
    running.store(8, Ordering::Relaxed);
    let status = health.status().await;
    assert_eq!(status.uptime_secs.unwrap().to_string(), "61");
    assert_eq!((status.tools_total, status.tools_available), (Some(5), Some(4)));
    assert_eq!(status.pending_requests, Some(8));
    let resources = status.resources.unwrap();
    assert_eq!(resources.get("open_connections").unwrap().as_str(), "2");
    assert_eq!(resources.get("memory_bytes").is_some(), cfg!(target_os = "linux"));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_checks_is_limited() {
    let config = HealthConfig { probes: 2, ..HealthConfig::default() };
    let health = Health::with_config(config)
        .check("a", || async { false })
        .check("a", || async { true })
        .check("b", || async { true })
        .check("c", || async { false });
    assert_eq!(checks(&health.status().await), r#"{"a":true,"b":true}"#);
}

/// A fleet of two servers, one of which never answers.
struct TwoServers;

#[async_trait]
impl Fleet for TwoServers {
    async fn ping(&self, _: &Context, server: &ServerId) -> Option<Result<PingResult, RpcError>> {
        let server = server.to_string();
        match server.as_str() {
            "clock" => Some(Ok(PingResult::new(HealthStatus::Degraded))),
            "stuck" => std::future::pending().await,
            _ => None,
        }
    }

    async fn status(
        &self,
        _: &Context,
        server: &ServerId,
    ) -> Option<Result<StatusResult, RpcError>> {
        let known = (server.as_str() == "clock").then(|| StatusResult::new(HealthStatus::Degraded));
        known.map(Ok)
    }

    async fn shutdown(
        &self,
        _: &Context,
        _: &ServerId,
        _: ShutdownParams,
    ) -> Option<Result<ShutdownResult, RpcError>> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_server_id_is_answered_for_that_server() {
    let health = Health::new().server_id("kernel").fleet(Arc::new(TwoServers));
    let mut client = mock::client(Stack::new(health.router()));
    for (method, server, expected) in [
        ("mgp/health/ping", "clock", r#""status":"degraded""#),
        ("mgp/health/status", "clock", r#""status":"degraded""#),
        ("mgp/health/ping", "kernel", r#""status":"healthy""#),
        ("mgp/health/ping", "moon", r#"{"status":"not_found","server_id":"moon"}"#),
        ("mgp/health/status", "moon", r#"{"status":"not_found","server_id":"moon"}"#),
    ] {
        let params = format!(r#"{{"server_id":"{server}"}}"#);
        let answer = client.request(method, &params).await.unwrap();
        assert!(answer.as_str().contains(expected), "{method} {server}: {answer:?}");
    }
    let begin = Instant::now();
    let late = client.request("mgp/health/ping", r#"{"server_id":"stuck"}"#).await.unwrap_err();
    assert_eq!(late.code().0, 3003);
    assert!(begin.elapsed() < Duration::from_secs(5));

    let mut alone = mock::client(Stack::new(Health::new().router()));
    let answer = alone.request("mgp/health/ping", r#"{"server_id":"moon"}"#).await.unwrap();
    assert_eq!(answer.as_str(), r#"{"status":"not_found","server_id":"moon"}"#);
}

#[tokio::test(start_paused = true)]
async fn the_layer_answers_for_a_hanging_server_and_passes_other_calls() {
    let health = Health::new();
    let hangs = Stack::from_fn(|_| std::future::pending());
    let mut client = mock::client(Stack::new(HealthLayer::new(health.clone()).layer(hangs)));
    assert!(client.request("mgp/health/ping", "{}").await.is_ok());
    assert!(client.request("mgp/health/status", "{}").await.is_ok());
    assert_eq!(health.open_requests(), 0);

    let mut client = mock::client(Stack::new(HealthLayer::new(health).layer(Router::new())));
    assert_eq!(client.request("tools/list", "{}").await.unwrap_err().code().0, -32601);
    client.notify("mgp/health/ping", "{}").await.unwrap();
}
