//! Who administers, and the one place that says that only operators do.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::service::{AuditSink, Authority, Context, Principal, Rule, ServerId};

use super::kernel::Recorded;
use super::pass::{Credentials, Need};
use super::refused::NotOperator;
use crate::audit::Event;
use crate::error::Refusal;

/// Who administers.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(super) principal: &'a Principal,
    pub(super) trace: Option<&'a str>,
    credentials: Credentials<'a>,
    /// Whether the audit of a tool call records the refusal.
    is_recorded: bool,
}

/// What of a method is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// All of it.
    All,
    /// To ask about others; whoever asks about themselves may.
    Others,
}

impl<'a> Asker<'a> {
    pub(crate) fn of(cx: &'a Context) -> Self {
        Self {
            principal: &cx.principal,
            trace: cx.trace.as_deref(),
            credentials: Credentials::of(cx),
            is_recorded: Recorded::is(cx),
        }
    }

    /// Somebody in this process, without a call.
    pub(crate) fn alone(principal: &'a Principal) -> Self {
        Self { principal, trace: None, credentials: Credentials::NONE, is_recorded: false }
    }

    /// Who it is.
    pub(crate) fn principal(&self) -> &'a Principal {
        self.principal
    }

    /// Refuses credentials that ended.
    pub(crate) fn holds(self) -> Result<(), Refusal> {
        Ok(self.credentials.hold()?)
    }

    /// Refuses whoever is no operator, and operators whose credentials do not permit it.
    pub(crate) fn may(
        self,
        need: Need<'_>,
        method: &'static str,
        about: About,
    ) -> Result<(), Refusal> {
        self.holds()?;
        let rule = if self.principal.authority() < Authority::Operator {
            Rule::new("operators only")
        } else if let Err(lacking) = self.credentials.permit(need) {
            Rule::new(lacking.to_string())
        } else {
            return Ok(());
        };
        Err(NotOperator::new(method, about, rule).into())
    }

    /// Records that somebody tried what they may not, unless that is recorded already.
    pub(crate) async fn refused(
        self,
        audit: &dyn AuditSink,
        server: Option<&ServerId>,
        method: &str,
        refusal: Refusal,
    ) -> RpcError {
        let error = RpcError::from(refusal);
        if !self.is_recorded {
            let event = Event::administration_refused(self.principal, server, method, &error);
            let event = event.during(self.trace).build();
            if let Err(unaudited) = audit.record(event).await {
                // It is refused all the same.
                tracing::error!(error = %unaudited, method, "a refused call could not be recorded");
            }
        }
        error
    }
}
