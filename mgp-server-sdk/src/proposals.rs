//! The proposals that a server offers, one builder call each.

use mgp_lifecycle::StructuredErrorsLayer;
use mgp_security::{CallerConfirmLayer, Scopes};
use mgp_types::method::{ScopesNegotiate, ScopesRevoke};
use mgp_types::mgp::Extension;
use mgp_types::proposal::RevokeScopesResult;
use mgp_types::service::Router;

use crate::server::Server;

impl Server {
    /// Offers `cost_hints` (proposal 3): callers that negotiate it see the cost, latency and quota of tools.
    pub fn cost_hints(self) -> Self {
        self.propose(Extension::CostHints)
    }

    /// Offers `structured_errors` (proposal 11): errors have a category, a delay and advice.
    ///
    /// A tool returns [`StructuredError`](mgp_types::proposal::StructuredError) to state them itself.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_types::proposal::{ErrorKind, StructuredError};
    ///
    /// let search = Tool::new("search", "Searches", || async {
    ///     let mut busy = StructuredError::new("RATE_LIMIT_EXCEEDED", "too many searches", ErrorKind::RateLimited);
    ///     busy.retry_after_seconds = Some(42);
    ///     Err::<String, _>(busy)
    /// });
    /// # drop(Server::new("shop", "1.0").structured_errors().tool(search));
    /// ```
    pub fn structured_errors(mut self) -> Self {
        self.features.structured_errors = Some(StructuredErrorsLayer);
        self.propose(Extension::StructuredErrors)
    }

    /// Offers `human_in_the_loop` (proposal 6): an unconfirmed call is answered with a question and a token, and runs when
    /// it is repeated with the token after the user confirmed it.
    ///
    /// The operator decides which callers may confirm, by
    /// [`GovernanceBuilder::confirmed_by_caller`](mgp_security::GovernanceBuilder::confirmed_by_caller). Call this after
    /// [`governed`](Self::governed).
    pub fn human_in_the_loop(self) -> Self {
        self.layer(CallerConfirmLayer).propose(Extension::HumanInTheLoop)
    }

    /// Offers `scopes` (proposal 4): callers request sessions with scopes, and calls need those that tools require.
    ///
    /// Call this after [`governed`](Self::governed), whose decision compares the scopes.
    pub fn scopes(self, scopes: &Scopes) -> Self {
        let (negotiating, revoking) = (scopes.clone(), scopes.clone());
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
        self.endpoints(router).layer(scopes.layer()).propose(Extension::Scopes)
    }

    /// Offers a proposal.
    fn propose(self, extension: Extension) -> Self {
        let mut server = self;
        if let Some(mgp) = server.offered() {
            mgp.extensions = mgp.extensions.with(extension);
        }
        server
    }
}
