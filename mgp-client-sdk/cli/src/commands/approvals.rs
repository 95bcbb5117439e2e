//! `mgp approvals`: what waits for you (MGP §3.4, §4.4, §15.4).
//!
//! Applies to: outbound.

use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_types::Timestamp;
use mgp_types::method::{KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny};
use mgp_types::mgp::{
    KernelApproval, KernelApprovalDecisionParams, KernelApprovalsParams, Permission,
    RegistrationStatus,
};
use serde::Serialize;

use crate::cli::Global;
use crate::control;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, show};

/// How often it is looked whether something new waits.
const LOOK: Duration = Duration::from_millis(500);

/// `mgp approvals`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List what waits, and what you answered within the hour
    Ls,
    /// Let it happen: a call once, a server that was registered until it is taken back
    #[command(
        after_help = "Example:\n  mgp approvals approve a9e645ed67 --because \"the disk is sold\""
    )]
    Approve(Approval),
    /// Forbid it
    #[command(after_help = "Example:\n  mgp approvals deny a9e645ed67")]
    Deny(Decision),
    /// Show what waits as it comes, until it is interrupted
    Watch,
}

/// An answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Decision {
    /// What is answered, as the list names it
    id: String,
    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// Agreement.
#[derive(Clone, Debug, Args)]
pub(crate) struct Approval {
    #[command(flatten)]
    decision: Decision,
    /// What a sandboxed server that is registered gets of what it would be denied
    #[arg(long, value_name = "PERMISSION")]
    grant: Vec<String>,
}

/// What waits.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Waiting(Vec<KernelApproval>);

impl Shown for Waiting {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("nothing waits for you");
        }
        let rows = self.0.iter().map(|one| {
            let tone = match one.state.as_str() {
                "open" => Tone::Doubtful,
                "denied" => Tone::Bad,
                _ => Tone::Good,
            };
            let permissions: Vec<&str> = one.permissions.iter().map(Permission::as_str).collect();
            let what = match permissions[..] {
                _ if one.kind == "registration" => None,
                [] => one.tool.clone(),
                _ => Some(permissions.join(" ")),
            };
            [
                one.id.as_str().into(),
                one.kind.as_str().into(),
                Cell::from(one.state.as_str()).tone(tone),
                one.agent_id.as_deref().or(Some(&one.subject)).into(),
                one.server_id.as_deref().into(),
                what.into(),
                one.risk_level.as_ref().map(ToString::to_string).into(),
                one.expires_at.as_ref().map(Timestamp::as_str).into(),
            ]
        });
        page.table(["ID", "KIND", "STATE", "FOR", "SERVER", "WHAT", "RISK", "EXPIRES"], rows);
        for open in self.0.iter().filter(|one| one.state == "open") {
            page.line("");
            page.line(format!("{}:", open.id));
            for line in open.question.lines() {
                page.line(format!("  {line}"));
            }
        }
    }
}

pub(crate) async fn run(global: &Global, approvals: &Approvals) -> Ended {
    let client = control::connect(global).await?;
    let ended = match approvals {
        Approvals::Ls => show(global, &Waiting(waiting(&client).await?)),
        Approvals::Approve(approval) => {
            let mut params = approval.decision.params();
            let granted = approval.grant.iter().map(|name| Permission::from(name.as_str()));
            params.permissions = granted.collect();
            let decided = client.request::<KernelApprovalsApprove>(&params).await?;
            match (decided.status, decided.message) {
                // It was approved, and whoever did wants to know that it does not run.
                (Some(RegistrationStatus::Error), Some(message)) => Err(Failure::failed(message)),
                (status, _) => {
                    let status = status.as_ref().map_or("approved", RegistrationStatus::as_str);
                    Done::new(&*approval.decision.id, status).tell(global)
                }
            }
        }
        Approvals::Deny(decision) => {
            client.request::<KernelApprovalsDeny>(&decision.params()).await?;
            Done::new(&*decision.id, "denied").tell(global)
        }
        Approvals::Watch => watch(global, &client).await,
    };
    client.close().await;
    ended
}

impl Decision {
    fn params(&self) -> KernelApprovalDecisionParams {
        let mut params = KernelApprovalDecisionParams::new(self.id.as_str());
        params.because.clone_from(&self.because);
        params
    }
}

async fn waiting(client: &Client) -> Ended<Vec<KernelApproval>> {
    Ok(client.request::<KernelApprovals>(&KernelApprovalsParams::new()).await?.approvals)
}

/// Shows each question once.
async fn watch(global: &Global, client: &Client) -> Ended {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let all = waiting(client).await?;
        seen.retain(|id| all.iter().any(|one| one.id == *id));
        let news = all.into_iter().filter(|one| one.state == "open" && !seen.contains(&one.id));
        let news: Vec<KernelApproval> = news.collect();
        if !news.is_empty() {
            seen.extend(news.iter().map(|one| one.id.clone()));
            show(global, &Waiting(news))?;
        }
        tokio::time::sleep(LOOK).await;
    }
}
