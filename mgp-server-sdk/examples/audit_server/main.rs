//! An Audit server (MGP §6.2): it keeps the audit events a client forwards to it, and answers questions about them.
//!
//! `cargo run -q -p mgp-server-sdk --example audit_server -- --file F [--most N]`
//!
//! Events come as `notifications/mgp.audit` and are appended to the file, a line each, every number once.
//! A number that is missing was lost on the way: where its client can be asked, the server asks it for what is missing
//! (`mgp.audit.replay`, as a request of its own, which only the legacy era has).
//! It answers the same tool about its own file, so that whoever forwards can ask what has arrived.
//!
//! | tool | what it does |
//! |---|---|
//! | `query_audit_log {agent_id, server_id, tool_name, event_type, trace_id, since, until, limit, cursor}` | finds events |
//! | `get_audit_stats {since, until}` | counts them by type, result, agent and tool |
//! | `export_audit {format, filter}` | writes them as `jsonl`, `json` or `csv`, a page at a time; `filter` has the arguments of `query_audit_log` |
//!
//! The file holds a million events (`--most N`); after that nothing more is taken, which the statistics say:
//! move the file away and start again. What was written survives the end of this process, not that of the machine.

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

/// How many events a file holds where nothing is said.
const MOST: usize = 1_000_000;

fn server(journal: &Arc<Journal>) -> Server {
    let gaps = Gaps::new(Arc::clone(journal));
    let taken = Router::new().on_notification::<AuditNotification, _, _>(move |cx, event| {
        gaps.take(&cx, event);
        async { Ok(()) }
    });
    // Whoever sends the events is the one party here, and may read them.
    let source: Arc<Journal> = Arc::clone(journal);
    let replay = Replay::new(source, Arc::new(MemoryAudit::new())).router_for_origin();
    Server::new("audit", env!("CARGO_PKG_VERSION"))
        .instructions("Keeps audit events. Begin with `get_audit_stats`.")
        .state(Arc::clone(journal))
        .tool(tools::query())
        .tool(tools::stats())
        .tool(export::export())
        .endpoints(taken)
        .layer(KernelToolsLayer::new(replay))
}

fn options() -> Result<(PathBuf, usize), String> {
    let (mut file, mut most) = (None, MOST);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{flag}` needs a value"));
        match flag.as_str() {
            "--file" => file = Some(PathBuf::from(value()?)),
            "--most" => {
                let text = value()?;
                most = text.parse().map_err(|_| format!("`{text}` is no number of events"))?;
            }
            unknown => return Err(format!("unknown flag `{unknown}`; known: --file F, --most N")),
        }
    }
    Ok((file.ok_or("say where to keep the events: `--file F`")?, most))
}

#[tokio::main]
async fn main() -> ExitCode {
    let served = match options() {
        Ok((file, most)) => match Journal::open(&file, most) {
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
            say(&error);
            ExitCode::FAILURE
        }
    }
}

/// Tells whoever runs the server.
#[expect(clippy::print_stderr, reason = "standard error is the log of a server on stdio")]
fn say(text: &str) {
    eprintln!("audit_server: {text}");
}
