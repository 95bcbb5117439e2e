//! Handles of the inbox that record where an operator answered (page, terminal or host), or that accept an answer only
//! while the request has a certain state.

use std::sync::Arc;

use super::super::request::ApprovalRequest;
use super::Inbox;
use crate::approval::AnswerPlace;

/// The place that is recorded for answers given through a handle of the inbox, and the state that a request must have
/// to be answered through this handle.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerContext {
    /// The place where the operator answers: page, terminal or host.
    pub(super) place: Option<AnswerPlace>,
    /// The name of the state that the operator saw; `None` if the answer does not depend on it.
    expected: Option<String>,
}

impl AnswerContext {
    /// Returns whether a request has the state that the operator saw.
    pub(super) fn is_expected(&self, request: &ApprovalRequest) -> bool {
        self.expected.as_deref().is_none_or(|state| state == request.state_word())
    }
}

impl Inbox {
    /// Returns a handle of the same inbox that records `place` as the place where the operator answered.
    #[must_use]
    pub fn answered_at(&self, place: impl Into<Option<AnswerPlace>>) -> Self {
        let context = AnswerContext { place: place.into(), ..self.1.clone() };
        Self(Arc::clone(&self.0), context)
    }

    /// Returns a handle of the same inbox that refuses an answer if the request no longer has this state. Thus an
    /// operator who saw an open request cannot overturn the decision of another operator. With `None`, the state does
    /// not matter. The states have the names that [`ApprovalRequest::to_listed`] gives them.
    #[must_use]
    pub fn expecting(&self, state: Option<&str>) -> Self {
        let context = AnswerContext { expected: state.map(str::to_owned), ..self.1.clone() };
        Self(Arc::clone(&self.0), context)
    }
}
