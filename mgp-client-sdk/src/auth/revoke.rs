//! Revocation of tokens at their issuer (RFC 7009).

use std::time::Duration;

use mgp_types::service::FetchError;
use tokio::time::timeout;

use super::address;
use super::config::Grant;
use super::credentials::CurrentCredentials;
use super::discovery::{auth_server, check_not_local};
use super::error::AuthError;
use super::metadata::AuthServer;
use super::now;
use super::register;
use super::store::TokenEntry;
use super::token::{self, Identity};

const WHAT: &str = "the revocation endpoint";

/// The time limit of a revocation, including the request for the issuer's metadata.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);

impl CurrentCredentials {
    /// Revokes the tokens of an entry, within a time limit.
    pub(super) async fn revoke(&self, entry: &TokenEntry) -> Result<(), AuthError> {
        let late = |_| {
            let limit = mgp_types::duration_words(REVOCATION_TIMEOUT);
            let why = format!("the revocation timed out after {limit}");
            FetchError::Failed { url: address::display_url(&entry.issuer), why }
        };
        timeout(REVOCATION_TIMEOUT, self.revoke_tokens(entry)).await.map_err(late)?
    }

    /// Revokes the refresh token, and then the access token, because not all issuers revoke both together. If the
    /// issuer refuses to revoke one token, tries the other token too, and returns the first refusal.
    async fn revoke_tokens(&self, entry: &TokenEntry) -> Result<(), AuthError> {
        let Some(tokens) = &entry.tokens else { return Ok(()) };
        let server = self.config.server()?;
        let found = auth_server(&self.config.fetcher, &entry.issuer).await?;
        let endpoint = found.revocation_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| AuthError::MissingEndpoint {
            issuer: found.issuer.clone(),
            what: "revocation endpoint",
        })?;
        address::parse_secure(WHAT, endpoint)?;
        check_not_local(WHAT, endpoint, &found.issuer, &server)?;
        let who = self.identity_of(entry, &found);
        let refresh = tokens.refresh.as_ref().map(|refresh| (refresh, "refresh_token"));
        let is_valid = tokens.expires_at.is_none_or(|at| at > now());
        let access = is_valid.then_some((&tokens.access, "access_token"));
        let mut outcome = Ok(());
        for (token, hint) in refresh.into_iter().chain(access) {
            let form = vec![("token", token.expose()), ("token_type_hint", hint)];
            let answer = token::send(&self.config.fetcher, &found, endpoint, &who, form).await?;
            if !(200..300).contains(&answer.status) {
                outcome = outcome.and(Err(not_revoked(token::refusal(endpoint, &answer))));
            }
        }
        outcome
    }

    /// Returns the identity of the client that owns the tokens of an entry. A configured secret is sent only to the
    /// configured issuer.
    fn identity_of(&self, entry: &TokenEntry, found: &AuthServer) -> Identity {
        let is_configured = self.is_from_our_credentials(entry)
            && self.config.issuer.as_ref().is_none_or(|issuer| *issuer == entry.issuer);
        match (&self.config.grant, &entry.registration) {
            (Grant::Client(credentials) | Grant::Assertion(credentials, _), _) if is_configured => {
                credentials.identity(found)
            }
            (_, Some(registration)) if is_configured => self.identity(found, registration),
            (_, Some(registration)) => register::identity(registration),
            (_, None) => Identity { id: String::new(), proof: token::Proof::None },
        }
    }
}

/// Converts an endpoint's refusal to revoke a token to the error [`AuthError::NotRevoked`].
fn not_revoked(refusal: AuthError) -> AuthError {
    match refusal {
        AuthError::Token { endpoint, error, description } => {
            AuthError::NotRevoked { endpoint, error, description }
        }
        other => other,
    }
}
