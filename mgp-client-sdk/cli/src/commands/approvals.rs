//! `mgp approvals`: pending approvals (MGP §3.4, §4.4, §15.4).

use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_types::method::{KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny};
use mgp_types::mgp::{
    KernelApproval, KernelApprovalDecisionParams, KernelApprovalsParams, Permission,
    RegistrationStatus,
};
use mgp_types::{Extras, Timestamp};
use serde::Serialize;

use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Cell, Color, Output, Render, print};

const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// `mgp approvals`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List pending approvals, and those answered within the last hour
    #[command(alias = "list")]
    Ls,
    /// Show one approval, with the whole arguments of its call
    #[command(after_help = "Example:\n  mgp approvals show a9e645ed67")]
    Show {
        /// Id of the approval, as `mgp approvals ls` shows it
        id: String,
    },
    /// Approve: a call runs once, a registered server until it is removed
    #[command(
        after_help = "Example:\n  mgp approvals approve a9e645ed67 --because \"the disk is sold\""
    )]
    Approve(Approval),
    /// Deny
    #[command(after_help = "Example:\n  mgp approvals deny a9e645ed67")]
    Deny(Decision),
    /// Print new approvals as they arrive, until interrupted
    Watch,
}

/// The answer to an approval.
#[derive(Clone, Debug, Args)]
pub(crate) struct Decision {
    /// Id of the approval, as `mgp approvals ls` shows it
    id: String,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// `mgp approvals approve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Approval {
    #[command(flatten)]
    decision: Decision,
    /// Permission that a sandboxed, registered server gets although its sandbox denies it; may be given several times
    #[arg(long, value_name = "PERMISSION")]
    grant: Vec<String>,
}

/// Approvals, pending ones and recent ones.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApprovalList(Vec<KernelApproval>);

impl Render for ApprovalList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no pending approvals");
        }
        let rows = self.0.iter().map(|one| {
            let color = match one.state.as_str() {
                "open" => Color::Yellow,
                "denied" => Color::Red,
                _ => Color::Green,
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
                Cell::from(one.state.as_str()).color(color),
                one.agent_id.as_deref().or(Some(&one.subject)).into(),
                one.server_id.as_deref().into(),
                what.into(),
                one.risk_level.as_ref().map(ToString::to_string).into(),
                one.expires_at.as_ref().map(Timestamp::as_str).into(),
            ]
        });
        out.table(["ID", "KIND", "STATE", "FOR", "SERVER", "WHAT", "RISK", "EXPIRES"], rows);
        for open in self.0.iter().filter(|one| one.state == "open") {
            out.line("");
            out.line(format!("{}:", open.id));
            for line in open.question.lines() {
                out.line(format!("  {line}"));
            }
            if open.kind == "call" {
                out.line(format!("  The whole arguments: mgp approvals show {}", open.id));
            }
        }
    }
}

/// One approval, with nothing left out.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WholeApproval(KernelApproval);

impl Render for WholeApproval {
    fn render(&self, out: &mut Output) {
        let Self(approval) = self;
        out.line(format!("{} {} ({})", approval.kind, approval.id, approval.state));
        let Some(arguments) = &approval.arguments else { return out.block(&approval.question) };
        let server = approval.server_id.as_deref().unwrap_or("-");
        out.line(format!("tool       {server} {}", approval.tool.as_deref().unwrap_or("-")));
        if let Some(risk) = &approval.risk_level {
            out.line(format!("risk       {risk}"));
        }
        out.line(format!("arguments  {} bytes", arguments.len()));
        // Member by member, in the order in which they are hashed.
        match serde_json::from_str::<Extras>(arguments) {
            Ok(members) => members
                .iter()
                .for_each(|(name, value)| out.line(format!("  {name} = {}", value.as_str()))),
            Err(_) => out.line(arguments),
        }
    }
}

pub(crate) async fn run(global: &Global, approvals: &Approvals) -> CliResult {
    let client = match approvals {
        Approvals::Ls | Approvals::Show { .. } | Approvals::Watch => {
            control::connect(global).await?
        }
        Approvals::Approve(_) | Approvals::Deny(_) => control::connect_to_change(global).await?,
    };
    let result = match approvals {
        Approvals::Ls => print(global, &ApprovalList(fetch_approvals(&client).await?)),
        Approvals::Show { id } => {
            let mut params = KernelApprovalsParams::new();
            params.id = Some(id.clone());
            let found = client.request::<KernelApprovals>(&params).await?.approvals;
            match found.into_iter().next() {
                Some(approval) => print(global, &WholeApproval(approval)),
                None => Err(Failure::failed(format!(
                    "no approval has the id `{id}`; `mgp approvals ls` lists them"
                ))),
            }
        }
        Approvals::Approve(approval) => {
            let mut params = approval.decision.params();
            let granted = approval.grant.iter().map(|name| Permission::from(name.as_str()));
            params.permissions = granted.collect();
            let decided = client.request::<KernelApprovalsApprove>(&params).await?;
            match (decided.status, decided.message) {
                // The server was approved, but does not run.
                (Some(RegistrationStatus::Error), Some(message)) => Err(Failure::failed(message)),
                (status, _) => {
                    let status = status.as_ref().map_or("approved", RegistrationStatus::as_str);
                    ActionReport::new(&*approval.decision.id, status).print(global)
                }
            }
        }
        Approvals::Deny(decision) => {
            client.request::<KernelApprovalsDeny>(&decision.params()).await?;
            ActionReport::new(&*decision.id, "denied").print(global)
        }
        Approvals::Watch => watch(global, &client).await,
    };
    client.close().await;
    result
}

impl Decision {
    fn params(&self) -> KernelApprovalDecisionParams {
        let mut params = KernelApprovalDecisionParams::new(self.id.as_str());
        params.because.clone_from(&self.because);
        params
    }
}

async fn fetch_approvals(client: &Client) -> CliResult<Vec<KernelApproval>> {
    Ok(client.request::<KernelApprovals>(&KernelApprovalsParams::new()).await?.approvals)
}

/// Prints each question once.
async fn watch(global: &Global, client: &Client) -> CliResult {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let all = fetch_approvals(client).await?;
        seen.retain(|id| all.iter().any(|one| one.id == *id));
        let new = all.into_iter().filter(|one| one.state == "open" && !seen.contains(&one.id));
        let new: Vec<KernelApproval> = new.collect();
        if !new.is_empty() {
            seen.extend(new.iter().map(|one| one.id.clone()));
            print(global, &ApprovalList(new))?;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
