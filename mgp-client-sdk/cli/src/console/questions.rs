//! The questions of the inbox, and the members of audit records that name a question.

use std::collections::{BTreeMap, BTreeSet};

use mgp_types::method::KernelApprovals;
use mgp_types::mgp::{AuditEvent, KernelApproval, KernelApprovalsParams};
use serde::de::DeserializeOwned;

use super::PageError;
use super::operator::Viewer;

/// Returns the undecided questions of the inbox, and the newest decided questions.
pub(super) async fn approvals(
    viewer: &Viewer,
    max_decided: u64,
) -> Result<Vec<KernelApproval>, PageError> {
    let mut params = KernelApprovalsParams::new();
    params.max_decided = Some(max_decided);
    Ok(viewer.operator.client.request::<KernelApprovals>(&params).await?.approvals)
}

/// Returns a question of the inbox with all its arguments.
pub(super) async fn whole_approval(
    viewer: &Viewer,
    id: &str,
) -> Result<Option<KernelApproval>, PageError> {
    let mut params = KernelApprovalsParams::new();
    params.id = Some(id.to_owned());
    let found = viewer.operator.client.request::<KernelApprovals>(&params).await?.approvals;
    Ok(found.into_iter().next())
}

/// The questions of the inbox that audit records name, by their ids.
#[derive(Default)]
pub(super) struct Questions(BTreeMap<String, KernelApproval>);

impl Questions {
    /// Reads the questions that audit records name; no questions for a viewer who is not allowed to read the inbox.
    pub(super) async fn of(viewer: &Viewer, events: &[AuditEvent]) -> Self {
        let ids: BTreeSet<_> = events.iter().filter_map(approval_id).collect();
        if ids.is_empty() {
            return Self::default();
        }
        let mut params = KernelApprovalsParams::new();
        params.ids = ids.into_iter().collect();
        let found = viewer.operator.client.request::<KernelApprovals>(&params).await;
        let all = found.map(|found| found.approvals).unwrap_or_default();
        Self(all.into_iter().map(|one| (one.id.clone(), one)).collect())
    }

    pub(super) fn get(&self, id: &str) -> Option<&KernelApproval> {
        self.0.get(id)
    }
}

/// Decodes a member of an audit record's details.
pub(super) fn detail<T: DeserializeOwned>(event: &AuditEvent, name: &str) -> Option<T> {
    event.details.as_ref()?.decode(name).ok()?
}

/// Returns the id of the question to an operator (approval) that an audit record contains.
pub(super) fn approval_id(event: &AuditEvent) -> Option<String> {
    detail(event, "approval_id")
}

/// Returns in words where an answer was given, e.g. on the page.
pub(super) fn place(viewer: &Viewer, word: &str) -> Option<&'static str> {
    match word {
        "page" => Some(viewer.texts.via_page),
        "terminal" => Some(viewer.texts.via_terminal),
        "host" => Some(viewer.texts.via_host),
        _ => None,
    }
}
