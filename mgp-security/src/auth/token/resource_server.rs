//! A resource server, which accepts JWTs that one issuer created for it (RFC 9068, RFC 8725; MCP authorization).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::service::{Principal, SharedFetch};

use super::TokenVerifier;
use super::algorithm::SignatureAlgorithm;
use super::claims::Claims;
use super::jwks::{JwkSet, Verification};
use super::jws::Jws;
use super::signature_cache::{self, SignatureCache};
use super::source::KeySource;
use crate::access::is_shared_name;
use crate::auth::authenticated::{Authenticated, Credential};
use crate::auth::metadata::{BadResource, ResourceMetadata};
use crate::auth::refused::AuthRefused;

/// The tolerated difference between the clocks of the issuer and of this server.
const LEEWAY: Duration = Duration::from_mins(1);

const NO_TOKEN: AuthRefused = AuthRefused::Invalid(
    "this is neither a key nor an access token in the form of a JWT that is signed with RSA, ES256, ES384 or Ed25519",
);

/// A verifier of the access tokens that an issuer created for one resource.
///
/// A token must be a JWT, signed by a key of the issuer with an allowed algorithm, with an expiry, and with this
/// resource in its audience.
/// Its `sub` becomes the subject, its `client_id` the agent, and the issuer the tenant, unless configured otherwise.
///
/// ```
/// use mgp_security::auth::{AuthLayer, ResourceServer};
/// use mgp_types::service::SharedFetch;
///
/// fn guard(fetcher: SharedFetch) -> Result<AuthLayer, mgp_security::auth::BadResource> {
///     let tokens = ResourceServer::new("https://example.com/mcp", "https://issuer.example")?
///         .keys_from("https://issuer.example/jwks.json", fetcher)
///         .require_scope("mcp");
///     Ok(AuthLayer::new().tokens(tokens))
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ResourceServer {
    metadata: ResourceMetadata,
    issuer: String,
    audiences: Vec<String>,
    algorithms: Vec<SignatureAlgorithm>,
    keys: KeySource,
    verified: SignatureCache,
    tenant: Tenant,
    operator_scope: Option<String>,
    agent_claim: Option<String>,
}

#[derive(Clone, Debug)]
enum Tenant {
    Issuer,
    Named(String),
    Claim(String),
}

impl ResourceServer {
    /// Creates a server for the resource at a URL, with the issuer of its tokens. It accepts no tokens until
    /// [`keys`](Self::keys) or one of the methods that fetch keys is called.
    ///
    /// The URL is the address to which clients connect, e.g. `https://example.com/mcp`.
    ///
    /// # Errors
    /// [`BadResource`] unless the URL is absolute, `https` (or `http` on loopback), and without query and fragment.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, BadResource> {
        let metadata = ResourceMetadata::new(resource, issuer)?;
        Ok(Self {
            audiences: metadata.spellings(),
            metadata,
            issuer: issuer.to_owned(),
            algorithms: SignatureAlgorithm::DEFAULT.to_vec(),
            keys: KeySource::Fixed(Arc::default()),
            verified: SignatureCache::default(),
            tenant: Tenant::Issuer,
            operator_scope: None,
            agent_claim: None,
        })
    }

    /// Sets the issuer's keys.
    pub fn keys(mut self, keys: JwkSet) -> Self {
        self.keys = KeySource::Fixed(Arc::new(keys));
        self
    }

    /// Sets the URL of the issuer's keys, which are fetched on demand (`jwks_uri` in the issuer's metadata).
    ///
    /// Fetched keys are used for ten minutes, and for up to a day if fetching them again fails. A token with an unknown
    /// key causes another fetch, at most once a minute. The fetcher decides which hosts may be contacted; it should
    /// require `https`.
    pub fn keys_from(mut self, url: impl Into<String>, fetcher: SharedFetch) -> Self {
        self.keys = KeySource::fetched(url, fetcher);
        self
    }

    /// Reads the URL of the issuer's keys from its metadata (RFC 8414, or `OpenID` Connect Discovery), on demand.
    ///
    /// The keys are used as with [`keys_from`](Self::keys_from).
    pub fn keys_from_issuer(mut self, fetcher: SharedFetch) -> Self {
        self.keys = KeySource::of_issuer(self.issuer.clone(), fetcher);
        self
    }

    /// Adds another name of this resource: tokens with this name in their audience are accepted, too.
    pub fn audience(mut self, name: impl Into<String>) -> Self {
        self.audiences.push(name.into());
        self
    }

    /// Sets the accepted signature algorithms; by default RS256, PS256, ES256, ES384 and `EdDSA`.
    pub fn algorithms(mut self, allowed: impl IntoIterator<Item = SignatureAlgorithm>) -> Self {
        self.algorithms = allowed.into_iter().collect();
        self
    }

    /// Adds a scope that every token needs; a request without it is answered with 403 and the required scopes.
    pub fn require_scope(mut self, scope: impl Into<String>) -> Self {
        self.metadata.required_scopes.push(scope.into());
        self
    }

    /// Sets the scopes that a client can request, for the metadata document.
    pub fn scopes_supported<T: Into<String>>(
        mut self,
        scopes: impl IntoIterator<Item = T>,
    ) -> Self {
        self.metadata.scopes_supported = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the name that is shown to people, for the metadata document.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.metadata.resource_name = Some(name.into());
        self
    }

    /// Sets the tenant of all callers with tokens. By default it is the issuer.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Tenant::Named(tenant.into());
        self
    }

    /// Sets the claim that contains the tenant; a token without it is refused. So is a token whose claim contains
    /// `local`, because operators of that tenant decide for all tenants.
    ///
    /// Use it only if the issuer controls the claim, and if no API key belongs to one of the tenants that the claim can
    /// name.
    pub fn tenant_claim(mut self, name: impl Into<String>) -> Self {
        self.tenant = Tenant::Claim(name.into());
        self
    }

    /// Sets the claim that contains the name of the agent, instead of the first of `client_id`, `azp` and `sub` that
    /// the token has; a token without it is refused.
    pub fn agent_claim(mut self, name: impl Into<String>) -> Self {
        self.agent_claim = Some(name.into());
        self
    }

    /// Sets the scope that grants administrative authority; by default, no token grants it.
    ///
    /// The authority covers the tenant of the caller. It covers all tenants only if the caller's tenant is `local`; see
    /// [`tenant`](Self::tenant).
    pub fn operator_scope(mut self, scope: impl Into<String>) -> Self {
        self.operator_scope = Some(scope.into());
        self
    }

    pub(super) async fn check(
        &self,
        token: &str,
        now: SystemTime,
    ) -> Result<Authenticated, AuthRefused> {
        let jws = Jws::parse(token).ok_or(NO_TOKEN)?;
        let no = |why| Err(AuthRefused::Invalid(why));
        if !self.algorithms.contains(&jws.algorithm) {
            return no("the algorithm of the token's signature is not accepted");
        }
        let mut keys = self.keys.current().await?;
        let hash = signature_cache::hash(token);
        if !self.verified.contains(&hash, &keys) {
            let mut outcome = keys.verify(&jws);
            if outcome == Verification::Unknown
                && let Some(newer) = self.keys.newer(&keys).await
            {
                outcome = newer.verify(&jws);
                keys = newer;
            }
            match outcome {
                Verification::Valid => self.verified.remember(hash, &keys),
                Verification::Invalid => return no("the token is not signed by the key it names"),
                Verification::Unknown => return no("no known key of the issuer signed the token"),
            }
        }
        self.read(&Claims::parse(jws.payload)?, now)
    }

    /// Reads the claims of a token whose signature is valid, so error messages are allowed to describe what is wrong
    /// with the claims.
    fn read(&self, claims: &Claims, now: SystemTime) -> Result<Authenticated, AuthRefused> {
        let no = |why| Err(AuthRefused::Invalid(why));
        let Some(issuer) = claims.text("iss")? else { return no("the token has no issuer") };
        if self.issuer != issuer {
            return no("the token is from another issuer");
        }
        if !claims.is_for(&self.audiences)? {
            return no("the token is for another resource");
        }
        let expires = claims.expires(now, LEEWAY)?;
        if claims.is_bound() {
            return no("the token is bound to a key and cannot be used as a bearer token");
        }
        let Some(subject) = claims.text("sub")? else { return no("the token has no subject") };
        let client = match claims.text("client_id")? {
            Some(client) => Some(client),
            None => claims.text("azp")?,
        };
        let tenant = match &self.tenant {
            Tenant::Issuer => issuer.clone(),
            Tenant::Named(tenant) => tenant.clone(),
            Tenant::Claim(name) => match claims.text(name)? {
                Some(tenant) if tenant == Principal::local().tenant().as_str() => {
                    return no("the token's tenant is `local`, which a claim cannot name");
                }
                Some(tenant) => tenant,
                None => return no("the token has no tenant"),
            },
        };
        let scopes = claims.scopes()?;
        let required = &self.metadata.required_scopes;
        if !required.iter().all(|scope| scopes.contains(scope)) {
            return Err(AuthRefused::InsufficientScope { needed: required.join(" ") });
        }
        let agent = match &self.agent_claim {
            None => client.clone(),
            Some(name) => match claims.text(name)? {
                Some(agent) => Some(agent),
                None => return no("the token names no agent"),
            },
        };
        if is_shared_name(agent.as_deref().unwrap_or(&subject)) {
            return no("the token's agent has the name of a group or of all agents");
        }
        let mut principal = Principal::new(tenant, subject);
        if let Some(agent) = agent {
            principal = principal.agent(agent);
        }
        if self.operator_scope.as_ref().is_some_and(|scope| scopes.contains(scope)) {
            principal = principal.operator();
        }
        let credential = Credential::Token { issuer, client };
        Ok(Authenticated::new(principal, credential, scopes, Some(expires + LEEWAY)))
    }
}

#[async_trait]
impl TokenVerifier for ResourceServer {
    async fn verify(&self, token: &str) -> Result<Authenticated, AuthRefused> {
        self.check(token, SystemTime::now()).await
    }

    fn metadata(&self) -> ResourceMetadata {
        self.metadata.clone()
    }
}
