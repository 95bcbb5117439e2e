//! An MCP server over the older HTTP+SSE transport (2024-11-05), on 127.0.0.1, for the tests of our client of this
//! transport.
//!
//! The program prints its address. `GET /sse` opens a connection, and `POST /messages?session=N` sends a message to it.
//! The program refuses other requests as servers of that revision do, e.g. a POST of `/sse` with 405, or with the
//! status that an argument names.
//!
//! With the argument `strict`, the server takes 200 ms to handle `notifications/initialized`, and until then refuses to
//! list its tools. `GET /early` returns the number of these refusals.

#![expect(clippy::print_stdout, reason = "the address is its output")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use mgp_server_sdk::prelude::*;
use mgp_transport::duplex;
use mgp_types::sync::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, WriteHalf};

/// The time that a strict server takes to handle `notifications/initialized`.
const INITIALIZED_DELAY: Duration = Duration::from_millis(200);

#[derive(Clone)]
struct Connection {
    /// The writer of messages to the MCP server of this connection.
    writer: Arc<tokio::sync::Mutex<WriteHalf<tokio::io::DuplexStream>>>,
    is_initialized: Arc<AtomicBool>,
}

#[derive(Clone, Default)]
struct Connections {
    /// The open connections by session number.
    open: Arc<Mutex<HashMap<u64, Connection>>>,
    is_strict: bool,
    /// The number of lists that were refused because they were requested too early.
    early: Arc<AtomicUsize>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut connections = Connections::default();
    let mut status_of_post = StatusCode::METHOD_NOT_ALLOWED;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "strict" => connections.is_strict = true,
            status => status_of_post = status.parse()?,
        }
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    let router = Router::new()
        .route("/sse", get(open).post(move || std::future::ready(status_of_post)))
        .route("/messages", post(receive))
        .route("/early", get(early))
        .route("/end", get(end))
        .with_state(connections);
    Ok(axum::serve(listener, router).await?)
}

/// Serves `GET /sse`: opens a connection, whose first event is the address for messages.
async fn open(State(connections): State<Connections>) -> Response {
    let (ours, theirs) = duplex();
    let echo =
        Tool::new(
            "echo",
            "Returns the text",
            |Args(text): Args<EchoArgs>| async move { text.text },
        );
    let server = Server::new("old", "1.0").tool(echo);
    tokio::spawn(async move { server.serve(theirs.reader, theirs.writer).await });
    let connection = Connection {
        writer: Arc::new(tokio::sync::Mutex::new(ours.writer)),
        is_initialized: Arc::default(),
    };
    let number = {
        let mut table = connections.open.lock();
        let number = table.len() as u64 + 1;
        table.insert(number, connection);
        number
    };
    let address = format!("event: endpoint\ndata: /messages?session={number}\n\n");
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(address))]);
    let lines = BufReader::new(ours.reader).lines();
    let messages = stream::unfold(lines, |mut lines| async move {
        let line = lines.next_line().await.ok()??;
        Some((Ok(Bytes::from(format!("event: message\ndata: {line}\n\n"))), lines))
    });
    let body = Body::from_stream(stream::StreamExt::chain(first, messages));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArgs {
    text: String,
}

async fn receive(
    State(connections): State<Connections>,
    Query(query): Query<HashMap<String, u64>>,
    body: Bytes,
) -> StatusCode {
    let connection = query.get("session").and_then(|n| connections.open.lock().get(n).cloned());
    let Some(connection) = connection else { return StatusCode::NOT_FOUND };
    if connections.is_strict && !is_in_order(&connection, &body).await {
        connections.early.fetch_add(1, Ordering::Relaxed);
        return StatusCode::BAD_REQUEST;
    }
    let line = [&body[..], b"\n"].concat();
    match connection.writer.lock().await.write_all(&line).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::NOT_FOUND,
    }
}

/// Handles `notifications/initialized` after a delay. Returns `false` for a request of the tool list that arrives
/// before the notification was handled.
async fn is_in_order(connection: &Connection, body: &[u8]) -> bool {
    let message: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match message["method"].as_str() {
        Some("notifications/initialized") => {
            tokio::time::sleep(INITIALIZED_DELAY).await;
            connection.is_initialized.store(true, Ordering::Relaxed);
            true
        }
        Some("tools/list") => connection.is_initialized.load(Ordering::Relaxed),
        _ => true,
    }
}

/// Serves `/early`: the number of lists that were requested too early.
async fn early(State(connections): State<Connections>) -> String {
    connections.early.load(Ordering::Relaxed).to_string()
}

/// Serves `/end`: closes all connections, as a restart of the server would.
async fn end(State(connections): State<Connections>) -> &'static str {
    let all: Vec<_> = connections.open.lock().drain().map(|(_, connection)| connection).collect();
    for connection in all {
        let _ = connection.writer.lock().await.shutdown().await;
    }
    "done"
}
