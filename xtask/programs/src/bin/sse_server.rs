//! An MCP server over the older HTTP+SSE transport (2024-11-05), on 127.0.0.1, for the tests of our client of this
//! transport.
//!
//! The program prints its address. `GET /sse` opens a connection, and `POST /messages?session=N` sends a message to it.
//! Other requests are refused in the way servers of that revision refuse them, e.g. POST of `/sse` with 405.

#![expect(clippy::print_stdout, reason = "the address is its output")]

use std::collections::HashMap;
use std::sync::Arc;

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

type Writer = Arc<tokio::sync::Mutex<WriteHalf<tokio::io::DuplexStream>>>;

/// The open connections by session number; each value writes messages to the MCP server of its connection.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<HashMap<u64, Writer>>>);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    let router = Router::new()
        .route("/sse", get(open))
        .route("/messages", post(receive))
        .route("/end", get(end))
        .with_state(Connections::default());
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
    let number = {
        let mut table = connections.0.lock();
        let number = table.len() as u64 + 1;
        table.insert(number, Arc::new(tokio::sync::Mutex::new(ours.writer)));
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
    let writer = query.get("session").and_then(|n| connections.0.lock().get(n).cloned());
    let Some(writer) = writer else { return StatusCode::NOT_FOUND };
    let line = [&body[..], b"\n"].concat();
    match writer.lock().await.write_all(&line).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::NOT_FOUND,
    }
}

/// Serves `/end`: closes all connections, as a restart of the server would.
async fn end(State(connections): State<Connections>) -> &'static str {
    let all: Vec<_> = connections.0.lock().drain().map(|(_, writer)| writer).collect();
    for writer in all {
        let _ = writer.lock().await.shutdown().await;
    }
    "done"
}
