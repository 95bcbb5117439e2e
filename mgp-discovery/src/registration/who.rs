//! Who may register and deregister (MGP §15.4; DESIGN §5).
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::method::method_of_tool;
use mgp_types::service::{Authority, Context, Pass, Rule, ServerId, Start};

use super::book::Inner;
use super::event::Event;
use super::refused::RegistrationRefused as Refused;
use crate::error::Error;

/// The words of credentials that mean something to administration; `mgp-security` has the table of all.
const ADMIN: &str = "admin.";
const ADMIN_WRITE: &str = "admin.write";
const TOOLS: &str = "tools.";

impl Inner {
    /// Lets those in who may, not too fast; who may not is recorded.
    pub(super) async fn admit(
        &self,
        cx: &Context,
        method: &'static str,
        server: Option<ServerId>,
    ) -> Result<(), Error> {
        if let Err(refused) = self.may(cx, method) {
            let error = RpcError::from(Error::from(refused.clone()));
            // The audit of a tool call records that it was refused.
            let is_recorded = cx.extensions.get::<Start>().is_some_and(|start| start.key == cx.key);
            if !is_recorded {
                let event = Event::administration_refused(&cx.principal, server, method, &error);
                self.tell(event.during(cx.trace.as_deref())).await;
            }
            return Err(refused.into());
        }
        Ok(self.pace.take(&cx.principal, self.config.per_minute)?)
    }

    fn may(&self, cx: &Context, method: &'static str) -> Result<(), Refused> {
        let pass = cx.extensions.get::<Pass>();
        if pass.is_some_and(|pass| !pass.is_good()) {
            return Err(Refused::PassEnded);
        }
        let not = |rule| Err(Refused::NotAllowed { method, rule });
        if cx.principal.authority() == Authority::Operator {
            if pass.is_some_and(|pass| !administers(pass)) {
                return not(Rule::new(format!("pass without {ADMIN_WRITE}")));
            }
            return Ok(());
        }
        let tool = method_of_tool(method).map_or(method, |tool| tool.name);
        match self.may.sees(cx, None, tool) {
            Ok(()) => Ok(()),
            Err(hidden) => not(hidden.rule().clone()),
        }
    }
}

/// Whether credentials leave an operator an operator: those made for tools were not made to administer.
fn administers(pass: &Pass) -> bool {
    let begins = |prefix: &str| pass.permissions().iter().any(|word| word.starts_with(prefix));
    pass.permits(ADMIN_WRITE) || !(begins(TOOLS) || begins(ADMIN))
}
