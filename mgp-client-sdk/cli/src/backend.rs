//! The backend of the operator commands for access, permissions and approvals: the running kernel, or its state folder
//! if no kernel runs.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::{Registrations, Sources, Trust};
use mgp_security::{
    AnswerPlace, Approval, ApprovalSource, ApprovalTerm, CallApproval, CallApprovals, FolderError,
    Governance, Inbox, InboxConfig, LogError, PermissionChange, ServerPolicy,
};
use mgp_types::method::{
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, KernelPermissions,
    KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsReset,
    KernelPermissionsRevoke,
};
use mgp_types::mgp::{
    AccessGrantParams, AccessGrantResult, AccessQueryParams, AccessQueryResult, AccessRevokeParams,
    AccessRevokeResult, KernelApproval, KernelApprovalDecisionParams, KernelApprovalsParams,
    KernelPermission, KernelPermissionChangeParams, KernelPermissionsParams, RegistrationStatus,
};
use mgp_types::service::{PeerProcess, Principal, ServerId};
use tokio::time::{Instant, sleep};

use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::lock::{self, Lock, LockAttempt};
use crate::socket_hello::Intent;
use crate::{operator, state};

/// The maximum time that a command waits while another process holds the lock of the state folder but accepts no
/// connection.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The place where an operator command reads and changes access, permissions and approvals.
pub(crate) enum Backend {
    Kernel(Client),
    /// The state folder, locked by this command; a kernel that starts meanwhile waits for the lock.
    Folder(Governance, Lock),
}

pub(crate) struct Approved {
    /// `approved`, or the state of the server whose registration was approved.
    pub(crate) status: String,
    /// A message for the operator about the server that the approval registered.
    pub(crate) message: Option<String>,
}

impl Backend {
    /// Returns the result of a request that a command repeats for as long as the kernel runs. If the request failed
    /// because the kernel has stopped, the error reports this, as [`control::followed`] describes.
    pub(crate) async fn followed<T>(&self, result: CliResult<T>) -> CliResult<T> {
        match self {
            Self::Kernel(client) => control::followed(client, result).await,
            Self::Folder(..) => result,
        }
    }

    /// Connects to the running kernel, or locks the state folder if no kernel runs. If another process holds the lock,
    /// tries both again for up to [`LOCK_TIMEOUT`].
    ///
    /// With [`Intent::Change`], the operator must give the proof that `operator.proof` under `[kernel]` requires. A
    /// process that a server started is always refused.
    pub(crate) async fn open(global: &Global, intent: Intent) -> CliResult<Self> {
        let end = Instant::now() + LOCK_TIMEOUT;
        let mut is_admitted = false;
        loop {
            let connected = match intent {
                Intent::Read => control::connect(global).await,
                Intent::Change => control::connect_to_change(global).await,
            };
            match connected {
                Ok(client) => return Ok(Self::Kernel(client)),
                Err(failure) if failure.is_no_kernel() => {}
                Err(failure) => return Err(failure),
            }
            if !is_admitted {
                match intent {
                    Intent::Read => operator::check_place()?,
                    Intent::Change => {
                        operator::admit_offline(global, [Sources::from_env()]).await?;
                    }
                }
                is_admitted = true;
            }
            let folder = state::create_folder(global)?;
            match lock::try_kernel(&folder)? {
                LockAttempt::Acquired(lock) => {
                    let governance = Governance::builder().inbox(InboxConfig::default());
                    let governance = governance.in_folder(folder).await.map_err(not_opened)?;
                    apply_config(&governance).await;
                    return Ok(Self::Folder(governance, lock));
                }
                // Wait while a kernel that starts or stops, or another short command, holds the lock.
                LockAttempt::Held(_) if Instant::now() < end => sleep(LOCK_INTERVAL).await,
                LockAttempt::Held(_) => return Err(lock::unserved(&folder)),
            }
        }
    }

    pub(crate) async fn grant(&self, params: AccessGrantParams) -> CliResult<AccessGrantResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_grant(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().grant(&operator(), params).await?)
            }
        }
    }

    pub(crate) async fn revoke(&self, params: AccessRevokeParams) -> CliResult<AccessRevokeResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_revoke(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().revoke(&operator(), params).await?)
            }
        }
    }

    pub(crate) async fn query(&self, params: AccessQueryParams) -> CliResult<AccessQueryResult> {
        match self {
            Self::Kernel(client) => Ok(client.mgp().access_query(&params).await?),
            Self::Folder(governance, _) => {
                Ok(governance.access().query(&operator(), params).await?)
            }
        }
    }

    /// Asks the running kernel, if any, to reload its configuration immediately.
    pub(crate) async fn reload(&self) {
        if let Self::Kernel(client) = self {
            control::reload_over(client).await;
        }
    }

    pub(crate) async fn permissions(
        &self,
        server: Option<&str>,
    ) -> CliResult<Vec<KernelPermission>> {
        match self {
            Self::Kernel(client) => {
                let mut params = KernelPermissionsParams::new();
                params.server_id = server.map(str::to_owned);
                Ok(client.request::<KernelPermissions>(&params).await?.permissions)
            }
            Self::Folder(governance, _) => {
                let server = server.map(ServerId::from);
                let all = governance.permissions().list(&operator(), server.as_ref()).await?;
                let calls = inbox(governance)?.calls().list(&operator(), server.as_ref()).await?;
                let calls = calls.iter().map(CallApproval::to_listed);
                Ok(all.into_iter().map(kernel_permission).chain(calls).collect())
            }
        }
    }

    /// Returns the approvals that are pending or were decided within the last hour.
    ///
    /// If an id is given, returns only that approval, with its complete arguments.
    pub(crate) async fn approvals(&self, id: Option<&str>) -> CliResult<Vec<KernelApproval>> {
        match self {
            Self::Kernel(client) => {
                let mut params = KernelApprovalsParams::new();
                params.id = id.map(str::to_owned);
                let result = client.request::<KernelApprovals>(&params).await;
                Ok(result.map_err(control::request_failure)?.approvals)
            }
            Self::Folder(governance, _) => {
                let is_whole = id.is_some();
                let requests = inbox(governance)?.list(&operator()).await?;
                let registrations = Registrations::pending_in(&**governance.store()).await?;
                let requests = requests.iter().map(|one| one.to_listed(is_whole));
                let registrations = registrations.iter().map(|one| one.to_listed(is_whole));
                let mut all: Vec<_> = requests.chain(registrations).collect();
                all.retain(|one| id.is_none_or(|id| one.id == id));
                all.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
                Ok(all)
            }
        }
    }

    /// Returns whether this backend can decide about registrations. Only a running kernel can, because it starts the
    /// new servers.
    pub(crate) fn decides_registrations(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    /// Approves a pending request for approval, and returns the outcome. If the request is for the registration of a
    /// server, fails if the kernel cannot start this server.
    pub(crate) async fn approve(
        &self,
        params: &KernelApprovalDecisionParams,
    ) -> CliResult<Approved> {
        match self {
            Self::Kernel(client) => {
                let decided = client.request::<KernelApprovalsApprove>(params).await?;
                match (decided.status, decided.message) {
                    // Report a failure, because the kernel could not start the server that the operator approved.
                    (Some(RegistrationStatus::Error), Some(message)) => {
                        Err(Failure::failed(message))
                    }
                    (status, message) => {
                        let status = status.as_ref().map(RegistrationStatus::as_str);
                        Ok(Approved { status: status.unwrap_or("approved").to_owned(), message })
                    }
                }
            }
            Self::Folder(governance, _) => {
                let term = ApprovalTerm::parse(params.term.as_deref(), params.until.clone())?;
                let because = params.because.as_deref();
                let (place, expected) = (Some(AnswerPlace::Terminal), params.expected.as_deref());
                let (by, id) = (operator(), &params.id);
                governance.approve_request(&by, id, &term, because, place, expected).await?;
                Ok(Approved { status: "approved".to_owned(), message: None })
            }
        }
    }

    pub(crate) async fn deny(&self, params: &KernelApprovalDecisionParams) -> CliResult {
        match self {
            Self::Kernel(client) => {
                client.request::<KernelApprovalsDeny>(params).await?;
            }
            Self::Folder(governance, _) => {
                let because = params.because.as_deref();
                let (place, expected) = (Some(AnswerPlace::Terminal), params.expected.as_deref());
                let (by, id) = (operator(), &params.id);
                governance.deny_request(&by, id, because, place, expected).await?;
            }
        }
        Ok(())
    }

    /// Applies an operator's decision to permissions of a server, and returns the number of changed entries.
    pub(crate) async fn decide(
        &self,
        decision: PermissionDecision,
        params: KernelPermissionChangeParams,
    ) -> CliResult<usize> {
        let client = match self {
            Self::Kernel(client) => client,
            Self::Folder(governance, _) => return decide_in(governance, decision, params).await,
        };
        let changed = match decision {
            PermissionDecision::Approve => {
                client.request::<KernelPermissionsApprove>(&params).await?
            }
            PermissionDecision::Deny => client.request::<KernelPermissionsDeny>(&params).await?,
            PermissionDecision::Revoke => {
                client.request::<KernelPermissionsRevoke>(&params).await?
            }
            PermissionDecision::Reset => client.request::<KernelPermissionsReset>(&params).await?,
        };
        Ok(changed.permissions.len())
    }

    /// Lets the kernel ask an operator for the permissions of a server once the server is ready.
    pub(crate) async fn review_later(&self, server: &str) -> CliResult {
        match self {
            Self::Kernel(client) => {
                let mut params = KernelPermissionChangeParams::new(server, Vec::new());
                params.when_ready = Some(true);
                client.request::<KernelPermissionsApprove>(&params).await?;
            }
            Self::Folder(governance, _) => {
                governance.review_later(&operator(), &server.into()).await?;
            }
        }
        Ok(())
    }

    /// Closes the connection to the kernel. Without a kernel, closes the state folder once every change to it is on
    /// disk.
    pub(crate) async fn close(self) -> CliResult {
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

fn not_opened(error: FolderError) -> Failure {
    match error {
        FolderError::Log(LogError::BadRecord(_) | LogError::Lost { .. }) => {
            Failure::log_changed(error)
        }
        error => error.into(),
    }
}

/// Applies what the configuration decides about access, as the kernel does: the `default_policy` and the `tenants` of
/// servers, and the groups of agents.
async fn apply_config(governance: &Governance) {
    let trust = Trust::new(Arc::clone(governance.store()));
    // Continue without the configuration if it is invalid: the command can still show the stored access entries.
    let Ok(loaded) = Sources::from_env().load(&trust).await else { return };
    for server in &loaded.config.servers {
        let mut policy = ServerPolicy::default();
        if let Some(mgp) = &server.mgp {
            policy = policy.default_policy(mgp.default_policy);
        }
        if let Some(tenants) = &server.tenants {
            policy = policy.tenants(tenants);
        }
        governance.policies().set(server.id.clone(), policy);
    }
    let (operator, access) = (operator(), governance.access());
    for (name, agent) in &loaded.config.agents {
        let groups = agent.groups.iter().cloned();
        access.groups().set(operator.tenant().as_str(), name, groups);
    }
}

/// Returns the inbox of approvals in the state folder. For each answer through this inbox, the audit log records that
/// it was given in a terminal.
fn inbox(governance: &Governance) -> CliResult<Inbox> {
    let inbox = governance.inbox();
    let missing = || Failure::failed("the state folder has no inbox of approvals");
    Ok(inbox.ok_or_else(missing)?.answered_at(AnswerPlace::Terminal))
}

/// Applies an operator's decision to permissions in the state folder, and returns the number of changed entries.
async fn decide_in(
    governance: &Governance,
    decision: PermissionDecision,
    mut params: KernelPermissionChangeParams,
) -> CliResult<usize> {
    let (by, server) = (operator(), ServerId::from(params.server_id.as_str()));
    let mut count = 0;
    if decision.takes_back() {
        let inbox = inbox(governance)?;
        count = inbox.revoke_calls(&by, &server, &params.permissions).await?.len();
        params.permissions.retain(|name| !CallApprovals::is_id(name.as_str()));
        if params.permissions.is_empty() {
            return Ok(count);
        }
        // First remove unused approvals of these permissions, so that no call can use one of them to get a permission
        // back.
        count += inbox.forget_approvals(&by, &server, &params.permissions).await?.len();
    }
    let change = PermissionChange::from(params);
    let permissions = governance.permissions();
    let changed = match decision {
        PermissionDecision::Approve => permissions.approve(&by, change).await?,
        PermissionDecision::Deny => permissions.deny(&by, change).await?,
        PermissionDecision::Revoke => permissions.revoke(&by, change).await?,
        PermissionDecision::Reset => permissions.reset(&by, change).await?,
    };
    if !decision.takes_back() {
        governance.settle(&by, Some(server.as_str())).await?;
    }
    Ok(count + changed.len())
}

/// An operator's decision about permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionDecision {
    Approve,
    Deny,
    Revoke,
    Reset,
}

impl PermissionDecision {
    /// Returns whether this decision takes back earlier decisions, e.g. approvals of later calls.
    pub(crate) fn takes_back(self) -> bool {
        matches!(self, Self::Revoke | Self::Reset)
    }
}

fn kernel_permission(approval: Approval) -> KernelPermission {
    let source = match approval.source {
        ApprovalSource::Answer => "answer",
        ApprovalSource::Policy => "policy",
        _ => "operator",
    };
    let mut permission = KernelPermission::new(
        approval.permission,
        approval.decision.as_str(),
        source,
        approval.approved_by,
        approval.approved_at,
    );
    permission.server_id = approval.server;
    permission.expires_at = approval.expires_at;
    permission.scope = approval.scope;
    permission.tools = approval.tools.into_iter().collect();
    permission.justification = approval.justification;
    permission
}

/// Returns the principal for the operating system user who runs this command and owns the state folder.
pub(crate) fn operator() -> Principal {
    let mut process = PeerProcess::new(std::process::id());
    let program = std::env::current_exe().ok();
    process.program = program.map(|program| program.to_string_lossy().into_owned());
    Principal::local().operator().through(process)
}
