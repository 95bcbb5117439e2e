//! Finds the calls that waited for an approval when their process died, and so did not run.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The event types of requests for an approval, and of their decisions.
const REQUESTED: &str = "dev.cloto.approval_requested";
const DECIDED: &str = "dev.cloto.approval_decided";

/// The requests for approvals that are not decided, in the order of their records.
///
/// A request does not name its call. It is matched to the running call of the same actor, target and trace that began
/// before the request. If several such calls are running, or such a call has ended since, the request is matched to
/// none of them: it is then unknown which call waited, and a call that ran must not be reported as not run.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls(Vec<Request>);

#[derive(Debug)]
struct Request {
    seq: u64,
    id: String,
    key: CallKey,
}

/// The members that the intent of a call and the request for its approval have in common.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct CallKey {
    trace_id: Option<String>,
    actor: ActorKey,
    target: Option<TargetKey>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct ActorKey {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct TargetKey {
    server_id: Option<String>,
    tool_name: Option<String>,
}

#[derive(Deserialize)]
struct ApprovalEvent {
    event_type: String,
    #[serde(flatten)]
    key: CallKey,
    details: ApprovalDetails,
}

#[derive(Deserialize)]
struct ApprovalDetails {
    approval_id: String,
}

impl WaitingCalls {
    /// Notes an event, if it is about an approval.
    pub(super) fn note_event(&mut self, seq: u64, body: &str) {
        // Search the text first: few events are about approvals.
        if !body.contains(REQUESTED) && !body.contains(DECIDED) {
            return;
        }
        let Ok(event) = serde_json::from_str::<ApprovalEvent>(body) else { return };
        let id = event.details.approval_id;
        match event.event_type.as_str() {
            REQUESTED => self.0.push(Request { seq, id, key: event.key }),
            DECIDED => self.0.retain(|request| request.id != id),
            _ => {}
        }
    }

    /// Removes the requests that might belong to a call that has ended. The call is given by the number and the text of
    /// its intent.
    pub(super) fn note_end(&mut self, intent: u64, begun: &str) {
        if self.0.is_empty() {
            return;
        }
        if let Some(key) = key_of(begun) {
            self.0.retain(|request| request.seq < intent || request.key != key);
        }
    }

    /// Returns the ids of the undecided requests of open calls that waited for an approval. The key is the number of
    /// the call's intent.
    pub(super) fn of(&self, open: &BTreeMap<u64, String>) -> BTreeMap<u64, String> {
        if self.0.is_empty() {
            return BTreeMap::new();
        }
        let keys: Vec<_> =
            open.iter().filter_map(|(seq, begun)| Some((*seq, key_of(begun)?))).collect();
        let waiting = self.0.iter().filter_map(|request| {
            let mut calls = keys.iter().filter(|(_, key)| *key == request.key);
            match (calls.next(), calls.next()) {
                (Some((intent, _)), None) if *intent < request.seq => {
                    Some((*intent, request.id.clone()))
                }
                _ => None,
            }
        });
        waiting.collect()
    }
}

fn key_of(begun: &str) -> Option<CallKey> {
    serde_json::from_str(begun).ok()
}
