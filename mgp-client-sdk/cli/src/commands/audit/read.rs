//! Reads events from the kernel that runs, else from its folder.
//!
//! Applies to: both.

use mgp_client_sdk::Client;
use mgp_security::{AuditQuery, Governance, LogFiles};
use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, KernelAuditParams};

use serde_json::Value;

use super::Filters;
use crate::books::Books;
use crate::cli::Global;
use crate::exit::Ended;
use crate::state;

/// How many events are asked for at once.
const PAGE: usize = 1000;

/// What a word makes of a query.
type Narrow = fn(AuditQuery, String) -> AuditQuery;

/// A log that can be read.
pub(super) enum Log {
    Kernel(Client),
    /// Its files: a kernel may begin while somebody reads on and on.
    Files(LogFiles),
}

impl Log {
    pub(super) async fn open(global: &Global) -> Ended<Self> {
        match Books::open(global).await {
            Ok(Books::Kernel(client)) => return Ok(Self::Kernel(client)),
            // What a killed kernel had still to write is written now.
            Ok(books) => books.close().await?,
            // Who has the folder cannot be reached, but what happened is there.
            Err(failure) if failure.is_taken() => {}
            Err(failure) => return Err(failure),
        }
        Ok(Self::Files(Governance::log_files(state::made(global)?).await?))
    }

    /// Whether it is that of a kernel that runs.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    /// The newest events that fit, the oldest of them first.
    pub(super) async fn newest(
        &mut self,
        filters: &Filters,
        most: usize,
    ) -> Ended<Vec<AuditEvent>> {
        let (mut events, mut after) = (Vec::new(), None);
        while events.len() < most {
            let want = PAGE.min(most - events.len());
            let (page, next) = self.page(filters, Order::NewestFirst, after, want).await?;
            events.extend(page);
            // One look at the log is bounded, so that a page may be empty before its end.
            match next {
                Some(next) if Some(next) != after => after = Some(next),
                _ => break,
            }
        }
        events.truncate(most);
        events.reverse();
        Ok(events)
    }

    /// Some of the events after one that was seen, the oldest first, and whether there may be more by now.
    pub(super) async fn after(
        &mut self,
        filters: &Filters,
        last: &mut Option<u64>,
    ) -> Ended<(Vec<AuditEvent>, bool)> {
        let before = *last;
        let (events, next) = self.page(filters, Order::OldestFirst, before, PAGE).await?;
        *last = next.or_else(|| events.iter().filter_map(number).max()).or(before);
        Ok((events, next.is_some() && *last != before))
    }

    async fn page(
        &mut self,
        filters: &Filters,
        order: Order,
        after: Option<u64>,
        most: usize,
    ) -> Ended<(Vec<AuditEvent>, Option<u64>)> {
        let Filters { agent, server, tool, kind, trace, since, until } = filters.clone();
        let newest = order == Order::NewestFirst;
        match self {
            Self::Kernel(client) => {
                let mut params = KernelAuditParams::new();
                params.agent = agent;
                params.server_id = server;
                params.tool = tool;
                params.event_type = kind.map(|kind| kind.as_str().into());
                params.trace = trace;
                params.since = since.map(Into::into);
                params.until = until.map(Into::into);
                params.limit = Some(most as u64);
                params.newest_first = Some(newest);
                params.after = after.filter(|after| *after > 0);
                let page = client.request::<KernelAudit>(&params).await?;
                Ok((page.events, page.next))
            }
            Self::Files(files) => {
                let mut query = AuditQuery::new().limit(most);
                // Each word narrows the query by itself.
                let mut narrow = |word: Option<String>, by: Narrow| {
                    if let Some(word) = word {
                        query = by(std::mem::take(&mut query), word);
                    }
                };
                narrow(agent, AuditQuery::agent);
                narrow(server, AuditQuery::server);
                narrow(tool, AuditQuery::tool);
                narrow(kind, AuditQuery::event_type);
                narrow(trace, AuditQuery::trace);
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestFirst,
    NewestFirst,
}

/// The running number of an event.
pub(super) fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq
}

/// What an event says of its reason.
pub(super) fn why(event: &AuditEvent) -> Option<String> {
    let details = serde_json::to_value(event.details.as_ref()?).ok()?;
    let words =
        ["reason", "message", "rule", "error", "justification", "permission", "file", "cause"];
    if let Some(said) = words.iter().find_map(|word| details.get(word)) {
        return Some(said.as_str().map_or_else(|| said.to_string(), str::to_owned));
    }
    if details.get("cancelled") == Some(&Value::Bool(true)) {
        return Some("cancelled".to_owned());
    }
    details.get("code").map(|code| format!("code {code}"))
}
