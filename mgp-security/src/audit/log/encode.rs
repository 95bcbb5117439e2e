//! The JSON encoder of audit events, which runs for every audited call.
//!
//! It is written by hand because serde is too slow for it: serializing the event of an average call through derived
//! impls takes about 4,300 instructions, this encoder 420.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytestring::ByteString;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditOutcome, CallRecord, EndedCall, Principal, ServerId};
use mgp_types::{Payload, Timestamp};

use crate::audit::event::cut;

/// The size limit for a name, in bytes. A limit is needed, because peers choose the names.
const MAX_NAME: usize = 4096;

/// The size limit for the details of an event in bytes.
pub(super) const MAX_DETAILS: usize = 256 * 1024;

/// The names of the details that [`EndedCall::to_event`] computes. If a layer [added](CallRecord::add_note) a detail
/// with one of these names to a call, `to_event` creates the event of that call instead of this encoder, and decides
/// which value is used.
const COMPUTED: [&str; 8] =
    ["risk_level", "duration_ms", "rounds", "task", "is_error", "cancelled", "code", "rule"];

/// An encoder of events, with a cache of the parts that successive events have in common.
#[derive(Debug, Default)]
pub(super) struct EventEncoder {
    /// The second of the last written timestamp, and its text. Formatting the second is the expensive part of a
    /// timestamp.
    second: Option<(u64, [u8; 19])>,
    /// The text of the last successful call's event, from the event type to the beginning of the details. The next
    /// event often contains the same text.
    last_success: Option<CachedText>,
}

/// The text that successful calls of one tool by one caller have in common.
#[derive(Debug)]
struct CachedText {
    principal: Principal,
    server: Option<ServerId>,
    tool: ByteString,
    text: Vec<u8>,
}

impl CachedText {
    fn matches(&self, start: &CallRecord) -> bool {
        self.tool == start.tool && self.server == start.server && self.principal == start.principal
    }
}

impl EventEncoder {
    /// Writes the event of a finished call, with the members of [`EndedCall::to_event`]. Cuts long names, and writes
    /// `notes_left_out` instead of notes that are too large together.
    pub(super) fn ended(&mut self, out: &mut Vec<u8>, ended: &EndedCall) {
        let start = &*ended.start;
        let is_own = |name: &str| {
            COMPUTED.contains(&name) || (name == "arguments" && start.arguments.is_some())
        };
        let is_odd = start.with_notes(|notes| notes.iter().any(|(name, _)| is_own(name)));
        if is_odd && let Some(event) = event(&ended.to_event()).filter(|it| it.len() <= MAX_DETAILS)
        {
            return out.extend_from_slice(&event);
        }
        let at = start.started_at.checked_add(ended.duration).unwrap_or(start.started_at);
        out.extend_from_slice(br#"{"timestamp":"#);
        self.time(out, at);
        trace(out, start);
        self.cached_text(out, ended);
        if let Some(arguments) = &start.arguments {
            out.extend_from_slice(br#""arguments":"#);
            arguments.push(out);
            out.push(b',');
        }
        start.with_notes(|notes| {
            let size = notes.iter().map(|(name, value)| name.len() + value.as_str().len());
            if size.sum::<usize>() > MAX_DETAILS {
                out.extend_from_slice(br#""notes_left_out":true,"#);
                return;
            }
            for (name, value) in notes.iter().filter(|(name, _)| !is_own(name)) {
                text(out, name);
                out.push(b':');
                raw(out, value);
                out.push(b',');
            }
        });
        if let Some(risk) = &start.risk {
            out.extend_from_slice(br#""risk_level":"#);
            name(out, risk.as_str());
            out.push(b',');
        }
        out.extend_from_slice(br#""duration_ms":"#);
        number(out, u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX));
        if start.rounds() > 1 {
            out.extend_from_slice(br#","rounds":"#);
            number(out, start.rounds().into());
        }
        if let (chunks @ 1.., bytes) = start.streamed() {
            out.extend_from_slice(br#","chunks":"#);
            number(out, chunks);
            out.extend_from_slice(br#","chunk_bytes":"#);
            number(out, bytes);
        }
        outcome(out, &ended.outcome);
        out.extend_from_slice(b"}}");
    }

    /// Writes the members from the event type to the beginning of the details. Uses the cache if it contains this text.
    fn cached_text(&mut self, out: &mut Vec<u8>, ended: &EndedCall) {
        let start = &*ended.start;
        let is_success = ended.outcome == AuditOutcome::Success;
        if is_success
            && let Some(cached) = self.last_success.as_ref().filter(|cached| cached.matches(start))
        {
            return out.extend_from_slice(&cached.text);
        }
        let from = out.len();
        out.extend_from_slice(br#","event_type":"#);
        word(out, ended.outcome.event_type().as_str());
        party(out, start);
        out.extend_from_slice(br#","result":"#);
        word(out, ended.outcome.result().as_str());
        out.extend_from_slice(br#","details":{"#);
        if is_success {
            self.last_success = Some(CachedText {
                principal: start.principal.clone(),
                server: start.server.clone(),
                tool: start.tool.clone(),
                text: out[from..].to_vec(),
            });
        }
    }

    /// Writes the body of an intent: everything that is known before the call runs.
    pub(super) fn intent(&mut self, out: &mut Vec<u8>, start: &CallRecord) {
        out.extend_from_slice(br#"{"timestamp":"#);
        self.time(out, start.started_at);
        trace(out, start);
        party(out, start);
        if let Some(risk) = &start.risk {
            out.extend_from_slice(br#","details":{"risk_level":"#);
            name(out, risk.as_str());
            out.push(b'}');
        }
        out.push(b'}');
    }

    fn time(&mut self, out: &mut Vec<u8>, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = match self.second {
            Some((known, text)) if known == since.as_secs() => text,
            _ => {
                let text = second(since.as_secs());
                self.second = Some((since.as_secs(), text));
                text
            }
        };
        out.push(b'"');
        out.extend_from_slice(&text);
        let millis = u64::from(since.subsec_millis());
        let fraction = [b'.', digit(millis / 100), digit(millis / 10), digit(millis), b'Z', b'"'];
        out.extend_from_slice(&fraction);
    }
}

/// Returns a second as RFC 3339 text without a fraction.
fn second(seconds: u64) -> [u8; 19] {
    // The year 9999 ends with this second. Later years have more than four digits, so a later time is written as this
    // second.
    let time = Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799)));
    let text = time.as_str().as_bytes().first_chunk().copied();
    text.unwrap_or(*b"1970-01-01T00:00:00")
}

/// Returns the last digit of a number as a character.
fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or_default()
}

/// Writes the members that report how a call ended, in the order of [`COMPUTED`].
fn outcome(out: &mut Vec<u8>, outcome: &AuditOutcome) {
    match outcome {
        AuditOutcome::Task => out.extend_from_slice(br#","task":true"#),
        AuditOutcome::ToolError => out.extend_from_slice(br#","is_error":true"#),
        AuditOutcome::Cancelled | AuditOutcome::Withdrawn => {
            out.extend_from_slice(br#","cancelled":true"#);
        }
        AuditOutcome::Failed(code) => signed(out, br#","code":"#, code.0),
        AuditOutcome::Blocked { code, rule } => {
            signed(out, br#","code":"#, code.0);
            if let Some(rule) = rule {
                out.extend_from_slice(br#","rule":"#);
                name(out, rule.as_str());
            }
        }
        // A successful outcome adds no member.
        _ => {}
    }
}

fn trace(out: &mut Vec<u8>, start: &CallRecord) {
    if let Some(trace) = &start.trace {
        out.extend_from_slice(br#","trace_id":"#);
        name(out, trace);
    }
}

/// Writes the actor and the target.
fn party(out: &mut Vec<u8>, start: &CallRecord) {
    let actor = if let Some(agent) = start.principal.as_agent() {
        out.extend_from_slice(br#","actor":{"type":"agent","id":"#);
        agent.as_str()
    } else {
        out.extend_from_slice(br#","actor":{"type":"user","id":"#);
        start.principal.subject().as_str()
    };
    name(out, actor);
    out.extend_from_slice(br#"},"target":{"#);
    if let Some(server) = &start.server {
        out.extend_from_slice(br#""server_id":"#);
        name(out, server.as_str());
        out.push(b',');
    }
    out.extend_from_slice(br#""tool_name":"#);
    name(out, &start.tool);
    out.push(b'}');
}

/// Encodes an event as one line; returns `None` if it contains invalid JSON.
pub(super) fn event(event: &AuditEvent) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec(event).ok()?;
    one_line(&mut text);
    Some(text)
}

/// Replaces newlines by spaces. Valid JSON contains newlines only between values, so no value changes.
fn one_line(text: &mut [u8]) {
    for byte in text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// Writes a value unchanged, or as a string if it is not valid JSON.
fn raw(out: &mut Vec<u8>, value: &Payload) {
    let raw = value.as_str();
    if is_simple(raw) {
        out.extend_from_slice(raw.as_bytes());
    } else if serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok() {
        let from = out.len();
        out.extend_from_slice(raw.as_bytes());
        one_line(&mut out[from..]);
    } else {
        text(out, raw);
    }
}

/// Returns whether a value is obviously valid JSON: a keyword, a short number or a string without escapes.
fn is_simple(raw: &str) -> bool {
    if matches!(raw, "true" | "false" | "null" | "0") {
        return true;
    }
    match raw.as_bytes() {
        [b'"', inner @ .., b'"'] => inner.iter().all(|byte| is_plain(*byte)),
        [b'1'..=b'9', rest @ ..] => rest.len() < 18 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0..=0x1f | b'"' | b'\\')
}

/// Writes a name that a peer chose, and cuts it if it is too long.
fn name(out: &mut Vec<u8>, whole: &str) {
    if whole.len() <= MAX_NAME {
        return text(out, whole);
    }
    text(out, &cut(whole, MAX_NAME));
}

pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    // Check all bytes without a branch: this is several times faster than a loop that stops at the first special byte.
    if text.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
        word(out, text);
    } else {
        // Ignore the error: writing into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

/// Writes a string that is known to need no escapes.
fn word(out: &mut Vec<u8>, word: &str) {
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

pub(super) fn number(out: &mut Vec<u8>, mut value: u64) {
    if value < 10 {
        return out.push(digit(value));
    }
    let mut digits = [0; 20];
    let mut from = digits.len();
    // Produce two digits per division, because division is the expensive operation.
    while value > 9 {
        let pair = value % 100;
        value /= 100;
        from -= 2;
        digits[from] = digit(pair / 10);
        digits[from + 1] = digit(pair);
    }
    if value > 0 {
        from -= 1;
        digits[from] = digit(value);
    }
    out.extend_from_slice(&digits[from..]);
}

fn signed(out: &mut Vec<u8>, before: &[u8], value: i32) {
    out.extend_from_slice(before);
    if value < 0 {
        out.push(b'-');
    }
    number(out, value.unsigned_abs().into());
}
