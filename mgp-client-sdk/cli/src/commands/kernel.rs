//! `mgp status`, `mgp stop` and `mgp sessions`: the kernel itself.
//!
//! Applies to: outbound.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use mgp_types::method::{KernelInfo, KernelSessions, KernelStop};
use mgp_types::mgp::{
    KernelInfoParams, KernelInfoResult, KernelSession, KernelSessionsParams, KernelStopParams,
};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::servers::millis;
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::lock::{self, Locked};
use crate::output::{Cell, Done, Page, Shown, Tone, many, show};
use crate::{control, span, state};

/// How long running calls may take where nothing is said, as the kernel has it.
const DRAINS: Duration = Duration::from_secs(30);

/// How long a kernel may take beyond what running calls may take: its connections and servers end.
const LEAVES: Duration = Duration::from_secs(30);

/// How often is looked whether the folder is free.
const LOOKS: Duration = Duration::from_millis(20);

/// What the protocol says beside a result, and nobody asked for.
pub(super) const RESULT_TYPE: &str = "resultType";

/// `mgp stop`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  mgp stop --timeout 5s")]
pub(crate) struct Stop {
    /// How long running calls may take to end, as 30s
    #[arg(long, value_name = "SPAN", value_parser = span::span)]
    timeout: Option<Duration>,
}

/// `mgp sessions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Sessions {
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

/// The kernel.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Status(KernelInfoResult);

/// What agents have in context.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct All(Vec<KernelSession>);

impl Shown for Status {
    fn show(&self, page: &mut Page) {
        let info = &self.0;
        page.marked(
            &Cell::from("runs").tone(Tone::Good),
            &format!("mgp {}, process {}, since {}", info.version, info.pid, info.started_at),
        );
        page.line(format!("  servers   {}, with {}", info.servers, many(info.tools, "tool")));
        for (name, text) in [("state", &info.state), ("socket", &info.socket), ("http", &info.http)]
        {
            if let Some(text) = text {
                page.line(format!("  {name:10}{text}"));
            }
        }
        for file in &info.config {
            page.line(format!("  config    {file}"));
        }
        for finding in &info.findings {
            let tone = if finding.severity == "error" { Tone::Bad } else { Tone::Doubtful };
            let place = match (&finding.file, finding.line) {
                (Some(file), Some(line)) => format!("{file}:{line}: "),
                _ => String::new(),
            };
            let mark = Cell::from(finding.severity.as_str()).tone(tone);
            page.marked(&mark, &format!("{place}{}", finding.message));
        }
        let rows = info.clients.iter().map(|client| {
            let who = client.agent.as_deref().unwrap_or("-");
            [
                if client.operator { "operator".into() } else { Cell::from(who) },
                client.transport.as_deref().into(),
                client.since.as_ref().map(ToString::to_string).into(),
                client.last_seen.as_ref().map(ToString::to_string).into(),
            ]
        });
        if !info.clients.is_empty() {
            page.table(["CONNECTED", "OVER", "SINCE", "LAST SEEN"], rows);
        }
    }
}

impl Shown for All {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("no agent has a session");
        }
        let rows = self.0.iter().map(|session| {
            [
                session.agent_id.as_deref().into(),
                session.transport.as_deref().into(),
                session.since.as_ref().map(ToString::to_string).into(),
                session.last_seen.as_ref().map(ToString::to_string).into(),
                format!("{}/{}", session.total_tokens, session.max_tokens).into(),
                Cell::number(session.pinned.len()),
                session.cached.join(" ").into(),
            ]
        });
        page.table(["AGENT", "OVER", "SINCE", "LAST SEEN", "TOKENS", "PINNED", "CACHED"], rows);
    }
}

pub(crate) async fn status(global: &Global) -> Ended {
    let client = control::connect(global).await?;
    let mut info = client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
    info.extra.remove(RESULT_TYPE);
    show(global, &Status(info))
}

pub(crate) async fn stop(global: &Global, stop: &Stop) -> Ended {
    let folder = state::folder(global)?;
    let client = control::connect(global).await?;
    let stops = holder(&folder)?;
    let mut params = KernelStopParams::new();
    params.timeout_ms = stop.timeout.map(millis);
    if !client.request::<KernelStop>(&params).await?.accepted {
        return Err(Failure::failed("the kernel does not stop; see `mgp status`"));
    }
    // Whoever starts another one next finds the folder free.
    let patience = stop.timeout.unwrap_or(DRAINS).saturating_add(LEAVES);
    let free = async {
        client.closed().await;
        // Connections end before the servers and the log do; one that came after it is another one.
        while stops.is_some() && holder(&folder)? == stops {
            sleep(LOOKS).await;
        }
        Ok(())
    };
    timeout(patience, free).await.unwrap_or_else(|_| {
        let patience = patience.as_secs();
        Err(Failure::failed(format!("the kernel still stops after {patience} s")))
    })?;
    Done::new("kernel", "stopped").tell(global)
}

/// The process that has a folder, zero where it did not say; none where nobody has it.
fn holder(folder: &Path) -> Ended<Option<u32>> {
    Ok(match lock::kernel(folder)? {
        Locked::Ours(_) => None,
        Locked::Theirs(pid) => Some(pid.unwrap_or_default()),
    })
}

pub(crate) async fn sessions(global: &Global, sessions: &Sessions) -> Ended {
    let client = control::connect(global).await?;
    let mut params = KernelSessionsParams::new();
    params.agent_id.clone_from(&sessions.agent);
    show(global, &All(client.request::<KernelSessions>(&params).await?.sessions))
}
