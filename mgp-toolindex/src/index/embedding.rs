//! Vectors that take long to make, made in the background (MGP §16.4).
//!
//! One thread takes a few tools at a time, those of the server that changed last first, and ends
//! when there is nothing to do. Until then the tools are found by words, and by the vectors they
//! had before. What waits is one bit a tool.
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{mem, thread};

use tokio::sync::watch;

use super::shared::Shared;
use super::snapshot::Snapshot;
use super::texts::Texts;
use crate::catalog::{Bitmap, Entry, Registered, Server, ServerNumber, Slot};
use crate::embed::{EmbedError, Embedder};
use crate::text::{Bounds, cut};

/// How many vectors are made before they are seen.
const BATCH: usize = 32;

/// With so many servers in line the line is looked through for those that stand in it twice.
const LINE: usize = 1024;

/// How long the thread waits for a disk that is behind, before it makes more for it.
#[cfg(feature = "sqlite")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// What waits for its vector, and the thread that makes them.
#[derive(Debug, Default)]
pub(crate) struct Embedding {
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
}

/// How far it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Whether vectors are being made.
    pub(crate) is_running: bool,
    /// How many tools wait.
    pub(crate) waiting: usize,
    /// How many could not be embedded.
    pub(crate) failed: usize,
    /// Why nothing is embedded any more, until something changes.
    pub(crate) stopped: Option<EmbedError>,
}

#[derive(Debug, Default)]
struct State {
    tools: Bitmap,
    servers: Bitmap,
    /// Tools whose vector could not be made.
    failed: Bitmap,
    /// Servers with something to do; the last one is next. One may be in it twice.
    line: Vec<ServerNumber>,
    /// How long the line may get until it is looked through.
    longest: usize,
}

/// What is embedded next, and what it is seen to be when it is done.
enum Next {
    Tools(Vec<(Slot, Arc<Entry>)>),
    Server(ServerNumber, Arc<Server>),
}

/// The vectors that became of it; none where the model failed.
enum Made {
    Tools(Vec<(Slot, Arc<Entry>, Option<Vec<f32>>)>),
    Server(ServerNumber, Arc<Server>, Option<Vec<f32>>),
}

// === impl Embedding ===

impl Embedding {
    /// Has the vectors of tools and servers made; the last ones given come first.
    pub(super) fn add(
        &self,
        shared: &Arc<Shared>,
        now: &Snapshot,
        tools: &[Slot],
        servers: &[ServerNumber],
    ) {
        let Some(embedder) = &shared.embedder else { return };
        if tools.is_empty() && servers.is_empty() {
            return;
        }
        let mut state = self.lock();
        for server in servers {
            state.servers.set(*server);
            state.line.push(*server);
        }
        for slot in tools {
            let Some(server) = now.catalog.server_of(*slot) else { continue };
            state.tools.set(*slot);
            state.failed.clear(*slot);
            if state.line.last() != Some(&server) {
                state.line.push(server);
            }
        }
        state.shorten();
        let (waiting, failed) = (state.tools.count(), state.failed.count());
        let was_running = self.tell(|progress| {
            let was_running = mem::replace(&mut progress.is_running, true);
            *progress = Progress { waiting, failed, stopped: None, ..progress.clone() };
            was_running
        });
        if !was_running {
            let worker = Worker { shared: Arc::downgrade(shared), embedder: Arc::clone(embedder) };
            let thread = thread::Builder::new().name("mgp-index-embed".to_owned());
            if let Err(error) = thread.spawn(move || worker.run()) {
                tracing::error!(%error, "no thread makes vectors; tools are found by words only");
                self.tell(|progress| progress.is_running = false);
            }
        }
        drop(state);
    }

    /// These tools are gone.
    pub(super) fn forget(&self, tools: &[Slot], servers: &[ServerNumber]) {
        let mut state = self.lock();
        if tools.is_empty() && servers.is_empty() {
            return;
        }
        for slot in tools {
            state.tools.clear(*slot);
            state.failed.clear(*slot);
        }
        for server in servers {
            state.servers.clear(*server);
        }
        let (waiting, failed) = (state.tools.count(), state.failed.count());
        self.tell(|progress| (progress.waiting, progress.failed) = (waiting, failed));
    }

    /// How far it is, now and from now on.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Tells how far it is; only whoever has the state locked does, so that both say the same.
    fn tell<T: Default>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let mut answer = T::default();
        self.progress.send_modify(|progress| answer = change(progress));
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work; without any, the thread that asks is to end.
    fn next(&self, shared: &Shared) -> Option<Next> {
        let mut state = self.lock();
        // Taken after the lock, it has everything that stands in the line.
        let now = shared.snapshot();
        while let Some(number) = state.line.last().copied() {
            if let Some(Registered { server, slots, .. }) = now.catalog.server(number) {
                let due = slots.iter().copied().filter(|slot| state.tools.contains(*slot));
                let tools: Vec<_> = due
                    .filter_map(|slot| Some((slot, now.catalog.listed(slot)?.0)))
                    .take(BATCH)
                    .collect();
                if !tools.is_empty() {
                    return Some(Next::Tools(tools));
                }
                if state.servers.contains(number) {
                    return Some(Next::Server(number, Arc::clone(server)));
                }
            }
            state.line.pop();
        }
        self.tell(|progress| progress.is_running = false);
        None
    }

    /// Notes what is done, unless it was changed meanwhile.
    fn done(&self, now: &Snapshot, made: &Made) {
        let mut state = self.lock();
        match made {
            Made::Tools(tools) => {
                let same = tools.iter().filter(|(slot, entry, _)| is_now(now, *slot, entry));
                for (slot, _, vector) in same {
                    state.tools.clear(*slot);
                    if vector.is_none() {
                        state.failed.set(*slot);
                    }
                }
            }
            Made::Server(number, server, _) => {
                if now
                    .catalog
                    .server(*number)
                    .is_none_or(|known| Arc::ptr_eq(&known.server, server))
                {
                    state.servers.clear(*number);
                }
            }
        }
        let (waiting, failed) = (state.tools.count(), state.failed.count());
        self.tell(|progress| (progress.waiting, progress.failed) = (waiting, failed));
    }

    /// Nothing more can be made until something changes.
    fn stop(&self, error: EmbedError) {
        let _state = self.lock();
        self.tell(|progress| {
            progress.is_running = false;
            progress.stopped = Some(error);
        });
    }
}

// === impl State ===

impl State {
    /// Leaves each server in the line once, where it comes first.
    fn shorten(&mut self) {
        if self.line.len() <= self.longest.max(LINE) {
            return;
        }
        let mut seen = Bitmap::default();
        let mut line = mem::take(&mut self.line);
        line.reverse();
        line.retain(|server| {
            let is_first = !seen.contains(*server);
            seen.set(*server);
            is_first
        });
        line.reverse();
        self.longest = 2 * line.len();
        self.line = line;
    }
}

/// What the thread has; it does not keep the index alive.
struct Worker {
    shared: Weak<Shared>,
    embedder: Arc<dyn Embedder>,
}

// === impl Worker ===

impl Worker {
    fn run(self) {
        while let Some(shared) = self.shared.upgrade() {
            let Some(next) = shared.embedding.next(&shared) else { return };
            let bounds = shared.limits.bounds();
            drop(shared);
            let made = self.make(next, bounds);
            let Some(shared) = self.shared.upgrade() else { return };
            match made {
                Ok(Some(made)) => shared.add_vectors(&made),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "tools are found by words only until the index changes");
                    return shared.embedding.stop(error);
                }
            }
        }
    }

    /// Embeds a few texts; nothing once the index is gone, an error if there is no model.
    fn make(&self, next: Next, bounds: Bounds) -> Result<Option<Made>, EmbedError> {
        match next {
            Next::Tools(tools) => {
                let mut made = Vec::with_capacity(tools.len());
                for (slot, entry) in tools {
                    if self.shared.strong_count() == 0 {
                        return Ok(None);
                    }
                    let sentence = Texts::of(&entry, bounds).map(|texts| texts.parts().sentence());
                    let vector = sentence.map(|sentence| self.embed(&sentence)).transpose()?;
                    made.push((slot, entry, vector.flatten()));
                }
                Ok(Some(Made::Tools(made)))
            }
            Next::Server(number, server) => {
                let sentence = server_sentence(&server, bounds);
                let vector = self.embed(&sentence)?;
                Ok(Some(Made::Server(number, server, vector)))
            }
        }
    }

    fn embed(&self, sentence: &str) -> Result<Option<Vec<f32>>, EmbedError> {
        match self.embedder.embed(sentence) {
            Ok(vector) => Ok(Some(vector)),
            Err(error @ EmbedError::Unavailable { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a tool has no vector and is found by words only");
                Ok(None)
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Embedders are other people's code; one that panics must not leave somebody waiting.
        if thread::panicking()
            && let Some(shared) = self.shared.upgrade()
        {
            let (model, reason) = (self.embedder.model().to_owned(), "it panicked".to_owned());
            shared.embedding.stop(EmbedError::Failed { model, reason });
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Publishes vectors of what is still as it was when they were made.
    fn add_vectors(&self, made: &Made) {
        self.set_vectors(|next| {
            match made {
                Made::Tools(tools) => {
                    for (slot, entry, vector) in tools {
                        if !is_now(next, *slot, entry) {
                            continue;
                        }
                        let Some(table) = next.vectors.as_mut() else { break };
                        match vector {
                            Some(vector) => table.set(*slot, vector),
                            None => table.clear(*slot),
                        }
                    }
                }
                Made::Server(number, server, vector) => {
                    let known = next.catalog.server(*number);
                    let is_same = known.is_some_and(|known| Arc::ptr_eq(&known.server, server));
                    if let (true, Some(vector), Some(table)) = (is_same, vector, &mut next.servers)
                    {
                        table.set(*number, vector);
                    }
                }
            }
            self.embedding.done(next, made);
        });
        #[cfg(feature = "sqlite")]
        if let Made::Tools(tools) = made {
            let now = self.snapshot();
            let slots = tools.iter().filter(|(slot, entry, _)| is_now(&now, *slot, entry));
            self.keep_vectors(&now, slots.map(|(slot, ..)| *slot));
            // The model may be quicker than the disk.
            self.keeper.iter().for_each(|keeper| keeper.wait_for_room(PATIENCE));
        }
    }
}

fn is_now(now: &Snapshot, slot: Slot, entry: &Arc<Entry>) -> bool {
    now.catalog.record(slot).is_some_and(|record| Arc::ptr_eq(&record.entry, entry))
}

/// What is embedded of a server.
pub(super) fn server_sentence(server: &Server, bounds: Bounds) -> String {
    let name = server.name.as_deref().unwrap_or(&server.id);
    let description = cut(server.description.as_deref().unwrap_or_default(), bounds.description);
    format!("{name}. {description}")
}
