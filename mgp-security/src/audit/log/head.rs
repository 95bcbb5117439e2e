//! The head of a log, i.e. the number and hash of its last acknowledged record. The head is saved in the store of the
//! log, if the log has one, otherwise in a file in its directory. An attacker who can change only the log files cannot
//! change the store.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};

use mgp_types::store::{Change, Record, Store, StoreError};
use mgp_types::{Payload, push_hex, to_hex};

use super::chain::{Chain, ChainKey, parse_hash};
use super::encode;
use super::error::{BadRecord, LogError, RecordFlaw};
use super::segments::{LogPlace, private, refuse_exposed};
use crate::audit::forward::POSITIONS;

/// The space of a store in which logs save their heads, each under its name.
const SPACE: &str = "audit";

/// The fixed length of the head file, which allows replacing its content with a single write.
const FILE_LENGTH: usize = 192;

/// The last acknowledged record of a log, against which the log is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogHead {
    /// The number of the record; zero for an empty log.
    pub seq: u64,
    /// The hash of the record.
    pub hash: [u8; 32],
    /// The number that the last event taken from the store had there.
    pub(super) outbox: u64,
    /// The key with which the hashes of the log are computed.
    pub(super) key: ChainKey,
    /// The number of the last record that was synced to the disk when the head was saved. A power cut can lose only
    /// records after it.
    pub(super) synced: u64,
    /// The number of acknowledged records after the head that are lost; zero once an event in the log records the loss.
    pub(super) lost: u64,
}

impl LogHead {
    /// Returns the head of a log whose records are all synced.
    pub(super) fn of(chain: &Chain, outbox: u64) -> Self {
        let Chain { seq, hash, key, .. } = *chain;
        Self { seq, hash, outbox, key, synced: seq, lost: 0 }
    }

    /// Returns whether the head's record was replaced: the chain has another record with the same number, and the log
    /// itself cannot have written that other record.
    ///
    /// A power cut can lose the head's record if the record was not synced. The next process gives its number to
    /// another record, and a second power cut can bring the earlier head back. This case is accepted only if the log
    /// has a secret, because the secret proves that this log wrote the other record.
    pub(super) fn is_replaced(&self, chain: &Chain) -> bool {
        let is_fixed = self.synced == self.seq || self.key.as_bytes().is_none();
        chain.seq == self.seq && chain.hash != self.hash && is_fixed
    }

    /// Reads the head that a store holds for a log; returns `None` if the store holds none.
    ///
    /// # Errors
    /// [`LogError::Store`] if the store cannot be read, or if the head in it is damaged.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn in_store(store: &dyn Store, name: &str) -> Result<Option<Self>, LogError> {
        let loaded = store.load(SPACE).await?;
        let found = loaded.records.into_iter().find(|record| record.key == name);
        found.map(|record| Self::of_record(&record)).transpose().map(Option::flatten)
    }

    /// Reads the head from the file in the log's directory; returns `None` if there is no such file.
    ///
    /// # Errors
    /// [`LogError::Io`] if the file cannot be read; [`LogError::BadRecord`] if it was changed.
    pub fn beside(dir: &Path, name: &str) -> Result<Option<Self>, LogError> {
        let path = LogPlace::new(dir, name)?.beside("head");
        match fs::read(&path) {
            Ok(text) => match Self::read_file(&text) {
                Some(head) => Ok(Some(head)),
                None => Err(BadRecord::new(0, RecordFlaw::Beside(path)).into()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LogError::io(&path, "read")(error)),
        }
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut out = br#"{"seq":"#.to_vec();
        encode::number(&mut out, self.seq);
        out.extend_from_slice(br#","outbox":"#);
        encode::number(&mut out, self.outbox);
        if self.synced < self.seq {
            out.extend_from_slice(br#","synced":"#);
            encode::number(&mut out, self.synced);
        }
        if self.lost > 0 {
            out.extend_from_slice(br#","lost":"#);
            encode::number(&mut out, self.lost);
        }
        out.extend_from_slice(br#","hash":""#);
        push_hex(&self.hash, &mut out);
        if let Some(secret) = self.key.as_bytes() {
            out.extend_from_slice(br#"","key":""#);
            push_hex(secret, &mut out);
        }
        out.extend_from_slice(b"\"}");
        out
    }

    fn read(text: &str) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Wire {
            seq: u64,
            outbox: u64,
            /// The number of the last synced record; absent if all records were synced.
            synced: Option<u64>,
            lost: Option<u64>,
            hash: String,
            key: Option<String>,
        }
        let Wire { seq, outbox, synced, lost, hash, key } = serde_json::from_str(text).ok()?;
        let key = key.map_or(Some(ChainKey::NONE), |secret| ChainKey::parse(&secret))?;
        let (hash, synced) = (parse_hash(&hash)?, synced.unwrap_or(seq));
        Some(Self { seq, hash, outbox, key, synced, lost: lost.unwrap_or_default() })
    }

    fn of_record(record: &Record) -> Result<Option<Self>, LogError> {
        let Some(value) = &record.value else { return Ok(None) };
        let unreadable = || {
            let key = &record.key;
            StoreError::Unreadable(format!("`{key}` in `{SPACE}` is damaged; restore a backup"))
        };
        Ok(Some(Self::read(value.as_str()).ok_or_else(unreadable)?))
    }

    /// Returns the content of the head file: the head, the beginning of the head's hash, and spaces.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut out = self.text();
        let check = blake3::hash(&out);
        out.push(b' ');
        out.extend_from_slice(&to_hex(check.as_bytes()).as_bytes()[..16]);
        out.resize(FILE_LENGTH - 1, b' ');
        out.push(b'\n');
        out
    }

    fn read_file(file: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(file).ok()?;
        let head = Self::read(text.split(' ').next()?)?;
        // Encode the head again and compare, so that every damaged byte of the file is detected.
        (head.file() == file).then_some(head)
    }
}

/// The store or file in which the head is saved.
pub(super) enum HeadPlace {
    Store {
        store: Arc<dyn Store>,
        name: String,
        /// The store's revision after the last save. A commit expects this revision, so a second writer of the same log
        /// causes a conflict.
        revision: Option<u64>,
        /// `true` if it is unknown whether the last commit succeeded.
        doubtful: bool,
    },
    File {
        file: File,
        sync: bool,
    },
}

impl HeadPlace {
    /// Creates the key of a new log. If the head is saved in a store, the key is a random secret, which is saved there
    /// too: programs that can write only the log files cannot read it. Otherwise, the log has no secret.
    pub(super) fn new_key(&self) -> Result<ChainKey, StoreError> {
        match self {
            Self::Store { .. } => ChainKey::random(),
            Self::File { .. } => Ok(ChainKey::NONE),
        }
    }

    /// Opens the store or file for the head, and reads the head that is saved there.
    pub(super) fn open(
        place: &LogPlace,
        store: Option<Arc<dyn Store>>,
        sync: bool,
    ) -> Result<(Self, Option<LogHead>), LogError> {
        if let Some(store) = store {
            let record = load(&*store, &place.name)?;
            let head = record.as_ref().map(LogHead::of_record).transpose()?.flatten();
            let revision = record.map(|record| record.revision);
            return Ok((
                Self::Store { store, name: place.name.clone(), revision, doubtful: false },
                head,
            ));
        }
        let head = LogHead::beside(&place.dir, &place.name)?;
        let path = place.beside("head");
        let file = private().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(LogError::io(&path, "opened"))?;
        refuse_exposed(&path, 0o600)?;
        Ok((Self::File { file, sync }, head))
    }

    /// Saves a head durably; returns the new revision if it was saved in a store.
    pub(super) fn keep(&mut self, head: &LogHead) -> Result<Option<u64>, StoreError> {
        match self {
            Self::Store { store, name, revision, doubtful } => {
                if *doubtful {
                    // It is unknown whether our last commit succeeded. But the head in the store is one of the last two
                    // heads that this process wrote, not the head of another writer. So it can be overwritten: use its
                    // revision.
                    *revision = load(&**store, name)?.map(|record| record.revision);
                }
                let text = String::from_utf8(head.text()).map_err(StoreError::failed)?;
                let change = Change::new()
                    .put(SPACE, name.as_str(), Payload::from_trusted(text))
                    .expect_revision(SPACE, name.as_str(), *revision);
                let committed = wait(store.commit(change));
                *doubtful = match &committed {
                    Ok(at) => {
                        *revision = Some(*at);
                        false
                    }
                    // Another writer saved its head first, so our commit certainly failed.
                    Err(StoreError::Conflict { .. }) => false,
                    Err(_) => true,
                };
                committed.map(Some)
            }
            Self::File { file, sync } => {
                let written = file.rewind().and_then(|()| file.write_all(&head.file()));
                let written = written.and_then(|()| if *sync { file.sync_data() } else { Ok(()) });
                written.map_err(StoreError::failed)?;
                Ok(None)
            }
        }
    }

    /// Lowers the saved positions of the sinks, i.e. of the receivers to which events are forwarded, after the last
    /// `lost` events of the log were lost. New events get the numbers of the lost events, and must be forwarded too.
    /// Therefore each position among the lost numbers becomes `last`, the number of the last remaining event.
    pub(super) fn rewind_sinks(&self, last: u64, lost: u64) -> Result<(), StoreError> {
        let Self::Store { store, .. } = self else { return Ok(()) };
        let mut change = Change::new();
        for record in wait(store.load(POSITIONS))?.records {
            let at = record.value.as_ref().and_then(|value| value.get::<u64>().ok());
            if at.is_some_and(|at| at > last && at - last <= lost) {
                let last = Payload::from_trusted(last.to_string());
                change = change.put(POSITIONS, record.key, last);
            }
        }
        if change.is_empty() { Ok(()) } else { wait(store.commit(change)).map(drop) }
    }

    /// Syncs the head file to the disk. Does nothing if the head is in a store. The store may sync its commits later,
    /// so after a power cut it can contain an earlier head.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Store { .. } => Ok(()),
            Self::File { file, .. } => file.sync_data().map_err(StoreError::failed),
        }
    }
}

fn load(store: &dyn Store, name: &str) -> Result<Option<Record>, StoreError> {
    let loaded = wait(store.load(SPACE))?;
    Ok(loaded.records.into_iter().find(|record| record.key == name))
}

/// Runs a future of a store to its end. Blocks the thread, which must not be one of a runtime.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = Task::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
