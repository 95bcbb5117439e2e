//! `mgp audit`: what happened, and whether the record of it is whole (MGP §6).
//!
//! Applies to: both.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_security::{Governance, Head, verify};
use mgp_types::mgp::AuditEvent;
use serde::Serialize;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Page, Shown, Tone, many, say, show};
use crate::{record, span, state};

mod read;

/// `mgp audit`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Audit {
    /// Show what happened last, and with --follow what happens
    #[command(
        after_help = "Example:\n  mgp audit tail -n 50\n  mgp audit tail --follow --agent cursor"
    )]
    Tail(Tail),
    /// Look for what happened
    #[command(
        after_help = "Example:\n  mgp audit query --type TOOL_BLOCKED --since 1d\n  mgp audit query --server files --tool write_file"
    )]
    Query(Query),
    /// Check that no record was changed, left out or added
    #[command(after_help = "Example:\n  mgp audit verify && echo nothing was changed")]
    Verify,
    /// Write all records as lines of JSON
    #[command(after_help = "Example:\n  mgp audit export --since 30d > november.jsonl")]
    Export(Filters),
}

/// Which events are meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filters {
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Of this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Of this type, as `TOOL_EXECUTED`, `TOOL_BLOCKED` or `ACCESS_GRANTED`
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Of this trace
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Not before: 1h, 7d, or a time
    #[arg(long, value_name = "TIME", value_parser = span::begin)]
    since: Option<SystemTime>,
    /// Not after: 1h, 7d, or a time
    #[arg(long, value_name = "TIME", value_parser = span::begin)]
    until: Option<SystemTime>,
}

/// `mgp audit tail`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tail {
    /// How many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    lines: usize,
    /// Go on showing what happens; with --json a line for each
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    filters: Filters,
}

/// `mgp audit query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Query {
    /// How many at most, the newest of them
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    filters: Filters,
}

/// Events, the oldest first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Events(Vec<AuditEvent>);

/// What a check of the log has shown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Verified {
    /// Whether everything is as it was written.
    ok: bool,
    /// How many records there are.
    records: u64,
    /// The first that is not as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Shown for Verified {
    fn show(&self, page: &mut Page) {
        let said = format!("{}, as they were written", many(self.records, "record"));
        page.marked(&Cell::from("OK").tone(Tone::Good), &said);
    }
}

impl Shown for Events {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("nothing of that kind is on record");
        }
        page.table(["TIME", "EVENT", "RESULT", "WHO", "WHAT", "WHY"], self.0.iter().map(row));
    }
}

fn row(event: &AuditEvent) -> [Cell; 6] {
    let target = event.target.as_ref();
    let what = target.map(|target| match (&target.server_id, &target.tool_name) {
        (Some(server), Some(tool)) => format!("{server}.{tool}"),
        (server, tool) => server.iter().chain(tool).cloned().collect(),
    });
    let result = event.result.as_str();
    let tone = match result {
        "SUCCESS" => Tone::Good,
        "CANCELLED" => Tone::Doubtful,
        _ => Tone::Bad,
    };
    [
        event.timestamp.as_str().into(),
        event.event_type.as_str().into(),
        Cell::from(result).tone(tone),
        event.actor.id.as_str().into(),
        what.into(),
        read::why(event).into(),
    ]
}

pub(crate) async fn run(global: &Global, audit: &Audit) -> Ended {
    match audit {
        Audit::Verify => check(global).await,
        Audit::Query(query) => {
            let mut log = read::Log::open(global).await?;
            show(global, &Events(log.newest(&query.filters, query.limit).await?))
        }
        Audit::Tail(tail) => {
            let mut log = read::Log::open(global).await?;
            if tail.follow && !log.is_live() {
                // Nothing happens, and the folder must be free for a kernel that begins.
                return Err(Failure::no_kernel(
                    "no kernel runs, so nothing happens; leave out --follow, or start one with `mgp serve`",
                ));
            }
            let events = log.newest(&tail.filters, tail.lines).await?;
            if !tail.follow {
                return show(global, &Events(events));
            }
            let mut last = events.iter().filter_map(read::number).max();
            line_by_line(global, &events)?;
            loop {
                let (events, has_more) = log.after(&tail.filters, &mut last).await?;
                line_by_line(global, &events)?;
                if !has_more {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                }
            }
        }
        Audit::Export(filters) => {
            let mut log = read::Log::open(global).await?;
            let mut last = Some(0);
            loop {
                let (events, has_more) = log.after(filters, &mut last).await?;
                for event in &events {
                    say(&(serde_json::to_string(event)? + "\n"))?;
                }
                if !has_more {
                    return Ok(());
                }
            }
        }
    }
}

fn line_by_line(global: &Global, events: &[AuditEvent]) -> Ended {
    for event in events {
        if global.json {
            say(&(serde_json::to_string(event)? + "\n"))?;
            continue;
        }
        let line = row(event).map(|cell| cell.text().to_owned()).join("  ");
        say(&(line.trim_end().to_owned() + "\n"))?;
    }
    Ok(())
}

/// Reads the log itself: whoever checks a record does not ask who wrote it.
async fn check(global: &Global) -> Ended {
    let folder = state::folder(global)?;
    let mut verified = Verified { ok: true, records: 0, error: None };
    match Governance::verify(&folder).await {
        Ok(records) => verified.records = records,
        Err(error) => verified.fail(&error),
    }
    if verified.ok && folder.join("state.db").exists() {
        let db = state::db(global).await?;
        if let Some(head) = Head::in_store(&db, record::BESIDE).await? {
            match verify(&folder.join("audit"), record::BESIDE, &head) {
                Ok(records) => verified.records += records,
                Err(error) => verified.fail(&error),
            }
        }
    }
    match &verified.error {
        Some(error) if !global.json => Err(Failure::failed(error)),
        Some(error) => {
            show(global, &verified)?;
            Err(Failure::failed(error))
        }
        None => show(global, &verified),
    }
}

impl Verified {
    fn fail(&mut self, error: &impl std::fmt::Display) {
        (self.ok, self.error) = (false, Some(error.to_string()));
    }
}
