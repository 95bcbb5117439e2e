//! The file of events, a line each, and what is known of it without reading it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgp_security::EventSource;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::BoxFuture;
use mgp_types::store::StoreError;
use tokio::sync::watch;

/// How many gaps are known one by one; of more, neighbours count as one.
const GAPS_MAX: usize = 1024;

/// Keeps events in a file; numbers it has are not kept again.
pub(crate) struct Journal {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
    most: usize,
}

struct Kept {
    file: File,
    /// Where each event begins, in the order they came, and where the last one ends.
    places: Vec<u64>,
    end: u64,
    /// The place of each number.
    numbers: BTreeMap<u64, usize>,
    /// Numbers that did not come, as ranges with both ends.
    missing: Vec<(u64, u64)>,
    /// How many numbers nobody can send any more.
    lost: u64,
    refused: u64,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// It is kept.
    New,
    /// It was there before.
    Again,
    /// There is no room.
    Full,
}

impl Journal {
    /// Opens a file, or begins it; a last line that was not finished is cut off.
    pub(crate) fn open(path: &Path, most: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut kept = Kept {
            file,
            places: Vec::new(),
            end: 0,
            numbers: BTreeMap::new(),
            missing: Vec::new(),
            lost: 0,
            refused: 0,
        };
        kept.read_all()?;
        let newest = kept.numbers.last_key_value().map_or(0, |(seq, _)| *seq);
        Ok(Self { kept: Mutex::new(kept), newest: watch::channel(newest).0, most })
    }

    /// Keeps an event, unless its number is there.
    pub(crate) fn take(&self, event: &AuditEvent) -> io::Result<Took> {
        let mut kept = self.kept();
        let seq = number(event);
        if seq.is_some_and(|seq| kept.numbers.contains_key(&seq)) {
            return Ok(Took::Again);
        }
        if kept.places.len() >= self.most {
            kept.refused += 1;
            return Ok(Took::Full);
        }
        kept.append(event)?;
        if let Some(seq) = seq {
            kept.note(seq);
            self.newest.send_modify(|newest| *newest = seq.max(*newest));
        }
        Ok(Took::New)
    }

    /// Numbers that did not come, as ranges with both ends.
    pub(crate) fn missing(&self) -> Vec<(u64, u64)> {
        self.kept().missing.clone()
    }

    /// Takes note that nobody has what is still missing of a range.
    pub(crate) fn give_up(&self, from: u64, to: u64) {
        let mut kept = self.kept();
        let inside = |gap: &(u64, u64)| from <= gap.0 && gap.1 <= to;
        kept.lost +=
            kept.missing.iter().filter(|gap| inside(gap)).map(|gap| gap.1 - gap.0 + 1).sum::<u64>();
        kept.missing.retain(|gap| !inside(gap));
    }

    /// Missing, lost and refused.
    pub(crate) fn holes(&self) -> (u64, u64, u64) {
        let kept = self.kept();
        let missing = kept.missing.iter().map(|gap| gap.1 - gap.0 + 1).sum();
        (missing, kept.lost, kept.refused)
    }

    /// Walks events in the order they came, from a place on, until `look` has seen enough.
    pub(crate) fn walk(
        &self,
        mut place: usize,
        mut look: impl FnMut(usize, AuditEvent) -> Walk,
    ) -> io::Result<()> {
        // The lock is held for one event only: a long query keeps nobody from writing.
        while let Some(event) = self.read(place)? {
            if look(place, event) == Walk::Enough {
                break;
            }
            place += 1;
        }
        Ok(())
    }

    fn read(&self, place: usize) -> io::Result<Option<AuditEvent>> {
        self.kept().read(place)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a walk goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// There is room for more.
    On,
    /// That will do.
    Enough,
}

impl Kept {
    fn read_all(&mut self) -> io::Result<()> {
        let mut lines = BufReader::new(self.file.try_clone()?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let read = serde_json::from_slice::<AuditEvent>(&line);
            let (true, Ok(event)) = (line.ends_with(b"\n"), read) else {
                // The process ended while it wrote; what follows nobody was told to be kept.
                self.file.set_len(self.end)?;
                break;
            };
            self.places.push(self.end);
            self.end += line.len() as u64;
            if let Some(seq) = number(&event) {
                self.numbers.insert(seq, self.places.len() - 1);
            }
            line.clear();
        }
        let mut next = 1;
        for seq in self.numbers.keys() {
            if next < *seq {
                self.missing.push((next, seq - 1));
            }
            next = seq + 1;
        }
        self.bound();
        Ok(())
    }

    fn append(&mut self, event: &AuditEvent) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // Half a line would swallow the next one.
            self.file.set_len(self.end)?;
            return Err(error);
        }
        self.places.push(self.end);
        self.end += line.len() as u64;
        Ok(())
    }

    /// Takes note of a number that came.
    fn note(&mut self, seq: u64) {
        let last = self.numbers.last_key_value().map_or(0, |(last, _)| *last);
        self.numbers.insert(seq, self.places.len() - 1);
        if seq > last + 1 {
            self.missing.push((last + 1, seq - 1));
            self.bound();
        }
        if let Some(at) = self.missing.iter().position(|gap| gap.0 <= seq && seq <= gap.1) {
            let (from, to) = self.missing.swap_remove(at);
            let rest = [(from, seq.saturating_sub(1)), (seq + 1, to)];
            self.missing.extend(rest.into_iter().filter(|(from, to)| from <= to));
            self.missing.sort_unstable();
            self.bound();
        }
    }

    fn bound(&mut self) {
        while self.missing.len() > GAPS_MAX {
            let (from, _) = self.missing.remove(0);
            self.missing[0].0 = from;
        }
    }

    fn read(&mut self, place: usize) -> io::Result<Option<AuditEvent>> {
        let Some(begin) = self.places.get(place).copied() else { return Ok(None) };
        let end = self.places.get(place + 1).copied().unwrap_or(self.end);
        let mut line = vec![0; usize::try_from(end - begin).map_err(io::Error::other)?];
        // The file is opened for appending, so this moves no write.
        self.file.seek(SeekFrom::Start(begin))?;
        self.file.read_exact(&mut line)?;
        serde_json::from_slice(&line).map(Some).map_err(Into::into)
    }
}

impl EventSource for Journal {
    fn after(
        &self,
        seq: u64,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>> {
        let mut kept = self.kept();
        let later = kept.numbers.range(seq.saturating_add(1)..).take(most);
        let places: Vec<usize> = later.map(|(_, place)| *place).collect();
        let read = places.into_iter().filter_map(|place| kept.read(place).transpose());
        let read: io::Result<Vec<_>> = read.collect();
        Box::pin(std::future::ready(read.map_err(StoreError::failed)))
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

/// The running number of an event.
pub(crate) fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq
}
