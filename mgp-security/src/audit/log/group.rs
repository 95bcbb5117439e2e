//! Lines that are written together.
//!
//! Applies to: both.

use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::AuditEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chain::{Chain, Checkpoint, Kind, LINE_MAX};
use super::json::{self, Pen};
use super::queue::{Intent, Item};

/// An event's text is no longer, so that its line fits as well.
pub(super) const EVENT_MAX: usize = LINE_MAX - 1024;

/// A group of lines, and what the log knows once they are kept.
pub(super) struct Group {
    pub(super) text: Vec<u8>,
    /// Where the log stands after them.
    pub(super) chain: Chain,
    /// Intents among them, by number.
    pub(super) opened: Vec<(u64, String)>,
    /// Intents that have their end among them.
    pub(super) ended: Vec<u64>,
    /// The last number taken out of a store.
    pub(super) outbox: u64,
    pen: Pen,
}

// === impl Group ===

impl Group {
    pub(super) fn new(chain: Chain) -> Self {
        let (opened, ended) = (Vec::new(), Vec::new());
        Self { text: Vec::new(), chain, opened, ended, outbox: 0, pen: Pen::default() }
    }

    /// Forgets what was in it; the room it takes stays.
    pub(super) fn begin(&mut self, chain: Chain, outbox: u64) {
        self.text.clear();
        // One group of long lines should not be paid for ever after.
        self.text.shrink_to(4 * LINE_MAX);
        self.opened.clear();
        self.ended.clear();
        self.chain = chain;
        self.outbox = outbox;
    }

    /// Adds the line of an item, if it has one.
    pub(super) fn put(&mut self, item: &Item) {
        let Self { text, chain, ended, pen, .. } = self;
        match item {
            Item::Call { ended: call, intent, .. } => {
                let intent = intent.as_deref().and_then(Intent::seq);
                chain.write(text, Kind::Event, |out| {
                    ends(out, intent);
                    out.extend_from_slice(br#""event":"#);
                    pen.ended(out, call);
                });
                ended.extend(intent);
            }
            Item::Shut { intent, .. } => {
                let Some(intent) = intent.seq() else { return };
                chain.write(text, Kind::Intent, |out| {
                    ends(out, Some(intent));
                    out.extend_from_slice(br#""intent":null"#);
                });
                ended.push(intent);
            }
            Item::Intent { start, intent, .. } => {
                let mut begun = Vec::new();
                pen.intent(&mut begun, start);
                self.intent(None, &begun);
                intent.written(self.chain.seq);
                self.opened.push((self.chain.seq, String::from_utf8_lossy(&begun).into_owned()));
            }
            Item::Event { text, .. } => self.event(text, None),
            Item::Flush { .. } => {}
        }
    }

    /// Adds an event that a store had, as its text.
    pub(super) fn take(&mut self, number: u64, text: &[u8]) {
        self.event(text, Some(number));
        self.outbox = self.outbox.max(number);
    }

    fn event(&mut self, event: &[u8], outbox: Option<u64>) {
        self.chain.write(&mut self.text, Kind::Event, |out| {
            if let Some(number) = outbox {
                out.extend_from_slice(br#""outbox":"#);
                json::number(out, number);
                out.push(b',');
            }
            out.extend_from_slice(br#""event":"#);
            out.extend_from_slice(event);
        });
    }

    /// Adds an intent, or says one again.
    pub(super) fn intent(&mut self, of: Option<u64>, begun: &[u8]) {
        self.chain.write(&mut self.text, Kind::Intent, |out| {
            if let Some(of) = of {
                out.extend_from_slice(br#""of":"#);
                json::number(out, of);
                out.push(b',');
            }
            out.extend_from_slice(br#""intent":"#);
            out.extend_from_slice(begun);
        });
    }

    /// Adds a checkpoint for where the group begins.
    pub(super) fn checkpoint(&mut self, from: u64, open: u64, cut: u64) {
        let said = Checkpoint { prev: self.chain.hash, from, outbox: self.outbox, open, cut };
        let at = Timestamp::from(SystemTime::now());
        self.chain.write(&mut self.text, Kind::Checkpoint, |out| said.write(out, at.as_str()));
    }

    /// Adds the end of a call whose process ended before it: it may have had any effect.
    pub(super) fn interrupted(&mut self, intent: u64, begun: &str) {
        #[derive(Deserialize)]
        struct Begun<'a> {
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
        let begun: Option<Begun<'_>> = serde_json::from_str(begun).ok();
        let at = Timestamp::from(SystemTime::now());
        self.ended.push(intent);
        let kind = if begun.is_some() { Kind::Event } else { Kind::Intent };
        self.chain.write(&mut self.text, kind, |out| {
            ends(out, Some(intent));
            let Some(begun) = begun else {
                return out.extend_from_slice(br#""intent":null"#);
            };
            let mut put = |parts: &[&str]| {
                for part in parts {
                    out.extend_from_slice(part.as_bytes());
                }
            };
            put(&[r#""event":{"timestamp":""#, at.as_str(), r#"""#]);
            if let Some(trace) = begun.trace_id {
                put(&[r#","trace_id":"#, trace.get()]);
            }
            put(&[r#","event_type":"TOOL_EXECUTED","actor":"#, begun.actor.get()]);
            put(&[r#","target":"#, begun.target.get(), r#","result":"FAILURE","details":{"#]);
            if let Some(risk) = begun.details {
                put(&[r#""risk_level":"#, risk.risk_level.get(), ","]);
            }
            let began = begun.timestamp.get();
            put(&[r#""cancelled":true,"interrupted":true,"began_at":"#, began, "}}"]);
        });
    }
}

fn ends(out: &mut Vec<u8>, intent: Option<u64>) {
    if let Some(intent) = intent {
        out.extend_from_slice(br#""ends":"#);
        json::number(out, intent);
        out.push(b',');
    }
}

/// The text of an event that a store had: what cannot be written must not hold up everything behind it.
pub(super) fn text_of(mut event: AuditEvent) -> Vec<u8> {
    loop {
        match json::event(&event) {
            Some(text) if text.len() <= EVENT_MAX => return text,
            // The rest of the event can be written.
            _ if event.details.is_some() || !event.extra.is_empty() => {
                event.details = None;
                event.extra = mgp_types::Extras::new();
            }
            _ => return br#"{"unreadable":true}"#.to_vec(),
        }
    }
}
