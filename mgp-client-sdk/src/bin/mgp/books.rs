//! Who may do what: in the kernel that runs, else in its folder.
//!
//! Applies to: both.

use mgp_client_sdk::Client;
use mgp_client_sdk::security::{FolderError, Governance, LogError};
use mgp_client_sdk::types::mgp::{
    AccessGrantParams, AccessGrantResult, AccessQueryParams, AccessQueryResult, AccessRevokeParams,
    AccessRevokeResult,
};
use mgp_client_sdk::types::service::Principal;

use crate::cli::Global;
use crate::control;
use crate::exit::{Ended, Failure};
use crate::state;

/// The books of a kernel that runs, or of one that does not.
pub(crate) enum Books {
    Kernel(Client),
    Folder(Governance),
}

impl Books {
    /// Opens them where they are.
    pub(crate) async fn open(global: &Global) -> Ended<Self> {
        match control::connect(global).await {
            Ok(client) => return Ok(Self::Kernel(client)),
            Err(failure) if failure.is_no_kernel() => {}
            Err(failure) => return Err(failure),
        }
        match Governance::in_folder(state::made(global)?).await {
            Ok(governance) => Ok(Self::Folder(governance)),
            Err(FolderError::Log(LogError::Taken { .. })) => Err(Failure::failed(
                "another program uses the state folder and cannot be reached; stop it, or wait until it has ended",
            )),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn grant(&self, params: AccessGrantParams) -> Ended<AccessGrantResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_grant(&params).await?),
            Self::Folder(governance) => Ok(governance.access().grant(&operator(), params).await?),
        }
    }

    pub(crate) async fn revoke(&self, params: AccessRevokeParams) -> Ended<AccessRevokeResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_revoke(&params).await?),
            Self::Folder(governance) => Ok(governance.access().revoke(&operator(), params).await?),
        }
    }

    pub(crate) async fn query(&self, params: AccessQueryParams) -> Ended<AccessQueryResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_query(&params).await?),
            Self::Folder(governance) => Ok(governance.access().query(&operator(), params).await?),
        }
    }

    /// Waits until everything is on the disk.
    pub(crate) async fn close(self) -> Ended {
        match self {
            Self::Kernel(client) => {
                client.close().await;
            }
            Self::Folder(governance) => {
                let log = governance.log().cloned();
                drop(governance);
                if let Some(log) = log {
                    log.close().await?;
                }
            }
        }
        Ok(())
    }
}

/// Whoever runs a command may do everything to the state that is theirs.
pub(crate) fn operator() -> Principal {
    Principal::local().operator()
}
