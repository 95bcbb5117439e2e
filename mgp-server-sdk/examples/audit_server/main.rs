//! An audit server (MGP §6.2): stores the audit events that a client forwards, and answers queries.
//!
//! `cargo run -q -p mgp-server-sdk --example audit_server -- --file F [--most N]`
//!
//! Events arrive as `notifications/mgp.audit` and are appended to the file, one per line; each sequence number is
//! stored once. If a number is missing, the event was lost on the way, and the server requests it from the client with
//! the tool `mgp.audit.replay` (only in the legacy era, in which a server can send requests). The server has this tool
//! too, for its own file, so that the client that forwards events can check which ones arrived.
//!
//! | tool | effect |
//! |---|---|
//! | `query_audit_log {agent_id, server_id, tool_name, event_type, trace_id, since, until, limit, cursor}` | returns matching events |
//! | `get_audit_stats {since, until}` | counts them by type, result, agent and tool |
//! | `export_audit {format, filter}` | returns them as `jsonl`, `json` or `csv`, in pages; `filter` has the arguments of `query_audit_log` |
//!
//! The file has room for a million events (`--most N`). Further events are refused and counted in the statistics; the
//! operator must then move the file away and restart the server. Stored events survive the end of this process, but not
//! a crash of the machine.

mod export;
mod filter;
mod gaps;
mod journal;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use mgp_security::{KernelToolsLayer, Replay};
use mgp_server_sdk::prelude::*;
use mgp_types::method::AuditNotification;
use mgp_types::service::{MemoryAudit, Router};

use gaps::Gaps;
use journal::Journal;

/// The default of `--most`: the maximum number of events in the file.
const DEFAULT_MAX_EVENTS: usize = 1_000_000;

fn server(journal: &Arc<Journal>) -> Server {
    let gaps = Gaps::new(Arc::clone(journal));
    let events = Router::new().on_notification::<AuditNotification, _, _>(move |cx, event| {
        gaps.receive(&cx, event);
        async { Ok(()) }
    });
    // The only caller here is the client that sent the events, so it may read all events.
    let source: Arc<Journal> = Arc::clone(journal);
    let replay = Replay::new(source, Arc::new(MemoryAudit::new())).router_for_origin();
    Server::new("audit", env!("CARGO_PKG_VERSION"))
        .instructions("Keeps audit events. Begin with `get_audit_stats`.")
        .state(Arc::clone(journal))
        .tool(tools::query())
        .tool(tools::stats())
        .tool(export::export())
        .endpoints(events)
        .layer(KernelToolsLayer::new(replay))
}

fn options() -> Result<(PathBuf, usize), String> {
    let (mut file, mut max_events) = (None, DEFAULT_MAX_EVENTS);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{flag}` needs a value"));
        match flag.as_str() {
            "--file" => file = Some(PathBuf::from(value()?)),
            "--most" => {
                let text = value()?;
                max_events =
                    text.parse().map_err(|_| format!("`{text}` is not a number of events"))?;
            }
            unknown => return Err(format!("unknown flag `{unknown}`; known: --file F, --most N")),
        }
    }
    Ok((file.ok_or("the file of events is missing; add `--file F`")?, max_events))
}

#[tokio::main]
async fn main() -> ExitCode {
    let served = match options() {
        Ok((file, max_events)) => match Journal::open(&file, max_events) {
            Ok(journal) => {
                server(&Arc::new(journal)).serve_stdio().await.map_err(|e| e.to_string())
            }
            Err(error) => Err(format!("`{}`: {error}", file.display())),
        },
        Err(wrong) => Err(wrong),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log_error(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "standard error is the log of a server on stdio")]
fn log_error(text: &str) {
    eprintln!("audit_server: {text}");
}
