//! The cached tools of a session, limited by its budget (MGP §16.7).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;
use mgp_types::sync::Mutex;

use crate::catalog::IndexedTool;

/// The maximum number of tools in a session, regardless of their tokens.
const MAX_TOOLS: usize = 512;

/// A tool in a session, in the form that the model sees.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionTool {
    /// The tool, as the index returned it.
    pub tool: IndexedTool,
    /// The number of tokens that the tool needs in the model's context; an upper bound until it is counted exactly.
    pub tokens: u32,
    /// The reduced definition, if the full definition does not fit.
    pub(crate) trimmed: Option<ByteString>,
}

impl SessionTool {
    /// Returns whether the model sees a reduced definition.
    #[must_use]
    pub fn is_trimmed(&self) -> bool {
        self.trimmed.is_some()
    }

    pub(crate) fn is(&self, other: &IndexedTool) -> bool {
        self.tool.is_same(other)
    }
}

/// The tools of one session; all calls of the session share this value.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The number that identifies the session within the process.
    number: u64,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// The cached tools, least recently used first.
    tools: VecDeque<SessionTool>,
    /// The pinned tools at the time of the last call of [`Cache::refresh`]. They do not count against the limit of
    /// cached tools.
    pinned: Vec<IndexedTool>,
    /// The number of tokens that the pinned tools left free at the last call of [`Cache::refresh`]; `None` before the
    /// first call.
    room: Option<u64>,
}

/// The result of inserting a tool into a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The tool was added.
    Added,
    /// The tool was already present, with this number of tokens, and is now marked as used.
    Known(u32),
    /// The tool was not inserted, because it alone exceeds the limit.
    TooLarge,
}

impl Default for Cache {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::default() }
    }
}

impl Cache {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of tokens that the pinned tools left free at the last call of [`Self::refresh`]; `None`
    /// before the first call.
    pub(crate) fn room(&self) -> Option<u64> {
        self.state.lock().room
    }

    /// Inserts a tool, or marks it as used if it is already present; evicts other tools if there is not enough room.
    pub(crate) fn insert(&self, held: SessionTool, max_tokens: u64) -> Inserted {
        let mut state = self.state.lock();
        if u64::from(held.tokens) > max_tokens {
            return Inserted::TooLarge;
        }
        let known = state.tools.iter().position(|known| known.is(&held.tool));
        let known = known.and_then(|at| state.tools.remove(at));
        state.tools.push_back(held);
        state.shrink(max_tokens);
        known.map_or(Inserted::Added, |known| Inserted::Known(known.tokens))
    }

    /// Marks a tool as used; returns whether it is present or pinned.
    pub(crate) fn mark_used(&self, tool: &IndexedTool) -> bool {
        let mut state = self.state.lock();
        if state.has_pinned(tool) {
            return true;
        }
        let Some(at) = state.tools.iter().position(|known| known.is(tool)) else { return false };
        let used = state.tools.remove(at);
        state.tools.extend(used);
        true
    }

    /// Returns the most recently used of the given tools; `None` if none of them is in the session.
    pub(crate) fn last_used<'a>(&self, tools: &'a [IndexedTool]) -> Option<&'a IndexedTool> {
        let state = self.state.lock();
        state.tools.iter().rev().find_map(|used| tools.iter().find(|tool| used.is(tool)))
    }

    /// Replaces each cached tool by its current state, which `look` returns, or removes it if `look` returns `None`.
    /// Then evicts tools until the remaining tools fit into `max_tokens`.
    ///
    /// Removes pinned tools from the cached tools. Returns the cached tools, most recently used first.
    pub(crate) fn refresh(
        &self,
        max_tokens: u64,
        pinned: &[SessionTool],
        mut look: impl FnMut(&SessionTool) -> Option<SessionTool>,
    ) -> Vec<SessionTool> {
        // Call `look` without holding the lock, because it calls code outside this crate, which checks which tools the
        // caller is allowed to see.
        let before: Vec<SessionTool> = self.state.lock().tools.iter().cloned().collect();
        let now: Vec<Option<SessionTool>> = before.iter().map(&mut look).collect();
        let mut state = self.state.lock();
        for (old, new) in before.iter().zip(now) {
            let Some(at) = state.tools.iter().position(|held| held.is(&old.tool)) else { continue };
            match new {
                Some(new) => state.tools[at] = new,
                None => drop(state.tools.remove(at)),
            }
        }
        state.room = Some(max_tokens);
        state.pinned = pinned.iter().map(|held| held.tool.clone()).collect();
        state.tools.retain(|held| !pinned.iter().any(|pin| pin.is(&held.tool)));
        state.shrink(max_tokens);
        state.tools.iter().rev().cloned().collect()
    }

    /// Removes and returns the tools that `is_meant` selects.
    pub(crate) fn evict(&self, is_meant: impl Fn(&SessionTool) -> bool) -> Vec<SessionTool> {
        let mut state = self.state.lock();
        let (gone, kept) =
            std::mem::take(&mut state.tools).into_iter().partition(|held| is_meant(held));
        state.tools = kept;
        Vec::from(gone)
    }
}

impl CacheState {
    fn has_pinned(&self, tool: &IndexedTool) -> bool {
        self.pinned.iter().any(|pin| pin.is_same(tool))
    }

    /// Evicts the least recently used tools until the remaining tools fit.
    fn shrink(&mut self, max_tokens: u64) {
        let mut tokens: u64 = self.tools.iter().map(|held| u64::from(held.tokens)).sum();
        while tokens > max_tokens || self.tools.len() > MAX_TOOLS {
            let Some(gone) = self.tools.pop_front() else { break };
            tokens -= u64::from(gone.tokens);
        }
    }
}
