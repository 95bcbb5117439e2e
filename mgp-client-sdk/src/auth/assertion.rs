//! Assertions that a client exchanges for tokens: workload identity and enterprise-managed authorization
//! (RFC 7523 §2.1, RFC 8693, identity assertion grant).

use async_trait::async_trait;
use mgp_types::service::SharedFetch;

use super::config::ClientCredentials;
use super::error::AuthError;
use super::scope::Scopes;
use super::secret::Secret;
use super::token::{self, Identity};

pub(super) const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// A source of signed assertions, which state on whose behalf a client acts.
///
/// Implement it with the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait AssertionSource: Send + Sync + 'static {
    /// Returns a new assertion for one issuer, one protected resource and some scopes.
    ///
    /// # Errors
    /// The reason why no assertion could be obtained.
    async fn assertion(
        &self,
        issuer: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<Secret, AuthError>;
}

/// A fixed assertion as a source, e.g. the assertion that a platform gives to a workload.
#[async_trait]
impl AssertionSource for Secret {
    async fn assertion(&self, _: &str, _: &str, _: &Scopes) -> Result<Self, AuthError> {
        Ok(self.clone())
    }
}

/// A source of assertions that sends a person's ID token to the identity provider of an enterprise, which returns an
/// assertion. The client presents the assertion to the authorization server.
///
/// The enterprise decides what the client may do; the person is not asked.
#[derive(Clone)]
pub struct EnterpriseIdp {
    fetcher: SharedFetch,
    issuer: String,
    endpoint: String,
    client: Identity,
    id_token: Secret,
}

impl EnterpriseIdp {
    /// Creates the source from the identity provider's issuer and token endpoint, the client's credentials there, and
    /// the person's ID token.
    pub fn new(
        fetcher: SharedFetch,
        issuer: impl Into<String>,
        token_endpoint: impl Into<String>,
        client: &ClientCredentials,
        id_token: impl Into<Secret>,
    ) -> Self {
        let client = client.plain();
        let (issuer, endpoint) = (issuer.into(), token_endpoint.into());
        Self { fetcher, issuer, endpoint, client, id_token: id_token.into() }
    }
}

#[async_trait]
impl AssertionSource for EnterpriseIdp {
    async fn assertion(
        &self,
        issuer: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<Secret, AuthError> {
        let scopes = scopes.to_string();
        let mut form = vec![
            ("grant_type", EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("audience", issuer),
            ("resource", resource),
            ("subject_token", self.id_token.expose()),
            ("subject_token_type", ID_TOKEN),
        ];
        if !scopes.is_empty() {
            form.push(("scope", &scopes));
        }
        let answer =
            token::ask(&self.fetcher, &self.endpoint, &self.issuer, &self.client, form, None);
        let answer = answer.await?;
        if answer.issued_token_type.as_deref() != Some(ID_JAG) {
            return Err(AuthError::Document {
                what: "the answer of the identity provider",
                url: super::address::display_url(&self.endpoint),
                why: format!("its token is not a `{ID_JAG}`"),
            });
        }
        Ok(answer.access_token)
    }
}

mgp_types::opaque_debug!(EnterpriseIdp { issuer, endpoint, client });
