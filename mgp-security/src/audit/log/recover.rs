//! Opens a log: verifies it from its last complete checkpoint on, and repairs what a killed process left at its end.
//!
//! Records up to the head, i.e. up to the record whose number and hash were saved last, were acknowledged. So each of
//! them must exist and verify; otherwise the log counts as changed and is not opened. A power cut can lose only the
//! last of them, which were not synced to the disk yet: then the log is opened, and an event records how many are
//! missing. Records after the head were never acknowledged: they are kept as far as the chain verifies, and what
//! follows is cut off. The next checkpoint records the number of bytes that were cut. A killed process can leave only a
//! part of a line, so complete lines that do not verify might be forged. An event reports how many there were.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::chain::{Chain, ChainKey, Checkpoint, Line, RecordKind};
use super::error::{BadRecord, LogError, RecordFlaw};
use super::head::LogHead;
use super::lines::Lines;
use super::outbox::RecentEvents;
use super::segments::{LogPlace, Segment, SegmentFile};
use super::waiting::WaitingCalls;

/// The number of bytes that are read first to find the last checkpoint. A checkpoint is written at the latest after 8
/// MiB plus one group.
const TAIL_READ: u64 = 13 * 1024 * 1024;

/// The state of a log after it was opened and verified.
#[derive(Debug)]
pub(super) struct RecoveredLog {
    pub(super) disk: SegmentFile,
    pub(super) chain: Chain,
    /// The length of the log's newest file, in bytes.
    pub(super) length: u64,
    /// The record number with which the newest file begins.
    pub(super) first: u64,
    /// The intents whose calls have no final record. The key is the record number of the intent, the value is its text.
    pub(super) open: BTreeMap<u64, String>,
    /// The running calls that waited for an undecided approval. The key is the record number of the call's intent, the
    /// value is the id of the approval.
    pub(super) waiting: BTreeMap<u64, String>,
    /// The number that the last event taken from the store had there.
    pub(super) outbox: u64,
    /// The events taken from the store since the last checkpoint.
    pub(super) recent: RecentEvents,
    /// The number of the first record that is retained, as the last checkpoint defines it.
    pub(super) from: u64,
    /// The number of records after the last checkpoint.
    pub(super) since: u64,
    /// The part at the end of the log that was cut off.
    pub(super) cut: CutEnd,
    /// The number of acknowledged records that are lost, and whose loss is not recorded yet.
    pub(super) lost: u64,
}

/// The bytes at the end of a log that were cut off because they do not verify.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutEnd {
    pub(super) bytes: u64,
    /// The number of complete lines among the bytes that were cut off.
    pub(super) lines: u64,
}

impl CutEnd {
    fn add(&mut self, rest: &[u8]) {
        self.bytes += rest.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', rest).count() as u64;
    }
}

impl RecoveredLog {
    pub(super) fn read(place: &LogPlace, head: LogHead) -> Result<Self, LogError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| LogError::io(&path, "read")(error)
        };
        let mut segments = place.segments().map_err(io(&place.dir))?;
        let mut cut = CutEnd::default();
        let mut rejected = Vec::new();
        let found = loop {
            let Some(newest) = segments.last().cloned() else {
                break Self::nothing(place, head, cut)?;
            };
            match Tail::read(&newest, head.key).map_err(io(&newest.path))? {
                Some(tail) => break Self::follow(place, &segments, &tail, head, cut)?,
                None if head.synced >= newest.first => {
                    let why = flaw_of_start(&newest, head.key).map_err(io(&newest.path))?;
                    return Err(BadRecord::new(newest.first, why).into());
                }
                None => {
                    // This file does not begin with a checkpoint that refers to the file before it. Either a process
                    // was killed right after it created the file, or another program wrote it, so the file can be
                    // removed.
                    cut.add(&fs::read(&newest.path).map_err(io(&newest.path))?);
                    rejected.extend(segments.pop());
                }
            }
        };
        // Remove the files last. Thus a log that cannot be opened, e.g. because the store belongs to another log, stays
        // as it is.
        for Segment { path, .. } in rejected {
            fs::remove_file(&path).map_err(LogError::io(&path, "removed"))?;
        }
        Ok(found)
    }

    /// Recovers a log that has no records.
    fn nothing(place: &LogPlace, head: LogHead, cut: CutEnd) -> Result<Self, LogError> {
        let chain = Chain::genesis(&place.name, head.key);
        if head.synced > 0 {
            return Err(BadRecord::new(1, RecordFlaw::Missing).into());
        }
        if head.seq == 0 && head.hash != chain.hash {
            return Err(BadRecord::new(0, RecordFlaw::Head).into());
        }
        let path = place.segment(1).path;
        Ok(Self {
            disk: SegmentFile::open(place, 1).map_err(LogError::io(&path, "opened"))?,
            chain,
            length: 0,
            first: 1,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            outbox: head.outbox,
            recent: RecentEvents::default(),
            from: 1,
            since: 0,
            cut,
            lost: head.lost + head.seq,
        })
    }

    fn follow(
        place: &LogPlace,
        segments: &[Segment],
        tail: &Tail,
        head: LogHead,
        mut cut: CutEnd,
    ) -> Result<Self, LogError> {
        // The newest segment, to which the tail belongs.
        let Some(newest) = segments.last() else { return Self::nothing(place, head, cut) };
        let chain = tail.before(place, newest, head.key)?;
        if chain.seq > head.seq {
            verify_after_head(place, segments, head, chain)?;
        }
        let replay = Replay::run(tail, chain, head)?;
        let length = tail.at + replay.verified as u64;
        let path = &newest.path;
        let mut disk =
            SegmentFile::open(place, newest.first).map_err(LogError::io(path, "opened"))?;
        let rest = &tail.bytes[replay.verified..];
        if !rest.is_empty() {
            super::segments::Disk::cut(&mut disk, length).map_err(LogError::io(path, "cut"))?;
        }
        let waiting = replay.waiting.of(&replay.open);
        let Replay { chain, open, recent, outbox, from, since, .. } = replay;
        cut.add(rest);
        let first = newest.first;
        let lost = head.lost + head.seq.saturating_sub(chain.seq);
        Ok(Self {
            disk,
            chain,
            length,
            first,
            open,
            waiting,
            outbox,
            recent,
            from,
            since,
            cut,
            lost,
        })
    }
}

/// The state of a log, rebuilt from the lines of its tail.
struct Replay {
    chain: Chain,
    open: BTreeMap<u64, String>,
    waiting: WaitingCalls,
    recent: RecentEvents,
    outbox: u64,
    from: u64,
    since: u64,
    /// The number of bytes at the start of the tail that belong to lines which verify.
    verified: usize,
}

impl Replay {
    /// Verifies the tail line by line. A flaw in a record that might not have been synced ends the replay; a flaw in an
    /// earlier record is an error.
    fn run(tail: &Tail, chain: Chain, head: LogHead) -> Result<Self, BadRecord> {
        let mut replay = Self {
            chain,
            open: BTreeMap::new(),
            waiting: WaitingCalls::default(),
            recent: RecentEvents::default(),
            outbox: head.outbox,
            from: 1,
            since: 0,
            verified: 0,
        };
        let check_head = |chain: &Chain| {
            let is_replaced = head.is_replaced(chain);
            if is_replaced { Err(BadRecord::new(head.seq, RecordFlaw::Head)) } else { Ok(()) }
        };
        check_head(&replay.chain)?;
        for whole in tail.bytes.split_inclusive(|byte| *byte == b'\n') {
            let next = replay.chain.seq + 1;
            let read = whole.strip_suffix(b"\n").ok_or(RecordFlaw::Torn);
            match read.and_then(|line| replay.chain.verify_next(line)) {
                Ok(line) => {
                    check_head(&replay.chain)?;
                    replay.verified += whole.len();
                    replay.apply(&line);
                }
                Err(why) if next <= head.synced => return Err(BadRecord::new(next, why)),
                Err(_) => break,
            }
        }
        if replay.chain.seq < head.synced {
            return Err(BadRecord::new(replay.chain.seq + 1, RecordFlaw::Missing));
        }
        Ok(replay)
    }

    fn apply(&mut self, line: &Line<'_>) {
        self.since += 1;
        if let Some(number) = line.outbox {
            self.outbox = self.outbox.max(number);
            self.recent.note(number, line.body.as_bytes());
        }
        if let Some(ended) = line.ends {
            if let Some(begun) = self.open.remove(&ended) {
                self.waiting.note_end(ended, &begun);
            }
        } else if line.kind == RecordKind::Event {
            self.waiting.note_event(line.seq, line.body);
        }
        if line.kind == RecordKind::Intent && line.ends.is_none() {
            self.open.insert(line.of.unwrap_or(line.seq), line.body.to_owned());
        }
        if let Some(checkpoint) = Checkpoint::read(line) {
            self.outbox = self.outbox.max(checkpoint.outbox);
            (self.from, self.since) = (checkpoint.from, 0);
        }
    }
}

/// Verifies that the log continues from an older head without a gap, up to the log's last checkpoint.
///
/// Usually the head refers to the checkpoint or to a later record. The head is older if a power cut occurred after the
/// checkpoint was written to the disk and before the head was. The records between head and checkpoint were either not
/// acknowledged, or the store lost their acknowledgement; the hash chain proves that this log wrote them.
fn verify_after_head(
    place: &LogPlace,
    segments: &[Segment],
    head: LogHead,
    to: Chain,
) -> Result<(), LogError> {
    let begins = segments.iter().rposition(|segment| segment.first <= head.seq + 1);
    let stale = || BadRecord::new(to.seq, RecordFlaw::StaleHead);
    let mut chain: Option<Chain> = None;
    for segment in &segments[begins.ok_or_else(stale)?..] {
        let io = |error| LogError::io(&segment.path, "read")(error);
        let mut lines = Lines::open(&segment.path, 0).map_err(io)?;
        while let Some((_, line)) = lines.next().map_err(io)? {
            let at = match &mut chain {
                Some(chain) => chain,
                slot => slot.insert(chain_before_segment(place, segment, line, head.key)?),
            };
            if head.is_replaced(at) {
                return Err(BadRecord::new(head.seq, RecordFlaw::Head).into());
            }
            if at.seq == to.seq {
                return if at.hash == to.hash {
                    Ok(())
                } else {
                    Err(BadRecord::new(to.seq, RecordFlaw::Hash).into())
                };
            }
            let seq = at.seq + 1;
            at.verify_next(line).map_err(|why| BadRecord::new(seq, why))?;
        }
    }
    Err(stale().into())
}

/// Returns the state of the chain before the first line of a file.
fn chain_before_segment(
    place: &LogPlace,
    segment: &Segment,
    line: &[u8],
    key: ChainKey,
) -> Result<Chain, BadRecord> {
    if segment.first == 1 {
        return Ok(Chain::genesis(&place.name, key));
    }
    Line::read(line)
        .filter(|line| line.seq == segment.first)
        .and_then(|line| Chain::before(&line, key))
        .ok_or_else(|| BadRecord::new(segment.first, RecordFlaw::Form))
}

/// The part of the newest file from its last complete checkpoint on, or the whole file if it has none.
struct Tail {
    at: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads the tail; returns `None` if the file contains no record at which reading can start.
    fn read(segment: &Segment, key: ChainKey) -> io::Result<Option<Self>> {
        let mut file = File::open(&segment.path)?;
        let length = file.metadata()?.len();
        let mut step = TAIL_READ;
        loop {
            let at = length.saturating_sub(step);
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            (&mut file).take(length - at).read_to_end(&mut bytes)?;
            if let Some(from) = last_checkpoint(&bytes, at == 0, key) {
                return Ok(Some(Self { at: at + from as u64, bytes: bytes.split_off(from) }));
            }
            if at == 0 {
                return Ok((segment.first == 1).then_some(Self { at, bytes }));
            }
            step *= 2;
        }
    }

    /// Returns the state of the chain (number and hash) before the first line of this tail.
    fn before(
        &self,
        place: &LogPlace,
        segment: &Segment,
        key: ChainKey,
    ) -> Result<Chain, LogError> {
        if self.at == 0 && segment.first == 1 {
            return Ok(Chain::genesis(&place.name, key));
        }
        let end = memchr::memchr(b'\n', &self.bytes).unwrap_or_default();
        let chain = Line::read(&self.bytes[..end]).and_then(|line| Chain::before(&line, key));
        let chain = chain.ok_or_else(|| BadRecord::new(segment.first, RecordFlaw::Form))?;
        if self.at == 0 && chain.seq + 1 != segment.first {
            return Err(BadRecord::new(segment.first, RecordFlaw::Number(chain.seq + 1)).into());
        }
        Ok(chain)
    }
}

/// Returns the offset of the last checkpoint that is [complete](is_complete).
fn last_checkpoint(bytes: &[u8], from_the_start: bool, key: ChainKey) -> Option<usize> {
    let whole = memchr::memrchr(b'\n', bytes)? + 1;
    let mut end = whole;
    while end > 0 {
        let from = memchr::memrchr(b'\n', &bytes[..end - 1]).map_or(0, |before| before + 1);
        if from == 0 && !from_the_start {
            return None;
        }
        if is_complete(&bytes[from..end - 1], &bytes[end..whole], key) {
            return Some(from);
        }
        end = from;
    }
    None
}

/// Returns whether a line is a checkpoint that is followed by all the intents it announces, and all these lines verify.
///
/// Lines that do not verify might be forged. A forged checkpoint would hide the calls that were running before it.
fn is_complete(line: &[u8], after: &[u8], key: ChainKey) -> bool {
    let Ok((mut chain, checkpoint)) = verify_checkpoint(line, key) else { return false };
    let mut after = after.split(|byte| *byte == b'\n');
    (0..checkpoint.open).all(|_| {
        let intent = after.next().and_then(|line| chain.verify_next(line).ok());
        intent.is_some_and(|intent| intent.of.is_some())
    })
}

/// Verifies a checkpoint by the hash of the record before it, which the checkpoint contains. Returns the state of the
/// chain after the checkpoint, and its content.
fn verify_checkpoint(line: &[u8], key: ChainKey) -> Result<(Chain, Checkpoint), RecordFlaw> {
    let read = Line::read(line).ok_or(RecordFlaw::Form)?;
    let checkpoint = Checkpoint::read(&read).ok_or(RecordFlaw::Form)?;
    let mut chain = Chain::before(&read, key).ok_or(RecordFlaw::Form)?;
    chain.verify_next(line)?;
    Ok((chain, checkpoint))
}

/// Returns the flaw of a file that does not begin with a complete checkpoint.
fn flaw_of_start(segment: &Segment, key: ChainKey) -> io::Result<RecordFlaw> {
    let mut lines = Lines::open(&segment.path, 0)?;
    let first = lines.next()?.ok_or(RecordFlaw::Torn);
    let verified = first.and_then(|(_, line)| verify_checkpoint(line, key));
    // A checkpoint that verifies is incomplete only if some of its intents are missing, i.e. if its end was torn off.
    Ok(verified.err().unwrap_or(RecordFlaw::Torn))
}
