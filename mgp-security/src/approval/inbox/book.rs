//! All questions, for those who look.
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::request::{ApprovalRequest, RequestState};
use crate::state::Snapshot;

/// All questions by their ids.
#[derive(Debug, Default)]
pub(super) struct Book(BTreeMap<String, Arc<ApprovalRequest>>);

impl Book {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<ApprovalRequest>> {
        self.0.get(id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ApprovalRequest>> {
        self.0.values()
    }

    /// The question that something is bound to, unless its answer was used or it is over.
    pub(super) fn bound_to(&self, binding: &str, now: SystemTime) -> Option<&Arc<ApprovalRequest>> {
        self.0.values().find(|request| {
            request.binding == binding
                && request.state != RequestState::Used
                && !request.is_over(now)
        })
    }

    /// The questions nobody has answered.
    pub(super) fn open(&self, now: SystemTime) -> impl Iterator<Item = &Arc<ApprovalRequest>> {
        let open = move |request: &&Arc<ApprovalRequest>| {
            request.state == RequestState::Open && !request.is_over(now)
        };
        self.0.values().filter(open)
    }
}

impl Snapshot for Book {
    type Entry = ApprovalRequest;
    const SPACE: &'static str = "approvals";

    fn of(entries: &BTreeMap<String, Arc<ApprovalRequest>>) -> Self {
        Self(entries.clone())
    }
}
