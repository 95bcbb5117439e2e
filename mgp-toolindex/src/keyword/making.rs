//! New parts of the keyword index: small ones are made at once, large ones by several threads (MGP §16.4).
//!
//! Applies to: inbound.

use std::fmt;
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tantivy::TantivyError;

use super::part::{Body, Format, Open};
use crate::catalog::Slot;
use crate::error::IndexError;
use crate::text::{Document, Indexer};

/// With so many documents at once threads make the parts; fewer are made before a thread has started.
const MANY: usize = 256;

/// How many threads: each makes a part of its own, and parts cost every search.
const THREADS: usize = 2;

/// How many batches wait for a thread.
const WAITING: usize = 2;

/// With so many bytes in memory a part is closed and the next one begun.
const FULL: usize = 14_000_000;

/// Makes the words of a tool, on whichever thread.
pub(crate) type Make = Box<dyn FnOnce(&mut Indexer) -> Document + Send>;

/// A document to be made: its number within the change, its tool, its words.
pub(super) type Job = (u32, Slot, Make);

/// The parts that a change makes.
#[derive(Default)]
pub(super) enum Making {
    /// Nothing yet.
    #[default]
    Nothing,
    /// Here.
    Here(Box<Maker>),
    /// On threads.
    There(Crew),
}

/// A part that was made.
pub(super) struct Made {
    pub(super) body: Body,
    /// The number of each document within the change.
    pub(super) numbers: Vec<u32>,
}

/// Makes parts one after the other.
pub(super) struct Maker {
    format: Format,
    indexer: Indexer,
    open: Open,
    numbers: Vec<u32>,
    made: Vec<Made>,
}

/// Threads that make parts beside each other.
pub(super) struct Crew {
    jobs: SyncSender<Vec<Job>>,
    threads: Vec<JoinHandle<tantivy::Result<Vec<Made>>>>,
}

// === impl Making ===

impl Making {
    /// Has documents made, here or elsewhere.
    pub(super) fn add(&mut self, format: &Format, jobs: Vec<Job>) -> Result<(), IndexError> {
        if let Self::Nothing = self {
            let crew = if jobs.len() >= MANY { Crew::start(format) } else { None };
            *self = match crew {
                Some(crew) => Self::There(crew),
                None => Self::Here(Box::new(Maker::new(format.clone()))),
            };
        }
        match self {
            Self::Nothing => Ok(()),
            Self::Here(maker) => Ok(maker.add(jobs)?),
            // Threads that have ended say why when they are asked for their parts.
            Self::There(crew) => crew.jobs.send(jobs).map_err(|_| mem::take(self).failure()),
        }
    }

    /// Ends all parts.
    pub(super) fn finish(self) -> Result<Vec<Made>, IndexError> {
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::Here(maker) => Ok(maker.finish()?),
            Self::There(crew) => crew.finish(),
        }
    }

    fn failure(self) -> IndexError {
        self.finish().err().unwrap_or_else(|| IndexError::Keywords(died()))
    }
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Here(_) => "Here",
            Self::There(_) => "There",
        })
    }
}

// === impl Maker ===

impl Maker {
    fn new(format: Format) -> Self {
        Self {
            format,
            indexer: Indexer::new(),
            open: Open::default(),
            numbers: Vec::new(),
            made: Vec::new(),
        }
    }

    fn add(&mut self, jobs: Vec<Job>) -> tantivy::Result<()> {
        for (number, slot, make) in jobs {
            self.open.add(slot, &make(&mut self.indexer));
            self.numbers.push(number);
            if self.open.bytes() >= FULL {
                self.close()?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> tantivy::Result<()> {
        if !self.numbers.is_empty() {
            let body = self.format.close(mem::take(&mut self.open))?;
            self.made.push(Made { body, numbers: mem::take(&mut self.numbers) });
        }
        Ok(())
    }

    fn finish(mut self) -> tantivy::Result<Vec<Made>> {
        self.close()?;
        Ok(self.made)
    }

    fn run(mut self, jobs: &Mutex<Receiver<Vec<Job>>>) -> tantivy::Result<Vec<Made>> {
        loop {
            // Whoever waits has the lock, and the next one waits for that.
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(jobs) => self.add(jobs)?,
                Err(_) => return self.finish(),
            }
        }
    }
}

// === impl Crew ===

impl Crew {
    /// Starts threads; none where they would take turns on one processor, or where the system has none to give.
    fn start(format: &Format) -> Option<Self> {
        let many = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        if many < 2 {
            return None;
        }
        let (jobs, wanted) = sync_channel(WAITING);
        let wanted = Arc::new(Mutex::new(wanted));
        let mut threads = Vec::with_capacity(many);
        for _ in 0..many {
            let (maker, wanted) = (Maker::new(format.clone()), Arc::clone(&wanted));
            let thread = thread::Builder::new().name("mgp-index-words".to_owned());
            threads.extend(thread.spawn(move || maker.run(&wanted)).ok());
        }
        (!threads.is_empty()).then_some(Self { jobs, threads })
    }

    fn finish(self) -> Result<Vec<Made>, IndexError> {
        drop(self.jobs);
        let mut made = Vec::new();
        for thread in self.threads {
            made.extend(thread.join().map_err(|_| died())??);
        }
        Ok(made)
    }
}

fn died() -> TantivyError {
    TantivyError::InternalError("a thread of it died".to_owned())
}
