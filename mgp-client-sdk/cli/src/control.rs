//! The way to the kernel that runs: its local socket.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_types::method::KernelReload;
use mgp_types::mgp::KernelReloadParams;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::preface::Preface;
use crate::state;

/// How long a request may take beyond what it asks for: an ordinary one has as much.
const MARGIN: Duration = Duration::from_mins(1);

/// Connects as an operator.
pub(crate) async fn connect(global: &Global) -> Ended<Client> {
    open(global, Preface::operator(), None).await
}

/// Connects as an operator whose requests may take so long.
pub(crate) async fn connect_for(global: &Global, span: Duration) -> Ended<Client> {
    open(global, Preface::operator(), Some(span)).await
}

/// Has a kernel that runs look at its configuration now, and not in a second.
pub(crate) async fn reload(global: &Global) {
    if let Ok(client) = connect(global).await {
        reload_by(&client).await;
        client.close().await;
    }
}

/// The same, over a connection that is there.
pub(crate) async fn reload_by(client: &Client) {
    if let Err(error) = client.request::<KernelReload>(&KernelReloadParams::new()).await {
        tracing::debug!(%error, "the kernel does not reload");
    }
}

/// Connects as an agent, to see what it sees.
pub(crate) async fn connect_as(global: &Global, agent: &str) -> Ended<Client> {
    open(global, Preface::agent(agent), None).await
}

#[cfg(unix)]
async fn open(global: &Global, preface: Preface<'_>, span: Option<Duration>) -> Ended<Client> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use crate::preface::{self, Greeting};

    /// A kernel with many servers greets at length.
    const GREETING_BYTES: usize = 1 << 20;
    /// How long a kernel that is there may take to answer.
    const PATIENCE: Duration = Duration::from_secs(10);

    let folder = state::folder(global)?;
    let socket = crate::socket::place(&folder);
    let none = |_| none(&folder);
    let stream = tokio::net::UnixStream::connect(&socket).await.map_err(none)?;
    let (mut reader, mut writer) = stream.into_split();
    // Whoever is turned away at the door can say nothing any more, and hears why.
    let _ = writer.write_all(&preface.line()).await;
    let greeted =
        tokio::time::timeout(PATIENCE, preface::read_line(&mut reader, GREETING_BYTES)).await;
    let hangs = |_| {
        let why =
            format!("the kernel at `{}` does not answer; look at it, or end it", socket.display());
        Failure::failed(why)
    };
    let (line, behind) = greeted.map_err(hangs)?.map_err(none)?;
    let greeting = Greeting::read(&line).map_err(|_| preface::stranger(&socket))?;
    if !greeting.ok {
        return Err(Failure::failed(
            greeting.error.unwrap_or_else(|| "the kernel let nobody in".to_owned()),
        ));
    }
    let reader = std::io::Cursor::new(behind).chain(reader);
    let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"));
    if let Some(span) = span {
        let span = span.saturating_add(MARGIN);
        builder = builder.timeout(span).max_timeout(span);
    }
    Ok(builder.connect(reader, writer).await?)
}

#[cfg(not(unix))]
async fn open(global: &Global, _: Preface<'_>, _: Option<Duration>) -> Ended<Client> {
    Err(none(&state::folder(global)?))
}

fn none(folder: &std::path::Path) -> Failure {
    Failure::no_kernel(format!(
        "no kernel runs on `{}`; start one with `mgp serve --http 127.0.0.1:8900`, or let a host start one: `mgp connect HOST`",
        folder.display()
    ))
}
