//! The rounds of a call that asks its caller questions, counted as one call.

use std::sync::Arc;

use bytestring::ByteString;
use mgp_types::RpcError;
use mgp_types::service::{CallKey, Context, Reply};
use mgp_types::sync::Mutex;

use super::super::caller::Caller;
use super::super::open_calls::{OpenCalls, RoundUse};
use super::super::quota::never_ran;

/// One round (request) of a call that is counted once, however many rounds it has.
pub(super) struct Round {
    open: Arc<Mutex<OpenCalls>>,
    caller: Caller,
    logical: Option<ByteString>,
    key: CallKey,
    /// The part of the limit that the call's earlier rounds have used; `None` if this is the first round.
    earlier: Option<RoundUse>,
}

impl Round {
    pub(super) fn begin(open: &Arc<Mutex<OpenCalls>>, cx: &Context) -> Self {
        let (caller, logical) = (Caller::of(&cx.principal), cx.logical.clone());
        let earlier = logical.as_ref().and_then(|logical| open.lock().resume(logical, &caller));
        Self { open: Arc::clone(open), caller, logical, key: cx.key, earlier }
    }

    /// Returns whether the call has had an earlier round.
    pub(super) fn is_later(&self) -> bool {
        self.earlier.is_some()
    }

    /// Records that the call will continue if this round asked the caller questions, or if it is a later round that did
    /// not run.
    pub(super) fn end(self, outcome: &Result<Reply, RpcError>) {
        let Self { open, caller, logical, key, earlier } = self;
        let goes_on = match outcome {
            Ok(Reply::InputRequired(_)) => true,
            Ok(_) => false,
            Err(error) => earlier.is_some() && never_ran(error),
        };
        if goes_on {
            // If the call has no logical id, the key of this round identifies its next round.
            let logical = logical.unwrap_or_else(|| key.to_text());
            open.lock().insert(logical, caller, earlier.unwrap_or_default());
        }
    }
}
