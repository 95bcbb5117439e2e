//! What helps, as a command: a refusal names the methods that undo it, and whoever sits in front of `mgp` has commands
//! (MGP §14.5).
//!
//! The layers that refuse know nothing of the program around them. Here, where a refusal leaves the kernel, its remedy is
//! put in the words of the program; what a server behind the kernel refuses keeps its own.
//!
//! Applies to: inbound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};

use mgp_security::Refusal;
use mgp_types::method::{
    AccessGrant, AccessQuery, AccessRevoke, DiscoveryDeregister, DiscoveryRegister,
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, KernelAudit, KernelAuditVerify,
    KernelInfo, KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny,
    KernelPermissionsRevoke, KernelServers, KernelServersDrain, KernelServersLogs,
    KernelServersRestart, KernelServersStart, KernelServersStop, KernelSessions, KernelStop,
    KernelTools, KernelToolsApprove, KernelToolsReject, KernelToolsTokens, LifecycleShutdown,
    Request as _,
};
use mgp_types::service::{Call, MgpService, Principal, Reply};
use mgp_types::{Object, RpcError};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// What an operator runs instead of a method; `mgp/kernel/reload` needs no command, the kernel follows its files.
const COMMANDS: [(&str, &str); 27] = [
    (AccessGrant::METHOD, "mgp access grant"),
    (AccessQuery::METHOD, "mgp access query"),
    (AccessRevoke::METHOD, "mgp access revoke"),
    (DiscoveryDeregister::METHOD, "mgp servers rm"),
    (DiscoveryRegister::METHOD, "mgp servers add"),
    (KernelApprovals::METHOD, "mgp approvals ls"),
    (KernelApprovalsApprove::METHOD, "mgp approvals approve"),
    (KernelApprovalsDeny::METHOD, "mgp approvals deny"),
    (KernelAudit::METHOD, "mgp audit query"),
    (KernelAuditVerify::METHOD, "mgp audit verify"),
    (KernelInfo::METHOD, "mgp status"),
    (KernelPermissions::METHOD, "mgp permissions ls"),
    (KernelPermissionsApprove::METHOD, "mgp permissions approve"),
    (KernelPermissionsDeny::METHOD, "mgp permissions deny"),
    (KernelPermissionsRevoke::METHOD, "mgp permissions revoke"),
    (KernelServers::METHOD, "mgp servers ls"),
    (KernelServersDrain::METHOD, "mgp servers drain"),
    (KernelServersLogs::METHOD, "mgp servers logs"),
    (KernelServersRestart::METHOD, "mgp servers restart"),
    (KernelServersStart::METHOD, "mgp servers start"),
    (KernelServersStop::METHOD, "mgp servers stop"),
    (KernelSessions::METHOD, "mgp sessions"),
    (KernelStop::METHOD, "mgp stop"),
    (KernelTools::METHOD, "mgp tools ls"),
    (KernelToolsApprove::METHOD, "mgp tools approve"),
    (KernelToolsReject::METHOD, "mgp tools approve --reject"),
    (KernelToolsTokens::METHOD, "mgp tools tokens"),
];

/// Puts remedies in the words of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemedyLayer;

impl<S> Layer<S> for RemedyLayer {
    type Service = Remedy<S>;

    fn layer(&self, inner: S) -> Remedy<S> {
        Remedy(inner)
    }
}

/// Service of [`RemedyLayer`].
#[derive(Clone)]
pub(super) struct Remedy<S>(S);

impl<S: MgpService> Service<Call> for Remedy<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let by = call.cx().principal.clone();
        ResponseFuture { future: self.0.call(call), by }
    }
}

pin_project! {
    /// Future of [`Remedy`].
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
        let answer = ready!(this.future.poll(task));
        Poll::Ready(answer.map_err(|error| worded(error, this.by)))
    }
}

/// The same error with a command for its remedy, where there is one.
fn worded(error: RpcError, by: &Principal) -> RpcError {
    let source = std::error::Error::source(&error);
    let Some(refusal) = source.and_then(|source| source.downcast_ref::<Refusal>()).cloned() else {
        return error;
    };
    let Some(recovery) = error.as_recovery().cloned() else { return error };
    let Some(mut details) = recovery.details.clone() else { return error };
    let Some(before) = text(&details, "remedy") else { return error };
    let Some(now) = remedy(&refusal, &before, &details, by) else { return error };
    if details.encode("remedy", &now).is_err() {
        return error;
    }
    let mut told = RpcError::new(error.code(), error.message().replace(&before, &now));
    if let Some(data) = error.as_data() {
        told = told.data(data.clone());
    }
    let mut recovery = recovery;
    recovery.details = Some(details);
    told.recovery(recovery).because(refusal)
}

fn text(details: &Object, name: &str) -> Option<String> {
    details.decode(name).ok().flatten()
}

/// What helps, with the command; none where the words of the layer are all there is to say.
fn remedy(refusal: &Refusal, before: &str, details: &Object, by: &Principal) -> Option<String> {
    let fact = |name: &str| text(details, name).and_then(|text| word(&text));
    let (server, tool) = (fact("server_id"), fact("tool"));
    match refusal {
        Refusal::AccessDenied(_) if before.contains(AccessGrant::METHOD) => {
            let agent = fact("agent")?;
            Some(format!("an operator can allow it with `mgp access grant {agent} {}`", server?))
        }
        Refusal::AccessDenied(_) => {
            // The entry may be that of a group, or of everyone.
            let with = format!("` with `{}`", AccessRevoke::METHOD);
            let taken = before.strip_suffix(&with)?;
            let (kind, whose) = taken.split_once(" for `")?;
            let (whose, server) = (word(whose)?, server?);
            let tool = tool.filter(|_| kind.ends_with("tool_grant"));
            let tool = tool.map(|tool| format!(" {tool}")).unwrap_or_default();
            Some(format!("{taken}` with `mgp access revoke {whose} {server}{tool}`"))
        }
        Refusal::Permission(_) if before.starts_with("ask an operator to approve") => {
            let missing: Vec<Object> = details.decode("missing").ok().flatten()?;
            let names = missing.iter().map(|one| word(&text(one, "permission")?));
            let names = names.collect::<Option<Vec<_>>>()?.join(" ");
            let server = server?;
            Some(format!(
                "an operator can approve it with `mgp permissions approve {server} {names}`, or list it in the server's configuration"
            ))
        }
        Refusal::Unconfirmed(_) if before.contains("tool_grant") => {
            let agent = by.as_agent().map_or(by.subject().as_str(), |agent| agent.as_str());
            let (agent, server, tool) = (word(agent)?, server?, tool?);
            Some(format!(
                "an operator lets it run with `mgp access grant {agent} {server} {tool} --no-confirm`, or lowers its `risk` in the configuration of its server"
            ))
        }
        Refusal::Definition(_) if before.contains("approve") => {
            let (server, tool) = (text(details, "server_id")?, text(details, "tool")?);
            let id = word(&format!("{server}.{tool}"))?;
            Some(format!(
                "an operator can look at it with `mgp tools ls {} --waiting`, and approve it with `mgp tools approve {id}`",
                word(&server)?
            ))
        }
        Refusal::NotOperator(_) => {
            let method = text(details, "method")?;
            let stops = (LifecycleShutdown::METHOD, "mgp servers stop");
            let mut all = COMMANDS.into_iter().chain([stops]);
            let (_, command) = all.find(|(known, _)| *known == method)?;
            Some(format!("{before}, who has `{command}`"))
        }
        _ => None,
    }
}

/// A word as a shell reads it; none for what nobody should paste.
fn word(text: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use mgp_types::method::{KernelReload, Kind, methods};

    use super::*;

    #[test]
    fn every_method_of_the_kernel_has_its_command() {
        let own = methods().filter(|info| info.is_kernels() && info.kind == Kind::Request);
        for info in own.filter(|info| info.name != KernelReload::METHOD) {
            let found = COMMANDS.iter().find(|(method, _)| *method == info.name);
            assert!(found.is_some_and(|(_, command)| command.starts_with("mgp ")), "{}", info.name);
        }
    }

    #[test]
    fn what_is_shown_can_be_pasted() {
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
            assert_eq!(word(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_a_server_behind_the_kernel_refuses_keeps_its_words() {
        let text = format!("an operator can allow it with `{}`", AccessGrant::METHOD);
        let mut details = Object::new();
        details.encode("remedy", &text).unwrap();
        details.encode("agent", "ada").unwrap();
        details.encode("server_id", "files").unwrap();
        let mut recovery = mgp_types::Recovery::default();
        recovery.details = Some(details);
        let theirs = RpcError::new(mgp_types::ErrorCode::ACCESS_DENIED, text).recovery(recovery);
        assert_eq!(worded(theirs.clone(), &Principal::local()), theirs);
    }
}
