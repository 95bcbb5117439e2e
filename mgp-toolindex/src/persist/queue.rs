//! What waits for the disk.
//!
//! Bound: [`MOST`] changes. When there are more, all that wait become one change: of each server
//! what was said of it last. So the file may skip states, but never holds one that was not, and
//! what waits is never more than what is in the index.
//!
//! Applies to: both.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use super::rows::{NewServer, NewVector, NewWords};
use crate::catalog::Listed;

/// How many changes wait on their own.
pub(super) const MOST: usize = 1024;

/// How many tools are written in one go, unless one change has more: others use the database too.
const TOGETHER: usize = 512;

/// Something to write.
#[derive(Debug)]
pub(crate) enum Change {
    /// A server, in place of what is known of it.
    Put(NewServer),
    /// A server is gone.
    Remove(String),
    /// Vectors of tools that were put before.
    Vectors(Vec<NewVector>),
    /// The tokens of tools that were put before have been counted.
    Counted(Vec<Listed>),
    /// The words of tools; whatever is in the file may have others.
    Words(NewWords),
}

/// Changes that have to be written together, or not at all.
#[derive(Debug)]
struct Whole {
    changes: Vec<Change>,
    /// The number of the last of them.
    through: u64,
}

/// Changes in their order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Whole>,
    /// The number of the last change that was given.
    pub(super) given: u64,
    /// Servers that are in the file or on the way to it.
    kept: HashSet<String, ahash::RandomState>,
}

/// What is written next, in one go.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    /// The number of the last of them.
    pub(super) through: u64,
}

impl Change {
    /// How many tools it is about.
    fn weight(&self) -> usize {
        match self {
            Self::Put(new) => new.tools.len(),
            Self::Remove(_) => 1,
            Self::Vectors(vectors) => vectors.len(),
            Self::Counted(tools) => tools.len(),
            Self::Words(_) => TOGETHER,
        }
    }

    fn is_words(&self) -> bool {
        matches!(self, Self::Words(_))
    }
}

impl Queue {
    /// Nothing waits, and these servers are in the file.
    pub(super) fn new(kept: impl IntoIterator<Item = String>) -> Self {
        Self { kept: kept.into_iter().collect(), ..Self::default() }
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.waiting = VecDeque::new();
        self.kept = HashSet::default();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes changes that are to be written together, or not at all.
    pub(super) fn push(&mut self, changes: Vec<Change>) {
        self.given += 1;
        if changes.iter().any(Change::is_words) {
            // They are of all tools: of several only the last are worth writing.
            for whole in &mut self.waiting {
                whole.changes.retain(|change| !change.is_words());
            }
        }
        if self.waiting.len() >= MOST {
            self.merge();
        }
        self.waiting.push_back(Whole { changes, through: self.given });
    }

    /// The next changes; at least one, if there is one.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let Whole { mut changes, mut through } = self.waiting.pop_front()?;
        let mut weight: usize = changes.iter().map(Change::weight).sum();
        while let Some(next) = self.waiting.front() {
            weight += next.changes.iter().map(Change::weight).sum::<usize>();
            if weight > TOGETHER {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            changes.extend(next.changes);
            through = next.through;
        }
        for change in &changes {
            match change {
                Change::Put(new) => drop(self.kept.insert(new.server.id.clone())),
                Change::Remove(id) => drop(self.kept.remove(id)),
                _ => {}
            }
        }
        Some(Batch { changes, through })
    }

    /// Makes one change of all that wait.
    fn merge(&mut self) {
        let mut servers: HashMap<String, Option<NewServer>, ahash::RandomState> =
            HashMap::default();
        let mut order = Vec::new();
        let mut vectors: HashMap<String, NewVector, ahash::RandomState> = HashMap::default();
        let mut counted: HashMap<String, Listed, ahash::RandomState> = HashMap::default();
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
                    vectors.extend(new.into_iter().map(|new| (new.tool.tool_id(), new)));
                }
                Change::Counted(tools) => {
                    counted.extend(tools.into_iter().map(|tool| (tool.tool_id(), tool)));
                }
                Change::Words(new) => words = Some(new),
            }
        }
        let mut changes = Vec::with_capacity(order.len() + 2);
        for id in order {
            match servers.remove(&id) {
                Some(Some(new)) => changes.push(Change::Put(new)),
                // What never got into the file needs not be taken out.
                Some(None) if self.kept.contains(&id) => changes.push(Change::Remove(id)),
                _ => {}
            }
        }
        // Those of tools that are gone or changed meanwhile find no row, and do nothing.
        if !vectors.is_empty() {
            changes.push(Change::Vectors(vectors.into_values().collect()));
        }
        if !counted.is_empty() {
            changes.push(Change::Counted(counted.into_values().collect()));
        }
        changes.extend(words.map(Change::Words));
        // The change that is given right now comes after.
        self.waiting.push_back(Whole { changes, through: self.given - 1 });
    }
}
