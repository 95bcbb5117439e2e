//! The layer that admits only authenticated requests, and its service (MCP authorization; RFC 6750, RFC 9728).
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use mgp_types::service::CredentialGrant;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::Answers;
use super::authenticated::{Authenticated, Credential};
use super::bearer::bearer;
use super::future::ResponseFuture;
use super::key::{ApiKeys, Lookup};
use super::refused::AuthRefused;
use super::token::TokenVerifier;

/// Layer that admits only requests with a valid API key or access token; wraps any HTTP service.
///
/// A layer that accepts neither keys nor tokens refuses every request.
#[derive(Clone, Default)]
#[must_use]
pub struct AuthLayer(Arc<Credentials>);

/// The accepted keys and tokens, and the answers to requests that have neither a valid key nor a valid token.
#[derive(Clone, Default)]
struct Credentials {
    keys: Option<ApiKeys>,
    tokens: Option<Arc<dyn TokenVerifier>>,
    answers: Arc<Answers>,
}

impl AuthLayer {
    /// Creates a layer that refuses every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the accepted API keys.
    pub fn keys(mut self, keys: ApiKeys) -> Self {
        Arc::make_mut(&mut self.0).keys = Some(keys);
        self
    }

    /// Checks an API key or access token that did not arrive in the header of a request, e.g. one from a login form.
    /// The returned grant ends when the key or token does.
    ///
    /// # Errors
    /// [`AuthRefused`] if the credentials are not valid or cannot be checked.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(
        &self,
        credential: &str,
    ) -> Result<(Authenticated, CredentialGrant), AuthRefused> {
        let caller = self.0.verify(credential).await?;
        let grant = self.0.pass(&caller);
        Ok((caller, grant))
    }

    /// Sets the verifier of access tokens, and publishes the verifier's metadata document.
    pub fn tokens(mut self, tokens: impl TokenVerifier) -> Self {
        let credentials = Arc::make_mut(&mut self.0);
        credentials.answers = Arc::new(Answers::publishing(&tokens.metadata()));
        credentials.tokens = Some(Arc::new(tokens));
        self
    }
}

mgp_types::opaque_debug!(AuthLayer);

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;

    fn layer(&self, inner: S) -> Auth<S> {
        Auth { inner, credentials: Arc::clone(&self.0) }
    }
}

/// Service of [`AuthLayer`].
#[derive(Clone)]
pub struct Auth<S> {
    inner: S,
    credentials: Arc<Credentials>,
}

mgp_types::opaque_debug!(Auth<S>);

impl<S, B, R> Service<Request<B>> for Auth<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send, Error: Send>
        + Clone
        + Send
        + 'static,
    B: Send + 'static,
    R: From<Bytes> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let credentials = &self.credentials;
        if let Some(document) = credentials.answers.document(request.method(), request.uri().path())
        {
            return ResponseFuture::answered(Ok(document));
        }
        let decision = credentials.decide(request.headers());
        // Remove the secret, so that no inner layer can see it.
        request.headers_mut().remove(AUTHORIZATION);
        match decision {
            Check::Done(Ok(caller)) => {
                ResponseFuture::admitted(self.inner.call(admit(credentials, request, caller)))
            }
            Check::Done(Err(refused)) => ResponseFuture::answered(Ok(refuse(credentials, refused))),
            Check::Pending(credential) => {
                // The readiness of `self.inner` was polled, so this instance must serve the request; a clone replaces
                // it.
                let spare = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, spare);
                let credentials = Arc::clone(credentials);
                ResponseFuture::pending(Box::pin(async move {
                    match credentials.verify(&credential).await {
                        Ok(caller) => inner.call(admit(&credentials, request, caller)).await,
                        Err(refused) => Ok(refuse(&credentials, refused)),
                    }
                }))
            }
        }
    }
}

/// The result of a check that does not wait.
enum Check {
    Done(Result<Authenticated, AuthRefused>),
    /// The decision needs a lookup of this credential of the request.
    Pending(String),
}

impl Credentials {
    /// Decides about credentials that need no lookup: most keys, and malformed credentials. For any other credentials,
    /// returns [`Check::Pending`].
    fn decide(&self, headers: &HeaderMap) -> Check {
        let credential = match bearer(headers) {
            Ok(credential) => credential,
            Err(refused) => return Check::Done(Err(refused)),
        };
        if ApiKeys::is_key(credential) {
            return match self.keys.as_ref().map(|keys| keys.lookup(credential)) {
                None => Check::Done(Err(AuthRefused::NOT_VALID)),
                Some(Lookup::Decided(decided)) => Check::Done(decided),
                Some(Lookup::Outdated) => Check::Pending(credential.to_owned()),
            };
        }
        match self.tokens {
            None => Check::Done(Err(AuthRefused::NOT_VALID)),
            Some(_) => Check::Pending(credential.to_owned()),
        }
    }

    /// Returns the credential grant of a caller; it ends when the key is revoked or the credentials expire.
    fn pass(&self, caller: &Authenticated) -> CredentialGrant {
        let followed = match caller.credential() {
            Credential::Key { .. } => self.keys.as_ref().map(|keys| (keys.clone(), keys.follow())),
            Credential::Token { .. } => None,
        };
        let caller_copy = caller.clone();
        let grant = CredentialGrant::new(caller.permissions().iter().cloned(), move || {
            let key = match (caller_copy.credential(), &followed) {
                (Credential::Key { id }, Some((keys, _))) => keys.is_live(id),
                _ => true,
            };
            key && !caller_copy.has_expired(SystemTime::now())
        });
        match caller.credential() {
            Credential::Key { id } => grant.of_key(id),
            Credential::Token { .. } => grant,
        }
    }

    /// Decides about credentials that need a lookup.
    async fn verify(&self, credential: &str) -> Result<Authenticated, AuthRefused> {
        match (&self.keys, &self.tokens) {
            (Some(keys), _) if ApiKeys::is_key(credential) => keys.check(credential).await,
            (_, Some(tokens)) => tokens.verify(credential).await,
            _ => Err(AuthRefused::NOT_VALID),
        }
    }
}

/// Adds the caller to the request's extensions, where it replaces values that other layers added.
fn admit<B>(
    credentials: &Credentials,
    mut request: Request<B>,
    caller: Authenticated,
) -> Request<B> {
    let extensions = request.extensions_mut();
    extensions.insert(caller.principal().clone());
    extensions.insert(credentials.pass(&caller));
    extensions.insert(caller);
    request
}

fn refuse<R: From<Bytes>>(credentials: &Credentials, refused: AuthRefused) -> Response<R> {
    if refused == AuthRefused::Unavailable {
        tracing::warn!(reason = %refused, "denied request: its credentials cannot be checked");
    } else {
        tracing::info!(status = refused.status().as_u16(), reason = %refused, "denied request");
    }
    credentials.answers.refusal(refused)
}
