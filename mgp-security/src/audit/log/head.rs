//! The head of a log: its last acknowledged record, kept where a change of the files alone does not reach.
//!
//! Applies to: both.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};

use mgp_types::store::{Change, Record, Store, StoreError};
use mgp_types::{Payload, push_hex, to_hex};

use super::chain::{Chain, unhex};
use super::error::{Bad, Flaw, LogError};
use super::json;
use super::segments::{Place, private, refuse_exposed};

/// The space of a store in which logs keep their heads, each under its name.
const SPACE: &str = "audit";

/// The length of the file, so that it is written in one piece and in one place.
const FILE_LENGTH: usize = 192;

/// The last record of a log that was acknowledged: what a log is verified against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// Its number; zero where there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// The last number taken out of a store.
    pub(super) outbox: u64,
}

impl Head {
    pub(super) fn of(chain: &Chain, outbox: u64) -> Self {
        Self { seq: chain.seq, hash: chain.hash, outbox }
    }

    /// Reads the head that a store keeps for a log; none where it keeps none.
    ///
    /// # Errors
    /// [`LogError::Store`]; [`LogError::Bad`] when it cannot be understood.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn in_store(store: &dyn Store, name: &str) -> Result<Option<Self>, LogError> {
        let loaded = store.load(SPACE).await?;
        let found = loaded.records.into_iter().find(|record| record.key == name);
        found.map(|record| Self::of_record(&record)).transpose().map(Option::flatten)
    }

    /// Reads the head in the file beside a log, where no store keeps it; none where there is no such file.
    ///
    /// # Errors
    /// [`LogError::Io`]; [`LogError::Bad`] when it was changed.
    pub fn beside(dir: &Path, name: &str) -> Result<Option<Self>, LogError> {
        let path = Place::new(dir, name)?.beside("head");
        match fs::read(&path) {
            Ok(text) => match Self::read_file(&text) {
                Some(head) => Ok(Some(head)),
                None => Err(Bad::new(0, Flaw::Beside(path)).into()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LogError::io(&path, "read")(error)),
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut out = br#"{"seq":"#.to_vec();
        json::number(&mut out, self.seq);
        out.extend_from_slice(br#","outbox":"#);
        json::number(&mut out, self.outbox);
        out.extend_from_slice(br#","hash":""#);
        push_hex(&self.hash, &mut out);
        out.extend_from_slice(b"\"}");
        out
    }

    fn read(text: &str) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Wire {
            seq: u64,
            outbox: u64,
            hash: String,
        }
        let Wire { seq, outbox, hash } = serde_json::from_str(text).ok()?;
        Some(Self { seq, hash: unhex(&hash)?, outbox })
    }

    fn of_record(record: &Record) -> Result<Option<Self>, LogError> {
        let Some(value) = &record.value else { return Ok(None) };
        let unreadable = || StoreError::Unreadable(format!("`{}` in `{SPACE}`", record.key));
        Ok(Some(Self::read(value.as_str()).ok_or_else(unreadable)?))
    }

    /// The file: the head, its own hash, and blanks.
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
        // Written again it must be the same to the byte.
        (head.file() == file).then_some(head)
    }
}

/// Where the head is kept while the log is written.
pub(super) enum Keeper {
    Store {
        store: Arc<dyn Store>,
        name: String,
        /// The revision that wrote it last: another writer of the same name is noticed by it.
        revision: Option<u64>,
        /// Whether the last commit may or may not have been made.
        doubtful: bool,
    },
    File {
        file: File,
        sync: bool,
    },
}

impl Keeper {
    /// The keeper, and the head it has.
    pub(super) fn open(
        place: &Place,
        store: Option<Arc<dyn Store>>,
        sync: bool,
    ) -> Result<(Self, Option<Head>), LogError> {
        if let Some(store) = store {
            let record = load(&*store, &place.name)?;
            let head = record.as_ref().map(Head::of_record).transpose()?.flatten();
            let revision = record.map(|record| record.revision);
            return Ok((
                Self::Store { store, name: place.name.clone(), revision, doubtful: false },
                head,
            ));
        }
        let head = Head::beside(&place.dir, &place.name)?;
        let path = place.beside("head");
        let file = private().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(LogError::io(&path, "opened"))?;
        refuse_exposed(&path, 0o600)?;
        Ok((Self::File { file, sync }, head))
    }

    /// Keeps a head; it is kept once this has returned. The revision is that of the store, if it is one.
    pub(super) fn keep(&mut self, head: &Head) -> Result<Option<u64>, StoreError> {
        match self {
            Self::Store { store, name, revision, doubtful } => {
                if *doubtful {
                    // Whichever of our two heads is there, it is ours and may be written over.
                    *revision = load(&**store, name)?.map(|record| record.revision);
                }
                let text = String::from_utf8(head.text()).map_err(StoreError::failed)?;
                let change = Change::new()
                    .put(SPACE, name.as_str(), Payload::from_trusted(text))
                    .expect(SPACE, name.as_str(), *revision);
                let committed = wait(store.commit(change));
                *doubtful = match &committed {
                    Ok(at) => {
                        *revision = Some(*at);
                        false
                    }
                    // Somebody else wrote it: that is no doubt of ours.
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
}

impl Keeper {
    /// Brings the head to the disk, where it is in a file; a store does so as it was told to.
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

/// Waits for a store on a thread that has no runtime.
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
