//! The way to the kernel that runs: its local socket.
//!
//! Applies to: outbound.

use mgp_client_sdk::Client;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::state;

/// Who connects.
#[derive(Serialize)]
struct Preface<'a> {
    mgp: u8,
    #[serde(rename = "as")]
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
}

/// What the kernel says to it.
#[derive(Deserialize)]
struct Greeting {
    ok: bool,
    #[serde(default)]
    error: String,
}

/// Connects as an operator.
pub(crate) async fn connect(global: &Global) -> Ended<Client> {
    open(global, Preface { mgp: 1, role: "operator", agent: None }).await
}

/// Connects as an agent, to see what it sees.
pub(crate) async fn connect_as(global: &Global, agent: &str) -> Ended<Client> {
    open(global, Preface { mgp: 1, role: "agent", agent: Some(agent) }).await
}

#[cfg(unix)]
async fn open(global: &Global, preface: Preface<'_>) -> Ended<Client> {
    let socket = state::folder(global)?.join("mgp.sock");
    let stream = tokio::net::UnixStream::connect(&socket).await.map_err(|_| none(&socket))?;
    let (mut reader, mut writer) = stream.into_split();
    let line = serde_json::to_string(&preface)? + "\n";
    writer.write_all(line.as_bytes()).await.map_err(|_| none(&socket))?;
    let mut greeting = Vec::new();
    // Byte by byte: what comes behind the line belongs to the connection.
    while greeting.len() < 4096 && greeting.last() != Some(&b'\n') {
        greeting.push(reader.read_u8().await.map_err(|_| none(&socket))?);
    }
    let greeting: Greeting = serde_json::from_slice(&greeting).map_err(|_| {
        Failure::failed(format!(
            "what answers at `{}` is no kernel of this version",
            socket.display()
        ))
    })?;
    if !greeting.ok {
        return Err(Failure::failed(greeting.error));
    }
    Ok(Client::builder("mgp", env!("CARGO_PKG_VERSION")).connect(reader, writer).await?)
}

#[cfg(not(unix))]
async fn open(global: &Global, _: Preface<'_>) -> Ended<Client> {
    Err(none(&state::folder(global)?))
}

fn none(place: &std::path::Path) -> Failure {
    Failure::no_kernel(format!(
        "no kernel runs at `{}`; start one with `mgp serve --http 127.0.0.1:8900`, or let a host start one: `mgp connect HOST`",
        place.display()
    ))
}
