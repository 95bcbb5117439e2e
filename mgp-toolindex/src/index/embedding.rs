//! Computes vectors in the background, if the cost of the embedder is large (MGP §16.4).
//!
//! A thread computes the vectors of a few tools at a time, beginning with the most recently changed server, and ends
//! when the queue is empty. Until then, searches find these tools by their words and their old vectors. The queue needs
//! one bit of memory for a tool.

use std::sync::{Arc, Weak};
use std::{mem, thread};

use mgp_types::sync::Mutex;
use tokio::sync::watch;

use super::shared::SharedIndex;
use super::snapshot::Snapshot;
use super::tool_source::ToolSource;
use crate::catalog::{Bitmap, Entry, Server, ServerNumber, ServerRecord, Slot};
use crate::embed::{EmbedError, Embedder};
use crate::text::{TextLimits, truncate};

/// The number of vectors that are published together.
const BATCH: usize = 32;

/// Duplicates are removed from the queue of servers only if it is longer than this.
const MIN_DEDUPLICATED_LEN: usize = 1024;

/// The maximum time that the thread waits for a slow disk before it computes more vectors.
#[cfg(feature = "sqlite")]
const DISK_WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The queue of tools and servers whose vectors the embedder's thread must compute.
#[derive(Debug, Default)]
pub(crate) struct EmbeddingQueue {
    state: Mutex<QueueState>,
    progress: watch::Sender<EmbeddingProgress>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EmbeddingProgress {
    /// `true` while the thread is running.
    pub(crate) is_running: bool,
    /// The number of tools that are waiting for a vector.
    pub(crate) waiting: usize,
    /// The number of tools that could not be embedded.
    pub(crate) failed: usize,
    /// The error that stopped the thread; the next change clears it.
    pub(crate) stopped: Option<EmbedError>,
}

#[derive(Debug, Default)]
struct QueueState {
    tools: Bitmap,
    servers: Bitmap,
    /// The tools that could not be embedded.
    failed: Bitmap,
    /// The servers with tools that wait for a vector. The tools of the last server in the list are embedded next; a
    /// server can be in the list several times.
    queue: Vec<ServerNumber>,
    /// The length of `queue` at which its duplicates are removed next.
    deduplicate_at: usize,
}

/// A batch of texts to embed, with the tools or the server to which they belong.
enum EmbeddingJob {
    Tools(Vec<(Slot, Arc<Entry>)>),
    Server(ServerNumber, Arc<Server>),
}

/// The result of a batch; a vector is `None` if the model failed on the text.
enum EmbeddedJob {
    Tools(Vec<(Slot, Arc<Entry>, Option<Vec<f32>>)>),
    Server(ServerNumber, Arc<Server>, Option<Vec<f32>>),
}

impl EmbeddingQueue {
    /// Queues tools and servers for embedding. The tools and servers that are queued last are embedded first.
    pub(super) fn add(
        &self,
        shared: &Arc<SharedIndex>,
        now: &Snapshot,
        tools: &[Slot],
        servers: &[ServerNumber],
    ) {
        let Some(embedder) = &shared.embedder else { return };
        if tools.is_empty() && servers.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for server in servers {
            state.servers.set(*server);
            state.queue.push(*server);
        }
        for slot in tools {
            let Some(server) = now.catalog.server_of(*slot) else { continue };
            state.tools.set(*slot);
            state.failed.clear(*slot);
            if state.queue.last() != Some(&server) {
                state.queue.push(server);
            }
        }
        state.deduplicate();
        let (waiting, failed) = (state.tools.count(), state.failed.count());
        let was_running = self.update_progress(|progress| {
            let was_running = mem::replace(&mut progress.is_running, true);
            *progress = EmbeddingProgress { waiting, failed, stopped: None, ..progress.clone() };
            was_running
        });
        if !was_running {
            let worker =
                EmbeddingWorker { shared: Arc::downgrade(shared), embedder: Arc::clone(embedder) };
            let thread = thread::Builder::new().name("mgp-index-embed".to_owned());
            if let Err(error) = thread.spawn(move || worker.run()) {
                tracing::error!(%error, "embedding thread not started; tools are found by words only");
                let (model, reason) = (embedder.model().to_owned(), error.to_string());
                self.set_stopped(EmbedError::Failed { model, reason });
            }
        }
        drop(state);
    }

    pub(super) fn remove(&self, tools: &[Slot], servers: &[ServerNumber]) {
        let mut state = self.state.lock();
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
        self.update_progress(|progress| (progress.waiting, progress.failed) = (waiting, failed));
    }

    pub(crate) fn progress(&self) -> watch::Receiver<EmbeddingProgress> {
        self.progress.subscribe()
    }

    /// Updates the published progress. The caller must hold the lock of the queue, so that the progress always agrees
    /// with the queue.
    fn update_progress<T: Default>(&self, change: impl FnOnce(&mut EmbeddingProgress) -> T) -> T {
        let mut answer = T::default();
        self.progress.send_modify(|progress| answer = change(progress));
        answer
    }

    /// Returns the next batch of texts. If the queue is empty, marks the thread as stopped and returns `None`; the
    /// thread must then end.
    fn next(&self, shared: &SharedIndex) -> Option<EmbeddingJob> {
        let mut state = self.state.lock();
        // Read the snapshot while the queue is locked, so that it contains everything that is queued.
        let now = shared.snapshot();
        while let Some(number) = state.queue.last().copied() {
            if let Some(ServerRecord { server, slots, .. }) = now.catalog.server(number) {
                let due = slots.iter().copied().filter(|slot| state.tools.contains(*slot));
                let tools: Vec<_> = due
                    .filter_map(|slot| Some((slot, now.catalog.listed(slot)?.0)))
                    .take(BATCH)
                    .collect();
                if !tools.is_empty() {
                    return Some(EmbeddingJob::Tools(tools));
                }
                if state.servers.contains(number) {
                    return Some(EmbeddingJob::Server(number, Arc::clone(server)));
                }
            }
            state.queue.pop();
        }
        self.update_progress(|progress| progress.is_running = false);
        None
    }

    /// Removes the tools and servers of a batch from the queue, except tools and servers whose texts have changed
    /// meanwhile.
    fn finish(&self, now: &Snapshot, made: &EmbeddedJob) {
        let mut state = self.state.lock();
        match made {
            EmbeddedJob::Tools(tools) => {
                let same = tools.iter().filter(|(slot, entry, _)| is_current(now, *slot, entry));
                for (slot, _, vector) in same {
                    state.tools.clear(*slot);
                    if vector.is_none() {
                        state.failed.set(*slot);
                    }
                }
            }
            EmbeddedJob::Server(number, server, _) => {
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
        self.update_progress(|progress| (progress.waiting, progress.failed) = (waiting, failed));
    }

    /// Records that the thread stops because of an error; the next change of the index starts a new thread.
    fn stop(&self, error: EmbedError) {
        let _state = self.state.lock();
        self.set_stopped(error);
    }

    /// Publishes that no thread is running because of an error. The caller must hold the lock of the queue.
    fn set_stopped(&self, error: EmbedError) {
        self.update_progress(|progress| {
            progress.is_running = false;
            progress.stopped = Some(error);
        });
    }
}

impl QueueState {
    /// Removes duplicates from the queue, so that only the last occurrence of each server remains.
    fn deduplicate(&mut self) {
        if self.queue.len() <= self.deduplicate_at.max(MIN_DEDUPLICATED_LEN) {
            return;
        }
        let mut seen = Bitmap::default();
        let mut queue = mem::take(&mut self.queue);
        queue.reverse();
        queue.retain(|server| {
            let is_first = !seen.contains(*server);
            seen.set(*server);
            is_first
        });
        queue.reverse();
        self.deduplicate_at = 2 * queue.len();
        self.queue = queue;
    }
}

/// The data of the embedding thread. Its reference is weak, so the thread does not keep the index alive.
struct EmbeddingWorker {
    shared: Weak<SharedIndex>,
    embedder: Arc<dyn Embedder>,
}

impl EmbeddingWorker {
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
                    tracing::error!(%error, "embedding stopped; tools are found by words only until the index changes");
                    return shared.embedding.stop(error);
                }
            }
        }
    }

    /// Computes the vectors of a batch. Returns `None` if the index was dropped, and an error if the model is
    /// unavailable.
    fn make(
        &self,
        next: EmbeddingJob,
        bounds: TextLimits,
    ) -> Result<Option<EmbeddedJob>, EmbedError> {
        match next {
            EmbeddingJob::Tools(tools) => {
                let mut made = Vec::with_capacity(tools.len());
                for (slot, entry) in tools {
                    if self.shared.strong_count() == 0 {
                        return Ok(None);
                    }
                    let sentence =
                        ToolSource::of(&entry, bounds).map(|texts| texts.tool_text().sentence());
                    let vector = sentence.map(|sentence| self.embed(&sentence)).transpose()?;
                    made.push((slot, entry, vector.flatten()));
                }
                Ok(Some(EmbeddedJob::Tools(made)))
            }
            EmbeddingJob::Server(number, server) => {
                let sentence = server_sentence(&server, bounds);
                let vector = self.embed(&sentence)?;
                Ok(Some(EmbeddedJob::Server(number, server, vector)))
            }
        }
    }

    fn embed(&self, sentence: &str) -> Result<Option<Vec<f32>>, EmbedError> {
        match self.embedder.embed(sentence) {
            Ok(vector) => Ok(Some(vector)),
            Err(error @ EmbedError::Unavailable { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "embedding failed; a tool is found by words only");
                Ok(None)
            }
        }
    }
}

impl Drop for EmbeddingWorker {
    fn drop(&mut self) {
        // An embedder can be code from outside this crate. If it panics, record that the thread ended, because callers
        // would otherwise wait forever for their vectors.
        if thread::panicking()
            && let Some(shared) = self.shared.upgrade()
        {
            let (model, reason) =
                (self.embedder.model().to_owned(), "the embedder panicked".to_owned());
            shared.embedding.stop(EmbedError::Failed { model, reason });
        }
    }
}

impl SharedIndex {
    /// Publishes the computed vectors, except vectors of texts that have changed meanwhile.
    fn add_vectors(&self, made: &EmbeddedJob) {
        self.set_vectors(|next| {
            match made {
                EmbeddedJob::Tools(tools) => {
                    for (slot, entry, vector) in tools {
                        if !is_current(next, *slot, entry) {
                            continue;
                        }
                        let Some(table) = next.vectors.as_mut() else { break };
                        match vector {
                            Some(vector) => table.set(*slot, vector),
                            None => table.clear(*slot),
                        }
                    }
                }
                EmbeddedJob::Server(number, server, vector) => {
                    let known = next.catalog.server(*number);
                    let is_same = known.is_some_and(|known| Arc::ptr_eq(&known.server, server));
                    if let (true, Some(table)) = (is_same, &mut next.servers) {
                        match vector {
                            Some(vector) => table.set(*number, vector),
                            None => table.clear(*number),
                        }
                    }
                }
            }
            self.embedding.finish(next, made);
        });
        #[cfg(feature = "sqlite")]
        if let EmbeddedJob::Tools(tools) = made {
            let now = self.snapshot();
            let slots = tools.iter().filter(|(slot, entry, _)| is_current(&now, *slot, entry));
            self.store_vectors(&now, slots.map(|(slot, ..)| *slot));
            // The model can compute vectors faster than the disk stores them, so wait if too many writes are queued.
            self.store.iter().for_each(|store| store.wait_for_room(DISK_WAIT_TIMEOUT));
        }
    }
}

fn is_current(now: &Snapshot, slot: Slot, entry: &Arc<Entry>) -> bool {
    now.catalog.record(slot).is_some_and(|record| Arc::ptr_eq(&record.entry, entry))
}

/// Returns the text from which a server's vector is computed.
pub(super) fn server_sentence(server: &Server, bounds: TextLimits) -> String {
    let name = server.name.as_deref().unwrap_or(&server.id);
    let description =
        truncate(server.description.as_deref().unwrap_or_default(), bounds.description);
    format!("{name}. {description}")
}
