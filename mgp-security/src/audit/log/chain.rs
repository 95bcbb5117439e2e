//! The format of the log: one line per record, each chained to the line before it by a hash.
//!
//! ```text
//! {"seq":9,"no":7,"event":{…},"hash":"…"}              an event (MGP §6.3)
//! {"seq":9,"no":7,"ends":5,"event":{…},"hash":"…"}     the end of the call whose intent is record 5
//! {"seq":9,"no":7,"outbox":3,"event":{…},"hash":"…"}   an event that a store held under number 3
//! {"seq":9,"no":6,"intent":{…},"hash":"…"}             a call that is about to run; internal
//! {"seq":9,"no":6,"of":5,"intent":{…},"hash":"…"}      intent 5, repeated after a checkpoint; internal
//! {"seq":9,"no":6,"ends":5,"intent":null,"hash":"…"}   intent 5 will have no final event; internal
//! {"seq":9,"no":6,"checkpoint":{…},"hash":"…"}         a point where reading can begin; internal
//! ```
//!
//! `seq` is the number of the record. `no` is the number of its event; in a record without an event, it is the number
//! of the last event before. `hash` is BLAKE3 of all bytes of the line before `,"hash"`, keyed with the hash of the
//! line before. A changed byte therefore changes the hash of its line and of every line after it. The hash of the line
//! before is the key, not a prefix of the text, because a prefix would lengthen the text to hash.
//!
//! If the head (number and hash of the last record) is saved in a store, the store also holds a secret, which is mixed
//! into each key ([`ChainKey`]). Only a writer with the secret can continue the log, so a line that another writer
//! appended after the head fails to verify.

use mgp_types::store::StoreError;
use mgp_types::{push_hex, to_hex};

use super::encode;
use super::error::RecordFlaw;

/// The length of the fixed part at the end of every line: `,"hash":"…"}`.
const TAIL_LENGTH: usize = 9 + HASH_DIGITS + 2;
const HASH_DIGITS: usize = 64;

/// The size limit for a line, in bytes. An event whose line would be longer is shortened or refused.
pub(super) const MAX_LINE: usize = 1024 * 1024;

/// The state of the hash chain after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) seq: u64,
    pub(super) no: u64,
    pub(super) hash: [u8; 32],
    pub(super) key: ChainKey,
}

/// The secret that is mixed into the hashes of a log; `None` for a log whose head is not in a store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainKey(Option<[u8; 32]>);

/// The kind of content that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Event,
    Intent,
    Checkpoint,
}

/// A parsed line of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    pub(super) no: u64,
    pub(super) kind: RecordKind,
    /// If this record contains the end of a call: the number of that call's intent record.
    pub(super) ends: Option<u64>,
    /// If the log took the event from the store: the number that the event had there.
    pub(super) outbox: Option<u64>,
    /// The number of the original intent record, if this record repeats it after a checkpoint.
    pub(super) of: Option<u64>,
    /// The content of the line: an event, an intent (the announcement of a call that is about to run) or a checkpoint.
    pub(super) body: &'a str,
    text: &'a [u8],
    hash: &'a [u8],
}

impl Chain {
    /// Creates the chain of a log without records; logs with different names start with different hashes.
    pub(super) fn genesis(name: &str, key: ChainKey) -> Self {
        let hash = blake3::derive_key("mgp audit log, version 1", name.as_bytes());
        Self { seq: 0, no: 0, hash, key }
    }

    /// Writes the next line; `body` writes its members after the numbers.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        kind: RecordKind,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let from = out.len();
        self.seq += 1;
        self.no += u64::from(kind == RecordKind::Event);
        out.extend_from_slice(br#"{"seq":"#);
        encode::number(out, self.seq);
        out.extend_from_slice(br#","no":"#);
        encode::number(out, self.no);
        out.push(b',');
        body(out);
        self.hash = self.key.hash(&self.hash, &out[from..]);
        out.extend_from_slice(br#","hash":""#);
        push_hex(&self.hash, out);
        out.extend_from_slice(b"\"}\n");
    }

    /// Verifies the next line, given without its newline, and advances the chain by it.
    pub(super) fn verify_next<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, RecordFlaw> {
        let line = Line::read(line).ok_or(RecordFlaw::Form)?;
        if line.seq != self.seq + 1 {
            return Err(RecordFlaw::Number(line.seq));
        }
        let hash = self.key.hash(&self.hash, line.text);
        if line.hash != to_hex(&hash).as_bytes() {
            return Err(RecordFlaw::Hash);
        }
        let no = self.no + u64::from(line.kind == RecordKind::Event);
        if line.no != no {
            return Err(RecordFlaw::Form);
        }
        *self = Self { seq: line.seq, no: line.no, hash, key: self.key };
        Ok(line)
    }

    /// Returns the state of the chain before a checkpoint, from the hash that the checkpoint contains.
    pub(super) fn before(line: &Line<'_>, key: ChainKey) -> Option<Self> {
        let hash = Checkpoint::read(line)?.prev;
        Some(Self { seq: line.seq.checked_sub(1)?, no: line.no, hash, key })
    }
}

impl ChainKey {
    pub(super) const NONE: Self = Self(None);

    /// Creates the secret of a new log.
    pub(super) fn random() -> Result<Self, StoreError> {
        let secret = mgp_types::random_name().map_err(StoreError::failed)?;
        Ok(Self(Some(blake3::derive_key("mgp audit chain, version 1", secret.as_bytes()))))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        parse_hash(text).map(|secret| Self(Some(secret)))
    }

    pub(super) fn as_bytes(&self) -> Option<&[u8; 32]> {
        self.0.as_ref()
    }

    /// Returns the hash of the line `text` that follows a line with the hash `before`.
    fn hash(&self, before: &[u8; 32], text: &[u8]) -> [u8; 32] {
        let key = match &self.0 {
            Some(secret) => *blake3::keyed_hash(secret, before).as_bytes(),
            None => *before,
        };
        *blake3::keyed_hash(&key, text).as_bytes()
    }
}

mgp_types::opaque_debug!(ChainKey);

impl<'a> Line<'a> {
    /// Parses a line without verifying its hash.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let (text, tail) = line.split_at_checked(line.len().checked_sub(TAIL_LENGTH)?)?;
        let hash = tail.strip_prefix(br#","hash":""#)?.strip_suffix(br#""}"#)?;
        let (seq, rest) = parse_number(text.strip_prefix(br#"{"seq":"#)?)?;
        let (no, mut rest) = parse_number(rest.strip_prefix(br#","no":"#)?)?;
        let (mut ends, mut outbox, mut of) = (None, None, None);
        let (kind, body) = loop {
            let slot = if let Some(found) = rest.strip_prefix(br#","event":"#) {
                break (RecordKind::Event, found);
            } else if let Some(found) = rest.strip_prefix(br#","intent":"#) {
                break (RecordKind::Intent, found);
            } else if let Some(found) = rest.strip_prefix(br#","checkpoint":"#) {
                break (RecordKind::Checkpoint, found);
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
            let (number, found) = parse_number(rest)?;
            *slot = Some(number);
            rest = found;
        };
        let body = std::str::from_utf8(body).ok()?;
        Some(Self { seq, no, kind, ends, outbox, of, body, text, hash })
    }
}

/// The content of a checkpoint, i.e. of a record at which reading can start without the records before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The hash of the record before the checkpoint, which makes it possible to start reading at the checkpoint.
    pub(super) prev: [u8; 32],
    /// The number of the first record that is retained; files that contain only earlier records can be removed.
    pub(super) from: u64,
    /// The number that the last event taken from the store had there.
    pub(super) outbox: u64,
    /// The number of intents (of running calls) that are repeated right after the checkpoint.
    pub(super) open: u64,
    /// The number of bytes cut off when the log was opened: the incomplete write of a killed process.
    pub(super) cut: u64,
}

impl Checkpoint {
    pub(super) fn write(&self, out: &mut Vec<u8>, at: &str) {
        out.extend_from_slice(br#""checkpoint":{"at":"#);
        encode::text(out, at);
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
            encode::number(out, value);
        }
        out.push(b'}');
    }

    pub(super) fn read(line: &Line<'_>) -> Option<Self> {
        if line.kind != RecordKind::Checkpoint {
            return None;
        }
        let (_, rest) = line.body.split_once(r#","prev":""#)?;
        let (prev, rest) = rest.split_at_checked(HASH_DIGITS)?;
        let mut rest = rest.strip_prefix('"')?.as_bytes();
        let mut member = |name: &[u8]| {
            let (value, after) = parse_number(rest.strip_prefix(name)?)?;
            rest = after;
            Some(value)
        };
        Some(Self {
            prev: parse_hash(prev)?,
            from: member(br#","from":"#)?,
            outbox: member(br#","outbox":"#)?,
            open: member(br#","open":"#)?,
            cut: member(br#","cut":"#)?,
        })
    }
}

/// Parses a decimal number as the log writes it: no sign, no leading zero.
fn parse_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (number, rest) = text.split_at(end);
    if number.len() > 1 && number[0] == b'0' {
        return None;
    }
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

pub(super) fn parse_hash(text: &str) -> Option<[u8; 32]> {
    Some(*blake3::Hash::from_hex(text).ok()?.as_bytes())
}
