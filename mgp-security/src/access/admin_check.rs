//! The authority check of administrative methods: only operators may call them, and only if their credentials permit
//! administration.

use mgp_types::RpcError;
use mgp_types::service::{AuditSink, Authority, Context, Principal, Rule, ServerId};

use super::kernel_tools::Recorded;
use super::pass::{Credentials, Need};
use super::refused::{About, NotOperator};
use crate::audit::Event;
use crate::error::Refusal;

/// The check of one caller's authority for an administrative method.
#[derive(Clone, Copy)]
pub(crate) struct AdminCheck<'a> {
    pub(super) principal: &'a Principal,
    pub(super) trace: Option<&'a str>,
    credentials: Credentials<'a>,
    /// The minimum authority that a caller needs for the method.
    least: Authority,
    /// `true` if the audit layer already records this call and therefore its refusal; then this check records nothing.
    is_recorded: bool,
}

impl<'a> AdminCheck<'a> {
    pub(crate) fn of(cx: &'a Context) -> Self {
        Self {
            principal: &cx.principal,
            trace: cx.trace.as_deref(),
            credentials: Credentials::of(cx),
            least: Authority::Operator,
            is_recorded: Recorded::is(cx),
        }
    }

    /// Creates a check for code in this process that acts as a principal. Without a message, there are no credentials
    /// that could restrict the principal.
    pub(crate) fn without_call(principal: &'a Principal) -> Self {
        let (credentials, least) = (Credentials::NONE, Authority::Operator);
        Self { principal, trace: None, credentials, least, is_recorded: false }
    }

    /// Also admits operators of tenants other than `local`, because the method affects only the caller's own tenant.
    pub(crate) fn within_tenant(self) -> Self {
        Self { least: Authority::TenantOperator, ..self }
    }

    /// Admits operators of the tenant `local` only, because the request names another tenant than its caller's.
    pub(super) fn across_tenants(self) -> Self {
        Self { least: Authority::Operator, ..self }
    }

    pub(crate) fn principal(&self) -> &'a Principal {
        self.principal
    }

    /// Returns an error if the caller's credentials have expired or were revoked.
    pub(crate) fn check_end(self) -> Result<(), Refusal> {
        Ok(self.credentials.check_end()?)
    }

    /// Returns an error unless the caller is an operator whose credentials permit the action `need`.
    pub(crate) fn check(
        self,
        need: Need<'_>,
        method: &'static str,
        about: About,
    ) -> Result<(), Refusal> {
        self.check_end()?;
        let authority = self.principal.authority();
        let (about, rule) = if authority < self.least && authority == Authority::TenantOperator {
            (About::Shared, Rule::new("operators of the tenant `local` only"))
        } else if authority < self.least {
            (about, Rule::new("operators only"))
        } else if let Err(lacking) = self.credentials.permit(need, None) {
            let lacks = if need == Need::Write { About::Changes } else { About::Reads };
            (lacks, Rule::new(lacking.to_string()))
        } else {
            return Ok(());
        };
        Err(NotOperator::new(method, about, rule).into())
    }

    /// Checks the caller as [`check`](Self::check) does, and records a refused attempt. Use this for methods that only
    /// operators may call.
    pub(crate) async fn admit(
        self,
        audit: &dyn AuditSink,
        server: Option<&ServerId>,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        match self.check(need, method, About::All) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.record_refusal(audit, server, method, refusal).await),
        }
    }

    /// Records a refused attempt, unless the audit layer already records the call. Returns the error for the caller.
    pub(crate) async fn record_refusal(
        self,
        audit: &dyn AuditSink,
        server: Option<&ServerId>,
        method: &str,
        refusal: Refusal,
    ) -> RpcError {
        let error = RpcError::from(refusal);
        if !self.is_recorded {
            let event = Event::administration_refused(self.principal, server, method, &error);
            let event = event.trace(self.trace).build();
            if let Err(unaudited) = audit.record(event).await {
                // Only log the error: the call is refused even if the refusal cannot be recorded.
                tracing::error!(error = %unaudited, method, "a refused call could not be recorded");
            }
        }
        error
    }
}
