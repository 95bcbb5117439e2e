//! Sends requests with random methods, headers and bodies to the service: each is answered, and none
//! leaves resources behind.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use mgp_server_sdk::prelude::*;
use mgp_transport::http::HttpBody;
use proptest::prelude::*;
use tokio::time::timeout;

use super::direct::{open, open_to_all, piece, send};
use super::world::{Hold, server};

#[path = "../../../mgp-transport/tests/transport/fuzz_lines/corpus.rs"]
mod corpus;
#[path = "../../../mgp-transport/tests/transport/fuzz_lines/mutate.rs"]
mod mutate;

/// The statuses of all responses; `docs/carriers.md` lists them.
const STATUSES: [u16; 12] = [200, 202, 204, 400, 403, 404, 405, 406, 408, 413, 415, 503];
const REQUESTS: usize = 400;
const SECOND: Duration = Duration::from_secs(1);

/// The headers that the requests contain, each with values that have a meaning for the server.
const HEADERS: &[(&str, &[&str])] = &[
    ("host", &["localhost", "127.0.0.1:80", "evil.example", ""]),
    ("origin", &["http://localhost", "null", "https://evil.example"]),
    ("content-type", &["application/json", "application/json; charset=utf-8", "text/plain"]),
    ("accept", &["application/json, text/event-stream", "*/*", "text/html"]),
    ("content-encoding", &["identity", "gzip"]),
    ("mcp-protocol-version", &["2026-07-28", "2025-11-25", "2025-03-26", "1999-01-01"]),
    ("mcp-method", &["tools/call", "tools/list", "=?base64?dG9vbHMvY2FsbA==?="]),
    ("mcp-name", &["echo", "now", "=?base64?!?="]),
    ("mcp-param-region", &["west"]),
    ("last-event-id", &["0-0", "1-0", "1-18446744073709551615", "99-1", "x", "-", "0-"]),
    ("authorization", &["Bearer x"]),
];

/// The random choices from which one request is made.
#[derive(Clone, Debug)]
struct Dice {
    method: u8,
    path: u8,
    /// For each header, whether it is left out, has one of its values, is repeated, or has random bytes.
    headers: Vec<(u8, Vec<u8>)>,
    session: u8,
    bytes: Option<Vec<u8>>,
}

fn dice() -> impl Strategy<Value = Dice> {
    let value = prop::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..40);
    let headers = prop::collection::vec((any::<u8>(), value), HEADERS.len());
    let bytes = prop::option::weighted(0.1, prop::collection::vec(any::<u8>(), 0..200));
    (any::<u8>(), any::<u8>(), headers, any::<u8>(), bytes).prop_map(
        |(method, path, headers, session, bytes)| Dice { method, path, headers, session, bytes },
    )
}

impl Dice {
    fn request(&self, session: &str, line: &[u8]) -> Request<HttpBody> {
        let method = match self.method {
            0..180 => "POST",
            180..215 => "GET",
            215..220 => "DELETE",
            220..225 => "OPTIONS",
            225..230 => "HEAD",
            230..250 => "PUT",
            _ => "BREW",
        };
        let path = match self.path {
            0..250 => "/mcp",
            250 => "/mcp/",
            251 => "/mcp?x=1",
            _ => "/",
        };
        let body = self.bytes.as_deref().unwrap_or(line).to_vec();
        let mut request = Request::new(HttpBody::from(body));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        *request.uri_mut() = path.parse().unwrap();
        let headers = request.headers_mut();
        for ((name, values), (die, bytes)) in HEADERS.iter().zip(&self.headers) {
            let name = HeaderName::from_static(name);
            let usual = values[usize::from(*die) % values.len()];
            match die {
                // Usually send the first value, with which a request passes the checks of these headers.
                0..150 if matches!(name.as_str(), "host" | "content-type" | "accept") => {
                    headers.insert(name, HeaderValue::from_static(values[0]));
                }
                0..190 => {}
                190..235 => {
                    headers.insert(name, HeaderValue::from_static(usual));
                }
                235..240 => {
                    headers.append(name.clone(), HeaderValue::from_static(usual));
                    headers.append(name, HeaderValue::from_static(values[0]));
                }
                _ => {
                    headers.insert(name, HeaderValue::from_bytes(bytes).unwrap());
                }
            }
        }
        match self.session {
            0..150 => {
                headers.insert("mcp-session-id", HeaderValue::from_str(session).unwrap());
            }
            150..160 => {
                headers.insert("mcp-session-id", HeaderValue::from_static("0"));
            }
            _ => {}
        }
        request
    }
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

async fn attacked(seed: u64, all: &[Dice]) {
    let echo = Tool::new("echo", "Echoes", |Args(echo): Args<Echo>| async move { echo.message });
    let server = server(&Hold::default()).tool(echo);
    let monitor = server.monitor();
    let mut config = open_to_all();
    config.session_ttl = SECOND * 60;
    config.body_bytes = 100_000;
    let service = server.into_http_service(config).unwrap();
    let mut mutator = mutate::Mutator::new(seed);
    let mut session = open(&service).await.unwrap();
    for dice in all {
        let line = mutator.line().to_vec();
        let request = dice.request(&session, &line);
        let shown = format!("{request:?} {}", String::from_utf8_lossy(&line));
        let response = timeout(SECOND * 60, send(&service, request)).await;
        let response = response.unwrap_or_else(|_| panic!("no answer to {shown}"));
        let status = response.status().as_u16();
        assert!(STATUSES.contains(&status), "{status} to {shown}");
        if status == 204 {
            session = open(&service).await.unwrap();
        }
        let mut body = response.into_body();
        for _ in 0..3 {
            if !matches!(timeout(SECOND, piece(&mut body)).await, Ok(Some(_))) {
                break;
            }
        }
    }
    tokio::time::sleep(SECOND * 300).await;
    let left = (monitor.running(), service.running(), service.held_bytes(), service.sessions());
    assert_eq!((left, service.stored_bytes()), ((0, 0, 0, 0), 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered(seed in any::<u64>(), all in prop::collection::vec(dice(), REQUESTS)) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(attacked(seed, &all));
    }
}
