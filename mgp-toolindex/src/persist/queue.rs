//! The queue of changes that must be written to the disk.
//!
//! The queue contains at most [`MAX_QUEUED`] changes. If another change is added, all queued changes are merged, so
//! that only the last state of each server remains. As a result, the file can skip states, but never has a state that
//! the index did not have. After a merge, the queue is not larger than the index.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use super::rows::{NewSegments, NewServer, NewVector};
use crate::catalog::IndexedTool;

/// The maximum number of queued changes; if another change is added, all of them are merged.
pub(super) const MAX_QUEUED: usize = 1024;

/// The maximum number of tools in a transaction, unless a single change has more. It is small, because other processes
/// wait for the transaction to end.
const MAX_TRANSACTION_TOOLS: usize = 512;

#[derive(Debug)]
pub(crate) enum Change {
    /// Replaces a server and all of its tools.
    Put(NewServer),
    /// Removes the server with this id and all of its tools.
    Remove(String),
    /// Stores new vectors of tools that an earlier change wrote.
    Vectors(Vec<NewVector>),
    /// Stores exact token counts of tools that an earlier change wrote.
    Counts(Vec<IndexedTool>),
    /// Replaces the stored segments of the keyword index. The stored tools may have changed before or after the
    /// segments were built; when the index is loaded, a segment with a document of an unknown tool is skipped.
    Segments(NewSegments),
}

/// Changes that are written in one transaction.
#[derive(Debug)]
struct AtomicChanges {
    changes: Vec<Change>,
    /// The sequence number of the last change in `changes`.
    through: u64,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<AtomicChanges>,
    /// The sequence number of the changes that were added last. Changes that were added in one call have the same
    /// number.
    pub(super) newest: u64,
    /// The ids of the servers that are in the file, or will be when the changes that were taken from the queue are
    /// written.
    stored: HashSet<String, ahash::RandomState>,
}

/// The changes of the next transaction.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    /// The sequence number of the last change in the batch.
    pub(super) through: u64,
}

impl Change {
    /// Returns the cost of writing the change, counted in tools.
    fn weight(&self) -> usize {
        match self {
            Self::Put(new) => new.tools.len(),
            Self::Remove(_) => 1,
            Self::Vectors(vectors) => vectors.len(),
            Self::Counts(tools) => tools.len(),
            Self::Segments(_) => MAX_TRANSACTION_TOOLS,
        }
    }

    fn is_segments(&self) -> bool {
        matches!(self, Self::Segments(_))
    }
}

impl Queue {
    /// Creates an empty queue; `stored` contains the ids of the servers that are in the file.
    pub(super) fn new(stored: impl IntoIterator<Item = String>) -> Self {
        Self { stored: stored.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        self.waiting = VecDeque::new();
        self.stored = HashSet::default();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds changes that must be written in one transaction.
    pub(super) fn push(&mut self, changes: Vec<Change>) {
        self.newest += 1;
        if changes.iter().any(Change::is_segments) {
            // Drop segments that are still in the queue, because the new segments cover all tools.
            for whole in &mut self.waiting {
                whole.changes.retain(|change| !change.is_segments());
            }
        }
        if self.waiting.len() >= MAX_QUEUED {
            self.merge();
        }
        self.waiting.push_back(AtomicChanges { changes, through: self.newest });
    }

    /// Removes and returns the changes of the next transaction; `None` if the queue is empty.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let AtomicChanges { mut changes, mut through } = self.waiting.pop_front()?;
        let mut weight: usize = changes.iter().map(Change::weight).sum();
        while let Some(next) = self.waiting.front() {
            weight += next.changes.iter().map(Change::weight).sum::<usize>();
            if weight > MAX_TRANSACTION_TOOLS {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            changes.extend(next.changes);
            through = next.through;
        }
        for change in &changes {
            match change {
                Change::Put(new) => drop(self.stored.insert(new.server.id.clone())),
                Change::Remove(id) => drop(self.stored.remove(id)),
                _ => {}
            }
        }
        Some(Batch { changes, through })
    }

    /// Merges all waiting changes, so that only the last state of each server is written.
    fn merge(&mut self) {
        let mut servers: HashMap<String, Option<NewServer>, ahash::RandomState> =
            HashMap::default();
        let mut order = Vec::new();
        // Do not use the tool's id as the key: two tools can share an id, because ids of servers and names of tools can
        // contain dots.
        let key = |tool: &IndexedTool| (tool.server_id().to_owned(), tool.name().to_owned());
        let mut vectors: HashMap<_, NewVector, ahash::RandomState> = HashMap::default();
        let mut counted: HashMap<_, IndexedTool, ahash::RandomState> = HashMap::default();
        let mut words = None;
        for change in mem::take(&mut self.waiting).into_iter().flat_map(|whole| whole.changes) {
            match change {
                Change::Put(new) => {
                    let id = new.server.id.clone();
                    if servers.insert(id.clone(), Some(new)).is_none() {
                        order.push(id);
                    }
                }
                Change::Remove(id) => {
                    if servers.insert(id.clone(), None).is_none() {
                        order.push(id);
                    }
                }
                Change::Vectors(new) => {
                    vectors.extend(new.into_iter().map(|new| (key(&new.tool), new)));
                }
                Change::Counts(tools) => {
                    counted.extend(tools.into_iter().map(|tool| (key(&tool), tool)));
                }
                Change::Segments(new) => words = Some(new),
            }
        }
        let mut changes = Vec::with_capacity(order.len() + 2);
        for id in order {
            match servers.remove(&id) {
                Some(Some(new)) => changes.push(Change::Put(new)),
                // Remove the server only if it is in the file.
                Some(None) if self.stored.contains(&id) => changes.push(Change::Remove(id)),
                _ => {}
            }
        }
        // Some of these vectors may belong to texts that were replaced meanwhile. Such a vector matches no row, so
        // writing it has no effect.
        if !vectors.is_empty() {
            changes.push(Change::Vectors(vectors.into_values().collect()));
        }
        if !counted.is_empty() {
            changes.push(Change::Counts(counted.into_values().collect()));
        }
        changes.extend(words.map(Change::Segments));
        // `newest` is already the number of the changes that are being added, so the merged changes get the number
        // before it.
        self.waiting.push_back(AtomicChanges { changes, through: self.newest - 1 });
    }
}
