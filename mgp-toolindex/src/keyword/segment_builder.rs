//! Builds new segments of the keyword index: a few documents on the caller's thread, many documents on several threads
//! (MGP §16.4).

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use mgp_types::sync::Mutex;
use tantivy::TantivyError;

use super::segment::{Format, SegmentBatch, SegmentBody};
use crate::catalog::Slot;
use crate::error::IndexError;
use crate::text::{Document, Indexer};

/// The minimum number of documents for which threads are started; fewer documents are indexed before a thread would
/// have started.
const MIN_DOCUMENTS_FOR_THREADS: usize = 256;

/// The maximum number of threads. Each thread builds its own segment, and every segment makes searches slower.
const MAX_THREADS: usize = 2;

/// The maximum number of batches that wait for a thread.
const MAX_WAITING_BATCHES: usize = 2;

/// The size in memory, in bytes, at which a segment is finished and the next one begins.
const MAX_BATCH_BYTES: usize = 14_000_000;

/// A function that creates the document of a tool by splitting its texts into words; it can run on any thread.
pub(crate) type MakeDocument = Box<dyn FnOnce(&mut Indexer) -> Document + Send>;

/// A document to index: its number within the current change, the slot of its tool, and the function that creates it.
pub(super) type DocumentJob = (u32, Slot, MakeDocument);

/// The segments that a change is building.
#[derive(Default)]
pub(super) enum Building {
    #[default]
    Idle,
    /// The segments are built on the thread of the caller, because there are few documents.
    Inline(Box<SegmentBuilder>),
    /// The segments are built on separate threads.
    Threads(BuilderThreads),
}

pub(super) struct BuiltSegment {
    pub(super) body: SegmentBody,
    /// The number that each document of the segment has within the current change.
    pub(super) numbers: Vec<u32>,
}

pub(super) struct SegmentBuilder {
    format: Format,
    indexer: Indexer,
    batch: SegmentBatch,
    numbers: Vec<u32>,
    built: Vec<BuiltSegment>,
}

/// Threads that build segments in parallel.
pub(super) struct BuilderThreads {
    jobs: SyncSender<Vec<DocumentJob>>,
    threads: Vec<JoinHandle<tantivy::Result<Vec<BuiltSegment>>>>,
}

impl Building {
    pub(super) fn add(
        &mut self,
        format: &Format,
        jobs: Vec<DocumentJob>,
    ) -> Result<(), IndexError> {
        if let Self::Idle = self {
            let threads = if jobs.len() >= MIN_DOCUMENTS_FOR_THREADS {
                BuilderThreads::start(format)
            } else {
                None
            };
            *self = match threads {
                Some(threads) => Self::Threads(threads),
                None => Self::Inline(Box::new(SegmentBuilder::new(format.clone()))),
            };
        }
        match self {
            Self::Idle => Ok(()),
            Self::Inline(builder) => Ok(builder.add(jobs)?),
            // If sending fails, the threads have ended, and joining them returns their error.
            Self::Threads(threads) => {
                threads.jobs.send(jobs).map_err(|_| mem::take(self).failure())
            }
        }
    }

    /// Finishes the current segments, and returns all built segments.
    pub(super) fn finish(self) -> Result<Vec<BuiltSegment>, IndexError> {
        match self {
            Self::Idle => Ok(Vec::new()),
            Self::Inline(builder) => Ok(builder.finish()?),
            Self::Threads(threads) => threads.finish(),
        }
    }

    fn failure(self) -> IndexError {
        self.finish().err().unwrap_or_else(|| IndexError::Keywords(thread_failed()))
    }
}

impl SegmentBuilder {
    fn new(format: Format) -> Self {
        Self {
            format,
            indexer: Indexer::new(),
            batch: SegmentBatch::default(),
            numbers: Vec::new(),
            built: Vec::new(),
        }
    }

    fn add(&mut self, jobs: Vec<DocumentJob>) -> tantivy::Result<()> {
        for (number, slot, make) in jobs {
            self.batch.add(slot, &make(&mut self.indexer));
            self.numbers.push(number);
            if self.batch.bytes() >= MAX_BATCH_BYTES {
                self.close()?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> tantivy::Result<()> {
        if !self.numbers.is_empty() {
            let body = self.format.write(mem::take(&mut self.batch))?;
            self.built.push(BuiltSegment { body, numbers: mem::take(&mut self.numbers) });
        }
        Ok(())
    }

    fn finish(mut self) -> tantivy::Result<Vec<BuiltSegment>> {
        self.close()?;
        Ok(self.built)
    }

    fn run(
        mut self,
        jobs: &Mutex<Receiver<Vec<DocumentJob>>>,
    ) -> tantivy::Result<Vec<BuiltSegment>> {
        loop {
            // Keep the lock while waiting for a batch. The other threads wait for the lock, so one thread at a time
            // receives a batch.
            let next = jobs.lock().recv();
            match next {
                Ok(jobs) => self.add(jobs)?,
                Err(_) => return self.finish(),
            }
        }
    }
}

impl BuilderThreads {
    /// Starts the threads; returns `None` on a single processor, or if the system has no threads left.
    fn start(format: &Format) -> Option<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        if count < 2 {
            return None;
        }
        let (jobs, receiver) = sync_channel(MAX_WAITING_BATCHES);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            let (builder, receiver) = (SegmentBuilder::new(format.clone()), Arc::clone(&receiver));
            let thread = thread::Builder::new().name("mgp-index-words".to_owned());
            threads.extend(thread.spawn(move || builder.run(&receiver)).ok());
        }
        (!threads.is_empty()).then_some(Self { jobs, threads })
    }

    fn finish(self) -> Result<Vec<BuiltSegment>, IndexError> {
        drop(self.jobs);
        let mut built = Vec::new();
        for thread in self.threads {
            built.extend(thread.join().map_err(|_| thread_failed())??);
        }
        Ok(built)
    }
}

fn thread_failed() -> TantivyError {
    TantivyError::InternalError("an indexing thread panicked".to_owned())
}
