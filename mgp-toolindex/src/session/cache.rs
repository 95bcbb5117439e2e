//! The tools one session used: as many as its budget holds, the least recently used go first (MGP §16.7).
//!
//! Applies to: inbound.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytestring::ByteString;

use crate::catalog::Listed;

/// How many tools a session holds, however little they cost.
const TOOLS_MAX: usize = 512;

/// A tool in a session, as the model is shown it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldTool {
    /// The tool.
    pub tool: Listed,
    /// What it costs: exact once it was counted, before that a bound above.
    pub tokens: u32,
    /// Its definition with less said, where the whole would not fit; the members a model reads.
    pub(crate) trimmed: Option<ByteString>,
}

impl HeldTool {
    /// Whether the model is told less of it than its server says.
    #[must_use]
    pub fn is_trimmed(&self) -> bool {
        self.trimmed.is_some()
    }

    pub(crate) fn is(&self, other: &Listed) -> bool {
        self.tool.server_id() == other.server_id() && self.tool.name() == other.name()
    }
}

/// The tools of one session, shared by its calls.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Tells it from all others.
    number: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The least recently used first.
    tools: VecDeque<HeldTool>,
    /// What was pinned when somebody looked last: it takes no room here.
    pinned: Vec<Listed>,
}

/// What became of a tool that was to be put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is in now.
    Added,
    /// It was there, and counts as used just now.
    Known,
    /// It alone is larger than the room.
    TooLarge,
}

impl Default for Cache {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), inner: Mutex::default() }
    }
}

impl Cache {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Puts a tool in, or counts it as used; others go until it fits.
    pub(crate) fn put(&self, held: HeldTool, room: u64) -> Put {
        let mut inner = self.lock();
        if u64::from(held.tokens) > room {
            return Put::TooLarge;
        }
        let known = inner.tools.iter().position(|known| known.is(&held.tool));
        known.map(|at| inner.tools.remove(at));
        inner.tools.push_back(held);
        inner.shrink(room);
        if known.is_some() { Put::Known } else { Put::Added }
    }

    /// Counts a tool as used if it is there, or pinned.
    pub(crate) fn touch(&self, tool: &Listed) -> bool {
        let mut inner = self.lock();
        if inner.has_pinned(tool) {
            return true;
        }
        let Some(at) = inner.tools.iter().position(|known| known.is(tool)) else { return false };
        let used = inner.tools.remove(at);
        inner.tools.extend(used);
        true
    }

    /// Looks at every tool: `look` says what is there now, if anything; then the rest is made to fit.
    ///
    /// What is pinned goes. The most recently used comes first.
    pub(crate) fn refresh(
        &self,
        room: u64,
        pinned: &[HeldTool],
        mut look: impl FnMut(&HeldTool) -> Option<HeldTool>,
    ) -> Vec<HeldTool> {
        // Not under the lock: looking asks who may call what.
        let before: Vec<HeldTool> = self.lock().tools.iter().cloned().collect();
        let now: Vec<Option<HeldTool>> = before.iter().map(&mut look).collect();
        let mut inner = self.lock();
        for (old, new) in before.iter().zip(now) {
            let Some(at) = inner.tools.iter().position(|held| held.is(&old.tool)) else { continue };
            match new {
                Some(new) => inner.tools[at] = new,
                None => drop(inner.tools.remove(at)),
            }
        }
        inner.pinned = pinned.iter().map(|held| held.tool.clone()).collect();
        inner.tools.retain(|held| !pinned.iter().any(|pin| pin.is(&held.tool)));
        inner.shrink(room);
        inner.tools.iter().rev().cloned().collect()
    }

    /// Takes out the tools that `is_meant` says.
    pub(crate) fn evict(&self, is_meant: impl Fn(&HeldTool) -> bool) -> Vec<HeldTool> {
        let mut inner = self.lock();
        let (gone, kept) =
            std::mem::take(&mut inner.tools).into_iter().partition(|held| is_meant(held));
        inner.tools = kept;
        Vec::from(gone)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn has_pinned(&self, tool: &Listed) -> bool {
        let is_it = |pin: &Listed| pin.server_id() == tool.server_id() && pin.name() == tool.name();
        self.pinned.iter().any(is_it)
    }

    /// Lets the least recently used go until the rest fits.
    fn shrink(&mut self, room: u64) {
        let mut tokens: u64 = self.tools.iter().map(|held| u64::from(held.tokens)).sum();
        while tokens > room || self.tools.len() > TOOLS_MAX {
            let Some(gone) = self.tools.pop_front() else { break };
            tokens -= u64::from(gone.tokens);
        }
    }
}
