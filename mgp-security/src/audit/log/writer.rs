//! The thread that writes a log: what waits is written as one group, its head kept, and only then acknowledged.
//!
//! Where disk or store fail, nothing is acknowledged and no call may begin; the final records of calls that run are
//! kept until it works again.
//!
//! Applies to: both.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::service::Unaudited;
use mgp_types::store::{Store, StoreError};
use tokio::time::Instant;

use super::chain::{Chain, LINE_MAX};
use super::config::{Fsync, Keep, LogConfig};
use super::error::{Bad, LogError};
use super::group::{Group, text_of};
use super::head::{Head, Keeper};
use super::outbox::{Outbox, TAKE, Taken};
use super::queue::{Item, Room, Shared};
use super::recover::Found;
use super::segments::{Disk, Lock, Place, Segments};

/// So many records make a group at most, or so many bytes and one more record.
const GROUP: usize = 1024;
const GROUP_BYTES: usize = 4 * LINE_MAX;

/// After so many bytes a checkpoint is due, however few records they are.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;

/// How long the head may lag behind records that nobody waited for.
const LAG: Duration = Duration::from_secs(1);

/// How long the disk may be owed what opening wrote, where nobody hands over anything.
const OWING: Duration = Duration::from_millis(100);

/// How long is waited until what failed is tried again.
const AGAIN: Duration = Duration::from_millis(250);

type Reason = Arc<dyn StdError + Send + Sync>;

/// Writes one log.
pub(super) struct Writer {
    shared: Arc<Shared>,
    config: LogConfig,
    disk: Box<dyn Disk>,
    keeper: Keeper,
    outbox: Option<Outbox>,
    /// The last record that is kept.
    chain: Chain,
    /// The last number taken out of the store.
    taken: u64,
    lately: Taken,
    /// Calls that run, by the number of their intent; bounded by the room for their final records.
    open: BTreeMap<u64, String>,
    /// The head as it was last kept, and when the log first went beyond it.
    head: u64,
    behind: Option<Instant>,
    /// How much of the newest file is good, and whether there may be more.
    length: u64,
    dirty: bool,
    /// The first records of the files.
    firsts: VecDeque<u64>,
    /// The first record that is kept, as the last checkpoint says.
    from: u64,
    /// Since the last checkpoint.
    records: u64,
    bytes: u64,
    /// Set while the disk is owed what opening wrote: those who wait come first, since a killed process loses nothing.
    owes: bool,
    is_failing: bool,
    batch: VecDeque<Item>,
    group: Group,
    _lock: Lock,
}

/// What has to be kept before a group counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// Its head too: somebody waits for it.
    Head,
    /// The head may follow later.
    Lines,
}

// === impl Writer ===

impl Writer {
    /// Opens a log: what an earlier process left undone is done first.
    pub(super) fn open(
        config: LogConfig,
        store: Option<Arc<dyn Store>>,
        disk_of: impl FnOnce(Segments) -> Box<dyn Disk>,
    ) -> Result<Self, LogError> {
        let place = Place::new(&config.dir, &config.name)?;
        place.prepare()?;
        let lock = place.lock()?;
        let (mut keeper, head) =
            Keeper::open(&place, store.clone(), config.fsync == Fsync::Always)?;
        let segments = place.segments().map_err(LogError::io(&config.dir, "read"))?;
        let head = match head {
            Some(head) => head,
            None if segments.is_empty() => {
                let head = Head::of(&Chain::genesis(&place.name), 0);
                keeper.keep(&head)?;
                head
            }
            None => return Err(Bad::no_head().into()),
        };
        let found = Found::read(&place, head)?;
        let mut firsts: VecDeque<u64> = segments.iter().map(|segment| segment.first).collect();
        firsts.retain(|first| *first < found.first);
        firsts.push_back(found.first);
        let shared = Arc::new(Shared::new(config.queue, found.chain.seq, found.chain.no));
        let mut writer = Self {
            outbox: store.map(|store| Outbox::new(store, &place.name, &shared)),
            shared,
            config,
            disk: disk_of(found.disk),
            keeper,
            chain: found.chain,
            taken: found.outbox,
            lately: found.taken,
            open: found.open,
            head: head.seq,
            behind: None,
            length: found.length,
            dirty: false,
            firsts,
            from: found.from,
            records: found.since,
            bytes: 0,
            owes: false,
            is_failing: false,
            batch: VecDeque::new(),
            group: Group::new(found.chain),
            _lock: lock,
        };
        writer.take_up(found.cut).map_err(StoreError::Failed)?;
        Ok(writer)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Writes until the log is closed and nothing is owed any more.
    pub(super) fn run(mut self) {
        let _last = LastWord(Arc::clone(&self.shared));
        loop {
            let rest = self.is_failing.then_some(AGAIN);
            let idle = self.idle();
            let closing = self.shared.next(&mut self.batch, idle, rest);
            self.shared.sweep(closing);
            if let Err(reason) = self.work(closing) {
                self.fail(&reason);
                if closing {
                    let lost = self.batch.len();
                    tracing::error!(lost, "the audit log was closed while it could not be written");
                    return;
                }
            }
            // Closing counts from when it was seen: only then the head is where it should be.
            if closing && self.batch.is_empty() && self.shared.is_done() {
                return;
            }
        }
    }

    /// How long nothing may happen.
    fn idle(&self) -> Option<Duration> {
        if self.owes {
            return Some(OWING);
        }
        let waits = self.shared.has_suspended();
        // A suspended call may wait a little longer than it has to.
        let sweep = waits.then_some(Duration::from_mins(1));
        self.behind.map(|since| LAG.saturating_sub(since.elapsed())).or(sweep)
    }

    /// Records what an earlier process could not, and takes what waits in the store.
    fn take_up(&mut self, cut: u64) -> Result<(), Reason> {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            for chunk in open.iter().collect::<Vec<_>>().chunks(GROUP) {
                self.group.begin(self.chain, self.taken);
                for (intent, begun) in chunk {
                    self.group.interrupted(**intent, begun);
                }
                self.write(Keeping::Head)?;
            }
        }
        // The first to be acknowledged need not wait for the disk: a file that was cut may be slow to reach it.
        self.owes = true;
        if cut > 0 {
            self.write_checkpoint(cut)?;
        } else if self.head < self.chain.seq {
            self.keep_head(Head::of(&self.chain, self.taken))?;
        }
        self.take_news()
    }

    fn work(&mut self, closing: bool) -> Result<(), Reason> {
        if self.is_failing {
            // Something is written first: that it works is known before anybody is told so.
            self.checkpoint(0)?;
        }
        // Whoever waits until all is kept means the events that the store was given for this log too.
        if self.batch.iter().any(|item| matches!(item, Item::Flush { .. })) {
            self.take_news()?;
        }
        loop {
            if !self.batch.is_empty() {
                self.write_batch()?;
            }
            if self.owes {
                self.settle()?;
            }
            if self.batch.is_empty() {
                break;
            }
        }
        self.take_news()?;
        let late = self.behind.is_some_and(|since| closing || since.elapsed() >= LAG);
        if late {
            self.keep_head(Head::of(&self.chain, self.taken))?;
        }
        if std::mem::take(&mut self.is_failing) {
            self.shared.set_failure(None);
            tracing::warn!(log = self.config.name, "the audit log is written again");
        }
        Ok(())
    }

    /// Writes the first of what waits as one group, and tells those who wait for it.
    fn write_batch(&mut self) -> Result<(), Reason> {
        self.make_ready()?;
        self.group.begin(self.chain, self.taken);
        let mut keeping = Keeping::Lines;
        let mut seqs = VecDeque::new();
        let mut count = 0;
        for item in self.batch.iter().take(GROUP) {
            self.group.put(item);
            count += 1;
            if !matches!(item, Item::Call { .. } | Item::Shut { .. }) {
                keeping = Keeping::Head;
                seqs.push_back(self.group.chain.seq);
            }
            if self.group.text.len() > GROUP_BYTES {
                break;
            }
        }
        self.write(keeping)?;
        let mut permits = 0;
        for item in self.batch.drain(..count) {
            let (room, kept) = match item {
                Item::Call { room, .. } | Item::Shut { room, .. } => (Some(room), None),
                Item::Intent { kept, .. } => (Some(Room::Permit), Some(kept)),
                Item::Event { room, kept, .. } => (Some(room), Some(kept)),
                Item::Flush { kept } => (None, Some(kept)),
            };
            if let Some(kept) = kept
                && let Some(seq) = seqs.pop_front()
            {
                // Who does not wait any more needs no answer.
                let _ = kept.send(Ok(seq));
            }
            match room {
                Some(Room::Permit) => permits += 1,
                Some(room) => self.shared.give_back(room),
                None => {}
            }
        }
        self.shared.room.add_permits(permits);
        Ok(())
    }

    fn take_news(&mut self) -> Result<(), Reason> {
        if self.outbox.as_mut().is_some_and(Outbox::has_news) {
            self.take_outbox()?;
        }
        Ok(())
    }

    /// Writes the events that wait in the store; it forgets them once they are kept here.
    fn take_outbox(&mut self) -> Result<(), Reason> {
        while let Some(outbox) = &mut self.outbox {
            let pending = outbox.take().map_err(reason)?;
            let (count, last) = (pending.len(), pending.last().map(|event| event.number));
            let fresh = pending.into_iter().map(|event| (event.number, text_of(event.event)));
            let fresh: Vec<_> =
                fresh.filter(|(number, text)| !self.lately.has(*number, text)).collect();
            if !fresh.is_empty() {
                self.make_ready()?;
                self.group.begin(self.chain, self.taken);
                for (number, text) in &fresh {
                    self.group.take(*number, text);
                }
                self.write(Keeping::Head)?;
                for (number, text) in &fresh {
                    self.lately.note(*number, text);
                }
            }
            if let (Some(outbox), Some(last)) = (&self.outbox, last) {
                outbox.settle(last).map_err(reason)?;
            }
            if count < TAKE {
                break;
            }
        }
        Ok(())
    }

    /// Begins a new file or writes a checkpoint where one is due.
    fn make_ready(&mut self) -> Result<(), Reason> {
        if self.length >= self.config.segment_bytes && !self.dirty {
            self.keep_lagging_head()?;
            if self.config.fsync != Fsync::Never {
                self.disk.sync().map_err(reason)?;
            }
            let first = self.chain.seq + 1;
            self.disk.next(first).map_err(reason)?;
            self.length = 0;
            self.firsts.push_back(first);
        }
        let is_due = self.records >= self.config.checkpoint_every || self.bytes >= CHECKPOINT_BYTES;
        // A file but the first begins with a checkpoint, so that it can be read alone.
        if is_due || (self.length == 0 && self.chain.seq > 0) {
            self.checkpoint(0)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, cut: u64) -> Result<(), Reason> {
        self.write_checkpoint(cut)?;
        self.settle()
    }

    /// Writes a checkpoint; what it says of older files holds once it is [settled](Self::settle).
    fn write_checkpoint(&mut self, cut: u64) -> Result<(), Reason> {
        // The head is at least where the checkpoint begins: opening checks it without reading further back.
        self.keep_lagging_head()?;
        let from = match self.config.keep {
            Keep::All => None,
            Keep::Newest(count) => {
                let kept = usize::try_from(count).unwrap_or(usize::MAX).max(1);
                self.firsts.len().checked_sub(kept).and_then(|at| self.firsts.get(at).copied())
            }
        };
        let from = from.unwrap_or_default().max(self.from);
        self.group.begin(self.chain, self.taken);
        self.group.checkpoint(from, self.open.len() as u64, cut);
        for (intent, begun) in &self.open {
            self.group.intent(Some(*intent), begun.as_bytes());
        }
        self.write(Keeping::Head)?;
        (self.records, self.bytes, self.from) = (0, 0, from);
        Ok(())
    }

    /// Brings what was written to the disk, and removes the files that the last checkpoint needs no more.
    fn settle(&mut self) -> Result<(), Reason> {
        if self.config.fsync == Fsync::OnCheckpoint {
            self.disk.sync().map_err(reason)?;
            // After the records, so that the head on the disk names one that is there.
            self.keeper.sync().map_err(reason)?;
        }
        self.owes = false;
        let from = self.from;
        if self.firsts.front().is_some_and(|first| *first < from) {
            match self.disk.remove_before(from) {
                Ok(()) => self.firsts.retain(|first| *first >= from),
                // They are not needed any more and in nobody's way.
                Err(error) => tracing::warn!(%error, "old files of the audit log stay"),
            }
        }
        Ok(())
    }

    /// Writes the group; it is kept once this has returned.
    fn write(&mut self, keeping: Keeping) -> Result<(), Reason> {
        if std::mem::replace(&mut self.dirty, true) {
            self.disk.cut(self.length).map_err(reason)?;
        }
        if !self.group.text.is_empty() {
            self.disk.append(&self.group.text).map_err(reason)?;
            if self.config.fsync == Fsync::Always {
                self.disk.sync().map_err(reason)?;
            }
        }
        let Group { chain, outbox, .. } = self.group;
        if keeping == Keeping::Head && self.head < chain.seq {
            self.keep_head(Head::of(&chain, outbox))?;
        }
        self.dirty = false;
        let length = self.group.text.len() as u64;
        self.length += length;
        self.bytes += length;
        self.records += chain.seq - self.chain.seq;
        (self.chain, self.taken) = (chain, outbox);
        self.open.extend(self.group.opened.drain(..));
        for ended in self.group.ended.drain(..) {
            self.open.remove(&ended);
        }
        if self.head < chain.seq && self.behind.is_none() {
            self.behind = Some(Instant::now());
        }
        self.shared.kept.store(chain.seq, Ordering::Release);
        self.shared
            .newest
            .send_if_modified(|newest| std::mem::replace(newest, chain.no) != chain.no);
        Ok(())
    }

    fn keep_lagging_head(&mut self) -> Result<(), Reason> {
        if self.head < self.chain.seq {
            self.keep_head(Head::of(&self.chain, self.taken))?;
        }
        Ok(())
    }

    fn keep_head(&mut self, head: Head) -> Result<(), Reason> {
        let revision = self.keeper.keep(&head).map_err(reason)?;
        if let (Some(outbox), Some(revision)) = (&mut self.outbox, revision) {
            outbox.is_ours(revision);
        }
        self.head = head.seq;
        self.behind = None;
        Ok(())
    }

    /// Tells those who wait why nothing is kept; what nobody waits for is tried again.
    fn fail(&mut self, reason: &Reason) {
        self.is_failing = true;
        let failure = Unaudited::Failed(Arc::clone(reason));
        if self.shared.set_failure(Some(failure.clone())) {
            let log = &self.config.name;
            tracing::error!(log, error = %reason, "the audit log cannot be written: no call may begin");
        }
        for item in std::mem::take(&mut self.batch) {
            let (room, kept) = match item {
                Item::Call { .. } | Item::Shut { .. } => {
                    self.batch.push_back(item);
                    continue;
                }
                Item::Intent { intent, kept, .. } => {
                    intent.void();
                    (Some(Room::Permit), kept)
                }
                Item::Event { room, kept, .. } => (Some(room), kept),
                Item::Flush { kept } => (None, kept),
            };
            let _ = kept.send(Err(failure.clone()));
            if let Some(room) = room {
                self.shared.give_back(room);
            }
        }
    }
}

fn reason(error: impl StdError + Send + Sync + 'static) -> Reason {
    Arc::new(error)
}

/// Whatever ends the writer, nobody waits for it any more.
struct LastWord(Arc<Shared>);

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.end();
    }
}
