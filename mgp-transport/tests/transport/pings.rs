//! Tests that pings are answered even while a limit is reached at which all other calls are refused (MGP §11.3).

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use mgp_transport::http::{HttpBody, HttpConfig, HttpService};
use mgp_transport::{Connection, Limits, duplex};
use mgp_types::method::{HealthPing, LifecycleShutdown, Ping};
use mgp_types::mgp::{HealthStatus, PingResult, ShutdownResult};
use mgp_types::service::{Principal, Router, Stack};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

/// Creates a stack that answers pings, except pings that name a server. Those, and all other calls, never complete.
fn stack() -> Stack {
    let router = Router::new()
        .on::<Ping, _, _>(|_, _| async { Ok(mgp_types::mcp::EmptyResult::default()) })
        .on::<HealthPing, _, _>(|_, ping| async move {
            if ping.server_id.is_some() {
                std::future::pending::<()>().await;
            }
            Ok(PingResult::new(HealthStatus::Healthy))
        })
        .on::<LifecycleShutdown, _, _>(|_, _| async { Ok(ShutdownResult::new(true)) })
        .fallback(Stack::from_fn(|_| std::future::pending()));
    Stack::new(router)
}

fn line(id: usize, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

fn hanging(ids: std::ops::Range<usize>) -> String {
    ids.map(|id| line(id, "tools/call", r#"{"name":"hangs"}"#)).collect()
}

type ClientEnd = (Lines<BufReader<ReadHalf<DuplexStream>>>, WriteHalf<DuplexStream>);

/// Opens a connection on which up to four calls may run.
fn connect() -> ClientEnd {
    connect_with(|limits| limits.in_flight = 4)
}

fn connect_with(change: impl FnOnce(&mut Limits)) -> ClientEnd {
    let (here, there) = duplex();
    let mut limits = Limits::default();
    change(&mut limits);
    tokio::spawn(Connection::new(there.reader, there.writer, stack()).limits(limits).run());
    (BufReader::new(here.reader).lines(), here.writer)
}

#[tokio::test(start_paused = true)]
async fn operator_requests_are_answered_in_order_and_leave_room_for_pings() {
    let (mut reader, mut writer) = connect();
    let mut lines = hanging(0..6) + &line(100, "mgp/lifecycle/shutdown", "{}");
    lines.extend((200..220).map(|id| line(id, "mgp/health/status", "{}")));
    lines +=
        &line(300, "mgp/lifecycle/shutdown", &format!(r#"{{"reason":"{}"}}"#, "x".repeat(9_999)));
    writer.write_all(lines.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..16 {
        answers.push(reader.next_line().await.unwrap().unwrap());
    }
    let refused = |answer: &String| answer.contains("3001");
    assert!(answers[..2].iter().all(refused), "{answers:?}");
    assert!(answers[2].contains("\"accepted\":true"), "in the order of the requests: {answers:?}");
    assert!(answers[3..].iter().all(refused), "eight of the statuses run: {answers:?}");
    writer.write_all(line(400, "ping", "{}").as_bytes()).await.unwrap();
    assert!(reader.next_line().await.unwrap().unwrap().contains("\"id\":400"));
}

#[tokio::test(start_paused = true)]
async fn a_ping_overtakes_waiting_calls() {
    let (mut reader, mut writer) = connect();
    let begin = Instant::now();
    let calls = hanging(0..10) + &line(100, "ping", "{}") + &line(101, "mgp/health/ping", "{}");
    writer.write_all(calls.as_bytes()).await.unwrap();
    for id in [100, 101] {
        let answer = reader.next_line().await.unwrap().unwrap();
        assert!(answer.contains(&format!("\"id\":{id}")) && answer.contains("result"), "{answer}");
    }
    assert_eq!(begin.elapsed(), Duration::ZERO, "reading did not pause for them");
    // The other requests wait a moment; then the server refuses them in order.
    for id in 4..10 {
        let answer = reader.next_line().await.unwrap().unwrap();
        assert!(answer.contains(&format!("\"id\":{id}")) && answer.contains("3001"), "{answer}");
    }
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let begin = Instant::now();
    for id in 200..300 {
        writer.write_all(line(id, "ping", "{}").as_bytes()).await.unwrap();
        let answer = reader.next_line().await.unwrap().unwrap();
        assert!(answer.contains(&format!("\"id\":{id}")), "{answer}");
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_limited_number_of_pings_may_hang() {
    let (mut reader, mut writer) = connect();
    let stuck = |id| line(id, "mgp/health/ping", r#"{"server_id":"stuck"}"#);
    let calls: String = hanging(0..4) + &(100..117).map(stuck).collect::<String>();
    writer.write_all(calls.as_bytes()).await.unwrap();
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("\"id\":116") && answer.contains("3001"), "{answer}");
    // Sixteen pings that are not answered yet use up all extra places, so a further ping is refused, even one that
    // would be answered immediately.
    writer.write_all(line(300, "ping", "{}").as_bytes()).await.unwrap();
    let answer = timeout(Duration::from_secs(1), reader.next_line()).await.unwrap().unwrap();
    assert!(
        answer.unwrap().contains("\"id\":300,\"error\""),
        "nothing is accepted above the limit of pings"
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_ping_waits_like_a_call() {
    let (mut reader, mut writer) = connect();
    let large = format!(r#"{{"pad":"{}"}}"#, "x".repeat(8_000));
    let begin = Instant::now();
    writer.write_all((hanging(0..4) + &line(7, "ping", &large)).as_bytes()).await.unwrap();
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("3001"), "{answer}");
    assert!(begin.elapsed() >= Duration::from_millis(50), "it does not overtake");
}

#[tokio::test(start_paused = true)]
async fn requests_that_exceed_the_limit_of_bytes_are_refused_and_the_connection_stays() {
    let (mut reader, mut writer) = connect_with(|limits| limits.held_bytes = 4_000);
    let long = format!(r#"{{"name":"hangs","pad":"{}"}}"#, "x".repeat(1_300));
    let calls: String = (0..3).map(|id| line(id, "tools/call", &long)).collect();
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":0}}\n";
    writer.write_all((calls + cancel + &line(7, "ping", "{}")).as_bytes()).await.unwrap();
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("\"id\":2,") && answer.contains("3001"), "{answer}");
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("\"id\":7,") && answer.contains("result"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn notifications_that_wait_beside_large_calls_do_not_end_the_connection() {
    let (mut reader, mut writer) = connect_with(|limits| limits.held_bytes = 4_000);
    let long = format!(r#"{{"name":"hangs","pad":"{}"}}"#, "x".repeat(3_000));
    let changed =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n".repeat(3);
    let lines = line(1, "tools/call", &long) + &changed + &line(7, "ping", "{}");
    writer.write_all(lines.as_bytes()).await.unwrap();
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("\"id\":7,") && answer.contains("result"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_request_longer_than_the_limit_of_bytes_runs_alone() {
    let (mut reader, mut writer) = connect_with(|limits| limits.held_bytes = 1_000);
    let long = format!(r#"{{"pad":"{}"}}"#, "x".repeat(9_000));
    writer.write_all(line(1, "ping", &long).as_bytes()).await.unwrap();
    let answer = reader.next_line().await.unwrap().unwrap();
    assert!(answer.contains("\"id\":1,") && answer.contains("result"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn messages_read_ahead_are_answered_after_the_peer_closed_its_side() {
    let (mut reader, mut writer) = connect();
    writer.write_all(hanging(0..6).as_bytes()).await.unwrap();
    writer.shutdown().await.unwrap();
    for id in [4, 5] {
        let answer = reader.next_line().await.unwrap().unwrap();
        assert!(answer.contains(&format!("\"id\":{id}")) && answer.contains("3001"), "{answer}");
    }
    assert_eq!(reader.next_line().await.unwrap(), None);
}

// === HTTP ===

fn post(method: &str, more: &str) -> Request<HttpBody> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{more}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .body(HttpBody::from(body.into_bytes()))
        .unwrap()
}

async fn send(service: &HttpService, request: Request<HttpBody>) -> (u16, String) {
    let response: Response<HttpBody> = service.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn service(change: impl FnOnce(&mut HttpConfig)) -> HttpService {
    let mut config = HttpConfig::default();
    config.anonymous = Some(Principal::local());
    change(&mut config);
    HttpService::new(stack(), config)
}

#[tokio::test]
async fn over_http_a_ping_is_answered_while_calls_get_503() {
    let service = service(|config| config.in_flight = 1);
    let mut occupied = service.clone();
    let hanging = tokio::spawn(async move { occupied.call(post("resources/list", "")).await });
    while service.running() == 0 {
        tokio::task::yield_now().await;
    }
    let (status, body) = send(&service, post("resources/list", "")).await;
    assert_eq!(status, 503, "{body}");
    for _ in 0..100 {
        let (status, body) = send(&service, post("mgp/health/ping", "")).await;
        assert_eq!((status, body.contains("healthy")), (200, true), "{body}");
    }
    let large = format!(r#""pad":"{}","#, "x".repeat(8_000));
    assert_eq!(send(&service, post("mgp/health/ping", &large)).await.0, 503);
    assert_eq!(service.running(), 1, "refused requests are not counted");
    hanging.abort();
}

#[tokio::test]
async fn over_http_a_ping_is_answered_while_bodies_fill_the_memory() {
    let service = service(|config| config.held_bytes = 600);
    let mut occupied = service.clone();
    let pad = format!(r#""pad":"{}","#, "x".repeat(500));
    let hanging = tokio::spawn(async move { occupied.call(post("resources/list", &pad)).await });
    while service.held_bytes() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(send(&service, post("resources/list", "")).await.0, 503);
    assert_eq!(send(&service, post("mgp/health/ping", "")).await.0, 200);
    hanging.abort();
}
