//! Credentials that are obtained by OAuth 2.1.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_transport::http::{CredentialRefusal, Credentials, RequestCredentials, RequestTarget};
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, SharedFetch};

use super::address;
use super::assertion::AssertionSource;
use super::browser::Browser;
use super::config::{ClientCredentials, Grant, OAuthConfig, Preregistered};
use super::credentials::CurrentCredentials;
use super::dpop::DpopMode;
use super::error::AuthError;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::{MemoryTokens, TokenEntry, TokenStore};

/// The default maximum number of step-ups; see [`OAuth::step_up_limit`].
const STEP_UP_LIMIT: u32 = 3;
/// The default time limit of a person's login; see [`OAuth::login_timeout`].
const LOGIN_TIMEOUT: Duration = Duration::from_mins(5);

/// OAuth credentials for one server: tokens that are obtained, sent and renewed automatically.
///
/// The client obtains tokens only when the server has refused a request for lack of credentials, because the refusal
/// names the server's metadata and the needed scopes; [`log_in`](Self::log_in) obtains them earlier. All requests go
/// through the [`SharedFetch`], which decides which addresses may be reached. Clones share their state. At most one
/// login or renewal runs at a time. Calls that need its result wait for it, and it continues even if these calls are
/// cancelled.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use mgp_client_sdk::GuardedFetch;
/// use mgp_client_sdk::auth::{FileTokens, LoopbackBrowser, OAuth};
///
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "https://mcp.example.com/mcp";
/// let oauth = OAuth::new(url, Arc::new(GuardedFetch::for_server(url)?))
///     .client_name("My program")
///     .cimd("https://my.example.com/client.json")
///     .store(FileTokens::at("tokens.json"))
///     .browser(LoopbackBrowser::new(|page| println!("Open {page}")));
/// # drop(oauth);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct OAuth {
    credentials: Arc<CurrentCredentials>,
}

impl OAuth {
    /// Creates credentials for a person who logs in to the server at a URL. Logins need a
    /// [`browser`](Self::browser).
    pub fn new(server: impl Into<String>, fetcher: SharedFetch) -> Self {
        Self::with(server.into(), fetcher, Grant::Person(None))
    }

    /// Creates credentials of a client that acts on its own behalf.
    ///
    /// The credentials are bound to the first issuer that they are used with. If the issuer is known, set it with
    /// [`issuer`](Self::issuer).
    pub fn client_credentials(
        server: impl Into<String>,
        fetcher: SharedFetch,
        credentials: ClientCredentials,
    ) -> Self {
        Self::with(server.into(), fetcher, Grant::Client(credentials))
    }

    /// Creates credentials of a client that presents assertions of its platform or of an enterprise
    /// ([`EnterpriseIdp`](super::EnterpriseIdp)).
    pub fn assertions(
        server: impl Into<String>,
        fetcher: SharedFetch,
        credentials: ClientCredentials,
        assertions: impl AssertionSource,
    ) -> Self {
        Self::with(server.into(), fetcher, Grant::Assertion(credentials, Arc::new(assertions)))
    }

    /// Sets the name that users see during a login if the client registers dynamically.
    pub fn client_name(self, name: impl Into<String>) -> Self {
        self.edit(|config| config.name = name.into())
    }

    /// Sets the URL of the client's metadata document. The URL is the client id at authorization servers that support
    /// such documents.
    ///
    /// The program's author publishes the document under `https`; its `client_id` must be this URL.
    pub fn cimd(self, url: impl Into<String>) -> Self {
        self.edit(|config| config.document = Some(url.into()))
    }

    /// Sets the id and secret that the operator of the authorization server gave this client. They have precedence over
    /// a metadata document.
    ///
    /// The credentials are bound to the first issuer that they are used with. If the issuer is known, set it with
    /// [`issuer`](Self::issuer).
    pub fn preregistered(self, id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        self.edit(|config| {
            config.preregistered =
                Some(Preregistered { id: id.into(), secret: Some(secret.into()) });
        })
    }

    /// Sets the id that the operator of the authorization server gave this client without a secret.
    pub fn preregistered_public(self, id: impl Into<String>) -> Self {
        self.edit(|config| {
            config.preregistered = Some(Preregistered { id: id.into(), secret: None });
        })
    }

    /// Sets the only issuer that the client trusts, even if the server names others.
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        self.edit(|config| config.issuer = Some(issuer.into()))
    }

    /// Sets scopes to request in addition to the scopes that the server names, separated by spaces.
    pub fn scopes(self, scopes: &str) -> Self {
        self.edit(|config| config.scopes = Scopes::parse(scopes))
    }

    /// Sets the store of registrations and tokens. Default: in memory.
    pub fn store(self, store: impl TokenStore) -> Self {
        self.edit(|config| config.store = Arc::new(store))
    }

    /// Sets the browser for logins. Without a browser, only tokens from the store can be used and refreshed.
    pub fn browser(self, browser: impl Browser) -> Self {
        self.edit(|config| {
            if let Grant::Person(known) = &mut config.grant {
                *known = Some(Arc::new(browser));
            }
        })
    }

    /// Sets when tokens are bound to a key of this client (RFC 9449). Default: [`DpopMode::Offered`].
    ///
    /// The key is created when it is first needed, and stored in the [`store`](Self::store) with its tokens.
    pub fn dpop(self, when: DpopMode) -> Self {
        self.edit(|config| config.dpop = when)
    }

    /// Sets how often a server may request the same scopes with less than an hour between two requests, and how many
    /// new tokens in a row it may refuse. Default: 3.
    pub fn step_up_limit(self, limit: u32) -> Self {
        self.edit(|config| config.limit = limit)
    }

    /// Sets the time limit of a login. Default: five minutes.
    pub fn login_timeout(self, login_timeout: Duration) -> Self {
        self.edit(|config| config.login_timeout = login_timeout)
    }

    /// Obtains tokens now, unless valid tokens exist. Without this call, the client obtains tokens when the server
    /// first refuses a request.
    ///
    /// A login may take longer than a handshake: with a [`browser`](Self::browser) call this before connecting, or
    /// raise the time-out of the handshake.
    ///
    /// # Errors
    /// The reason why no tokens could be obtained.
    ///
    /// # Cancel safety
    /// If the future is dropped, a login continues, and the next call receives its result.
    pub async fn log_in(&self) -> Result<(), Arc<AuthError>> {
        self.credentials.log_in().await
    }

    /// Revokes the tokens of an entry at their issuer (RFC 7009): the refresh token, and an access token that has not
    /// expired. Takes at most ten seconds, and does not change the store: to log out, first store the entry without its
    /// tokens.
    ///
    /// # Errors
    /// The reason why a token may still be valid, e.g. because the issuer has no revocation endpoint.
    ///
    /// # Cancel safety
    /// If the future is dropped, the tokens may or may not be revoked.
    pub async fn revoke(&self, entry: &TokenEntry) -> Result<(), AuthError> {
        self.credentials.revoke(entry).await
    }

    /// Returns the tokens and the registration that an issuer gave the client, e.g. to put them into a store; `None` if
    /// the client has neither obtained them nor read them from its store yet.
    #[must_use]
    pub fn entry(&self) -> Option<TokenEntry> {
        self.credentials.entry()
    }

    fn with(server: String, fetcher: SharedFetch, grant: Grant) -> Self {
        let config = OAuthConfig {
            server,
            fetcher,
            name: "MGP client".to_owned(),
            document: None,
            preregistered: None,
            issuer: None,
            scopes: Scopes::default(),
            store: Arc::new(MemoryTokens::new()),
            grant,
            dpop: DpopMode::default(),
            limit: STEP_UP_LIMIT,
            login_timeout: LOGIN_TIMEOUT,
        };
        Self { credentials: Arc::new(CurrentCredentials::new(config)) }
    }

    /// Changes the configuration; tokens that were obtained earlier are dropped.
    fn edit(self, change: impl FnOnce(&mut OAuthConfig)) -> Self {
        let mut config = self.credentials.config.clone();
        change(&mut config);
        Self { credentials: Arc::new(CurrentCredentials::new(config)) }
    }
}

#[async_trait]
impl Credentials for OAuth {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        self.credentials.authorization().await.map_err(to_rpc_error)
    }

    fn for_request<'a>(
        &'a self,
        request: RequestTarget<'a>,
    ) -> BoxFuture<'a, Result<RequestCredentials, RpcError>> {
        Box::pin(async move { self.credentials.show(request).await.map_err(to_rpc_error) })
    }

    fn handle_nonce(&self, nonce: &str) {
        self.credentials.nonce(nonce);
    }

    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
        self.credentials.refused(refusal).await.map_err(to_rpc_error)
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("server", &address::display_url(&self.credentials.config.server))
            .finish_non_exhaustive()
    }
}

/// Converts an error to the [`RpcError`] that callers receive; the original error is its source.
fn to_rpc_error(error: Arc<AuthError>) -> RpcError {
    RpcError::from(&*error).because(error)
}
