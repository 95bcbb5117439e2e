//! An audit sink in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::{
    AuditFuture, AuditOutcome, AuditSink, CallRecord, EndedCall, SuspendedCalls, Ticket, TicketSink,
};
use crate::mgp::AuditEvent;
use crate::service::CallKey;
use crate::sync::Mutex;

/// An audit sink that keeps the most recent events in memory. If there are too many, the oldest events are dropped and
/// counted. The sink never waits and never refuses a call.
///
/// The record that announces a risky call (its intent record) is kept only while the call runs; see
/// [`MemoryAudit::intents`].
/// A logical call that was answered with questions, and that its caller does not repeat within an hour, is recorded as
/// cancelled, at the latest when events are read.
#[derive(Clone)]
pub struct MemoryAudit(Arc<EventLog>);

struct EventLog {
    state: Mutex<LogState>,
    capacity: usize,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct LogState {
    ring: VecDeque<Record>,
    dropped: u64,
    /// The records that announce running calls (intent records), sorted by key. Calls begin nearly in the order of
    /// their keys, so a new record is added at the end or near it.
    intents: VecDeque<Arc<CallRecord>>,
    suspended: SuspendedCalls,
}

/// An entry of the ring buffer of events. An ended call is converted to an event only when it is read.
enum Record {
    Call(EndedCall),
    Other(Box<AuditEvent>),
}

impl Record {
    fn to_event(&self) -> AuditEvent {
        match self {
            Self::Call(end) => end.to_event(),
            Self::Other(event) => AuditEvent::clone(event),
        }
    }
}

fn numbered(mut event: AuditEvent, seq: u64) -> AuditEvent {
    event.mgp.get_or_insert_default().seq = Some(seq);
    event
}

impl MemoryAudit {
    /// Creates a sink that keeps up to 10,000 events.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(10_000)
    }

    /// Creates a sink that keeps up to `capacity` events.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        let (newest, _) = watch::channel(0);
        Self(Arc::new(EventLog { state: Mutex::default(), capacity, newest }))
    }

    /// Returns the stored events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<AuditEvent> {
        let mut state = self.0.state.lock();
        self.0.sweep(&mut state);
        state.ring.iter().map(Record::to_event).collect()
    }

    /// Returns up to `limit` events whose sequence numbers are above `seq`, oldest first. The member `_mgp.seq` of each
    /// event contains its number.
    ///
    /// Sequence numbers begin at 1 and never change. If events were dropped, the first remaining event has a higher
    /// number.
    #[must_use]
    pub fn after(&self, seq: u64, limit: usize) -> Vec<AuditEvent> {
        let mut state = self.0.state.lock();
        self.0.sweep(&mut state);
        let skip = usize::try_from(seq.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        let first = state.dropped.max(seq) + 1;
        let records = state.ring.iter().skip(skip).take(limit).zip(first..);
        records.map(|(record, seq)| numbered(record.to_event(), seq)).collect()
    }

    /// Returns a receiver for the sequence number of the newest event.
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// Returns the records that announce running risky calls (intent records), ordered by the keys of the calls.
    #[must_use]
    pub fn intents(&self) -> Vec<Arc<CallRecord>> {
        self.0.state.lock().intents.iter().map(Arc::clone).collect()
    }

    /// Returns the number of events that were dropped because there were too many.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }
}

impl Default for MemoryAudit {
    fn default() -> Self {
        Self::new()
    }
}

crate::opaque_debug!(MemoryAudit);

impl AuditSink for MemoryAudit {
    fn begin(&self, mut start: CallRecord) -> AuditFuture<Ticket> {
        let logical = start.logical.is_some();
        let intent = start.needs_intent();
        if !logical && !intent {
            return AuditFuture::Ready(Ok(Ticket::new(start, self.ticket_sink())));
        }
        let mut state = self.0.state.lock();
        if logical && let Some((earlier, ())) = state.suspended.resume(&start) {
            start.continue_from(&earlier);
        }
        let start = Arc::new(start);
        if intent {
            state.open(Arc::clone(&start));
        }
        drop(state);
        AuditFuture::Ready(Ok(Ticket::new(start, self.ticket_sink())))
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        self.0.push(&mut self.0.state.lock(), Record::Other(Box::new(event)));
        AuditFuture::Ready(Ok(()))
    }
}

impl MemoryAudit {
    fn ticket_sink(&self) -> Arc<dyn TicketSink> {
        // Clone the `Arc` with its concrete type, because only the clone can be converted to an `Arc` of the trait.
        let log: Arc<EventLog> = Arc::clone(&self.0);
        log
    }
}

impl TicketSink for EventLog {
    fn close(&self, end: EndedCall) {
        let mut state = self.state.lock();
        if end.start.needs_intent() {
            state.shut(end.start.key);
        }
        self.push(&mut state, Record::Call(end));
    }

    fn suspend(&self, start: Arc<CallRecord>) {
        let mut state = self.state.lock();
        state.shut(start.key);
        if start.logical.is_none() {
            return;
        }
        state.suspended.insert(start, ());
        self.sweep(&mut state);
    }
}

impl EventLog {
    fn push(&self, state: &mut LogState, record: Record) {
        state.ring.push_back(record);
        while state.ring.len() > self.capacity {
            state.ring.pop_front();
            state.dropped += 1;
        }
        self.newest.send_replace(state.dropped + state.ring.len() as u64);
    }

    fn sweep(&self, state: &mut LogState) {
        while let Some((start, ())) = state.suspended.pop_expired() {
            let outcome = AuditOutcome::of_cancelled(&start);
            self.push(state, Record::Call(EndedCall::now(start, outcome)));
        }
    }
}

impl LogState {
    fn open(&mut self, start: Arc<CallRecord>) {
        let at = self.intents.partition_point(|known| known.key < start.key);
        self.intents.insert(at, start);
    }

    fn shut(&mut self, key: CallKey) {
        if let Ok(at) = self.intents.binary_search_by_key(&key, |known| known.key) {
            self.intents.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::suspended::{MAX_SUSPENDED, SUSPENDED_TTL};
    use super::*;
    use crate::Timestamp;
    use crate::mgp::{Actor, AuditResult, EventType, RiskLevel};
    use crate::service::{Call, Context, Method, Params, Peer, Principal, Rule, Scope, ScopeKind};
    use crate::wire::{ErrorCode, Payload};

    fn start(logical: Option<&str>) -> CallRecord {
        let principal = Principal::new("acme", "ada").agent("agent.one");
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), principal);
        cx.logical = logical.map(Into::into);
        cx.trace = Some("trace-1".into());
        cx.server = Some("files".into());
        let params = Params::split("tools/call", r#"{"name":"rm"}"#.into()).unwrap();
        CallRecord::from_call(&Call::request(Method::of("tools/call"), params, cx)).unwrap()
    }

    async fn begin(sink: &MemoryAudit, start: CallRecord) -> Ticket {
        sink.begin(start).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_has_actor_target_and_outcome() {
        let sink = MemoryAudit::new();
        let mut facts = start(None);
        facts.risk = Some(RiskLevel::Dangerous);
        let ticket = begin(&sink, facts).await;
        ticket.start().add_note("validator_applied", Payload::of("sandbox").unwrap());
        tokio::time::advance(Duration::from_millis(1200)).await;
        let rule = Some(Rule::new("by hand"));
        ticket.finish(AuditOutcome::Blocked { code: ErrorCode::ACCESS_DENIED, rule });
        let mut event = sink.events().remove(0);
        assert!(event.timestamp.to_system_time().is_some());
        event.timestamp = Timestamp::from("2026-03-04T05:06:07.089Z");
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            concat!(
                r#"{"timestamp":"2026-03-04T05:06:07.089Z","trace_id":"trace-1","event_type":"TOOL_BLOCKED","#,
                r#""actor":{"type":"agent","id":"agent.one"},"target":{"server_id":"files","tool_name":"rm"},"#,
                r#""result":"BLOCKED","details":{"validator_applied":"sandbox","risk_level":"dangerous","#,
                r#""duration_ms":1200,"code":1001,"rule":"by hand"}}"#
            )
        );
    }

    #[tokio::test]
    async fn intents_are_stored_while_a_risky_call_runs() {
        #[track_caller]
        fn check(sink: &MemoryAudit, expected: usize) {
            assert_eq!(sink.intents().len(), expected);
        }
        let sink = MemoryAudit::new();
        for (risk, expected) in [
            (Some(RiskLevel::Safe), 0),
            (Some(RiskLevel::Moderate), 1),
            (Some(RiskLevel::Other("odd".into())), 1),
            (None, 1),
        ] {
            let mut facts = start(None);
            facts.risk = risk;
            let ticket = begin(&sink, facts).await;
            check(&sink, expected);
            drop(ticket);
            check(&sink, 0);
        }
        assert!(sink.events().iter().all(|event| event.result == AuditResult::Failure));
        assert_eq!(sink.events().len(), 4);
    }

    #[tokio::test]
    async fn the_ring_is_bounded_and_counts() {
        let sink = MemoryAudit::bounded(3);
        for id in 0..5 {
            let event = AuditEvent::new(
                Timestamp::now(),
                EventType::AccessGranted,
                Actor::new("user", id.to_string()),
                AuditResult::Success,
            );
            sink.record(event).await.unwrap();
        }
        begin(&sink, start(None)).await.finish(AuditOutcome::Success);
        let actors: Vec<_> = sink.events().into_iter().map(|event| event.actor.id).collect();
        assert_eq!(actors, ["3", "4", "agent.one"]);
        assert_eq!(sink.dropped(), 3);
        let numbers = |seq, limit| {
            let events = sink.after(seq, limit).into_iter();
            events
                .map(|event| (event.mgp.unwrap().seq.unwrap(), event.actor.id))
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(0, 2), [(4, "3".to_owned()), (5, "4".to_owned())]);
        assert_eq!(numbers(5, 9), [(6, "agent.one".to_owned())]);
        assert!(numbers(6, 9).is_empty() && numbers(u64::MAX - 1, 9).is_empty());
        assert_eq!(*sink.newest().borrow(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_continue_one_call() {
        let sink = MemoryAudit::new();
        let first = begin(&sink, start(Some("a"))).await;
        first.start().note_chunk(7);
        first.suspend();
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut other = start(Some("a"));
        other.principal = Principal::local();
        begin(&sink, other).await.finish(AuditOutcome::Success);
        let second = begin(&sink, start(Some("a"))).await;
        second.start().note_chunk(5);
        second.finish(AuditOutcome::Success);
        let details: Vec<_> =
            sink.events().into_iter().map(|event| event.details.unwrap()).collect();
        assert_eq!(details.len(), 2);
        assert_eq!(details[0].get("rounds"), None);
        assert_eq!(details[1].decode::<u64>("rounds").unwrap(), Some(2));
        assert_eq!(details[1].decode::<u64>("duration_ms").unwrap(), Some(2000));
        assert_eq!(details[1].decode::<u64>("chunks").unwrap(), Some(2));
        assert_eq!(details[1].decode::<u64>("chunk_bytes").unwrap(), Some(12));
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspended_call_without_next_round_is_cancelled() {
        let sink = MemoryAudit::new();
        for id in 0..=MAX_SUSPENDED {
            begin(&sink, start(Some(&id.to_string()))).await.suspend();
        }
        assert_eq!(sink.events().len(), 1);
        tokio::time::advance(SUSPENDED_TTL).await;
        assert_eq!(sink.after(1, usize::MAX).len(), MAX_SUSPENDED);
        let events = sink.events();
        assert_eq!(events.len(), MAX_SUSPENDED + 1);
        let cancelled =
            |event: &AuditEvent| event.details.as_ref().unwrap().get("cancelled").is_some();
        assert!(events.iter().all(cancelled));
    }

    #[tokio::test(start_paused = true)]
    async fn many_open_questions_of_one_caller_end_no_call_of_another() {
        let sink = MemoryAudit::new();
        let of_bob = || {
            let mut call = start(Some("bob"));
            call.principal = Principal::new("acme", "bob");
            call
        };
        begin(&sink, of_bob()).await.suspend();
        for id in 0..MAX_SUSPENDED {
            begin(&sink, start(Some(&id.to_string()))).await.suspend();
        }
        let ended: Vec<_> = sink.events().into_iter().map(|event| event.actor.id).collect();
        assert_eq!(ended, ["agent.one"]);
        begin(&sink, of_bob()).await.finish(AuditOutcome::Success);
        let details = sink.events().remove(1).details.unwrap();
        assert_eq!(details.decode::<u64>("rounds").unwrap(), Some(2));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let sink = MemoryAudit::new();
        let ticket = begin(&sink, start(None)).await;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _ticket = ticket;
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(caught.is_err());
        let details = sink.events().remove(0).details.unwrap();
        assert_eq!(details.decode::<i32>("code").unwrap(), Some(-32603));
    }
}
