//! Who may do what: in the kernel that runs, else in its folder.
//!
//! Applies to: both.

use std::time::{Duration, SystemTime};

use mgp_client_sdk::Client;
use mgp_security::{Approval, ApprovalSource, Governance, PermissionChange};
use mgp_types::method::{
    KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsRevoke,
};
use mgp_types::mgp::{
    AccessGrantParams, AccessGrantResult, AccessQueryParams, AccessQueryResult, AccessRevokeParams,
    AccessRevokeResult, KernelPermission, KernelPermissionChangeParams, KernelPermissionsParams,
    Permission,
};
use mgp_types::service::{Principal, ServerId};
use tokio::time::{Instant, sleep};

use crate::cli::Global;
use crate::control;
use crate::exit::{Ended, Failure};
use crate::lock::{self, Lock, Locked};
use crate::state;

/// How long a program that has the folder and cannot be reached is waited for, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOKS: Duration = Duration::from_millis(50);

/// The books of a kernel that runs, or of one that does not.
pub(crate) enum Books {
    Kernel(Client),
    /// With the folder to themselves, so that a kernel that begins waits.
    Folder(Governance, Lock),
}

impl Books {
    /// Opens them where they are.
    pub(crate) async fn open(global: &Global) -> Ended<Self> {
        let end = Instant::now() + PATIENCE;
        loop {
            match control::connect(global).await {
                Ok(client) => return Ok(Self::Kernel(client)),
                Err(failure) if failure.is_no_kernel() => {}
                Err(failure) => return Err(failure),
            }
            let folder = state::made(global)?;
            match lock::kernel(&folder)? {
                Locked::Ours(lock) => {
                    return Ok(Self::Folder(Governance::in_folder(folder).await?, lock));
                }
                // A kernel that begins or leaves, or another command that is soon done.
                Locked::Theirs(_) if Instant::now() < end => sleep(LOOKS).await,
                Locked::Theirs(_) => {
                    return Err(Failure::taken(
                        "another program uses the state folder and cannot be reached; stop it, or wait until it has ended",
                    ));
                }
            }
        }
    }

    pub(crate) async fn grant(&self, params: AccessGrantParams) -> Ended<AccessGrantResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_grant(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().grant(&operator(), params).await?)
            }
        }
    }

    pub(crate) async fn revoke(&self, params: AccessRevokeParams) -> Ended<AccessRevokeResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_revoke(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().revoke(&operator(), params).await?)
            }
        }
    }

    pub(crate) async fn query(&self, params: AccessQueryParams) -> Ended<AccessQueryResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_query(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().query(&operator(), params).await?)
            }
        }
    }

    /// Has a kernel that runs look at its configuration now, and not in a second.
    pub(crate) async fn reload(&self) {
        if let Self::Kernel(client) = self {
            control::reload_by(client).await;
        }
    }

    /// What was decided about permissions, of one server or of all.
    pub(crate) async fn permissions(&self, server: Option<&str>) -> Ended<Vec<KernelPermission>> {
        match self {
            Self::Kernel(client) => {
                let mut params = KernelPermissionsParams::new();
                params.server_id = server.map(str::to_owned);
                Ok(client.request::<KernelPermissions>(&params).await?.permissions)
            }
            Self::Folder(governance, _) => {
                let server = server.map(ServerId::from);
                let all = governance.permissions().list(&operator(), server.as_ref()).await?;
                Ok(all.into_iter().map(told).collect())
            }
        }
    }

    /// Decides about permissions of a server; answers how many of them that changed.
    pub(crate) async fn decide(
        &self,
        word: Word,
        server: &str,
        permissions: Vec<Permission>,
        tools: &[String],
        until: Option<SystemTime>,
        because: Option<&str>,
    ) -> Ended<usize> {
        match self {
            Self::Kernel(client) => {
                let mut params = KernelPermissionChangeParams::new(server, permissions);
                params.tools = tools.iter().cloned().collect();
                params.until = until.map(Into::into);
                params.because = because.map(str::to_owned);
                let made = match word {
                    Word::Approve => client.request::<KernelPermissionsApprove>(&params).await?,
                    Word::Deny => client.request::<KernelPermissionsDeny>(&params).await?,
                    Word::Revoke => client.request::<KernelPermissionsRevoke>(&params).await?,
                };
                Ok(made.permissions.len())
            }
            Self::Folder(governance, _) => {
                let mut change = PermissionChange::of(server, permissions).tools(tools.to_vec());
                if let Some(until) = until {
                    change = change.until(until);
                }
                if let Some(because) = because {
                    change = change.because(because);
                }
                let (book, by) = (governance.permissions(), operator());
                let made = match word {
                    Word::Approve => book.approve(&by, change).await?,
                    Word::Deny => book.deny(&by, change).await?,
                    Word::Revoke => book.revoke(&by, change).await?,
                };
                Ok(made.len())
            }
        }
    }

    /// Waits until everything is on the disk.
    pub(crate) async fn close(self) -> Ended {
        match self {
            Self::Kernel(client) => {
                client.close().await;
            }
            Self::Folder(governance, lock) => {
                let log = governance.log().cloned();
                drop(governance);
                if let Some(log) = log {
                    log.close().await?;
                }
                drop(lock);
            }
        }
        Ok(())
    }
}

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Approve,
    Deny,
    Revoke,
}

/// A decision in the words of a kernel.
fn told(approval: Approval) -> KernelPermission {
    let source = match approval.source {
        ApprovalSource::Answer => "answer",
        ApprovalSource::Policy => "policy",
        _ => "operator",
    };
    let mut told = KernelPermission::new(
        approval.permission,
        approval.decision.as_str(),
        source,
        approval.approved_by,
        approval.approved_at,
    );
    told.server_id = approval.server;
    told.expires_at = approval.expires_at;
    told.scope = approval.scope;
    told.tools = approval.tools.into_iter().collect();
    told.justification = approval.justification;
    told
}

/// Whoever runs a command may do everything to the state that is theirs.
pub(crate) fn operator() -> Principal {
    Principal::local().operator()
}
