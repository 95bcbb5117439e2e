//! The file of events, one per line, and an in-memory index of their offsets.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use mgp_security::EventSource;
use mgp_types::mgp::AuditEvent;
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use tokio::sync::watch;

/// The maximum number of gaps (ranges of missing sequence numbers); if there are more, neighbouring gaps are merged.
const MAX_GAPS: usize = 1024;

/// A store of audit events in a file; it stores at most one event for each sequence number.
pub(crate) struct Journal {
    state: Mutex<JournalState>,
    newest: watch::Sender<u64>,
    max_events: usize,
}

struct JournalState {
    file: File,
    /// The offset of each event, in order of arrival.
    offsets: Vec<u64>,
    /// The offset in the file after the last stored event.
    end: u64,
    /// The index of each stored event in `offsets`, by its sequence number.
    numbers: BTreeMap<u64, usize>,
    /// The ranges of missing sequence numbers, with inclusive bounds.
    missing: Vec<(u64, u64)>,
    /// The number of missing events that the client no longer has.
    lost: u64,
    refused: u64,
}

/// The outcome of storing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    New,
    Duplicate,
    /// The event was not stored, because the journal is full.
    Full,
}

impl Journal {
    /// Opens or creates a file; an incomplete last line is cut off. Fails if another line is not an event, and then
    /// leaves the file unchanged.
    pub(crate) fn open(path: &Path, max_events: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut state = JournalState {
            file,
            offsets: Vec::new(),
            end: 0,
            numbers: BTreeMap::new(),
            missing: Vec::new(),
            lost: 0,
            refused: 0,
        };
        state.read_all()?;
        let newest = state.numbers.last_key_value().map_or(0, |(seq, _)| *seq);
        Ok(Self { state: Mutex::new(state), newest: watch::channel(newest).0, max_events })
    }

    /// Stores an event, unless its sequence number is stored already.
    pub(crate) fn store(&self, event: &AuditEvent) -> io::Result<Stored> {
        let mut state = self.state.lock();
        let seq = number(event);
        if seq.is_some_and(|seq| state.numbers.contains_key(&seq)) {
            return Ok(Stored::Duplicate);
        }
        if state.offsets.len() >= self.max_events {
            state.refused += 1;
            return Ok(Stored::Full);
        }
        state.append(event)?;
        if let Some(seq) = seq {
            state.insert_number(seq);
            self.newest.send_modify(|newest| *newest = seq.max(*newest));
        }
        Ok(Stored::New)
    }

    /// Returns the missing sequence numbers, as inclusive ranges.
    pub(crate) fn missing(&self) -> Vec<(u64, u64)> {
        self.state.lock().missing.clone()
    }

    /// Removes the gaps that are within a range of sequence numbers, and counts their events as lost.
    pub(crate) fn give_up(&self, from: u64, to: u64) {
        let mut state = self.state.lock();
        let inside = |gap: &(u64, u64)| from <= gap.0 && gap.1 <= to;
        state.lost += state
            .missing
            .iter()
            .filter(|gap| inside(gap))
            .map(|gap| gap.1 - gap.0 + 1)
            .sum::<u64>();
        state.missing.retain(|gap| !inside(gap));
    }

    /// Returns how many events are missing, lost and refused.
    pub(crate) fn gap_counts(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        let missing = state.missing.iter().map(|gap| gap.1 - gap.0 + 1).sum();
        (missing, state.lost, state.refused)
    }

    /// Calls `visit` for each event in order of arrival, starting at an index, until `visit` returns `Break`.
    pub(crate) fn for_each(
        &self,
        mut index: usize,
        mut visit: impl FnMut(usize, AuditEvent) -> ControlFlow<()>,
    ) -> io::Result<()> {
        // The lock is held for one event at a time, so that a long query does not block writers.
        while let Some(event) = self.read(index)? {
            if visit(index, event).is_break() {
                break;
            }
            index += 1;
        }
        Ok(())
    }

    fn read(&self, index: usize) -> io::Result<Option<AuditEvent>> {
        self.state.lock().read(index)
    }
}

impl JournalState {
    fn read_all(&mut self) -> io::Result<()> {
        let mut lines = BufReader::new(self.file.try_clone()?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let read = serde_json::from_slice::<AuditEvent>(&line);
            let is_event = read.as_ref().err().is_none_or(serde_json::Error::is_eof);
            if !line.ends_with(b"\n") && is_event {
                // The line is incomplete because the process ended during the write. Remove the line, because its event
                // was never acknowledged.
                self.file.set_len(self.end)?;
                break;
            }
            let Ok(event) = read else {
                let number = self.offsets.len() + 1;
                let why = format!("line {number} is not an audit event; the file was not changed");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            };
            self.offsets.push(self.end);
            self.end += line.len() as u64;
            if let Some(seq) = number(&event) {
                self.numbers.insert(seq, self.offsets.len() - 1);
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
        self.merge_gaps();
        Ok(())
    }

    fn append(&mut self, event: &AuditEvent) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // Remove the incomplete line, because the next event would otherwise be appended to it.
            self.file.set_len(self.end)?;
            return Err(error);
        }
        self.offsets.push(self.end);
        self.end += line.len() as u64;
        Ok(())
    }

    /// Records that a sequence number has arrived, and updates the gaps.
    fn insert_number(&mut self, seq: u64) {
        let last = self.numbers.last_key_value().map_or(0, |(last, _)| *last);
        self.numbers.insert(seq, self.offsets.len() - 1);
        if seq > last + 1 {
            self.missing.push((last + 1, seq - 1));
            self.merge_gaps();
        }
        if let Some(at) = self.missing.iter().position(|gap| gap.0 <= seq && seq <= gap.1) {
            let (from, to) = self.missing.swap_remove(at);
            let rest = [(from, seq.saturating_sub(1)), (seq + 1, to)];
            self.missing.extend(rest.into_iter().filter(|(from, to)| from <= to));
            self.missing.sort_unstable();
            self.merge_gaps();
        }
    }

    fn merge_gaps(&mut self) {
        while self.missing.len() > MAX_GAPS {
            let (from, _) = self.missing.remove(0);
            self.missing[0].0 = from;
        }
    }

    fn read(&mut self, index: usize) -> io::Result<Option<AuditEvent>> {
        let Some(begin) = self.offsets.get(index).copied() else { return Ok(None) };
        let end = self.offsets.get(index + 1).copied().unwrap_or(self.end);
        let mut line = vec![0; usize::try_from(end - begin).map_err(io::Error::other)?];
        // Writes are not affected by this seek, because the file is opened in append mode.
        self.file.seek(SeekFrom::Start(begin))?;
        self.file.read_exact(&mut line)?;
        serde_json::from_slice(&line).map(Some).map_err(Into::into)
    }
}

#[async_trait]
impl EventSource for Journal {
    async fn after(&self, seq: u64, most: usize) -> Result<Vec<AuditEvent>, StoreError> {
        let mut state = self.state.lock();
        let later = state.numbers.range(seq.saturating_add(1)..).take(most);
        let indices: Vec<usize> = later.map(|(_, index)| *index).collect();
        let events = indices.into_iter().filter_map(|index| state.read(index).transpose());
        let events: io::Result<Vec<_>> = events.collect();
        events.map_err(StoreError::failed)
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

/// Returns the sequence number of an event; `None` also for the highest number, which has no successor.
pub(crate) fn number(event: &AuditEvent) -> Option<u64> {
    event.mgp.as_ref()?.seq.filter(|seq| *seq < u64::MAX)
}
