//! The questions of the inbox, and the members of audit records that name a question.

use std::collections::BTreeMap;

use mgp_types::method::KernelApprovals;
use mgp_types::mgp::{AuditEvent, KernelApproval, KernelApprovalsParams};
use serde::de::DeserializeOwned;

use super::PageError;
use super::operator::Viewer;

/// Returns the open and recently decided questions of the inbox; with an id, only this one, with all its arguments.
pub(super) async fn approvals(
    viewer: &Viewer,
    id: Option<&str>,
) -> Result<Vec<KernelApproval>, PageError> {
    let mut params = KernelApprovalsParams::new();
    params.id = id.map(str::to_owned);
    Ok(viewer.operator.client.request::<KernelApprovals>(&params).await?.approvals)
}

/// The questions of the inbox that records name, by their ids.
#[derive(Default)]
pub(super) struct Questions(BTreeMap<String, KernelApproval>);

impl Questions {
    /// Reads the inbox if a record names one of its questions; returns no questions if the viewer may not read it.
    pub(super) async fn of(viewer: &Viewer, events: &[AuditEvent]) -> Self {
        if !events.iter().any(|event| approval_id(event).is_some()) {
            return Self::default();
        }
        let all = approvals(viewer, None).await.unwrap_or_default();
        Self(all.into_iter().map(|one| (one.id.clone(), one)).collect())
    }

    pub(super) fn get(&self, id: &str) -> Option<&KernelApproval> {
        self.0.get(id)
    }
}

/// Decodes a member of a record's details.
pub(super) fn detail<T: DeserializeOwned>(event: &AuditEvent, name: &str) -> Option<T> {
    event.details.as_ref()?.decode(name).ok()?
}

/// Returns the id of the question that a record names.
pub(super) fn approval_id(event: &AuditEvent) -> Option<String> {
    detail(event, "approval_id")
}

/// Returns the place of an answer in words.
pub(super) fn place(viewer: &Viewer, word: &str) -> Option<&'static str> {
    match word {
        "page" => Some(viewer.texts.via_page),
        "terminal" => Some(viewer.texts.via_terminal),
        "host" => Some(viewer.texts.via_host),
        _ => None,
    }
}
