//! Tests of calls that wait for an operator, who decides with the kernel's own methods.

use mgp_testkit::until;
use mgp_types::ErrorCode;
use mgp_types::method::{KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny};
use mgp_types::mgp::{KernelApproval, KernelApprovalDecisionParams, KernelApprovalsParams};

use super::world::World;

#[tokio::test]
async fn an_approved_call_runs_once() {
    let world = World::new().await;
    let (operator, agent) = (world.operator().await, world.agent().await);
    let list = async || {
        let all = operator.request::<KernelApprovals>(&KernelApprovalsParams::new()).await.unwrap();
        all.approvals
    };
    let opened = async || -> KernelApproval {
        let mut open = None;
        until("a call waits", async || {
            open = list().await.into_iter().find(|one| one.state == "open");
            open.is_some()
        })
        .await;
        open.unwrap()
    };
    // The call waits until the operator decides.
    let deciding = async {
        let open = opened().await;
        assert_eq!((open.tool.as_deref(), open.agent_id.as_deref()), (Some("wipe"), Some("ada")));
        assert!(open.question.contains("Run the tool `wipe`"), "{}", open.question);
        let mut params = KernelApprovalDecisionParams::new(open.id.as_str());
        params.because = Some("the disk is sold".to_owned());
        operator.request::<KernelApprovalsApprove>(&params).await.unwrap().approval
    };
    let (ran, approved) = tokio::join!(async { agent.call("wipe").await }, deciding);
    assert_eq!(approved.state, "approved");
    assert_eq!(approved.justification.as_deref(), Some("the disk is sold"));
    assert!(ran.unwrap().is_error != Some(true));
    assert_eq!(list().await[0].state, "used");

    // The approval allowed only one call. The next call needs another decision; this time it is a denial, and the call
    // is refused.
    let denying = async {
        let open = opened().await;
        let params = KernelApprovalDecisionParams::new(open.id.as_str());
        // The caller must not decide about its own call.
        let own = agent.request::<KernelApprovalsDeny>(&params).await.unwrap_err();
        assert_eq!(own.code(), ErrorCode::PERMISSION_DENIED);
        operator.request::<KernelApprovalsDeny>(&params).await.unwrap();
        // Another operator, whose program still shows the call as open, must not be able to approve it.
        let mut late = params.clone();
        late.expected = Some("open".to_owned());
        let late = operator.request::<KernelApprovalsApprove>(&late).await.unwrap_err();
        assert_eq!(late.code(), ErrorCode::INVALID_PARAMS);
        assert!(late.to_string().contains("is denied already, by "), "{late}");
    };
    let (refused, ()) = tokio::join!(async { agent.call("wipe").await }, denying);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PERMISSION_DENIED);

    // A program that polls the approvals can leave out all decided approvals, or all but the newest decided approvals.
    let states = async |max_decided: u64, ids: Vec<String>| -> Vec<String> {
        let mut params = KernelApprovalsParams::new();
        (params.max_decided, params.ids) = (Some(max_decided), ids.into());
        let found = operator.request::<KernelApprovals>(&params).await.unwrap();
        found.approvals.into_iter().map(|one| one.state).collect()
    };
    let all: Vec<_> = list().await.into_iter().map(|one| one.id).collect();
    assert_eq!(states(0, Vec::new()).await, [""; 0]);
    assert_eq!(states(1, Vec::new()).await, ["denied"]);
    assert_eq!(states(2, Vec::new()).await, ["used", "denied"]);
    assert_eq!(states(2, vec![all[0].clone(), "unknown".to_owned()]).await, ["used"]);
}
