//! Refusals of calls that lack a permission, and of changes of permissions.

use mgp_types::Object;
use mgp_types::mgp::Permission;
use mgp_types::service::{Rule, ServerId};
use mgp_types::store::StoreError;

use super::rule::{DENIED_BY_POLICY, MissingPermission, MissingStatus, NOT_LISTED};
use crate::state::{ChangeError, caller_message};

/// The error for a call that lacks a permission, or for a change of permissions that is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct PermissionRefused {
    what: String,
    kind: RefusalKind,
    details: Object,
    #[source]
    rule: Rule,
}

#[derive(Clone, Debug)]
pub(crate) enum RefusalKind {
    /// A permission is missing, or the caller is not allowed to make the change.
    Denied,
    /// The requested change has no meaning, e.g. contains no permission.
    Unfit,
    /// The approvals of permissions cannot be read.
    Unreadable(StoreError),
    /// The approvals of permissions cannot be written.
    Unwritten(ChangeError),
}

impl PermissionRefused {
    /// Creates the refusal of a call that lacks at least one permission.
    pub(crate) fn call(
        server: Option<&ServerId>,
        tool: &str,
        missing: &[MissingPermission],
        more: &Object,
    ) -> Self {
        let names = quoted(missing.iter().map(|missing| &missing.permission));
        let first = missing.first();
        let status = first.map_or("missing", |first| first.status.as_str());
        let why = first.map(|first| first.why.as_str()).unwrap_or_default();
        let is_deferred = missing.iter().any(|missing| missing.status == MissingStatus::Deferred);
        let mut details = Object::new()
            .with("missing", missing)
            .with_optional("server_id", server.map(ServerId::as_str))
            .with("tool", tool)
            .with("remedy", &remedy(server, missing))
            .with_optional("status", is_deferred.then_some("approval_pending"));
        for (name, value) in more.iter() {
            details.insert(name, value.clone());
        }
        let next: Option<String> = details.decode("remedy").ok().flatten();
        let next = next.map(|next| format!("; {next}")).unwrap_or_default();
        Self {
            what: format!("`{tool}` did not run: it needs {names}, {status} ({why}){next}"),
            kind: RefusalKind::Denied,
            details,
            rule: Rule::new(format!(
                "permission `{}` {status}: {why}",
                first.map_or("", |first| first.permission.as_str())
            )),
        }
    }

    pub(super) fn not_operator(operation: &'static str) -> Self {
        Self {
            what: format!("only an operator may {operation} permissions"),
            kind: RefusalKind::Denied,
            details: Object::new().with("operation", operation).with("remedy", "ask an operator"),
            rule: Rule::new("only an operator administers permissions"),
        }
    }

    pub(super) fn unfit(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            what: format!("invalid params: {why}"),
            kind: RefusalKind::Unfit,
            details: Object::new(),
            rule: Rule::new("unfit"),
        }
    }

    pub(super) fn full(most: usize) -> Self {
        Self {
            what: format!(
                "decisions about {most} permissions of this server are stored, the maximum; reset one first"
            ),
            kind: RefusalKind::Denied,
            details: Object::new(),
            rule: Rule::new("too many permissions of one server"),
        }
    }

    /// Creates the refusal for approvals that cannot be read.
    pub(crate) fn unreadable(error: &StoreError) -> Self {
        let what = format!("permissions cannot be decided: {}", caller_message(error));
        Self::failed(what, RefusalKind::Unreadable(error.clone()))
    }

    pub(super) fn unwritten(error: ChangeError) -> Self {
        Self::failed(error.caller_message(), RefusalKind::Unwritten(error))
    }

    fn failed(what: String, kind: RefusalKind) -> Self {
        Self {
            what,
            kind,
            details: Object::new(),
            rule: Rule::new("permissions cannot be decided"),
        }
    }

    pub(crate) fn kind(&self) -> &RefusalKind {
        &self.kind
    }

    /// Returns the error's structured details for the caller.
    pub(crate) fn details(&self) -> Option<Object> {
        (!self.details.is_empty()).then(|| self.details.clone())
    }
}

/// Returns what the caller can do to get the missing permissions.
fn remedy(server: Option<&ServerId>, missing: &[MissingPermission]) -> String {
    let of_server = server.map(|server| format!(" for `{server}`")).unwrap_or_default();
    let names = quoted(missing.iter().map(|missing| &missing.permission));
    let is = |status| move |missing: &MissingPermission| missing.status == status;
    if missing.iter().all(is(MissingStatus::OutOfScope)) {
        return format!(
            "stay within the limits of {names}{of_server}, or ask an operator to widen them"
        );
    }
    // Compare only the beginning: if the server itself declares the permission, a text about this follows the reason.
    let for_reason = |reason: &str| {
        let found = missing.iter().filter(|missing| missing.why.starts_with(reason));
        let found: Vec<_> = found.map(|missing| &missing.permission).collect();
        (!found.is_empty()).then(|| quoted(found.into_iter()))
    };
    if let Some(denied) = for_reason(DENIED_BY_POLICY) {
        return format!(
            "an approval has no effect while the policy{of_server} denies {denied}; only an operator can change it"
        );
    }
    if let Some(unlisted) = for_reason(NOT_LISTED) {
        return format!(
            "an operator can list {unlisted} in the configuration{of_server}; an approval has no effect"
        );
    }
    if missing.iter().any(is(MissingStatus::Deferred)) {
        return format!("call again once an operator has decided about {names}{of_server}");
    }
    format!("ask an operator to approve {names}{of_server}")
}

/// Returns the names of permissions as a quoted list, for messages.
pub(super) fn quoted<'a>(permissions: impl Iterator<Item = &'a Permission>) -> String {
    let names: Vec<&str> = permissions.map(Permission::as_str).collect();
    format!("`{}`", names.join("`, `"))
}
