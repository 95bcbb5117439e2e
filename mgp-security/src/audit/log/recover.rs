//! Opening a log: from its last checkpoint on, what is there is checked against the head.
//!
//! What stands after the head was never acknowledged: it is kept as far as the chain holds, and the rest is cut off.
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::chain::{Chain, Checkpoint, Kind, Line};
use super::error::{Bad, Flaw, LogError};
use super::head::Head;
use super::lines::Lines;
use super::outbox::Taken;
use super::segments::{Place, Segment, Segments};

/// How much is read at first when the last checkpoint is looked for: one is written after 8 MiB and a group.
const STEP: u64 = 13 * 1024 * 1024;

/// A log as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) disk: Segments,
    pub(super) chain: Chain,
    /// The length of the newest file.
    pub(super) length: u64,
    /// The first record of the newest file.
    pub(super) first: u64,
    /// Calls that began and have no end: their intents, by number.
    pub(super) open: BTreeMap<u64, String>,
    /// The last number taken out of a store.
    pub(super) outbox: u64,
    /// What was taken out of it since the last checkpoint.
    pub(super) taken: Taken,
    /// The first record that is kept, as the last checkpoint says.
    pub(super) from: u64,
    /// Records after the last checkpoint.
    pub(super) since: u64,
    /// How many bytes were cut off.
    pub(super) cut: u64,
}

impl Found {
    pub(super) fn read(place: &Place, head: Head) -> Result<Self, LogError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| LogError::io(&path, "read")(error)
        };
        let mut segments = place.segments().map_err(io(&place.dir))?;
        let mut cut = 0;
        loop {
            let Some(newest) = segments.last().cloned() else {
                return Self::nothing(place, head, cut);
            };
            match Tail::read(&newest).map_err(io(&newest.path))? {
                Some(tail) => return Self::follow(place, &segments, &tail, head, cut),
                None if head.seq >= newest.first => {
                    return Err(Bad::new(newest.first, Flaw::Torn).into());
                }
                None => {
                    // A process was killed while it began this file; all it could hold is said again elsewhere.
                    cut += fs::metadata(&newest.path).map_err(io(&newest.path))?.len();
                    fs::remove_file(&newest.path).map_err(LogError::io(&newest.path, "removed"))?;
                    segments.pop();
                }
            }
        }
    }

    /// A log without records.
    fn nothing(place: &Place, head: Head, cut: u64) -> Result<Self, LogError> {
        let chain = Chain::genesis(&place.name);
        if head.seq > 0 {
            return Err(Bad::new(1, Flaw::Missing).into());
        }
        if head.hash != chain.hash {
            return Err(Bad::new(0, Flaw::Head).into());
        }
        let path = place.segment(1).path;
        Ok(Self {
            disk: Segments::open(place, 1).map_err(LogError::io(&path, "opened"))?,
            chain,
            length: 0,
            first: 1,
            open: BTreeMap::new(),
            outbox: head.outbox,
            taken: Taken::default(),
            from: 1,
            since: 0,
            cut,
        })
    }

    fn follow(
        place: &Place,
        segments: &[Segment],
        tail: &Tail,
        head: Head,
        cut: u64,
    ) -> Result<Self, LogError> {
        // The newest, which the tail is of.
        let Some(newest) = segments.last() else { return Self::nothing(place, head, cut) };
        let mut chain = tail.before(place, newest)?;
        if chain.seq > head.seq {
            prove(place, segments, head, chain)?;
        }
        let (mut open, mut taken) = (BTreeMap::new(), Taken::default());
        let (mut outbox, mut from, mut since) = (head.outbox, 1, 0);
        let mut good = 0;
        let is_head = |chain: &Chain| chain.seq != head.seq || chain.hash == head.hash;
        let mut bad = (!is_head(&chain)).then(|| Bad::new(head.seq, Flaw::Head));
        for whole in tail.bytes.split_inclusive(|byte| *byte == b'\n') {
            if bad.is_some() {
                break;
            }
            let read = whole.strip_suffix(b"\n").ok_or(Flaw::Torn);
            match read.and_then(|line| chain.follow(line)) {
                Ok(_) if !is_head(&chain) => bad = Some(Bad::new(head.seq, Flaw::Head)),
                Ok(line) => {
                    good += whole.len();
                    since += 1;
                    if let Some(number) = line.outbox {
                        outbox = outbox.max(number);
                        taken.note(number, line.body.as_bytes());
                    }
                    if let Some(ended) = line.ends {
                        open.remove(&ended);
                    }
                    if line.kind == Kind::Intent && line.ends.is_none() {
                        open.insert(line.of.unwrap_or(line.seq), line.body.to_owned());
                    }
                    if let Some(checkpoint) = Checkpoint::read(&line) {
                        outbox = outbox.max(checkpoint.outbox);
                        (from, since) = (checkpoint.from, 0);
                    }
                }
                Err(why) => bad = Some(Bad::new(chain.seq + 1, why)),
            }
        }
        match bad {
            Some(bad) if bad.seq <= head.seq => return Err(bad.into()),
            None if chain.seq < head.seq => {
                return Err(Bad::new(chain.seq + 1, Flaw::Missing).into());
            }
            _ => {}
        }
        let length = tail.at + good as u64;
        let path = &newest.path;
        let mut disk = Segments::open(place, newest.first).map_err(LogError::io(path, "opened"))?;
        let rest = (tail.bytes.len() - good) as u64;
        if rest > 0 {
            super::segments::Disk::cut(&mut disk, length).map_err(LogError::io(path, "cut"))?;
        }
        let cut = cut + rest;
        let first = newest.first;
        Ok(Self { disk, chain, length, first, open, outbox, taken, from, since, cut })
    }
}

/// Proves that the log goes on from a head that is older than its last checkpoint, up to where that begins.
///
/// A power cut leaves such a head where the checkpoint had reached the disk and the head had not.
/// What follows it was not acknowledged, or that was undone with the store; the chain says that all of it is ours.
fn prove(place: &Place, segments: &[Segment], head: Head, to: Chain) -> Result<(), LogError> {
    let begins = segments.iter().rposition(|segment| segment.first <= head.seq + 1);
    let stale = || Bad::new(to.seq, Flaw::StaleHead);
    let mut chain: Option<Chain> = None;
    for segment in &segments[begins.ok_or_else(stale)?..] {
        let io = |error| LogError::io(&segment.path, "read")(error);
        let mut lines = Lines::open(&segment.path, 0).map_err(io)?;
        while let Some((_, line)) = lines.next().map_err(io)? {
            let at = match &mut chain {
                Some(chain) => chain,
                none => none.insert(beginning(place, segment, line)?),
            };
            if at.seq == head.seq && at.hash != head.hash {
                return Err(Bad::new(head.seq, Flaw::Head).into());
            }
            if at.seq == to.seq {
                return if at.hash == to.hash {
                    Ok(())
                } else {
                    Err(Bad::new(to.seq, Flaw::Hash).into())
                };
            }
            let seq = at.seq + 1;
            at.follow(line).map_err(|why| Bad::new(seq, why))?;
        }
    }
    Err(stale().into())
}

/// The chain before the first line of a file.
fn beginning(place: &Place, segment: &Segment, line: &[u8]) -> Result<Chain, Bad> {
    if segment.first == 1 {
        return Ok(Chain::genesis(&place.name));
    }
    Line::read(line)
        .filter(|line| line.seq == segment.first)
        .and_then(|line| Chain::before(&line))
        .ok_or_else(|| Bad::new(segment.first, Flaw::Form))
}

/// The newest file from its last checkpoint on, or from its beginning.
struct Tail {
    at: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// None where the file has nothing that reading can begin with.
    fn read(segment: &Segment) -> io::Result<Option<Self>> {
        let mut file = File::open(&segment.path)?;
        let length = file.metadata()?.len();
        let mut step = STEP;
        loop {
            let at = length.saturating_sub(step);
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            (&mut file).take(length - at).read_to_end(&mut bytes)?;
            if let Some(from) = last_checkpoint(&bytes, at == 0) {
                return Ok(Some(Self { at: at + from as u64, bytes: bytes.split_off(from) }));
            }
            if at == 0 {
                return Ok((segment.first == 1).then_some(Self { at, bytes }));
            }
            step *= 2;
        }
    }

    /// The chain before the first line.
    fn before(&self, place: &Place, segment: &Segment) -> Result<Chain, LogError> {
        if self.at == 0 && segment.first == 1 {
            return Ok(Chain::genesis(&place.name));
        }
        let end = memchr::memchr(b'\n', &self.bytes).unwrap_or_default();
        let chain = Line::read(&self.bytes[..end]).and_then(|line| Chain::before(&line));
        let chain = chain.ok_or_else(|| Bad::new(segment.first, Flaw::Form))?;
        if self.at == 0 && chain.seq + 1 != segment.first {
            return Err(Bad::new(segment.first, Flaw::Number(chain.seq + 1)).into());
        }
        Ok(chain)
    }
}

/// Where the last checkpoint begins after which everything is there that it announces.
fn last_checkpoint(bytes: &[u8], from_the_start: bool) -> Option<usize> {
    let mut end = memchr::memrchr(b'\n', bytes)? + 1;
    // Intents that are said again right after the line looked at.
    let mut again = 0;
    while end > 0 {
        let from = memchr::memrchr(b'\n', &bytes[..end - 1]).map_or(0, |before| before + 1);
        if from == 0 && !from_the_start {
            return None;
        }
        match Line::read(&bytes[from..end - 1]) {
            Some(line) if line.of.is_some() => again += 1,
            Some(line) => {
                if Checkpoint::read(&line).is_some_and(|said| said.open <= again) {
                    return Some(from);
                }
                again = 0;
            }
            None => again = 0,
        }
        end = from;
    }
    None
}
