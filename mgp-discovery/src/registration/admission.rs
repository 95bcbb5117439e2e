//! Checks which callers may register and deregister servers (MGP §15.4).

use mgp_types::RpcError;
use mgp_types::method::find_kernel_tool;
use mgp_types::service::{Authority, CallRecord, Context, CredentialGrant, Rule, ServerId};

use super::event::Event;
use super::refusal::RegistrationError as Refused;
use super::registrations::RegistrationState;
use crate::error::DiscoveryError;

/// The prefix of the credential scopes for administration. Of these scopes, only `ADMIN_WRITE` permits changes.
/// `mgp-security` has the list of all scopes.
const ADMIN: &str = "admin.";
const ADMIN_WRITE: &str = "admin.write";
const TOOLS: &str = "tools.";

impl RegistrationState {
    /// Checks that the caller has the right to call the method, and records a refusal in the audit log. Then checks the
    /// rate limit.
    pub(super) async fn admit(
        &self,
        cx: &Context,
        method: &'static str,
        server: Option<ServerId>,
    ) -> Result<(), DiscoveryError> {
        if let Err(refused) = self.may(cx, method) {
            let error = RpcError::from(DiscoveryError::from(refused.clone()));
            // If the method was called as a tool, the audit record of the tool call already contains the refusal, so do
            // not record it again.
            let is_recorded =
                cx.extensions.get::<CallRecord>().is_some_and(|start| start.key == cx.key);
            if !is_recorded {
                let event = Event::administration_refused(&cx.principal, server, method, &error);
                self.record_event(event.during(cx.trace.as_deref())).await;
            }
            return Err(refused.into());
        }
        Ok(self.rate.take(&cx.principal, self.config.per_minute)?)
    }

    pub(super) fn may(&self, cx: &Context, method: &'static str) -> Result<(), Refused> {
        let pass = cx.extensions.get::<CredentialGrant>();
        if pass.is_some_and(|pass| !pass.is_valid()) {
            return Err(Refused::CredentialsExpired);
        }
        let not = |rule| Err(Refused::NotAllowed { method, rule });
        if cx.principal.authority() == Authority::Operator {
            if pass.is_some_and(|pass| !administers(pass)) {
                return not(Rule::new(format!(
                    "credentials without the permission `{ADMIN_WRITE}`"
                )));
            }
            return Ok(());
        }
        let tool = find_kernel_tool(method).map_or(method, |tool| tool.name);
        match self.may.sees(cx, None, tool) {
            Ok(()) => Ok(()),
            Err(hidden) => not(hidden.rule().clone()),
        }
    }
}

/// Returns whether the credentials of an operator permit changes: they have the scope `admin.write`, or have neither a
/// scope for tools nor a scope for administration.
fn administers(pass: &CredentialGrant) -> bool {
    let begins = |prefix: &str| pass.permissions().iter().any(|word| word.starts_with(prefix));
    pass.permits(ADMIN_WRITE) || !(begins(TOOLS) || begins(ADMIN))
}
