//! The last events of all channels, for operators. Events that wait for a subscriber are in `subscription.rs` instead.

use std::sync::Arc;

use mgp_types::mgp::{KernelEventsParams, KernelEventsResult, Severity};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};

use super::draft::PublishedEvent;
use super::pattern::Pattern;
use super::window::Window;

/// The maximum number of stored events; if they are large, fewer are stored.
const MAX_RECENT: usize = 4_096;

/// The maximum size of the stored events in total, in bytes.
const MAX_RECENT_BYTES: usize = 8 * 1024 * 1024;

/// The maximum number of events in an answer if the caller sets no limit.
const DEFAULT_LIMIT: u64 = 100;
/// The maximum number of events in one answer.
const MAX_LIMIT: u64 = 1_000;

pub(super) struct RecentEvents(Mutex<Window<Arc<PublishedEvent>>>);

impl Default for RecentEvents {
    fn default() -> Self {
        Self(Mutex::new(Window::new(0, MAX_RECENT, MAX_RECENT_BYTES)))
    }
}

impl RecentEvents {
    pub(super) fn push(&self, event: &Arc<PublishedEvent>) {
        self.0.lock().push(Arc::clone(event), event.bytes());
    }

    pub(super) fn query(
        &self,
        params: &KernelEventsParams,
    ) -> Result<KernelEventsResult, RpcError> {
        let pattern = params.channel.as_deref().map_or(Ok(Pattern::All), Pattern::parse)?;
        check_severity(params.min_severity.as_ref())?;
        let rank = params.min_severity.as_ref().map_or(0, Severity::rank);
        let since = match &params.since {
            None => None,
            Some(time) => Some(time.to_system_time().ok_or_else(|| {
                RpcError::invalid_params(format!(
                    "`{time}` is not a valid time; use RFC 3339, e.g. 2026-07-28T12:00:00Z"
                ))
            })?),
        };
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let matches = |event: &PublishedEvent| {
            pattern.matches(&event.draft.channel)
                && event.rank >= rank
                && since.is_none_or(|since| event.at >= since)
        };
        let recent = self.0.lock();
        let mut result = KernelEventsResult::new(recent.last());
        let later = recent.after(params.after.unwrap_or(0)).filter(|(_, event)| matches(event));
        let found: Vec<_> = if let Some(after) = params.after {
            let lost = (recent.first() - 1).saturating_sub(after);
            result.dropped = (lost > 0).then_some(lost);
            later.take(limit).collect()
        } else {
            let all: Vec<_> = later.collect();
            all[all.len().saturating_sub(limit)..].to_vec()
        };
        if params.after.is_some() && found.len() == limit {
            result.next = found.last().map_or(recent.last(), |(number, _)| *number);
        }
        let text = |(number, event): (u64, &Arc<PublishedEvent>)| {
            Payload::from_trusted(event.to_json(None, number, 0))
        };
        result.events = found.into_iter().map(text).collect();
        Ok(result)
    }
}

/// Returns an error if the lowest severity of a filter is unknown. Such a severity has the rank of `info`, so it would
/// select events that the caller does not want.
pub(super) fn check_severity(min: Option<&Severity>) -> Result<(), RpcError> {
    let Some(Severity::Other(word)) = min else { return Ok(()) };
    let word = mgp_types::clip(word, 64);
    Err(RpcError::invalid_params(format!("unknown severity `{word}`; known: info, warning, error")))
}
