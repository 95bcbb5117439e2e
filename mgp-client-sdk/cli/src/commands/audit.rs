//! The command `mgp audit`: reads and verifies the audit log (MGP §6).

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_security::{Governance, LogHead, result_word, verify};
use mgp_types::mgp::AuditEvent;
use serde::Serialize;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{
    Cell, Color, Output, Render, plural, print, print_json_line, print_note, write_stdout,
};
use crate::{offline_audit, state};

mod reader;

use reader::Filters;
pub(crate) use reader::{OWN_KINDS, reason, short_type};

const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// `mgp audit`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Audit {
    /// Show the newest events, and with --follow new ones as they occur
    #[command(
        after_help = "Example:\n  mgp audit tail -n 50\n  mgp audit tail --follow --agent cursor"
    )]
    Tail(Tail),
    /// Search events
    #[command(
        after_help = "Example:\n  mgp audit query --result blocked --since 1d\n  mgp audit query --server files --tool write_file"
    )]
    Query(Query),
    /// Check that no record was changed, removed or added
    #[command(after_help = "Example:\n  mgp audit verify && echo unchanged")]
    Verify,
    /// Print all records as lines of JSON
    #[command(after_help = "Example:\n  mgp audit export --since 30d > november.jsonl")]
    Export(Filters),
}

/// `mgp audit tail`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tail {
    /// Number of events
    #[arg(long, short = 'n', alias = "limit", value_name = "N", default_value_t = 20)]
    lines: usize,
    /// Keep printing new events; with --json one line each
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    filters: Filters,
}

/// `mgp audit query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Query {
    /// Maximum number of events, the newest ones
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
    #[command(flatten)]
    filters: Filters,
}

/// Events, oldest first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EventList(Vec<AuditEvent>);

/// The result of a check of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct VerifyResult {
    /// `true` if every record is unchanged.
    ok: bool,
    /// The number of records.
    records: u64,
    /// The first fault that was found in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Render for VerifyResult {
    fn render(&self, out: &mut Output) {
        let text = format!("{}, unchanged", plural(self.records, "record"));
        out.status_line(&Cell::from("OK").color(Color::Green), &text);
    }
}

impl Render for EventList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no matching events");
        }
        out.table(["TIME", "EVENT", "RESULT", "WHO", "TARGET", "WHY"], self.0.iter().map(row));
    }
}

fn row(event: &AuditEvent) -> [Cell; 6] {
    let target = event.target.as_ref();
    let what = target.map(|target| match (&target.server_id, &target.tool_name) {
        (Some(server), Some(tool)) => format!("{server}.{tool}"),
        (server, tool) => server.iter().chain(tool).cloned().collect(),
    });
    let result = result_word(event);
    let color = match result {
        "SUCCESS" => Color::Green,
        "CANCELLED" => Color::Yellow,
        _ => Color::Red,
    };
    [
        event.timestamp.as_str().into(),
        short_type(event.event_type.as_str()).into(),
        Cell::from(result).color(color),
        event.actor.id.as_str().into(),
        what.into(),
        reason(event).into(),
    ]
}

pub(crate) async fn run(global: &Global, audit: &Audit) -> CliResult {
    match audit {
        Audit::Verify => check(global).await,
        Audit::Query(query) => {
            let filters = query.filters.resolve(global).await?;
            let mut reader = reader::EventReader::open(global).await?;
            // One more than asked for, to know whether there are more.
            let limit = query.limit.get();
            let mut events = reader.newest(&filters, limit.saturating_add(1)).await?;
            if events.len() > limit {
                events.drain(..events.len() - limit);
                print_note(global, &format!("the newest {limit} events; `--limit N` shows more"));
            }
            if events.is_empty()
                && let Some(note) = filters.unknown_names(global).await
            {
                print_note(global, &format!("mgp: {note}"));
            }
            print(global, &EventList(events))
        }
        Audit::Tail(tail) => {
            let filters = tail.filters.resolve(global).await?;
            let mut reader = reader::EventReader::open(global).await?;
            if tail.follow && !reader.is_live() {
                // Without a kernel there are no new events, and reading on would hold the lock of the state folder.
                return Err(Failure::no_kernel(
                    "no kernel is running, so there are no new events; omit --follow, or start one with `mgp serve`",
                ));
            }
            let events = reader.newest(&filters, tail.lines).await?;
            if !tail.follow {
                return print(global, &EventList(events));
            }
            let mut last = events.iter().filter_map(reader::number).max();
            print_lines(global, &events)?;
            loop {
                let (events, has_more) = reader.after(&filters, &mut last).await?;
                print_lines(global, &events)?;
                if !has_more {
                    tokio::time::sleep(FOLLOW_INTERVAL).await;
                }
            }
        }
        Audit::Export(filters) => {
            let filters = &filters.resolve(global).await?;
            let mut reader = reader::EventReader::open(global).await?;
            let mut last = Some(0);
            loop {
                let (events, has_more) = reader.after(filters, &mut last).await?;
                for event in &events {
                    print_json_line(event)?;
                }
                if !has_more {
                    return Ok(());
                }
            }
        }
    }
}

fn print_lines(global: &Global, events: &[AuditEvent]) -> CliResult {
    for event in events {
        if global.json {
            print_json_line(event)?;
            continue;
        }
        let line = row(event).map(|cell| cell.text().to_owned()).join("  ");
        write_stdout(&(line.trim_end().to_owned() + "\n"))?;
    }
    Ok(())
}

/// Verifies the log by reading its files: the kernel that wrote a log cannot be trusted to check it.
async fn check(global: &Global) -> CliResult {
    let folder = state::folder(global)?;
    let mut verified = VerifyResult { ok: true, records: 0, error: None };
    match Governance::verify(&folder).await {
        Ok(records) => verified.records = records,
        Err(error) => verified.fail(&error),
    }
    if verified.ok && folder.join("state.db").exists() {
        let db = state::db(global).await?;
        if let Some(head) = LogHead::in_store(&db, offline_audit::SIDE_LOG).await? {
            match verify(&folder.join("audit"), offline_audit::SIDE_LOG, &head) {
                Ok(records) => verified.records += records,
                Err(error) => verified.fail(&error),
            }
        }
    }
    match &verified.error {
        Some(error) if !global.json => Err(Failure::failed(error)),
        Some(error) => {
            print(global, &verified)?;
            Err(Failure::failed(error))
        }
        None => print(global, &verified),
    }
}

impl VerifyResult {
    fn fail(&mut self, error: &impl std::fmt::Display) {
        (self.ok, self.error) = (false, Some(error.to_string()));
    }
}
