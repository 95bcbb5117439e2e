//! One line a record, each bound to the one before by its hash.
//!
//! ```text
//! {"seq":9,"no":7,"event":{…},"hash":"…"}              an event (§6.3)
//! {"seq":9,"no":7,"ends":5,"event":{…},"hash":"…"}     the end of the call whose intent is record 5
//! {"seq":9,"no":7,"outbox":3,"event":{…},"hash":"…"}   an event that a store had under number 3
//! {"seq":9,"no":6,"intent":{…},"hash":"…"}             a call is about to run; internal
//! {"seq":9,"no":6,"of":5,"intent":{…},"hash":"…"}      the same, said again after a checkpoint; internal
//! {"seq":9,"no":6,"ends":5,"intent":null,"hash":"…"}   intent 5 needs no end any more; internal
//! {"seq":9,"no":6,"checkpoint":{…},"hash":"…"}         internal
//! ```
//!
//! `seq` counts records, `no` counts events: the number of this one, or of the last before it.
//! The hash is BLAKE3 of everything before `,"hash"`, keyed with the hash before: the key costs no block of its own.
//!
//! Applies to: both.

use mgp_types::{push_hex, to_hex};

use super::error::Flaw;
use super::json;

/// The end of every line: `,"hash":"…"}`.
const TAIL: usize = 9 + HEX + 2;
const HEX: usize = 64;

/// No line is longer; what could be is cut before it is written.
pub(super) const LINE_MAX: usize = 1024 * 1024;

/// Where a log stands: its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) seq: u64,
    pub(super) no: u64,
    pub(super) hash: [u8; 32],
}

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Event,
    Intent,
    Checkpoint,
}

/// A line that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    pub(super) no: u64,
    pub(super) kind: Kind,
    /// The intent it ends.
    pub(super) ends: Option<u64>,
    /// The number it had in a store.
    pub(super) outbox: Option<u64>,
    /// The intent it says again.
    pub(super) of: Option<u64>,
    /// The event, intent or checkpoint.
    pub(super) body: &'a str,
    text: &'a [u8],
    hash: &'a [u8],
}

// === impl Chain ===

impl Chain {
    /// The chain of a log without records; logs of different names have none in common.
    pub(super) fn genesis(name: &str) -> Self {
        Self {
            seq: 0,
            no: 0,
            hash: blake3::derive_key("mgp audit log, version 1", name.as_bytes()),
        }
    }

    /// Writes the next line; `body` writes its members after the numbers.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let from = out.len();
        self.seq += 1;
        self.no += u64::from(kind == Kind::Event);
        out.extend_from_slice(br#"{"seq":"#);
        json::number(out, self.seq);
        out.extend_from_slice(br#","no":"#);
        json::number(out, self.no);
        out.push(b',');
        body(out);
        self.hash = *blake3::keyed_hash(&self.hash, &out[from..]).as_bytes();
        out.extend_from_slice(br#","hash":""#);
        push_hex(&self.hash, out);
        out.extend_from_slice(b"\"}\n");
    }

    /// Checks the next line, which comes without its end, and goes on to it.
    pub(super) fn follow<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Flaw> {
        let line = Line::read(line).ok_or(Flaw::Form)?;
        if line.seq != self.seq + 1 {
            return Err(Flaw::Number(line.seq));
        }
        let hash = *blake3::keyed_hash(&self.hash, line.text).as_bytes();
        if line.hash != to_hex(&hash).as_bytes() {
            return Err(Flaw::Hash);
        }
        let no = self.no + u64::from(line.kind == Kind::Event);
        if line.no != no {
            return Err(Flaw::Form);
        }
        *self = Self { seq: line.seq, no: line.no, hash };
        Ok(line)
    }

    /// The chain right before a checkpoint, which says what was there.
    pub(super) fn before(line: &Line<'_>) -> Option<Self> {
        let hash = Checkpoint::read(line)?.prev;
        Some(Self { seq: line.seq - 1, no: line.no, hash })
    }
}

// === impl Line ===

impl<'a> Line<'a> {
    /// Takes a line apart, whatever its hash.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let (text, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;
        let hash = tail.strip_prefix(br#","hash":""#)?.strip_suffix(br#""}"#)?;
        let (seq, rest) = digits(text.strip_prefix(br#"{"seq":"#)?)?;
        let (no, mut rest) = digits(rest.strip_prefix(br#","no":"#)?)?;
        let (mut ends, mut outbox, mut of) = (None, None, None);
        let (kind, body) = loop {
            let slot = if let Some(found) = rest.strip_prefix(br#","event":"#) {
                break (Kind::Event, found);
            } else if let Some(found) = rest.strip_prefix(br#","intent":"#) {
                break (Kind::Intent, found);
            } else if let Some(found) = rest.strip_prefix(br#","checkpoint":"#) {
                break (Kind::Checkpoint, found);
            } else if let Some(found) = rest.strip_prefix(br#","ends":"#) {
                rest = found;
                &mut ends
            } else if let Some(found) = rest.strip_prefix(br#","outbox":"#) {
                rest = found;
                &mut outbox
            } else {
                rest = rest.strip_prefix(br#","of":"#)?;
                &mut of
            };
            let (number, found) = digits(rest)?;
            *slot = Some(number);
            rest = found;
        };
        let body = std::str::from_utf8(body).ok()?;
        Some(Self { seq, no, kind, ends, outbox, of, body, text, hash })
    }
}

/// What a checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The hash before it, so that reading can begin here.
    pub(super) prev: [u8; 32],
    /// The first record that is kept; those before it may be removed.
    pub(super) from: u64,
    /// The last number taken out of a store.
    pub(super) outbox: u64,
    /// How many intents of running calls are said again right after it.
    pub(super) open: u64,
    /// How many bytes were cut off when the log was opened: a process was killed while it wrote them.
    pub(super) cut: u64,
}

impl Checkpoint {
    pub(super) fn write(&self, out: &mut Vec<u8>, at: &str) {
        out.extend_from_slice(br#""checkpoint":{"at":"#);
        json::text(out, at);
        out.extend_from_slice(br#","prev":""#);
        push_hex(&self.prev, out);
        out.push(b'"');
        for (name, value) in [
            (&br#","from":"#[..], self.from),
            (br#","outbox":"#, self.outbox),
            (br#","open":"#, self.open),
            (br#","cut":"#, self.cut),
        ] {
            out.extend_from_slice(name);
            json::number(out, value);
        }
        out.push(b'}');
    }

    pub(super) fn read(line: &Line<'_>) -> Option<Self> {
        if line.kind != Kind::Checkpoint {
            return None;
        }
        let (_, rest) = line.body.split_once(r#","prev":""#)?;
        let (prev, rest) = rest.split_at_checked(HEX)?;
        let mut rest = rest.strip_prefix('"')?.as_bytes();
        let mut member = |name: &[u8]| {
            let (value, after) = digits(rest.strip_prefix(name)?)?;
            rest = after;
            Some(value)
        };
        Some(Self {
            prev: unhex(prev)?,
            from: member(br#","from":"#)?,
            outbox: member(br#","outbox":"#)?,
            open: member(br#","open":"#)?,
            cut: member(br#","cut":"#)?,
        })
    }
}

/// A number as we write it: no sign, no leading zero.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (number, rest) = text.split_at(end);
    if number.len() > 1 && number[0] == b'0' {
        return None;
    }
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    Some(*blake3::Hash::from_hex(text).ok()?.as_bytes())
}
