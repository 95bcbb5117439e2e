//! Statements of others that a client shows for tokens: workload identity and enterprise-managed authorization
//! (RFC 7523 §2.1, RFC 8693, identity assertion grant).
//!
//! Applies to: outbound.

use std::fmt;

use mgp_types::service::{BoxFuture, Fetcher};

use super::error::AuthError;
use super::plan::ClientCredentials;
use super::scope::Scopes;
use super::secret::Secret;
use super::token::{self, Identity};

/// The grant that shows a statement.
pub(super) const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Gives signed statements of who a client acts for.
pub trait Assertions: Send + Sync + 'static {
    /// A statement for one issuer, one protected resource and some scopes, new each time.
    ///
    /// # Errors
    /// That there is none.
    fn assertion(
        &self,
        issuer: &str,
        resource: &str,
        scopes: &Scopes,
    ) -> impl Future<Output = Result<Secret, AuthError>> + Send;
}

/// A statement that was given, such as a workload's own.
impl Assertions for Secret {
    async fn assertion(&self, _: &str, _: &str, _: &Scopes) -> Result<Self, AuthError> {
        Ok(self.clone())
    }
}

/// Exchanges a person's ID token at their enterprise's identity provider for a statement to an authorization server.
///
/// The enterprise decides there what the client may do, and the person is not asked.
#[derive(Clone)]
pub struct EnterpriseIdp {
    fetcher: Fetcher,
    issuer: String,
    endpoint: String,
    client: Identity,
    id_token: Secret,
}

impl EnterpriseIdp {
    /// An identity provider: its issuer, its token endpoint, the id of the client there, and what the person got when
    /// they logged in.
    pub fn new(
        fetcher: Fetcher,
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

impl Assertions for EnterpriseIdp {
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
        let asked =
            token::ask(&self.fetcher, &self.endpoint, &self.issuer, &self.client, form, None);
        let answer = asked.await?;
        if answer.issued_token_type.as_deref() != Some(ID_JAG) {
            return Err(AuthError::Document {
                what: "the answer of the identity provider",
                url: self.endpoint.clone(),
                why: format!("its token is not a `{ID_JAG}`"),
            });
        }
        Ok(answer.access_token)
    }
}

impl fmt::Debug for EnterpriseIdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterpriseIdp")
            .field("issuer", &self.issuer)
            .field("endpoint", &self.endpoint)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// A source of statements whose type is forgotten.
pub(super) trait AnyAssertions: Send + Sync {
    fn assertion<'a>(
        &'a self,
        issuer: &'a str,
        resource: &'a str,
        scopes: &'a Scopes,
    ) -> BoxFuture<'a, Result<Secret, AuthError>>;
}

impl<A: Assertions> AnyAssertions for A {
    fn assertion<'a>(
        &'a self,
        issuer: &'a str,
        resource: &'a str,
        scopes: &'a Scopes,
    ) -> BoxFuture<'a, Result<Secret, AuthError>> {
        Box::pin(Assertions::assertion(self, issuer, resource, scopes))
    }
}
