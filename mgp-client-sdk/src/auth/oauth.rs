//! The credentials of a client that gets its tokens by OAuth 2.1.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_transport::http::{Credentials, Refused, Shown, Target};
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Fetcher};

use super::address;
use super::assertion::Assertions;
use super::browser::Browser;
use super::dpop::Dpop;
use super::error::AuthError;
use super::plan::{ClientCredentials, Given, Grant, Plan};
use super::scope::Scopes;
use super::secret::Secret;
use super::session::Session;
use super::store::{MemoryTokens, TokenStore};

/// How often a server may ask for the same scopes within an hour, and refuse tokens that are new.
const LIMIT: u32 = 3;
/// How long a login may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// Gets tokens for one server, shows them, and renews them.
///
/// Nothing happens before the server asks for it: its refusal says where its metadata is and which scopes it wants.
/// All that is sent goes through the [`Fetcher`], which decides which addresses may be reached.
/// Clones share everything; at most one login or renewal runs at a time, and the calls that need it wait for it.
/// It goes on where they stop waiting.
///
/// ```no_run
/// use mgp_client_sdk::auth::{FileTokens, LoopbackBrowser, OAuth};
///
/// # fn run(fetcher: mgp_types::service::Fetcher) -> OAuth {
/// OAuth::new("https://mcp.example.com/mcp", fetcher)
///     .client_name("My program")
///     .cimd("https://my.example.com/client.json")
///     .store(FileTokens::at("tokens.json"))
///     .browser(LoopbackBrowser::new(|url| println!("Open {url}")))
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct OAuth {
    session: Arc<Session>,
}

impl OAuth {
    /// Credentials of people who log in, for the server at a URL; give it a [`browser`](Self::browser).
    pub fn new(server: impl Into<String>, fetcher: Fetcher) -> Self {
        Self::with(server.into(), fetcher, Grant::Person(None))
    }

    /// Credentials of a client that acts on its own behalf.
    ///
    /// They belong to the first issuer they are used at; name it with [`issuer`](Self::issuer) where it is known.
    pub fn client_credentials(
        server: impl Into<String>,
        fetcher: Fetcher,
        credentials: ClientCredentials,
    ) -> Self {
        Self::with(server.into(), fetcher, Grant::Client(credentials))
    }

    /// Credentials of a client that shows the statements of others: those of its platform, or of an enterprise
    /// ([`EnterpriseIdp`](super::EnterpriseIdp)).
    pub fn assertions(
        server: impl Into<String>,
        fetcher: Fetcher,
        credentials: ClientCredentials,
        assertions: impl Assertions,
    ) -> Self {
        Self::with(server.into(), fetcher, Grant::Assertion(credentials, Arc::new(assertions)))
    }

    /// What people are told who asks, where the client registers itself.
    pub fn client_name(self, name: impl Into<String>) -> Self {
        self.edit(|plan| plan.name = name.into())
    }

    /// The address of the client's metadata document, which is its id wherever that is supported.
    ///
    /// The document is the user's to publish, under `https`; its `client_id` must be this address.
    pub fn cimd(self, url: impl Into<String>) -> Self {
        self.edit(|plan| plan.document = Some(url.into()))
    }

    /// An id and secret that the authorization server's operator gave, for where a metadata document does not do.
    ///
    /// They belong to the first issuer they are used at; name it with [`issuer`](Self::issuer) where it is known.
    pub fn preregistered(self, id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        self.edit(|plan| plan.given = Some(Given { id: id.into(), secret: Some(secret.into()) }))
    }

    /// An id without a secret that the authorization server's operator gave.
    pub fn preregistered_public(self, id: impl Into<String>) -> Self {
        self.edit(|plan| plan.given = Some(Given { id: id.into(), secret: None }))
    }

    /// The only issuer to be trusted, whatever the server names.
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        self.edit(|plan| plan.issuer = Some(issuer.into()))
    }

    /// Scopes to ask for besides those that the server names, separated by spaces.
    pub fn scopes(self, scopes: &str) -> Self {
        self.edit(|plan| plan.scopes = Scopes::parse(scopes))
    }

    /// Where registrations and tokens are kept; memory, unless this is called.
    pub fn store(self, store: impl TokenStore) -> Self {
        self.edit(|plan| plan.store = Arc::new(store))
    }

    /// How people get to the login; without it, only tokens that are in the store can be used and refreshed.
    pub fn browser(self, browser: impl Browser) -> Self {
        self.edit(|plan| {
            if let Grant::Person(known) = &mut plan.grant {
                *known = Some(Arc::new(browser));
            }
        })
    }

    /// When tokens are bound to a key of this client (RFC 9449); where it is offered, unless this is called.
    ///
    /// The key is made when it is first needed, and kept in the [`store`](Self::store) with its tokens.
    pub fn dpop(self, when: Dpop) -> Self {
        self.edit(|plan| plan.dpop = when)
    }

    /// How often a server may ask for the same scopes within an hour, and refuse tokens that are new; 3, unless this is
    /// called.
    pub fn step_up_limit(self, limit: u32) -> Self {
        self.edit(|plan| plan.limit = limit)
    }

    /// How long a login may take; five minutes, unless this is called.
    pub fn patience(self, patience: Duration) -> Self {
        self.edit(|plan| plan.patience = patience)
    }

    /// Gets tokens now, unless there are some, rather than at the first refusal.
    ///
    /// A person takes longer than a handshake may: who uses a [`browser`](Self::browser) does this before connecting, or
    /// gives the handshake more time.
    ///
    /// # Errors
    /// Why there are none.
    ///
    /// # Cancel safety
    /// A login under way goes on, and whoever asks next gets what comes of it.
    pub async fn log_in(&self) -> Result<(), Arc<AuthError>> {
        self.session.log_in().await
    }

    fn with(server: String, fetcher: Fetcher, grant: Grant) -> Self {
        let plan = Plan {
            server,
            fetcher,
            name: "MGP client".to_owned(),
            document: None,
            given: None,
            issuer: None,
            scopes: Scopes::default(),
            store: Arc::new(MemoryTokens::new()),
            grant,
            dpop: Dpop::default(),
            limit: LIMIT,
            patience: PATIENCE,
        };
        Self { session: Arc::new(Session::new(plan)) }
    }

    /// Settles something else; what was got before is forgotten.
    fn edit(self, change: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = self.session.plan.clone();
        change(&mut plan);
        Self { session: Arc::new(Session::new(plan)) }
    }
}

impl Credentials for OAuth {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<String>, RpcError>> {
        Box::pin(async { self.session.authorization().await.map_err(told) })
    }

    fn shown<'a>(&'a self, request: Target<'a>) -> BoxFuture<'a, Result<Shown, RpcError>> {
        Box::pin(async move { self.session.show(request).await.map_err(told) })
    }

    fn nonce(&self, nonce: &str) {
        self.session.nonce(nonce);
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<(), RpcError>> {
        Box::pin(async { self.session.refused(refusal).await.map_err(told) })
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("server", &address::shown(&self.session.plan.server))
            .finish_non_exhaustive()
    }
}

/// What a caller is told; the reason stays its source.
fn told(error: Arc<AuthError>) -> RpcError {
    RpcError::from(&*error).because(error)
}
