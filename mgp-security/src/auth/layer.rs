//! The layer that lets authenticated requests in, and its service (MCP authorization; RFC 6750, RFC 9728).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use mgp_types::service::Pass;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::Answers;
use super::authenticated::{Authenticated, Credential};
use super::bearer::bearer;
use super::future::ResponseFuture;
use super::key::{ApiKeys, Looked};
use super::refused::AuthRefused;
use super::token::TokenVerifier;

/// Lets requests in that show a good API key or access token, around any HTTP service.
///
/// A layer without keys and tokens lets nobody in.
#[derive(Clone, Default)]
#[must_use]
pub struct AuthLayer(Arc<Guard>);

/// What decides.
#[derive(Clone, Default)]
struct Guard {
    keys: Option<ApiKeys>,
    tokens: Option<Arc<dyn TokenVerifier>>,
    answers: Arc<Answers>,
}

impl AuthLayer {
    /// A layer that lets nobody in yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes API keys.
    pub fn keys(mut self, keys: ApiKeys) -> Self {
        Arc::make_mut(&mut self.0).keys = Some(keys);
        self
    }

    /// Takes access tokens, and publishes where they come from.
    pub fn tokens(mut self, tokens: impl TokenVerifier) -> Self {
        let guard = Arc::make_mut(&mut self.0);
        guard.answers = Arc::new(Answers::publishing(&tokens.metadata()));
        guard.tokens = Some(Arc::new(tokens));
        self
    }
}

impl fmt::Debug for AuthLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthLayer")
            .field("keys", &self.0.keys.is_some())
            .field("tokens", &self.0.tokens.is_some())
            .finish()
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;

    fn layer(&self, inner: S) -> Auth<S> {
        Auth { inner, guard: Arc::clone(&self.0) }
    }
}

/// Service of [`AuthLayer`].
#[derive(Clone)]
pub struct Auth<S> {
    inner: S,
    guard: Arc<Guard>,
}

impl<S> fmt::Debug for Auth<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth")
    }
}

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
        let guard = &self.guard;
        if let Some(document) = guard.answers.document(request.method(), request.uri().path()) {
            return ResponseFuture::answered(Ok(document));
        }
        let decision = guard.decide(request.headers());
        // From here on the request holds no secret.
        request.headers_mut().remove(AUTHORIZATION);
        match decision {
            Decision::Made(Ok(caller)) => {
                ResponseFuture::inner(self.inner.call(admit(guard, request, caller)))
            }
            Decision::Made(Err(refused)) => ResponseFuture::answered(Ok(refuse(guard, refused))),
            Decision::Later(credential) => {
                // The service that was made ready is the one that is called.
                let spare = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, spare);
                let guard = Arc::clone(guard);
                ResponseFuture::later(Box::pin(async move {
                    match guard.ask(&credential).await {
                        Ok(caller) => inner.call(admit(&guard, request, caller)).await,
                        Err(refused) => Ok(refuse(&guard, refused)),
                    }
                }))
            }
        }
    }
}

/// A decision, or what must be waited for.
enum Decision {
    Made(Result<Authenticated, AuthRefused>),
    /// The credential; asking takes time.
    Later(String),
}

impl Guard {
    /// Decides what needs no waiting: most keys, and all that is malformed.
    fn decide(&self, headers: &HeaderMap) -> Decision {
        let credential = match bearer(headers) {
            Ok(credential) => credential,
            Err(refused) => return Decision::Made(Err(refused)),
        };
        if ApiKeys::is_key(credential) {
            return match self.keys.as_ref().map(|keys| keys.look(credential)) {
                None => Decision::Made(Err(AuthRefused::NOT_VALID)),
                Some(Looked::Up(decided)) => Decision::Made(decided),
                Some(Looked::Outdated) => Decision::Later(credential.to_owned()),
            };
        }
        match self.tokens {
            None => Decision::Made(Err(AuthRefused::NOT_VALID)),
            Some(_) => Decision::Later(credential.to_owned()),
        }
    }

    /// What the caller may do, for as long as a key is not revoked and nothing has expired.
    fn pass(&self, caller: &Authenticated) -> Pass {
        let keys = self.keys.clone();
        let shown = caller.clone();
        Pass::new(caller.permissions().iter().cloned(), move || {
            let key = match (shown.credential(), &keys) {
                (Credential::Key { id }, Some(keys)) => keys.is_live(id),
                _ => true,
            };
            key && !shown.has_expired(SystemTime::now())
        })
    }

    /// Decides about the rest.
    async fn ask(&self, credential: &str) -> Result<Authenticated, AuthRefused> {
        match (&self.keys, &self.tokens) {
            (Some(keys), _) if ApiKeys::is_key(credential) => keys.check(credential).await,
            (_, Some(tokens)) => tokens.verify(credential).await,
            _ => Err(AuthRefused::NOT_VALID),
        }
    }
}

/// Writes who calls into the request; whatever stood there before came from elsewhere and goes.
fn admit<B>(guard: &Guard, mut request: Request<B>, caller: Authenticated) -> Request<B> {
    let extensions = request.extensions_mut();
    extensions.insert(caller.principal().clone());
    extensions.insert(guard.pass(&caller));
    extensions.insert(caller);
    request
}

fn refuse<R: From<Bytes>>(guard: &Guard, refused: AuthRefused) -> Response<R> {
    tracing::debug!(reason = %refused, "request refused");
    guard.answers.refusal(refused)
}
