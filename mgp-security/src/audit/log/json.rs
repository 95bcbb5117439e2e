//! JSON written by hand into a buffer that is used again: what every call pays for.
//!
//! Applies to: both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytestring::ByteString;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{Ended, Outcome, Principal, ServerId, Start};
use mgp_types::{Payload, Timestamp};

/// How much of a name is kept; a peer may have chosen it.
const NAME_MAX: usize = 4096;

/// How much of the details of one event is kept.
pub(super) const DETAILS_MAX: usize = 256 * 1024;

/// What [`Ended::to_event`] adds itself, in the place of a note of that name.
const OWN: [&str; 8] =
    ["risk_level", "duration_ms", "rounds", "task", "is_error", "cancelled", "code", "rule"];

/// Writes events; it remembers what the next one probably has in common with the last.
#[derive(Debug, Default)]
pub(super) struct Pen {
    /// The second, which is the costly part of a time.
    second: Option<(u64, [u8; 19])>,
    /// The call that succeeded last, from its type to its details.
    last: Option<Middle>,
}

/// What calls of one tool by one caller have in common once they succeeded.
#[derive(Debug)]
struct Middle {
    principal: Principal,
    server: Option<ServerId>,
    tool: ByteString,
    text: Vec<u8>,
}

impl Middle {
    fn fits(&self, start: &Start) -> bool {
        self.tool == start.tool && self.server == start.server && self.principal == start.principal
    }
}

// === impl Pen ===

impl Pen {
    /// Writes the event of a call that ended, member for member as [`Ended::to_event`] has it.
    pub(super) fn ended(&mut self, out: &mut Vec<u8>, ended: &Ended) {
        let start = &*ended.start;
        let is_own =
            |name: &str| OWN.contains(&name) || (name == "arguments" && start.arguments.is_some());
        let is_odd = start.with_notes(|notes| notes.iter().any(|(name, _)| is_own(name)));
        if is_odd && let Some(event) = event(&ended.to_event()).filter(|it| it.len() <= DETAILS_MAX)
        {
            return out.extend_from_slice(&event);
        }
        let at = start.started_at.checked_add(ended.took).unwrap_or(start.started_at);
        out.extend_from_slice(br#"{"timestamp":"#);
        self.time(out, at);
        trace(out, start);
        self.middle(out, ended);
        if let Some(arguments) = &start.arguments {
            out.extend_from_slice(br#""arguments":"#);
            arguments.push(out);
            out.push(b',');
        }
        start.with_notes(|notes| {
            let size = notes.iter().map(|(name, value)| name.len() + value.as_str().len());
            if size.sum::<usize>() > DETAILS_MAX {
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
        number(out, u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX));
        if start.rounds() > 1 {
            out.extend_from_slice(br#","rounds":"#);
            number(out, start.rounds().into());
        }
        match &ended.outcome {
            Outcome::Task => out.extend_from_slice(br#","task":true"#),
            Outcome::ToolError => out.extend_from_slice(br#","is_error":true"#),
            Outcome::Cancelled => out.extend_from_slice(br#","cancelled":true"#),
            Outcome::Failed(code) => signed(out, br#","code":"#, code.0),
            Outcome::Blocked { code, rule } => {
                signed(out, br#","code":"#, code.0);
                if let Some(rule) = rule {
                    out.extend_from_slice(br#","rule":"#);
                    name(out, rule.as_str());
                }
            }
            // A success says nothing more.
            _ => {}
        }
        out.extend_from_slice(b"}}");
    }

    /// Writes the members from the type to the beginning of the details.
    fn middle(&mut self, out: &mut Vec<u8>, ended: &Ended) {
        let start = &*ended.start;
        let is_success = ended.outcome == Outcome::Success;
        if is_success && let Some(last) = self.last.as_ref().filter(|last| last.fits(start)) {
            return out.extend_from_slice(&last.text);
        }
        let from = out.len();
        out.extend_from_slice(br#","event_type":"#);
        word(out, ended.outcome.event_type().as_str());
        party(out, start);
        out.extend_from_slice(br#","result":"#);
        word(out, ended.outcome.result().as_str());
        out.extend_from_slice(br#","details":{"#);
        if is_success {
            self.last = Some(Middle {
                principal: start.principal.clone(),
                server: start.server.clone(),
                tool: start.tool.clone(),
                text: out[from..].to_vec(),
            });
        }
    }

    /// Writes what is known of a call that is about to run.
    pub(super) fn intent(&mut self, out: &mut Vec<u8>, start: &Start) {
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

/// A second as RFC 3339 has it, without a fraction.
fn second(seconds: u64) -> [u8; 19] {
    // The last second that has four digits for its year.
    let time = Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799)));
    let text = time.as_str().as_bytes().first_chunk().copied();
    text.unwrap_or(*b"1970-01-01T00:00:00")
}

/// The last digit of a number.
fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or_default()
}

fn trace(out: &mut Vec<u8>, start: &Start) {
    if let Some(trace) = &start.trace {
        out.extend_from_slice(br#","trace_id":"#);
        name(out, trace);
    }
}

/// Who calls, and what.
fn party(out: &mut Vec<u8>, start: &Start) {
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

/// An event as one line; `None` where what it holds is no JSON.
pub(super) fn event(event: &AuditEvent) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec(event).ok()?;
    one_line(&mut text);
    Some(text)
}

/// Ends of lines stand between values only, where a space says the same.
fn one_line(text: &mut [u8]) {
    for byte in text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// A value as it is, or as a text where it is no JSON after all.
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

/// Whether a value is plainly a word, a short number or a text without escapes.
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

/// A text of a peer: what is too long is cut.
fn name(out: &mut Vec<u8>, whole: &str) {
    if whole.len() <= NAME_MAX {
        return text(out, whole);
    }
    let end = (0..=NAME_MAX).rev().find(|end| whole.is_char_boundary(*end)).unwrap_or_default();
    text(out, &format!("{}…", &whole[..end]));
}

pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    // Looking at every byte is several times quicker than stopping at the first odd one.
    if text.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
        word(out, text);
    } else {
        // Writing a text into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

/// Writes a text that is known to need no escapes.
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
    // Two digits a step: to divide is what costs.
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
