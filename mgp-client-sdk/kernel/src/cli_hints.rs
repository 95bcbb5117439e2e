//! Replaces the method that a refusal names as its remedy by the equivalent command of the program `mgp` (MGP §14.5).
//!
//! The layers that refuse calls do not know which program runs them. So this outer layer adds the command, but only for
//! operators, the log and `mgp why`. A model does not receive the command, because an agent with a shell could run it
//! in place of a person. The kernel does not change the refusals of servers.
//!
//! Applies to: inbound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};

use mgp_security::{Refusal, Requirement, Unconfirmed};
use mgp_types::method::{
    AccessGrant, AccessQuery, AccessRevoke, DiscoveryDeregister, DiscoveryRegister,
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, KernelAudit, KernelAuditVerify,
    KernelCallbacks, KernelCallbacksAnswer, KernelEvents, KernelExplain, KernelInfo,
    KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsReset,
    KernelPermissionsRevoke, KernelReload, KernelServers, KernelServersDrain, KernelServersLogs,
    KernelServersRestart, KernelServersStart, KernelServersStop, KernelSessions, KernelStop,
    KernelSubscriptions, KernelSubscriptionsEnd, KernelTools, KernelToolsApprove,
    KernelToolsReject, KernelToolsTokens, KernelTransactions, KernelTransactionsResolve,
    KernelTransactionsRetry, KernelWebhooks, LifecycleShutdown, Request as _,
};
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Authority, Call, MgpService, Principal, Reply};
use mgp_types::{Object, RpcError};
use pin_project_lite::pin_project;
use tower_service::Service;

/// Each method with the equivalent command of `mgp`.
const COMMANDS: [(&str, &str); 39] = [
    (AccessGrant::METHOD, "mgp access grant"),
    (AccessQuery::METHOD, "mgp access query"),
    (AccessRevoke::METHOD, "mgp access revoke"),
    (DiscoveryDeregister::METHOD, "mgp servers rm"),
    (DiscoveryRegister::METHOD, "mgp servers add"),
    (KernelApprovals::METHOD, "mgp approvals ls"),
    (KernelApprovalsApprove::METHOD, "mgp approvals approve"),
    (KernelApprovalsDeny::METHOD, "mgp approvals deny"),
    (KernelCallbacks::METHOD, "mgp callbacks ls"),
    (KernelCallbacksAnswer::METHOD, "mgp callbacks answer"),
    (KernelAudit::METHOD, "mgp audit query"),
    (KernelAuditVerify::METHOD, "mgp audit verify"),
    (KernelEvents::METHOD, "mgp events"),
    (KernelInfo::METHOD, "mgp status"),
    (KernelPermissions::METHOD, "mgp permissions ls"),
    (KernelPermissionsApprove::METHOD, "mgp permissions approve"),
    (KernelPermissionsDeny::METHOD, "mgp permissions deny"),
    (KernelPermissionsReset::METHOD, "mgp permissions reset"),
    (KernelPermissionsRevoke::METHOD, "mgp permissions revoke"),
    (KernelReload::METHOD, "mgp reload"),
    (KernelServers::METHOD, "mgp servers ls"),
    (KernelServersDrain::METHOD, "mgp servers drain"),
    (KernelServersLogs::METHOD, "mgp servers logs"),
    (KernelServersRestart::METHOD, "mgp servers restart"),
    (KernelServersStart::METHOD, "mgp servers start"),
    (KernelServersStop::METHOD, "mgp servers stop"),
    (KernelSessions::METHOD, "mgp sessions"),
    (KernelStop::METHOD, "mgp stop"),
    (KernelSubscriptions::METHOD, "mgp subscriptions"),
    (KernelSubscriptionsEnd::METHOD, "mgp subscriptions end"),
    (KernelTools::METHOD, "mgp tools ls"),
    (KernelToolsApprove::METHOD, "mgp tools approve"),
    (KernelToolsReject::METHOD, "mgp tools approve --reject"),
    (KernelToolsTokens::METHOD, "mgp tools tokens"),
    (KernelTransactions::METHOD, "mgp transactions ls"),
    (KernelTransactionsRetry::METHOD, "mgp transactions retry"),
    (KernelTransactionsResolve::METHOD, "mgp transactions resolve"),
    (KernelWebhooks::METHOD, "mgp webhooks"),
    (KernelExplain::METHOD, "mgp why AGENT TOOL"),
];

/// The remedy in the error about a store that cannot be used. No command helps here, so it names none.
const CHECK_STORE: &str = "the operator must check it";

/// Layer that replaces the remedies in refusals: by commands of `mgp` for operators, and by plain words for all other
/// callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CliHintLayer;

mgp_types::layer_service! {
    /// Service of [`CliHintLayer`].
    pub(super) CliHint for CliHintLayer
}

impl<S: MgpService> Service<Call> for CliHint<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;
    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let by = call.cx().principal.clone();
        ResponseFuture { future: self.inner.call(call), by }
    }
}

pin_project! {
    pub(super) struct ResponseFuture<F> {
        #[pin]
        future: F,
        by: Principal,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.future.poll(task));
        Poll::Ready(outcome.map_err(|error| with_remedy(error, this.by)))
    }
}

/// Replaces the remedy of a refusal: by a command if the caller is an operator, and by plain words otherwise.
fn with_remedy(error: RpcError, by: &Principal) -> RpcError {
    if by.authority() == Authority::Operator {
        let error = with_command(error, by, |_, _, command| Some(command));
        if !error.message().contains(CHECK_STORE) {
            return error;
        }
        let message =
            error.message().replace(CHECK_STORE, "`mgp doctor` names the file and the reason");
        return error.with_message(message);
    }
    // An operator of another tenant gets other advice, because the commands and the console of the local operator do
    // not apply to agents of that tenant.
    let tenant = Some(by.tenant()).filter(|tenant| *tenant != Principal::local().tenant());
    with_command(error, by, |refusal, details, command| {
        if tenant.is_none() {
            tracing::info!(remedy = command, "denied call; an operator can change that");
        }
        match refusal {
            Refusal::AccessDenied(_) => Some("ask an operator for access".to_owned()),
            Refusal::Unconfirmed(refused) if refused.why() != Unconfirmed::Denied => {
                let whom = tenant.map_or_else(
                    || "the user to decide it in the console of mgp".to_owned(),
                    |tenant| format!("an operator of the tenant `{tenant}` to decide it"),
                );
                text(details, "approval_id")
                    .map(|id| format!("approval {id} stays open: ask {whom}, then call again"))
            }
            _ => None,
        }
    })
}

/// Returns the text of a refusal for an operator. It contains the command that permits the agent's call.
pub(super) fn explain_refusal(refusal: &Refusal, by: &Principal) -> String {
    let error = RpcError::from(refusal.clone());
    let remedy =
        error.as_recovery().and_then(|recovery| text(recovery.details.as_ref()?, "remedy"));
    let shown = with_command(error, by, |_, _, command| Some(command));
    let command = shown.as_recovery().and_then(|shown| text(shown.details.as_ref()?, "remedy"));
    match command.filter(|command| Some(command) != remedy.as_ref()) {
        Some(command) if !shown.message().contains(&command) => {
            format!("{}; {command}", shown.message())
        }
        _ => shown.message().to_owned(),
    }
}

/// Returns the command that lets an agent call a tool without confirmation.
pub(super) fn no_confirm_command(by: &Principal, server: &str, tool: &str) -> Option<String> {
    let (agent, server, tool) = (shell_word(by.name())?, shell_word(server)?, shell_word(tool)?);
    Some(format!("mgp access grant {agent} {server} {tool} --no-confirm"))
}

pub(super) fn risk_command(server: &str, tool: &str, risk: &RiskLevel) -> Option<String> {
    Some(format!("mgp tools risk {} {risk}", shell_word(&format!("{server}.{tool}"))?))
}

/// Returns the command that approves the missing permissions of a server for all calls, if any are missing.
pub(super) fn permit_command(server: &str, requirement: &Requirement) -> Option<String> {
    let Requirement::Permissions(missing) = requirement else { return None };
    let names = missing.iter().map(|missing| shell_word(missing.permission.as_str()));
    let names = names.collect::<Option<Vec<_>>>()?.join(" ");
    let server = shell_word(server)?;
    (!names.is_empty()).then(|| format!("mgp permissions approve {server} {names}"))
}

/// If a command is known for the remedy of a refusal, replaces the remedy by the text that `choose` returns for the
/// command.
fn with_command(
    error: RpcError,
    by: &Principal,
    choose: impl FnOnce(&Refusal, &Object, String) -> Option<String>,
) -> RpcError {
    let source = std::error::Error::source(&error);
    let Some(refusal) = source.and_then(|source| source.downcast_ref::<Refusal>()).cloned() else {
        return error;
    };
    let Some(recovery) = error.as_recovery().cloned() else { return error };
    let Some(mut details) = recovery.details.clone() else { return error };
    let remedy = text(&details, "remedy");
    let hint = command_remedy(&refusal, remedy.as_deref().unwrap_or_default(), &details, by);
    let Some(hint) = hint else { return error };
    let Some(hint) = choose(&refusal, &details, hint) else { return error };
    if details.encode("remedy", &hint).is_err() {
        return error;
    }
    let mut recovery = recovery;
    recovery.details = Some(details);
    let message = match remedy {
        Some(remedy) => error.message().replace(&remedy, &hint),
        None => format!("{}; {hint}", error.message()),
    };
    error.with_message(message).recovery(recovery)
}

fn text(details: &Object, name: &str) -> Option<String> {
    details.decode(name).ok().flatten()
}

/// Returns the remedy as a command; `None` if the remedy stays as it is.
fn command_remedy(
    refusal: &Refusal,
    remedy: &str,
    details: &Object,
    by: &Principal,
) -> Option<String> {
    let fact = |name: &str| text(details, name).and_then(|text| shell_word(&text));
    let (server, tool) = (fact("server_id"), fact("tool"));
    match refusal {
        Refusal::AccessDenied(denied) if denied.is_of_other_tenants() => Some(format!(
            "the operator can add the tenant to `tenants` of server `{}` in the configuration",
            server?
        )),
        Refusal::AccessDenied(_) if remedy.contains(AccessGrant::METHOD) => {
            let agent = fact("agent")?;
            Some(format!("an operator can allow it with `mgp access grant {agent} {}`", server?))
        }
        Refusal::AccessDenied(_) => {
            // Read the owner of the access entry from the remedy, because the owner can also be a group or everyone.
            let entry = remedy.strip_suffix(&format!("` with `{}`", AccessRevoke::METHOD))?;
            let (kind, whose) = entry.split_once(" for `")?;
            let (whose, server) = (shell_word(whose)?, server?);
            let tool = tool.filter(|_| kind.ends_with("tool_grant"));
            let tool = tool.map(|tool| format!(" {tool}")).unwrap_or_default();
            Some(format!("{entry}` with `mgp access revoke {whose} {server}{tool}`"))
        }
        Refusal::Permission(_) if remedy.starts_with("ask an operator to approve") => {
            let missing: Vec<Object> = details.decode("missing").ok().flatten()?;
            let names = missing.iter().map(|one| shell_word(&text(one, "permission")?));
            let names = names.collect::<Option<Vec<_>>>()?.join(" ");
            let server = server?;
            Some(format!(
                "an operator can approve it with `mgp permissions approve {server} {names}`"
            ))
        }
        Refusal::Unconfirmed(refused) => unconfirmed_remedy(refused.why(), details, by),
        Refusal::Blocked(blocked) if remedy.is_empty() => {
            validator_remedy(details, blocked.is_of_local_host())
        }
        Refusal::Definition(_) if remedy.contains("approve") => {
            let (server, tool) = (text(details, "server_id")?, text(details, "tool")?);
            let id = shell_word(&format!("{server}.{tool}"))?;
            Some(format!(
                "an operator can look at it with `mgp tools show {id}`, and approve it with `mgp tools approve {id}`"
            ))
        }
        Refusal::NotOperator(_) if remedy.starts_with("ask an operator") => {
            let method = text(details, "method")?;
            let stops = (LifecycleShutdown::METHOD, "mgp servers stop");
            let (_, command) =
                COMMANDS.iter().chain([&stops]).find(|(known, _)| *known == method)?;
            Some(format!("{remedy} to run `{command}`"))
        }
        _ => None,
    }
}

/// Returns the remedy for a call that no person has confirmed.
fn unconfirmed_remedy(why: Unconfirmed, details: &Object, by: &Principal) -> Option<String> {
    let approval = text(details, "approval_id").and_then(|id| shell_word(&id));
    match (why, approval) {
        (Unconfirmed::Denied, Some(id)) => {
            Some(format!("an operator can still approve it with `mgp approvals approve {id}`"))
        }
        (Unconfirmed::NobodyToAsk | Unconfirmed::Denied, _) => {
            let (server, tool) = (text(details, "server_id")?, text(details, "tool")?);
            let command = no_confirm_command(by, &server, &tool)?;
            Some(format!(
                "an operator can let it run with `{command}`, or lower its `risk` in the configuration of its server"
            ))
        }
        (_, id) => Some(format!("an operator decides with `mgp approvals show {}`", id?)),
    }
}

/// Returns the remedy for a call that a validator has blocked: the configuration key that switches the validator off,
/// and the one for local hosts if the call would pass with it.
fn validator_remedy(details: &Object, is_of_local_host: bool) -> Option<String> {
    let (server, tool) = (text(details, "server_id")?, text(details, "tool")?);
    let (server, tool) = (shell_word(&server)?, toml_key(&tool)?);
    let host =
        if is_of_local_host { ", or permit a local host there with `local_hosts`" } else { "" };
    Some(format!(
        "an operator can let it run with `validators = {{ {tool} = \"none\" }}` in `[servers.mgp]` of server `{server}`{host}"
    ))
}

/// Quotes a text as one word of a shell command, if necessary; `None` if the word is not safe to paste into a shell.
pub(super) fn shell_word(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "._:/@+,=-".contains(c);
    let is_odd = |c: char| c.is_control() || c == '`';
    if text.is_empty() || text.starts_with('-') || text.contains(is_odd) {
        return None;
    }
    if text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Writes a name as a key of TOML; `None` if the key is not safe to paste into a shell.
fn toml_key(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return Some(name.to_owned());
    }
    let is_odd = |c: char| c.is_control() || c == '\'' || c == '`';
    (!name.contains(is_odd)).then(|| format!("'{name}'"))
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Kind, methods};

    use super::*;

    #[test]
    fn every_method_of_the_kernel_has_its_command() {
        let own = methods().filter(|info| info.is_kernel_only() && info.kind == Kind::Request);
        for info in own {
            let found = COMMANDS.iter().find(|(method, _)| *method == info.name);
            assert!(found.is_some_and(|(_, command)| command.starts_with("mgp ")), "{}", info.name);
        }
    }

    #[test]
    fn an_operator_is_sent_to_the_command_that_names_the_fault_of_the_store() {
        let error = || RpcError::from(mgp_types::store::StoreError::NotLoaded);
        let operator = with_remedy(error(), &Principal::local().operator());
        assert!(operator.message().contains("`mgp doctor` names"), "{operator}");
        let agent = with_remedy(error(), &Principal::local().agent("ada"));
        assert_eq!(agent.message(), error().message());
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        for (text, expected) in [
            ("ada", Some("ada")),
            ("tool.fs", Some("tool.fs")),
            ("*", Some("'*'")),
            ("my server", Some("'my server'")),
            ("a'b; rm -rf ~", Some(r"'a'\''b; rm -rf ~'")),
            ("$(x)", Some("'$(x)'")),
            ("--json", None),
            ("a`b", None),
            ("a\nb", None),
            ("", None),
        ] {
            assert_eq!(shell_word(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_tool_is_a_key_of_the_configuration() {
        for (name, expected) in [
            ("read_query", Some("read_query")),
            ("db.read", Some("'db.read'")),
            ("it's", None),
            ("a\nb", None),
            ("a`b", None),
        ] {
            assert_eq!(toml_key(name).as_deref(), expected, "{name:?}");
        }
    }

    #[test]
    fn a_refusal_of_a_server_behind_the_kernel_is_not_changed() {
        let text = format!("an operator can allow it with `{}`", AccessGrant::METHOD);
        let details =
            Object::new().with("remedy", &text).with("agent", "ada").with("server_id", "files");
        let mut recovery = mgp_types::Recovery::default();
        recovery.details = Some(details);
        let theirs = RpcError::new(mgp_types::ErrorCode::ACCESS_DENIED, text).recovery(recovery);
        assert_eq!(with_remedy(theirs.clone(), &Principal::local().operator()), theirs);
    }
}
