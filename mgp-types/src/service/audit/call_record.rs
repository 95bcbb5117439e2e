//! The audit facts about one tool call.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use tokio::time::Instant;

use super::ArgumentsDigest;
use crate::mgp::RiskLevel;
use crate::record::Object;
use crate::service::{Call, CallKey, Context, Principal, RetryAttempt, ServerId, Target};
use crate::sync::{Mutex, MutexGuard};
use crate::wire::Payload;

/// The audit facts about one tool call, collected before and while it runs.
///
/// An audit layer stores the record in the extensions of the call. Inner layers add facts with
/// [`CallRecord::add_note`], and the code that runs the call marks it with [`CallRecord::mark_executed`].
#[derive(Debug)]
#[non_exhaustive]
pub struct CallRecord {
    /// The call's key in this process.
    pub key: CallKey,
    /// The id of the logical call, if this call is one of its rounds (repetitions with answers) or attempts (retries).
    pub logical: Option<ByteString>,
    /// The trace id of the call.
    pub trace: Option<ByteString>,
    /// The caller.
    pub principal: Principal,
    /// The called server, if known.
    pub server: Option<ServerId>,
    /// The name of the tool; a long one is shortened.
    pub tool: ByteString,
    /// The risk as the kernel assesses it, if known.
    pub risk: Option<RiskLevel>,
    /// The digest that is recorded instead of the arguments themselves; a note ([`CallRecord::add_note`]) named
    /// `arguments` replaces it.
    pub arguments: Option<ArgumentsDigest>,
    /// The time at which the first round of the call began.
    pub started_at: SystemTime,
    since: Instant,
    rounds: u32,
    ran: AtomicBool,
    held: AtomicBool,
    chunks: AtomicU64,
    chunk_bytes: AtomicU64,
    notes: Mutex<Object>,
    /// The record of the same call in an outer audit layer.
    outer: Option<Arc<Self>>,
}

/// The maximum length of a recorded tool name, in bytes; for a longer name, its beginning and its length are recorded.
///
/// The caller chooses the name, so an unbounded one could fill the log.
const MAX_TOOL_NAME_BYTES: usize = 256;

thread_local! {
    /// The most recent tool name on this thread. The next call probably has the same name and then shares the
    /// allocation.
    static LAST_TOOL: RefCell<ByteString> = const { RefCell::new(ByteString::new()) };
}

fn shortened(tool: &ByteString) -> ByteString {
    if tool.len() <= MAX_TOOL_NAME_BYTES {
        return LAST_TOOL.with_borrow_mut(|last| {
            if *last != *tool {
                *last = copy(tool);
            }
            last.clone()
        });
    }
    let beginning = &tool[..tool.floor_char_boundary(MAX_TOOL_NAME_BYTES / 2)];
    format!("{beginning}… ({} bytes)", tool.len()).into()
}

impl CallRecord {
    /// Returns the facts of a tool call, or `None` for other calls.
    ///
    /// Texts are copied: otherwise the record would keep the buffer of the call, which may be large, in memory.
    #[must_use]
    pub fn from_call(call: &Call) -> Option<Self> {
        let (Some(_), Some(Target::Tool(tool))) = (call.tool(), call.params().target()) else {
            return None;
        };
        let cx = call.cx();
        let start = Self {
            key: cx.key,
            logical: cx.logical.as_ref().map(copy),
            // The trace id needs no copy: it does not borrow from the buffer of the call.
            trace: cx.trace.clone(),
            principal: cx.principal.clone(),
            server: cx.server.clone(),
            tool: shortened(tool),
            risk: None,
            arguments: None,
            started_at: SystemTime::now(),
            since: Instant::now(),
            rounds: 1,
            ran: AtomicBool::new(false),
            held: AtomicBool::new(false),
            chunks: AtomicU64::new(0),
            chunk_bytes: AtomicU64::new(0),
            notes: Mutex::default(),
            outer: cx.extensions.get_shared(),
        };
        // A retry is noted only if the call is part of a logical call.
        if cx.logical.is_some()
            && let Some(attempt) = cx.extensions.get::<RetryAttempt>()
        {
            start.note_attempt(attempt);
        }
        Some(start)
    }

    /// Returns whether the audit log must announce the call before it runs (an intent record): always, unless the risk
    /// is known to be lower than moderate.
    #[must_use]
    pub fn needs_intent(&self) -> bool {
        self.risk.as_ref().is_none_or(|risk| *risk >= RiskLevel::Moderate)
    }

    /// Continues the record of an earlier round of the same call: copies its start time and notes, and adds one round.
    pub fn continue_from(&mut self, earlier: &Self) {
        self.started_at = earlier.started_at;
        self.since = earlier.since;
        self.rounds = earlier.rounds.saturating_add(1);
        let before = std::mem::take(&mut *earlier.notes());
        let own = std::mem::replace(self.notes.get_mut(), before);
        for (name, value) in own.iter() {
            self.add_note(name, value.clone());
        }
        if earlier.was_executed() {
            self.ran.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of rounds of the [logical call](Self::logical) so far, including this one.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the time since the call began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Adds a member to the details of the final event, e.g. the applied validator or the used approval.
    pub fn add_note(&self, name: &str, value: Payload) {
        self.notes().insert(name, value);
    }

    fn note_attempt(&self, attempt: &RetryAttempt) {
        let notes = [
            ("retry_attempt", Payload::of(&attempt.retry)),
            ("retry_of_code", Payload::of(&attempt.previous_code)),
            ("waited_ms", Payload::of(&crate::millis(attempt.delay))),
        ];
        for (name, value) in notes {
            if let Ok(value) = value {
                self.add_note(name, value);
            }
        }
        if let Some(Ok(tool)) = attempt.instead_of.as_ref().map(|tool| Payload::of(&**tool)) {
            self.add_note("fallback_for", tool);
        }
    }

    /// Calls a function with the notes collected so far. The function must not add notes, because the lock is held
    /// while it runs.
    pub fn with_notes<T>(&self, look: impl FnOnce(&Object) -> T) -> T {
        look(&self.notes())
    }

    /// Marks that a call was passed to the code that runs it: a peer, or the handler of a tool.
    ///
    /// Later errors are not recorded as refusals, because they might come from that code.
    pub fn mark_executed(cx: &Context) {
        let mut start = cx.extensions.get::<Self>();
        while let Some(this) = start {
            this.ran.store(true, Ordering::Relaxed);
            start = this.outer.as_deref();
        }
    }

    /// Returns whether the call was passed to the code that runs it.
    #[must_use]
    pub fn was_executed(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    /// Records whether a layer holds the call until a person decides about it.
    pub fn mark_held(cx: &Context, is_held: bool) {
        let mut start = cx.extensions.get::<Self>();
        while let Some(this) = start {
            this.held.store(is_held, Ordering::Relaxed);
            start = this.outer.as_deref();
        }
    }

    /// Returns whether a layer holds the call until a person decides about it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts a chunk that the call sent, and its size in bytes.
    pub fn note_chunk(&self, bytes: u64) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        self.chunk_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of chunks that the call sent, and their size in bytes.
    #[must_use]
    pub fn streamed(&self) -> (u64, u64) {
        (self.chunks.load(Ordering::Relaxed), self.chunk_bytes.load(Ordering::Relaxed))
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Object> {
        self.notes.lock()
    }
}

fn copy(text: &ByteString) -> ByteString {
    let text: &str = text;
    text.to_owned().into()
}
