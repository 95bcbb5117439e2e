//! Records calls that were refused before they reached the audit layer, e.g. by a limit, or because their tool is
//! unknown.
//!
//! For each agent, tool and code, only the first refusal of a minute is recorded, so that a caller in a loop does not
//! fill the audit log. The next record contains the number of refusals in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_security::Event;
use mgp_types::service::{AuditSink, Context, Rule, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::who;

/// The time after a record during which refusals of the same kind are only counted.
const RECORD_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum number of kinds of refusals (an agent, a tool and a code) that are tracked at a time.
const MAX_KINDS: usize = 1024;

/// The refusals of one agent, tool and code since the last record.
struct Recent {
    recorded: Instant,
    unrecorded: u64,
}

type Kind = (String, Option<ServerId>, String, ErrorCode);

pub(super) struct RefusalLog {
    audit: Arc<dyn AuditSink>,
    recent: Mutex<RecentRefusals>,
}

#[derive(Default)]
struct RecentRefusals {
    kinds: HashMap<Kind, Recent>,
    /// The number of unrecorded refusals of kinds that are not tracked. The next record of any kind contains this
    /// number.
    others: u64,
}

impl RefusalLog {
    pub(super) fn new(audit: Arc<dyn AuditSink>) -> Self {
        Self { audit, recent: Mutex::default() }
    }

    /// Records a refusal, unless a refusal of the same kind was recorded a moment ago. `server` is `None` if the tool
    /// was not found.
    pub(super) async fn refused(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: &str,
        error: &RpcError,
        rule: Option<&Rule>,
    ) {
        let code = error.code();
        // A caller can invent any number of names, so all tools that were not found count as one tool.
        let counted = server.map_or_else(String::new, |_| tool.to_owned());
        let kind = (who(&cx.principal), server.cloned(), counted, code);
        let Some(unrecorded) = self.due(kind) else { return };
        // The call has not reached the audit layer, which gives each call a trace. So give the call a trace here unless
        // it has one.
        let mut cx = cx.clone();
        let trace = cx.trace_or_new().clone();
        let event = Event::call_refused(&cx.principal, server, tool, code, unrecorded);
        let event = event.trace(Some(&trace)).rule(rule);
        if let Err(error) = self.audit.record(event.build()).await {
            let server = server.map(ServerId::as_str);
            tracing::warn!(server, tool, %error, "a refused call is not in the audit log");
        }
    }

    /// If this refusal must be recorded, returns the number of refusals that were not recorded before it. Otherwise
    /// counts the refusal and returns `None`. While the maximum number of kinds is tracked, refusals of other kinds are
    /// only counted.
    fn due(&self, kind: Kind) -> Option<u64> {
        let now = Instant::now();
        let mut recent = self.recent.lock();
        let RecentRefusals { kinds, others } = &mut *recent;
        if let Some(known) = kinds.get_mut(&kind) {
            if now.duration_since(known.recorded) < RECORD_INTERVAL {
                known.unrecorded += 1;
                return None;
            }
            known.recorded = now;
            return Some(std::mem::take(&mut known.unrecorded) + std::mem::take(others));
        }
        if kinds.len() >= MAX_KINDS {
            kinds.retain(|_, known| {
                let is_recent = now.duration_since(known.recorded) < RECORD_INTERVAL;
                *others += if is_recent { 0 } else { known.unrecorded };
                is_recent
            });
        }
        if kinds.len() >= MAX_KINDS {
            *others += 1;
            return None;
        }
        kinds.insert(kind, Recent { recorded: now, unrecorded: 0 });
        Some(std::mem::take(others))
    }
}
