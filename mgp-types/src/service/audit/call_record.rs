//! The properties of a tool call that an audit record contains.

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

/// The properties of a tool call that its audit records contain, collected before and while the call runs.
///
/// An audit layer stores the record in the extensions of the call. Inner layers add notes with
/// [`CallRecord::add_note`], and the code that runs the call marks it with [`CallRecord::mark_executed`].
#[derive(Debug)]
#[non_exhaustive]
pub struct CallRecord {
    /// The key of the call in this process.
    pub key: CallKey,
    /// The id of the logical call, if this call is one of its rounds (repetitions with answers) or attempts (retries).
    pub logical: Option<ByteString>,
    /// The trace id of the call.
    pub trace: Option<ByteString>,
    /// The caller on whose behalf the call is made.
    pub principal: Principal,
    /// The server that was called, if known.
    pub server: Option<ServerId>,
    /// The name of the tool; a long name is shortened.
    pub tool: ByteString,
    /// The risk of the call as the kernel assesses it, if known.
    pub risk: Option<RiskLevel>,
    /// The digest that is recorded instead of the arguments themselves; a note ([`CallRecord::add_note`]) named
    /// `arguments` replaces it.
    pub arguments: Option<ArgumentsDigest>,
    /// The time at which the call began or, if it has several rounds, at which its first round began.
    pub started_at: SystemTime,
    since: Instant,
    rounds: u32,
    ran: AtomicBool,
    held: AtomicBool,
    chunks: AtomicU64,
    chunk_bytes: AtomicU64,
    notes: Mutex<Object>,
    /// The record that the next outer audit layer created for the same call, if there are several audit layers.
    outer: Option<Arc<Self>>,
}

/// The maximum length of a recorded tool name, in bytes; for a longer name, its beginning and its length are recorded.
///
/// The caller chooses the name, so a name without a limit could fill the log.
const MAX_TOOL_NAME_BYTES: usize = 256;

thread_local! {
    /// The last tool name that was recorded on this thread. The next call probably has the same name; its record then
    /// shares the memory of this name.
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
    /// Returns the record of a tool call, or `None` for other calls.
    ///
    /// Names are copied: otherwise the record would keep the received text of the call, which may be large, in memory.
    #[must_use]
    pub fn from_call(call: &Call) -> Option<Self> {
        let (Some(_), Some(Target::Tool(tool))) = (call.tool(), call.params().target()) else {
            return None;
        };
        let cx = call.cx();
        let record = Self {
            key: cx.key,
            logical: cx.logical.as_ref().map(copy),
            // The trace id need not be copied: it does not share the memory of the received text.
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
        // Record the number of the attempt only if the call is part of a logical call, whose id connects the audit
        // records of all attempts.
        if cx.logical.is_some()
            && let Some(attempt) = cx.extensions.get::<RetryAttempt>()
        {
            record.note_attempt(attempt);
        }
        Some(record)
    }

    /// Returns whether the audit log must write a record that announces the call before it runs (an intent record).
    /// This is the case unless the risk is known to be lower than moderate.
    #[must_use]
    pub fn needs_intent(&self) -> bool {
        self.risk.as_ref().is_none_or(|risk| *risk >= RiskLevel::Moderate)
    }

    /// Makes this record the continuation of the record of an earlier round: takes over its start time, its notes and
    /// whether the call was executed, adds its chunks, and increments the number of rounds. The notes of this record
    /// replace earlier notes of the same name.
    pub fn continue_from(&mut self, earlier: &Self) {
        self.started_at = earlier.started_at;
        self.since = earlier.since;
        self.rounds = earlier.rounds.saturating_add(1);
        let (chunks, bytes) = earlier.streamed();
        *self.chunks.get_mut() += chunks;
        *self.chunk_bytes.get_mut() += bytes;
        let before = std::mem::take(&mut *earlier.notes());
        let own = std::mem::replace(self.notes.get_mut(), before);
        for (name, value) in own.iter() {
            self.add_note(name, value.clone());
        }
        if earlier.was_executed() {
            self.ran.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of rounds of the [logical call](Self::logical) so far, including this round.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the time since the first round of the call began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Adds a note, i.e. a member in the details of the call's final event, e.g. the validator that was applied or the
    /// approval that was used.
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

    /// Calls `look` with the notes collected so far. The function must not add notes, because this method holds the
    /// lock of the notes while the function runs.
    pub fn with_notes<T>(&self, look: impl FnOnce(&Object) -> T) -> T {
        look(&self.notes())
    }

    /// Marks in all audit records of a call that the call was passed to the code that runs it: a peer, or the handler
    /// of a tool.
    ///
    /// Later errors are not recorded as refusals, because they might come from that code.
    pub fn mark_executed(cx: &Context) {
        Self::for_each(cx, |record| record.ran.store(true, Ordering::Relaxed));
    }

    /// Calls `mark` with the record that each audit layer created for a call, from the innermost layer to the
    /// outermost.
    fn for_each(cx: &Context, mark: impl Fn(&Self)) {
        let mut record = cx.extensions.get::<Self>();
        while let Some(this) = record {
            mark(this);
            record = this.outer.as_deref();
        }
    }

    /// Returns whether the call was passed to the code that runs it.
    #[must_use]
    pub fn was_executed(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    /// Sets, in all audit records of a call, whether a gate holds the call, e.g. until a person decides about it.
    pub fn mark_held(cx: &Context, is_held: bool) {
        Self::for_each(cx, |record| record.held.store(is_held, Ordering::Relaxed));
    }

    /// Returns whether a gate holds the call, e.g. until a person decides about it.
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
