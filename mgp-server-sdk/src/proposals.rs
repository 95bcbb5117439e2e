//! The extensions beyond MGP that add layers or endpoints to a server, and not only members to its messages.

use mgp_lifecycle::StructuredErrorsLayer;
use mgp_security::{CallerConfirmLayer, Scopes};
use mgp_types::method::{ScopesNegotiate, ScopesRevoke};
use mgp_types::mgp::Extension;
use mgp_types::proposal::RevokeScopesResult;
use mgp_types::service::Router;

use crate::extension::ServerExtension;
use crate::server::Server;

/// The extension `structured_errors`: errors contain a category, the delay before a retry, and advice.
///
/// A tool that returns a [`StructuredError`](mgp_types::proposal::StructuredError) sets these members itself.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::StructuredErrors;
/// use mgp_server_sdk::types::proposal::{ErrorKind, StructuredError};
///
/// let search = Tool::new("search", "Searches", || async {
///     let mut busy = StructuredError::new("RATE_LIMIT_EXCEEDED", "too many searches", ErrorKind::RateLimited);
///     busy.retry_after_seconds = Some(42);
///     Err::<String, _>(busy)
/// });
/// # drop(Server::new("shop", "1.0").extension(StructuredErrors).tool(search));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StructuredErrors;

impl ServerExtension for StructuredErrors {
    fn extension(&self) -> Extension {
        Extension::StructuredErrors
    }

    fn install(self, mut server: Server) -> Server {
        server.features.structured_errors = Some(StructuredErrorsLayer);
        server
    }
}

/// The extension `human_in_the_loop`. An unconfirmed call is answered with a question and a token. The call runs when
/// the client repeats it with the token after the user confirmed it.
///
/// The operator configures which callers may confirm, by
/// [`GovernanceBuilder::confirmed_by_caller`](mgp_security::GovernanceBuilder::confirmed_by_caller). Add the extension
/// after [`Server::governed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HumanInTheLoop;

impl ServerExtension for HumanInTheLoop {
    fn extension(&self) -> Extension {
        Extension::HumanInTheLoop
    }

    fn install(self, server: Server) -> Server {
        server.layer(CallerConfirmLayer)
    }
}

/// The extension `scopes`: callers request sessions with scopes, and a call needs the scopes that its tool requires.
///
/// Add the extension after [`Server::governed`]: the governance, which decides about calls, compares the scopes.
impl ServerExtension for Scopes {
    fn extension(&self) -> Extension {
        Extension::Scopes
    }

    fn install(self, server: Server) -> Server {
        let (negotiating, revoking) = (self.clone(), self.clone());
        let router = Router::new()
            .on::<ScopesNegotiate, _, _>(move |cx, params| {
                let scopes = negotiating.clone();
                async move { scopes.negotiate(&cx.principal, params).await }
            })
            .on::<ScopesRevoke, _, _>(move |cx, params| {
                let scopes = revoking.clone();
                async move {
                    let revoked = scopes.revoke(&cx.principal, &params.token).await?;
                    Ok(RevokeScopesResult::new(revoked))
                }
            });
        server.endpoints(router).layer(self.layer())
    }
}
