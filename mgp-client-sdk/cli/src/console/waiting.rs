//! Completes the open questions of the inbox. The list of questions lacks the arguments, the tool's description, and
//! whether the kernel would refuse the call now.

use futures_util::future::{join, join_all};
use mgp_types::ErrorCode;
use mgp_types::method::{KernelExplain, KernelTools};
use mgp_types::mgp::{
    ExplainedOutcome, ExplainedResult, ExplainedStep, KernelApproval, KernelExplainParams,
    KernelExplainResult, KernelToolsParams,
};

use super::operator::Viewer;
use super::questions::whole_approval;

/// The maximum number of questions on one page for which the arguments and the explanation are read.
const MAX_COMPLETE: usize = 32;

/// A question about a call, a server or permissions.
pub(super) struct Waiting {
    pub(super) approval: KernelApproval,
    /// The description of the tool, in the words of its server.
    pub(super) description: Option<String>,
    /// The decision that the kernel would make about the call now.
    pub(super) explained: Option<KernelExplainResult>,
    /// The reason why no call of the tool can run now: the kernel has no such tool. Otherwise `None`.
    missing: Option<&'static str>,
}

impl Waiting {
    /// Adds the tool's description and the kernel's current decision to a question that was read with all its
    /// arguments.
    pub(super) async fn of_whole(viewer: &Viewer, approval: KernelApproval) -> Self {
        if approval.kind != "call" {
            return Self::of_listed(approval);
        }
        let (explained, description) =
            join(explained(viewer, &approval), description(viewer, &approval)).await;
        let (explained, missing) = match explained {
            Some(Ok(explained)) => (Some(explained), None),
            Some(Err(error)) if error.code() == ErrorCode::INVALID_PARAMS => {
                (None, Some(viewer.texts.tool_missing))
            }
            _ => (None, None),
        };
        Self { approval, description, explained, missing }
    }

    fn of_listed(approval: KernelApproval) -> Self {
        Self { approval, description: None, explained: None, missing: None }
    }

    /// Completes the questions of a list: the calls among the first `MAX_COMPLETE` of them get all their arguments and
    /// an explanation.
    pub(super) async fn all(viewer: &Viewer, listed: &[&KernelApproval]) -> Vec<Self> {
        let complete = listed.iter().enumerate().map(|(at, one)| async move {
            let listed = KernelApproval::clone(one);
            if at >= MAX_COMPLETE || listed.kind != "call" {
                return Self::of_listed(listed);
            }
            let whole = whole_approval(viewer, &listed.id).await.unwrap_or_default();
            Self::of_whole(viewer, whole.unwrap_or(listed)).await
        });
        join_all(complete).await
    }

    /// Returns why the call would be refused now, even if an operator approved it.
    pub(super) fn refusal(&self) -> Option<&str> {
        let Some(explained) = &self.explained else { return self.missing };
        let last = explained.steps.last();
        // Ignore a limit that this call has used up itself, because the limit does not refuse the call once the call is
        // approved.
        let is_limit = last.is_some_and(|step| step.stage == "limits");
        // If no rule refuses the call, only an operator's denial of this question refuses it. An approval takes this
        // denial back, so do not report it.
        let is_refused = |step: &ExplainedStep| step.result == ExplainedResult::Refused;
        let is_own_denial =
            self.approval.state == "denied" && !explained.steps.iter().any(is_refused);
        if explained.outcome != ExplainedOutcome::Refuse || is_limit || is_own_denial {
            return None;
        }
        explained.reason.as_deref().or_else(|| last.map(|step| step.rule.as_str()))
    }
}

/// Returns how the kernel would now decide about the call of an approval; `None` if the call has no agent.
async fn explained(
    viewer: &Viewer,
    approval: &KernelApproval,
) -> Option<Result<KernelExplainResult, mgp_client_sdk::Error>> {
    let mut params = KernelExplainParams::new(approval.agent_id.as_deref()?, tool_id(approval)?);
    params.arguments =
        approval.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Some(viewer.operator.client.request::<KernelExplain>(&params).await)
}

async fn description(viewer: &Viewer, approval: &KernelApproval) -> Option<String> {
    let mut params = KernelToolsParams::new();
    params.tool_id = tool_id(approval);
    let found = viewer.operator.client.request::<KernelTools>(&params).await.ok()?.tools;
    found.into_iter().next()?.description
}

/// Returns the id of the tool that a call names, i.e. the server and the tool.
pub(super) fn tool_id(approval: &KernelApproval) -> Option<String> {
    Some(format!("{}.{}", approval.server_id.as_deref()?, approval.tool.as_deref()?))
}
