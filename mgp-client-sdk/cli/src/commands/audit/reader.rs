//! Reads audit events from the running kernel, or from the files of the log if no kernel runs.

use std::fmt::Display;
use std::path::Path;
use std::time::SystemTime;

use clap::Args;
use mgp_client_sdk::Client;
use mgp_discovery::nearest;
use mgp_security::{AuditQuery, CallApprovals, Governance, LogFiles, RESULT_WORDS};
use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, EventType, KernelAuditParams};

use serde_json::Value;

use super::super::known_names::{KnownNames, without_force};
use crate::args::Global;
use crate::backend::Backend;
use crate::exit::{CliResult, Failure};
use crate::output::{plural, print_stderr};
use crate::socket_hello::Intent;
use crate::{control, state, time_args};

const PAGE_EVENTS: usize = 1000;

type SetFilter = fn(AuditQuery, String) -> AuditQuery;

/// The filters of events.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filters {
    /// Only events of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only events of this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Only events of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only events of this type, e.g. `TOOL_EXECUTED`, `TOOL_BLOCKED` or `ACCESS_GRANTED`
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events with this result
    #[arg(long, value_name = "RESULT", ignore_case = true, value_parser = RESULT_WORDS)]
    result: Option<String>,
    /// Only events of this trace
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Only events after this: 1h, 7d, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = time_args::past)]
    since: Option<SystemTime>,
    /// Only events before this: 1h, 7d, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = time_args::past)]
    until: Option<SystemTime>,
}

impl Filters {
    /// Returns the filters with the exact event type, and with `SERVER.TOOL` split as in the log. Refuses an event type
    /// that does not exist, and a `since` that is not before `until`.
    pub(super) async fn resolve(&self, global: &Global) -> CliResult<Self> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            return Err(Failure::usage(
                "--since is not before --until, so no event matches; swap them, e.g. --since 2h --until 1h",
            ));
        }
        let mut filters = self.clone();
        if let Some(kind) = &self.kind {
            filters.kind = Some(event_type(kind)?);
        }
        if let Some(tool) = self.tool.as_ref().filter(|tool| tool.contains('.')) {
            let server = self.server.as_deref();
            match KnownNames::read_alone(global).await {
                Ok(known) => {
                    if let Some((own, tool)) =
                        known.split(tool).filter(|(own, _)| server.is_none_or(|id| id == *own))
                    {
                        (filters.server, filters.tool) =
                            (Some(own.to_owned()), Some(tool.to_owned()));
                    }
                }
                // Use the filters as they are if the log was changed, because the names of servers, tools and agents
                // cannot be checked then.
                Err(failure) if failure.is_log_changed() => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(filters)
    }

    /// Returns whether only the events of one trace are wanted.
    pub(super) fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Returns a note about the first filter that matches nothing, because its server, tool or agent does not exist.
    pub(super) async fn unknown_names(&self, global: &Global) -> Option<String> {
        let known = KnownNames::read_alone(global).await.ok()?;
        if let Some(server) = &self.server
            && let Err(failure) = known.check_server(server).await
        {
            return Some(without_force(&failure));
        }
        if let Some(tool) = &self.tool {
            let checked = match &self.server {
                Some(server) => known.check_tool(server, tool),
                None => known.check_any_tool(tool),
            };
            if let Err(failure) = checked {
                return Some(without_force(&failure));
            }
        }
        // The audit log has the events of all tenants, so an unknown name may be that of an agent of another tenant.
        // Therefore only add a note.
        known.note_on_unknown_agent(self.agent.as_deref()?)
    }
}

/// The prefix of the event types that are not in the specification.
const OWN_PREFIX: &str = "dev.cloto.";

/// This program's own event types, which are not in the specification.
const OWN_KINDS: [&str; 24] = [
    "dev.cloto.administered",
    "dev.cloto.approval_decided",
    "dev.cloto.approval_requested",
    "dev.cloto.callback_unanswered",
    "dev.cloto.changes_lost",
    "dev.cloto.confirmation_denied",
    "dev.cloto.confirmation_given",
    "dev.cloto.definition_approved",
    "dev.cloto.definition_changed",
    "dev.cloto.definition_flagged",
    "dev.cloto.definition_pinned",
    "dev.cloto.definition_rejected",
    "dev.cloto.definitions_forgotten",
    "dev.cloto.event_unreadable",
    "dev.cloto.events_dropped",
    "dev.cloto.key_added",
    "dev.cloto.key_revoked",
    "dev.cloto.policy_changed",
    "dev.cloto.project_approved",
    "dev.cloto.project_revoked",
    "dev.cloto.records_lost",
    "dev.cloto.records_rejected",
    "dev.cloto.server_deregistered",
    "dev.cloto.server_registered",
];

/// The event types of the specification that [`EventType::KNOWN`] lacks: an operator's risk for a tool, and the
/// approval of a server that an agent created.
const LATER_KINDS: [&str; 2] = ["RISK_LEVEL_OVERRIDE", "TOOL_CREATED_DYNAMIC"];

/// Returns the event types of the specification.
fn specified_kinds() -> impl Iterator<Item = &'static str> {
    EventType::KNOWN.iter().map(EventType::as_str).chain(LATER_KINDS)
}

/// Returns the event types that the log of a kernel can have.
pub(crate) fn all_kinds() -> impl Iterator<Item = &'static str> {
    specified_kinds().chain(OWN_KINDS)
}

/// Returns the type of an event as people read it, without the name space of this program.
pub(crate) fn short_type(kind: &str) -> &str {
    kind.strip_prefix(OWN_PREFIX).unwrap_or(kind)
}

/// Returns the exact name of an event type. The word may be in any case, may have `-` for `_`, and may lack the prefix
/// of this program's own types.
fn event_type(word: &str) -> CliResult<String> {
    let upper = word.to_ascii_uppercase().replace('-', "_");
    let known: Vec<&str> = specified_kinds().collect();
    if known.contains(&&*upper) {
        return Ok(upper);
    }
    let lower = upper.to_ascii_lowercase();
    let short = short_type(&lower);
    if let Some(own) = OWN_KINDS.into_iter().find(|own| short_type(own) == short) {
        return Ok(own.to_owned());
    }
    // Accept an unknown type with a dot, because servers and other programs can define their own event types.
    if word.contains('.') && short == lower {
        return Ok(word.to_owned());
    }
    let near = nearest(&upper, known.iter().copied())
        .or_else(|| nearest(short, OWN_KINDS.into_iter().map(short_type)));
    let near = near.map(|near| format!("; did you mean `{near}`?"));
    let near = near.unwrap_or_else(|| ".".to_owned());
    Err(Failure::usage(format!(
        "`{word}` is not a type of event{near} Known: {}, and those of mgp, e.g. key_added",
        known.join(", ")
    )))
}

/// The source of the audit events that commands read.
pub(super) enum EventReader {
    Kernel(Client),
    /// The files of the log. They are read without the lock, so a kernel can start meanwhile.
    Files(LogFiles),
}

impl EventReader {
    pub(super) async fn open(global: &Global) -> CliResult<Self> {
        match Backend::open(global, Intent::Read).await {
            Ok(Backend::Kernel(client)) => return Ok(Self::Kernel(client)),
            // Close the folder again. It was opened only to add to the log the events that a killed kernel had not
            // written.
            Ok(backend) => backend.close().await?,
            // Read the files below: the process that holds the lock of the folder does not answer, but reading needs no
            // lock.
            Err(failure) if failure.is_state_in_use() => {}
            Err(failure) if failure.is_log_changed() => {
                warn_of_changes(&failure);
                let files = Governance::log_files(state::create_folder(global)?).await?;
                return Ok(Self::Files(files.skip_unreadable()));
            }
            Err(failure) => return Err(failure),
        }
        Ok(Self::Files(Governance::log_files(state::create_folder(global)?).await?))
    }

    /// Opens the log in another directory, e.g. an earlier log of the state folder.
    pub(super) async fn open_in(global: &Global, dir: &Path) -> CliResult<Self> {
        let folder = state::folder(global)?;
        let files = Governance::log_files_in(&folder, dir).await;
        let files = files.map_err(|error| Failure::failed(super::explain(&folder, &error)))?;
        if let Err(error) = Governance::verify_in(&folder, dir).await {
            warn_of_changes(&error);
            return Ok(Self::Files(files.skip_unreadable()));
        }
        Ok(Self::Files(files))
    }

    /// Returns whether the events are read from a running kernel (and not from the log files).
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    /// Returns the newest events that match the filters, oldest first.
    pub(super) async fn newest(
        &mut self,
        filters: &Filters,
        max: usize,
    ) -> CliResult<Vec<AuditEvent>> {
        let (mut events, mut after) = (Vec::new(), None);
        while events.len() < max {
            let want = PAGE_EVENTS.min(max - events.len());
            let (page, next) = self.page(filters, Order::NewestFirst, after, want).await?;
            events.extend(page);
            // One query reads only a limited part of the log, so a page can be empty although older records match.
            match next {
                // Stop if the numbers do not decrease: in a log that was changed, the numbers of records can be wrong.
                Some(next) if after.is_none_or(|after| next < after) => after = Some(next),
                _ => break,
            }
        }
        events.truncate(max);
        events.reverse();
        Ok(events)
    }

    /// Returns the page of events after the sequence number `last`, oldest first, and whether there may be more;
    /// advances `last` for the next page.
    pub(super) async fn after(
        &mut self,
        filters: &Filters,
        last: &mut Option<u64>,
    ) -> CliResult<(Vec<AuditEvent>, bool)> {
        let before = *last;
        let (events, next) = self.page(filters, Order::OldestFirst, before, PAGE_EVENTS).await?;
        *last = next.or_else(|| events.iter().filter_map(number).max()).or(before);
        // Stop if the number does not increase: in a log that was changed, the numbers of records can be wrong, and
        // reading would begin again.
        Ok((events, next.is_some() && *last > before))
    }

    async fn page(
        &mut self,
        filters: &Filters,
        order: Order,
        after: Option<u64>,
        max: usize,
    ) -> CliResult<(Vec<AuditEvent>, Option<u64>)> {
        let Filters { agent, server, tool, kind, result, trace, since, until } = filters.clone();
        let result = result.map(|word| word.to_ascii_uppercase());
        let newest = order == Order::NewestFirst;
        match self {
            Self::Kernel(client) => {
                let mut params = KernelAuditParams::new();
                params.agent = agent;
                params.server_id = server;
                params.tool = tool;
                params.event_type = kind.map(|kind| kind.as_str().into());
                params.result = result;
                params.trace = trace;
                params.since = since.map(Into::into);
                params.until = until.map(Into::into);
                params.limit = Some(max as u64);
                params.newest_first = Some(newest);
                params.after = after.filter(|after| *after > 0);
                let page = client.request::<KernelAudit>(&params).await;
                let page =
                    control::followed(client, page.map_err(control::request_failure)).await?;
                Ok((page.events, page.next))
            }
            Self::Files(files) => {
                let mut query = AuditQuery::new().limit(max);
                let mut filter = |value: Option<String>, set: SetFilter| {
                    if let Some(value) = value {
                        query = set(std::mem::take(&mut query), value);
                    }
                };
                filter(agent, AuditQuery::agent);
                filter(server, AuditQuery::server);
                filter(tool, AuditQuery::tool);
                filter(kind, AuditQuery::event_type);
                filter(result, AuditQuery::result);
                filter(trace, AuditQuery::trace);
                if let Some(since) = since {
                    query = query.since(since);
                }
                if let Some(until) = until {
                    query = query.until(until);
                }
                if newest {
                    query = query.newest_first();
                }
                if let Some(after) = after.filter(|after| *after > 0) {
                    query = query.after(after);
                }
                let page = files.query(query).await?;
                Ok((page.events, page.next))
            }
        }
    }
}

/// Prints a warning that the records of the log are shown although they do not verify.
fn warn_of_changes(why: &impl Display) {
    print_stderr(&format!(
        "mgp: the log does not verify; its readable records are shown as they are: {why}"
    ));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestFirst,
    NewestFirst,
}

pub(crate) fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq
}

/// Returns the reason of an event as text for people.
pub(crate) fn reason(event: &AuditEvent) -> Option<String> {
    let details = serde_json::to_value(event.details.as_ref()?).ok()?;
    let members = [
        "reason",
        "message",
        "rule",
        "error",
        "permission",
        "justification",
        "file",
        "cause",
        "confirmation_spared_by",
        "method",
    ];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // Name the agent of an access entry, because the actor of the event is the operator who changed the entry.
    let agent = details.get("entry_type").and(details.get("agent_id")).map(|agent| {
        let word = details.get("permission").and_then(Value::as_str).unwrap_or("allow");
        format!("{word} {}", text(agent))
    });
    // For a refused call, show the rule that refused it: its reason is only the name of the error code.
    let rule = details.get("code").and(details.get("rule")).map(text);
    let reason = members.iter().filter(|_| agent.is_none()).find_map(|member| details.get(member));
    let reason = rule.or_else(|| reason.map(text));
    let added = ["cause", "justification"].iter().filter_map(|member| details.get(member));
    let id = details.get("approval_id").and_then(Value::as_str);
    let answered = details.get("decision").and(id).map(|id| {
        let which = if CallApprovals::is_id(id) { "later calls like it" } else { "this question" };
        format!("for {which}, {id}")
    });
    let counted = counted(event, &details);
    let named = agent.into_iter().chain(answered).chain(counted);
    let mut parts: Vec<String> = named.chain(reason).collect();
    for added in added.map(text) {
        if !parts.contains(&added) {
            parts.push(added);
        }
    }
    if !parts.is_empty() {
        return Some(parts.join(": "));
    }
    if details.get("cancelled") == Some(&Value::Bool(true)) {
        return Some("cancelled".to_owned());
    }
    let code = details.get("code").map(|code| format!("code {code}"));
    // The intent comes last, because it is only a claim of the agent.
    code.or_else(|| details.get("intent").map(|intent| format!("intent: {}", text(intent))))
}

/// Returns the count in an event as a number with its noun, e.g. `5 changes` for the type `dev.cloto.changes_lost`.
fn counted(event: &AuditEvent, details: &Value) -> Option<String> {
    let (thing, _) = short_type(event.event_type.as_str()).split_once("s_")?;
    Some(plural(details.get("count")?.as_u64()?, thing))
}
