//! The facts of a call that is about to run.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use tokio::time::Instant;

use super::Digested;
use crate::mgp::RiskLevel;
use crate::record::Object;
use crate::service::{Attempt, Call, CallKey, Context, Principal, ServerId, Target};
use crate::wire::Payload;

/// What is known of a call before it runs.
///
/// A layer that audits puts it into the call's extensions, so that layers further in add what they know
/// ([`Start::note`]) and whatever runs the call says so ([`Start::mark_ran`]).
#[derive(Debug)]
#[non_exhaustive]
pub struct Start {
    /// The call's key in this process.
    pub key: CallKey,
    /// The logical call it is a round of.
    pub logical: Option<ByteString>,
    /// The trace it belongs to.
    pub trace: Option<ByteString>,
    /// Who calls.
    pub principal: Principal,
    /// The server that is called, where it is known.
    pub server: Option<ServerId>,
    /// The tool.
    pub tool: ByteString,
    /// Its effective risk, where it is known.
    pub risk: Option<RiskLevel>,
    /// What is recorded of its arguments, unless a note of that name says more.
    pub arguments: Option<Digested>,
    /// When the call began: its first round, where it has several.
    pub started_at: SystemTime,
    since: Instant,
    rounds: u32,
    ran: AtomicBool,
    notes: Mutex<Object>,
    /// The same call as an audit further out sees it.
    outer: Option<Arc<Self>>,
}

/// The longest name of a tool that is recorded as it is, in bytes; of a longer one the beginning and the length are.
///
/// No tool has such a name, and whoever calls it chooses it: a record of it must not fill the log.
const TOOL_MAX: usize = 256;

thread_local! {
    /// The name of the last call's tool: the next one is likely of the same, and shares the copy.
    static LAST: RefCell<ByteString> = const { RefCell::new(ByteString::new()) };
}

fn shortened(tool: &ByteString) -> ByteString {
    if tool.len() <= TOOL_MAX {
        return LAST.with_borrow_mut(|last| {
            if *last != *tool {
                *last = copy(tool);
            }
            last.clone()
        });
    }
    let beginning = &tool[..tool.floor_char_boundary(TOOL_MAX / 2)];
    format!("{beginning}… ({} bytes)", tool.len()).into()
}

impl Start {
    /// Takes the facts of a tool call; none for every other call.
    ///
    /// Texts are copied: a record outlives the buffer that the call came in, which may be large.
    #[must_use]
    pub fn of(call: &Call) -> Option<Self> {
        let (Some(_), Some(Target::Tool(tool))) = (call.tool(), call.params().target()) else {
            return None;
        };
        let cx = call.cx();
        let start = Self {
            key: cx.key,
            logical: cx.logical.as_ref().map(copy),
            // A trace has a text of its own already.
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
            notes: Mutex::default(),
            outer: cx.extensions.get_shared(),
        };
        // Only a part of a logical call can be a further attempt.
        if cx.logical.is_some()
            && let Some(attempt) = cx.extensions.get::<Attempt>()
        {
            attempt.note(&start);
        }
        Some(start)
    }

    /// Whether an intent record is due: for a risk of moderate and above, and for an unknown one.
    #[must_use]
    pub fn needs_intent(&self) -> bool {
        self.risk.as_ref().is_none_or(|risk| *risk >= RiskLevel::Moderate)
    }

    /// Goes on where an earlier round stopped: the call began when that one did.
    pub fn continues(&mut self, earlier: &Self) {
        self.started_at = earlier.started_at;
        self.since = earlier.since;
        self.rounds = earlier.rounds.saturating_add(1);
        let before = std::mem::take(&mut *earlier.notes());
        let own =
            std::mem::replace(self.notes.get_mut().unwrap_or_else(PoisonError::into_inner), before);
        for (name, value) in own.iter() {
            self.note(name, value.clone());
        }
        if earlier.has_run() {
            self.ran.store(true, Ordering::Relaxed);
        }
    }

    /// The rounds the call has taken so far, this one included.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How long ago the call began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Adds a member to the details of the final event: the validator that was applied, the approval that was used.
    pub fn note(&self, name: &str, value: Payload) {
        self.notes().insert(name, value);
    }

    /// Looks at what was noted so far; no note can be added meanwhile.
    pub fn with_notes<T>(&self, look: impl FnOnce(&Object) -> T) -> T {
        look(&self.notes())
    }

    /// Says that a call was handed to what runs it: a peer, a tool's function.
    ///
    /// From then on no error makes the call a blocked one: whoever ran it could claim anything.
    pub fn mark_ran(cx: &Context) {
        let mut start = cx.extensions.get::<Self>();
        while let Some(this) = start {
            this.ran.store(true, Ordering::Relaxed);
            start = this.outer.as_deref();
        }
    }

    /// Whether the call was handed to what runs it.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Object> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn copy(text: &ByteString) -> ByteString {
    let text: &str = text;
    text.to_owned().into()
}
