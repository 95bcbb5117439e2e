//! The command `mgp audit`: reads and verifies the audit log (MGP §6).

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use mgp_security::{AuditQuery, FolderError, Governance, LogError, LogHead, result_word, verify};
use mgp_types::mgp::AuditEvent;
use serde::Serialize;

use super::kernel::with_tenant;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{
    Cell, Color, Output, Render, plural, print, print_json_line, print_note, print_row,
};
use crate::state;

mod calls;
mod reader;

pub(crate) use calls::Entry;
use reader::{EventReader, Filters};
pub(crate) use reader::{all_kinds, number, reason, short_type};

const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// The name of a second log that commands of earlier versions may have written into a state folder.
const SIDE_LOG: &str = "beside";

/// The type of the events that count lost records.
pub(crate) const RECORDS_LOST: &str = "dev.cloto.records_lost";

/// The type of the events that count lost changes of the state.
pub(crate) const CHANGES_LOST: &str = "dev.cloto.changes_lost";

/// The number of records to read for each line that the command shows, because the line of one call can summarize up to
/// five records.
const RECORDS_OF_CALL: usize = 5;

/// The maximum number of columns of an actor or a target in a table. Both can be as long as a caller's token, and one
/// long cell would pad every line.
const MAX_CELL: usize = 80;

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
    Verify(EarlierLog),
    /// Print all records as lines of JSON
    #[command(after_help = "Example:\n  mgp audit export --since 30d > november.jsonl")]
    Export(Export),
}

/// The choice between the current log and an earlier log.
#[derive(Clone, Debug, Args)]
pub(crate) struct EarlierLog {
    /// Read an earlier log, in this directory: a former value of `kernel.audit.dir`, or `audit`
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
}

/// `mgp audit export`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    from: EarlierLog,
    #[command(flatten)]
    filters: Filters,
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
    /// Also show the question, the answer and the reason of a call as lines of their own; --json and --trace do so too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filters: Filters,
}

/// `mgp audit query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Query {
    /// Maximum number of events to show; older events are left out
    #[arg(long, short = 'n', alias = "lines", value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
    /// Also show the question, the answer and the reason of a call as lines of their own; --json and --trace do so too
    #[arg(long)]
    all: bool,
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
    pub(crate) records: u64,
    /// The number of lost records that the events of type `dev.cloto.records_lost` report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
    /// The number of lost changes of the state that the events of type `dev.cloto.changes_lost` report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes_lost: Option<u64>,
    /// The first fault that was found in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Render for VerifyResult {
    fn render(&self, out: &mut Output) {
        let text = format!("{}, unchanged", plural(self.records, "record"));
        out.status_line(&Cell::from("OK").color(Color::Green), &text);
        if let Some(lost) = self.lost {
            let lost = plural(lost, "record");
            out.hint(format!("{lost} lost before; see `mgp audit query --type records_lost`"));
        }
        if let Some(lost) = self.changes_lost {
            let lost = plural(lost, "change");
            out.hint(format!(
                "the state lost {lost} before; see `mgp audit query --type changes_lost`"
            ));
        }
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
    let what = match &event.target {
        Some(target) => Some(match (&target.server_id, &target.tool_name) {
            (Some(server), Some(tool)) => format!("{server}.{tool}"),
            (server, tool) => server.iter().chain(tool).cloned().collect(),
        }),
        None => key_of(event),
    };
    let result = result_word(event);
    let color = match result {
        "SUCCESS" => Color::Green,
        "CANCELLED" => Color::Yellow,
        _ => Color::Red,
    };
    let who = with_tenant(Some(&who(event)), tenant(event).as_deref());
    let (mut who, mut what) = (Cell::from(who), Cell::from(what));
    who.cut(MAX_CELL);
    what.cut(MAX_CELL);
    [
        (&event.timestamp).into(),
        short_type(event.event_type.as_str()).into(),
        Cell::from(result).color(color),
        who,
        what,
        reason(event).into(),
    ]
}

/// Returns the actor of an event, and in brackets the user for whom it acts, unless that is the local user.
pub(crate) fn who(event: &AuditEvent) -> String {
    let actor = &event.actor.id;
    match event.details.as_ref().map(|details| details.decode::<String>("user")) {
        Some(Ok(Some(user))) => format!("{actor} ({user})"),
        _ => actor.clone(),
    }
}

/// Returns the tenant of the actor of an event, unless it is the local tenant.
pub(crate) fn tenant(event: &AuditEvent) -> Option<String> {
    let details = event.details.as_ref()?;
    // Ignore `tenant` in an event about a key: there it is the tenant of the key's holder, not of the actor.
    if details.get("key_id").is_some() {
        return None;
    }
    details.decode("tenant").ok()?
}

/// Returns the holder and the id of the API key in an event about a key.
pub(crate) fn key_of(event: &AuditEvent) -> Option<String> {
    let details = event.details.as_ref()?;
    let text = |name| details.decode::<String>(name).ok().flatten();
    let id = text("key_id")?;
    Some(match text("agent_id").or_else(|| text("subject")) {
        Some(holder) => format!("{holder} {id}"),
        None => id,
    })
}

pub(crate) async fn run(global: &Global, audit: &Audit) -> CliResult {
    match audit {
        Audit::Verify(EarlierLog { log }) => check(global, log.as_deref()).await,
        Audit::Query(query) => search(global, query).await,
        Audit::Tail(tail) => show_newest(global, tail).await,
        Audit::Export(export) => print_all(global, export).await,
    }
}

async fn print_all(global: &Global, export: &Export) -> CliResult {
    let filters = &export.filters.resolve(global).await?;
    let mut reader = match &export.from.log {
        Some(dir) => EventReader::open_in(global, dir).await?,
        None => EventReader::open(global).await?,
    };
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

async fn search(global: &Global, query: &Query) -> CliResult {
    let filters = query.filters.resolve(global).await?;
    let mut reader = EventReader::open(global).await?;
    // Request one event more than the command shows, to know whether there are more.
    let limit = query.limit.get();
    let is_whole = is_whole(global, query.all, &filters);
    let wanted = limit.saturating_add(1);
    let (mut events, details) = newest(&mut reader, &filters, wanted, is_whole).await?;
    if events.len() > limit {
        events.drain(..events.len() - limit);
        print_note(
            global,
            &format!("the newest {}; `--limit N` shows more", plural(limit, "event")),
        );
    }
    note_details(global, details);
    if events.is_empty()
        && let Some(note) = filters.unknown_names(global).await
    {
        print_note(global, &format!("mgp: {note}"));
    }
    print(global, &EventList(events))
}

async fn show_newest(global: &Global, tail: &Tail) -> CliResult {
    let filters = tail.filters.resolve(global).await?;
    let mut reader = EventReader::open(global).await?;
    let is_whole = is_whole(global, tail.all, &filters);
    if !tail.follow {
        let (events, details) = newest(&mut reader, &filters, tail.lines, is_whole).await?;
        note_details(global, details);
        return print(global, &EventList(events));
    }
    if !reader.is_live() {
        // Fail, because without a kernel there are no new events, and reading on would hold the lock of the state
        // folder.
        return Err(Failure::no_kernel(
            "no kernel is running, so there are no new events; omit --follow, or start one with `mgp serve`",
        ));
    }
    // Read the position of the newest record: records after it are new, even if no earlier record matches the filters.
    let end = reader.newest(&Filters::default(), 1).await?;
    let events = reader.newest(&filters, records_to_read(tail.lines, is_whole)).await?;
    let mut last = end.iter().chain(&events).filter_map(reader::number).max();
    let newest = entries(&events, is_whole);
    print_lines(global, &newest[newest.len().saturating_sub(tail.lines)..])?;
    loop {
        let (events, has_more) = reader.after(&filters, &mut last).await?;
        print_lines(global, &entries(&events, is_whole))?;
        if !has_more {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
}

/// Returns whether each record gets a line of its own: with `--json`, with `--all`, and if the events of one trace are
/// requested.
fn is_whole(global: &Global, all: bool, filters: &Filters) -> bool {
    global.json || all || filters.has_trace()
}

/// Returns the number of records to read in order to show `lines` lines.
fn records_to_read(lines: usize, is_whole: bool) -> usize {
    if is_whole { lines } else { lines.saturating_mul(RECORDS_OF_CALL) }
}

fn entries(events: &[AuditEvent], is_whole: bool) -> Vec<Entry<'_>> {
    if is_whole { Entry::each(events) } else { Entry::by_call(events) }
}

/// Returns the newest events, oldest first, and the number of records that are left out because they are details of
/// these events.
async fn newest(
    reader: &mut EventReader,
    filters: &Filters,
    max: usize,
    is_whole: bool,
) -> CliResult<(Vec<AuditEvent>, usize)> {
    let events = reader.newest(filters, records_to_read(max, is_whole)).await?;
    let mut entries = entries(&events, is_whole);
    entries.drain(..entries.len().saturating_sub(max));
    let details = entries.iter().map(|entry| entry.parts.len()).sum();
    Ok((entries.into_iter().map(|entry| entry.event.clone()).collect(), details))
}

/// Prints a note if records were left out because they are details of shown events.
fn note_details(global: &Global, details: usize) {
    if details > 0 {
        let records = plural(details, "more record");
        print_note(global, &format!("{records} of these calls; `--all` shows each record"));
    }
}

fn print_lines(global: &Global, entries: &[Entry<'_>]) -> CliResult {
    entries.iter().try_for_each(|entry| print_row(global, entry.event, row(entry.event)))
}

async fn check(global: &Global, log: Option<&Path>) -> CliResult {
    let verified = match log {
        Some(dir) => {
            let (folder, mut verified) = (state::folder(global)?, VerifyResult::default());
            match Governance::verify_in(&folder, dir).await {
                Ok(records) => verified.records = records,
                Err(error) => verified.fail(&explain(&folder, &error)),
            }
            verified
        }
        None => verify_files(global).await?,
    };
    match &verified.error {
        Some(error) if !global.json => Err(Failure::failed(error)),
        Some(error) => {
            print(global, &verified)?;
            Err(Failure::failed(error))
        }
        None => print(global, &verified),
    }
}

/// Verifies the log by reading its files: the kernel that wrote a log cannot be trusted to check it. Also verifies the
/// log [`SIDE_LOG`], if any.
pub(crate) async fn verify_files(global: &Global) -> CliResult<VerifyResult> {
    let folder = state::folder(global)?;
    let mut verified = VerifyResult::default();
    match Governance::verify(&folder).await {
        Ok(records) => {
            let lost = async |event_type| {
                let lost = count_lost(&folder, event_type, None).await?;
                Ok::<_, Failure>((lost > 0).then_some(lost))
            };
            (verified.records, verified.lost) = (records, lost(RECORDS_LOST).await?);
            verified.changes_lost = lost(CHANGES_LOST).await?;
        }
        Err(error) => verified.fail(&explain(&folder, &error)),
    }
    if verified.ok && folder.join("state.db").exists() {
        let db = state::db(global).await?;
        if let Some(head) = LogHead::in_store(&db, SIDE_LOG).await? {
            match verify(&folder.join("audit"), SIDE_LOG, &head) {
                Ok(records) => verified.records += records,
                Err(error) => verified.fail(&error),
            }
        }
    }
    Ok(verified)
}

/// Returns a message that explains why the audit log of a state folder cannot be read.
fn explain(folder: &Path, error: &FolderError) -> String {
    match error {
        FolderError::Empty(_) => {
            let folder = folder.display();
            format!("there are no records in `{folder}` yet; name another folder with --state DIR")
        }
        // Leave out the prefix "the audit log cannot be used", because a log with such a loss is still usable.
        FolderError::Log(error @ (LogError::Lost { .. } | LogError::ChangesLost { .. })) => {
            error.to_string()
        }
        error => error.to_string(),
    }
}

/// Sums up the losses that the events of one type report: lost audit records, or lost changes of the state. With
/// `since`, counts only later events.
pub(crate) async fn count_lost(
    folder: &Path,
    event_type: &str,
    since: Option<SystemTime>,
) -> CliResult<u64> {
    let files = Governance::log_files(folder).await?;
    let mut query = AuditQuery::new().event_type(event_type);
    if let Some(since) = since {
        query = query.since(since);
    }
    let mut lost = 0;
    loop {
        let page = files.query(query.clone()).await?;
        let details = page.events.iter().filter_map(|event| event.details.as_ref());
        lost += details.filter_map(|all| all.decode::<u64>("count").ok().flatten()).sum::<u64>();
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(lost),
        }
    }
}

impl Default for VerifyResult {
    fn default() -> Self {
        Self { ok: true, records: 0, lost: None, changes_lost: None, error: None }
    }
}

impl VerifyResult {
    fn fail(&mut self, error: &impl std::fmt::Display) {
        (self.ok, self.error) = (false, Some(error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use mgp_security::Event;
    use mgp_types::service::Principal;

    use super::*;

    #[test]
    fn the_tenant_of_a_record_is_that_of_its_actor() {
        let (ann, local) = (Principal::new("acme", "ann"), Principal::local());
        let of = |event: Event| tenant(&event.build());
        assert_eq!(of(Event::administered(&ann, None, "m")).as_deref(), Some("acme"));
        assert_eq!(of(Event::administered(&local, None, "m")), None);
        for holder in [&ann, &local] {
            assert_eq!(of(Event::key_added(&local, "k", holder)), None, "{holder:?}");
        }
    }

    #[test]
    fn agents_of_two_tenants_with_one_name_differ_in_the_table() {
        let of = |tenant: &str| {
            let ann = Principal::new(tenant, "local").agent("ann");
            row(&Event::administered(&ann, None, "m").build())[3].text().to_owned()
        };
        assert_eq!([of("local"), of("acme")], ["ann", "ann of acme"]);
    }

    #[test]
    fn an_intent_is_shown_as_such_and_only_without_another_reason() {
        let shown = |details: serde_json::Value| {
            let event = serde_json::json!({
                "timestamp": "2026-03-04T12:00:00.000Z",
                "event_type": "TOOL_EXECUTED",
                "actor": { "type": "agent", "id": "ada" },
                "result": "SUCCESS",
                "details": details,
            });
            row(&serde_json::from_str(&event.to_string()).unwrap())[5].text().to_owned()
        };
        let intent = "approved by ann";
        assert_eq!(shown(serde_json::json!({ "intent": intent })), "intent: approved by ann");
        let failed = serde_json::json!({ "intent": intent, "error": "too late" });
        assert_eq!(shown(failed), "too late");
    }

    #[test]
    fn a_long_actor_or_target_does_not_widen_the_table() {
        let long = "x".repeat(5000);
        let event = serde_json::json!({
            "timestamp": "2026-03-04T12:00:00.000Z",
            "event_type": "TOOL_EXECUTED",
            "actor": { "type": "agent", "id": long },
            "target": { "server_id": "desk", "tool_name": long },
            "result": "SUCCESS",
        });
        let event: AuditEvent = serde_json::from_str(&event.to_string()).unwrap();
        let mut out = Output::default();
        EventList(vec![event]).render(&mut out);
        assert!(out.text().lines().all(|line| line.len() < 300), "{}", out.text());
        assert_eq!(out.text().matches('…').count(), 2, "{}", out.text());
    }
}
