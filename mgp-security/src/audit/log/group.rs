//! A group of lines that are written together.

use std::ops::Range;
use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{AuditEvent, EventType};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chain::{Chain, Checkpoint, MAX_LINE, RecordKind};
use super::encode::{self, EventEncoder};
use super::queue::{Intent, Item};

/// The size limit for the text of an event, chosen so that its line does not exceed the limit for lines.
pub(super) const MAX_EVENT: usize = MAX_LINE - 1024;

/// The reason in the final event of a call that waited for an approval when its process died.
const WAITED: &str = "interrupted while it waited for an approval; the call did not run";

/// A group of lines, and the state that the log has after they are written.
pub(super) struct Group {
    pub(super) text: Vec<u8>,
    /// The state of the hash chain after the last line.
    pub(super) chain: Chain,
    /// The intents in the group, each with its record number and text.
    pub(super) opened: Vec<(u64, String)>,
    /// The record numbers of the intents whose calls end with a record of this group.
    pub(super) ended: Vec<u64>,
    /// The events in the group that receivers of [`AuditLog::watch`](super::AuditLog::watch) get: the number of each,
    /// and its byte range in `text`.
    pub(super) watched: Vec<(u64, Range<usize>)>,
    /// The number that the last event taken from the store had there.
    pub(super) outbox: u64,
    encoder: EventEncoder,
}

impl Group {
    pub(super) fn new(chain: Chain) -> Self {
        Self {
            text: Vec::new(),
            chain,
            opened: Vec::new(),
            ended: Vec::new(),
            watched: Vec::new(),
            outbox: 0,
            encoder: EventEncoder::default(),
        }
    }

    /// Clears the group for new lines, but keeps the buffer's memory.
    pub(super) fn begin(&mut self, chain: Chain, outbox: u64) {
        self.text.clear();
        // Release the memory of an unusually large group.
        self.text.shrink_to(4 * MAX_LINE);
        self.opened.clear();
        self.ended.clear();
        self.watched.clear();
        self.chain = chain;
        self.outbox = outbox;
    }

    /// Adds the line of an item of the queue. Adds nothing for an item that needs no line.
    pub(super) fn push(&mut self, item: &Item) {
        let Self { text, chain, ended, encoder, watched, .. } = self;
        match item {
            Item::Call { ended: call, intent, .. } => {
                let intent = intent.as_deref().and_then(Intent::seq);
                let mut place = 0..0;
                chain.write(text, RecordKind::Event, |out| {
                    ends(out, intent);
                    out.extend_from_slice(br#""event":"#);
                    place.start = out.len();
                    encoder.ended(out, call);
                    place.end = out.len();
                });
                if call.outcome.event_type() != EventType::ToolExecuted {
                    watched.push((chain.no, place));
                }
                ended.extend(intent);
            }
            Item::Shut { intent, .. } => {
                let Some(intent) = intent.seq() else { return };
                chain.write(text, RecordKind::Intent, |out| {
                    ends(out, Some(intent));
                    out.extend_from_slice(br#""intent":null"#);
                });
                ended.push(intent);
            }
            Item::Intent { start, intent, .. } => {
                let mut begun = Vec::new();
                encoder.intent(&mut begun, start);
                self.intent(None, &begun);
                intent.written(self.chain.seq);
                self.opened.push((self.chain.seq, String::from_utf8_lossy(&begun).into_owned()));
            }
            Item::Event { text, .. } => self.event(text, None),
            Item::Flush { .. } => {}
        }
    }

    /// Appends an event that was taken from the store, and remembers the number that the event had there.
    pub(super) fn take(&mut self, number: u64, text: &[u8]) {
        self.event(text, Some(number));
        self.outbox = self.outbox.max(number);
    }

    /// Adds an event, given as text; `outbox` is the number that the event had in the store.
    pub(super) fn event(&mut self, event: &[u8], outbox: Option<u64>) {
        let mut place = 0..0;
        self.chain.write(&mut self.text, RecordKind::Event, |out| {
            if let Some(number) = outbox {
                out.extend_from_slice(br#""outbox":"#);
                encode::number(out, number);
                out.push(b',');
            }
            out.extend_from_slice(br#""event":"#);
            place = out.len()..out.len() + event.len();
            out.extend_from_slice(event);
        });
        self.watched.push((self.chain.no, place));
    }

    /// Adds a new intent, or repeats the intent with the number `of`.
    pub(super) fn intent(&mut self, of: Option<u64>, begun: &[u8]) {
        self.chain.write(&mut self.text, RecordKind::Intent, |out| {
            if let Some(of) = of {
                out.extend_from_slice(br#""of":"#);
                encode::number(out, of);
                out.push(b',');
            }
            out.extend_from_slice(br#""intent":"#);
            out.extend_from_slice(begun);
        });
    }

    /// Adds a checkpoint at the beginning of the group.
    pub(super) fn checkpoint(&mut self, from: u64, open: u64, cut: u64) {
        let checkpoint = Checkpoint { prev: self.chain.hash, from, outbox: self.outbox, open, cut };
        let at = Timestamp::from(SystemTime::now());
        self.chain.write(&mut self.text, RecordKind::Checkpoint, |out| {
            checkpoint.write(out, at.as_str());
        });
    }

    /// Adds the final event of a call that was running when its process died. The effect of such a call is unknown,
    /// unless the call waited for an approval: then it did not run.
    pub(super) fn push_interrupted(&mut self, intent: u64, begun: &str, approval: Option<&str>) {
        #[derive(Deserialize)]
        struct IntentBody<'a> {
            #[serde(borrow)]
            timestamp: &'a RawValue,
            #[serde(borrow)]
            trace_id: Option<&'a RawValue>,
            #[serde(borrow)]
            actor: &'a RawValue,
            #[serde(borrow)]
            target: &'a RawValue,
            #[serde(borrow)]
            details: Option<Risk<'a>>,
        }
        #[derive(Deserialize)]
        struct Risk<'a> {
            #[serde(borrow)]
            risk_level: &'a RawValue,
        }
        let begun: Option<IntentBody<'_>> = serde_json::from_str(begun).ok();
        let at = Timestamp::from(SystemTime::now());
        self.ended.push(intent);
        let kind = if begun.is_some() { RecordKind::Event } else { RecordKind::Intent };
        self.chain.write(&mut self.text, kind, |out| {
            ends(out, Some(intent));
            let Some(begun) = begun else {
                return out.extend_from_slice(br#""intent":null"#);
            };
            let mut push = |parts: &[&str]| {
                for part in parts {
                    out.extend_from_slice(part.as_bytes());
                }
            };
            push(&[r#""event":{"timestamp":""#, at.as_str(), r#"""#]);
            if let Some(trace) = begun.trace_id {
                push(&[r#","trace_id":"#, trace.get()]);
            }
            let (kind, result) = match approval {
                None => ("TOOL_EXECUTED", "FAILURE"),
                Some(_) => ("TOOL_BLOCKED", "BLOCKED"),
            };
            push(&[r#","event_type":""#, kind, r#"","actor":"#, begun.actor.get()]);
            push(&[r#","target":"#, begun.target.get(), r#","result":""#, result]);
            push(&[r#"","details":{"#]);
            if let Some(risk) = begun.details {
                push(&[r#""risk_level":"#, risk.risk_level.get(), ","]);
            }
            if let Some(id) = approval.and_then(|id| serde_json::to_string(id).ok()) {
                push(&[r#""approval_id":"#, &id, r#","reason":""#, WAITED, r#"","#]);
            }
            let began = begun.timestamp.get();
            push(&[r#""cancelled":true,"interrupted":true,"began_at":"#, began, "}}"]);
        });
    }
}

fn ends(out: &mut Vec<u8>, intent: Option<u64>) {
    if let Some(intent) = intent {
        out.extend_from_slice(br#""ends":"#);
        encode::number(out, intent);
        out.push(b',');
    }
}

/// Encodes an event from the store. An event that cannot be encoded is replaced by a smaller event, because otherwise
/// it would block all later events.
pub(super) fn encode_or_replace(mut event: AuditEvent) -> Vec<u8> {
    loop {
        match encode::event(&event) {
            Some(text) if text.len() <= MAX_EVENT => return text,
            // Remove the details and the extra members: without them, the event can be encoded.
            _ if event.details.is_some() || !event.extra.is_empty() => {
                event.details = None;
                event.extra = mgp_types::Extras::new();
            }
            _ => return br#"{"unreadable":true}"#.to_vec(),
        }
    }
}
