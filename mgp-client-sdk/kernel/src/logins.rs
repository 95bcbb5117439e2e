//! Logins at servers at URLs: the files with their tokens, and the credentials of connections (MCP authorization).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use mgp_client_sdk::auth::{
    AuthError, ClientCredentials, DpopMode, FileTokens, OAuth, Scopes, SigningAlgorithm,
    SigningKey, TokenEntry, TokenStore, TokenStoreError,
};
use mgp_client_sdk::gateway::AuthorizationFailed;
use mgp_discovery::{AuthConfig, AuthGrant, DpopUse, Expanded, KernelConfig, ProxyConfig};
use mgp_transport::http::{
    CredentialRefusal, Credentials, Endpoint, GuardedFetch, HttpClientError, Proxy,
    RequestCredentials, RequestTarget,
};
use mgp_types::service::{BoxFuture, Principal, ServerId};
use mgp_types::{ErrorCode, RpcError, Sha256Hash};

use super::cli_hints::shell_word;

/// The subfolder of the state folder that contains the files with tokens.
const FOLDER: &str = "logins";

/// The number of hash digits in the name of a file with an agent's tokens.
const HASH_DIGITS: usize = 32;

/// The logins at servers at URLs.
///
/// Each login has its own file in the state folder, so that two agents never share a token.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    folder: Option<PathBuf>,
    proxy: Proxy,
}

/// A server at a URL, with the variables in its configuration expanded.
#[derive(Clone, Debug)]
pub struct LoginServer {
    /// The id of the server at the URL.
    pub id: ServerId,
    /// The URL of the server, with its variables expanded.
    pub url: String,
    /// The configured way in which `mgp` authorizes itself at the server.
    pub auth: AuthConfig<Expanded>,
}

/// A function that receives the text about missing credentials, or `None` when they are available again.
pub(crate) type ReportLogin = dyn Fn(Option<&str>) + Send + Sync;

impl Logins {
    /// Creates a handle of the logins whose files are in this state folder.
    #[must_use]
    pub fn in_folder(state: &Path) -> Self {
        Self { folder: Some(state.join(FOLDER)), proxy: Proxy::from_env() }
    }

    /// Sets the proxy of all connections. Default: the proxy of the environment.
    #[must_use]
    pub fn with_proxy(self, proxy: Proxy) -> Self {
        Self { proxy, ..self }
    }

    /// Returns the proxy of all connections.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns the file with the tokens of an agent's login, or of the login that all agents share if `owner` is
    /// `None`. Returns `None` without a state folder.
    #[must_use]
    pub fn file(&self, server: &ServerId, owner: Option<&Principal>) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let Some(owner) = owner else { return Some(folder.join(format!("{server}.json"))) };
        let text = format!("{:?}", (owner.tenant().as_str(), owner.name()));
        let hash = Sha256Hash::digest(text.as_bytes()).to_string();
        let digits: String = hash.chars().rev().take(HASH_DIGITS).collect();
        // Put `~` into the name. Ids of servers never contain it, so the name cannot be that of another server's file.
        Some(folder.join(format!("{server}~{digits}.json")))
    }

    /// Binds an OAuth client that was registered by hand to the issuer (authorization server) that first gave it
    /// tokens. The client then sends its secret to another issuer only if the configuration names that issuer, not if
    /// only the server names it. The OAuth client does not store its tokens.
    pub fn bind_issuer(&self, server: &ServerId, oauth: OAuth) -> OAuth {
        let Some(folder) = &self.folder else { return oauth };
        // This name differs from the names of files with agents' tokens, which have a hash in place of `issuer`.
        oauth.store(IssuerStore(FileTokens::at(folder.join(format!("{server}~issuer.json")))))
    }

    /// Returns the files with the tokens of all logins at a server, or an empty list without a state folder.
    ///
    /// # Errors
    /// The error of reading the folder.
    pub fn files(&self, server: &ServerId) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let Some(folder) = &self.folder else { return Ok(files) };
        let is_login = |name: &str| {
            let stem =
                name.strip_suffix(".json").and_then(|name| name.strip_prefix(server.as_str()));
            stem.is_some_and(|rest| rest.is_empty() || rest.starts_with('~') && rest != "~issuer")
        };
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_login) {
                files.push(entry.path());
            }
        }
        Ok(files)
    }

    /// Removes the record of the issuer to which a client was [bound](Self::bind_issuer), unless a login at the server
    /// still exists.
    ///
    /// # Errors
    /// The error of reading the folder or of removing the file.
    pub fn unbind_issuer(&self, server: &ServerId) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if !self.files(server)?.is_empty() {
            return Ok(());
        }
        match std::fs::remove_file(folder.join(format!("{server}~issuer.json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the credentials for connections to a server, or `None` if the kernel must not send the server any.
    ///
    /// Without a login, these credentials lead to an error about the missing login as soon as the server requests a
    /// login.
    pub fn credentials(
        &self,
        server: LoginServer,
        owner: Option<&Principal>,
    ) -> Option<Arc<dyn Credentials>> {
        self.reporting(server, owner, Arc::new(|_| ()))
    }

    /// Returns the credentials as [`credentials`](Self::credentials) does. They call `report` when the login is
    /// missing, and again when it is available.
    pub(crate) fn reporting(
        &self,
        server: LoginServer,
        owner: Option<&Principal>,
        report: Arc<ReportLogin>,
    ) -> Option<Arc<dyn Credentials>> {
        let endpoint = Endpoint::parse(&server.url).ok()?;
        if !endpoint.origin().starts_with("https:") && !endpoint.is_loopback() {
            return None;
        }
        let file = self.file(&server.id, owner);
        let (owner, logins) = (owner.cloned(), self.clone());
        report(None);
        let login = ServerLogin { server, owner, file, logins, oauth: OnceLock::new(), report };
        login.oauth();
        Some(Arc::new(login))
    }
}

impl LoginServer {
    /// Returns the OAuth client for the server. It keeps its tokens only in memory, unless the caller gives it a store.
    ///
    /// # Errors
    /// Returns the reason why the setting `auth` cannot be used.
    pub fn oauth(&self, proxy: &Proxy) -> Result<OAuth, String> {
        let Self { url, auth, .. } = self;
        let text = |text: &Option<Expanded>| text.as_ref().map(|text| text.as_str().to_owned());
        let fetch = Arc::new(self.fetch(proxy).map_err(|error| error.to_string())?);
        let (id, secret) = (text(&auth.client_id), text(&auth.client_secret));
        let oauth = if auth.grant == AuthGrant::ClientCredentials {
            let id = id.unwrap_or_default();
            let credentials = match (&auth.private_key, secret) {
                (Some(pem), _) => ClientCredentials::key(id, signing_key(pem.as_str())?),
                (None, Some(secret)) => ClientCredentials::secret(id, secret),
                (None, None) => ClientCredentials::public(id),
            };
            OAuth::client_credentials(url, fetch, credentials)
        } else {
            let oauth = OAuth::new(url, fetch).client_name("mgp");
            match (id, secret) {
                (Some(id), Some(secret)) => oauth.preregistered(id, secret),
                (Some(id), None) => oauth.preregistered_public(id),
                (None, _) => oauth,
            }
        };
        let oauth = oauth.scopes(&auth.scopes.join(" ")).dpop(match auth.dpop {
            DpopUse::Always => DpopMode::Always,
            DpopUse::Never => DpopMode::Never,
            _ => DpopMode::Offered,
        });
        Ok(match text(&auth.issuer) {
            Some(issuer) => oauth.issuer(issuer),
            None => oauth,
        })
    }

    /// Returns the downloader for a login. The hosts of `url` and `issuer` in the configuration may have any address,
    /// even in a private network. All other hosts, which the server names, must have public addresses.
    fn fetch(&self, proxy: &Proxy) -> Result<GuardedFetch, HttpClientError> {
        let mut fetch = GuardedFetch::for_server(&self.url)?.proxy(proxy.clone())?;
        let issuer = self.auth.issuer.as_ref().map(Expanded::as_str);
        for url in [self.url.as_str()].into_iter().chain(issuer) {
            let uri = url.trim().parse::<http::Uri>().ok();
            if let Some(host) = uri.as_ref().and_then(http::Uri::host) {
                fetch = fetch.allow_host(host)?;
            }
        }
        Ok(fetch)
    }
}

/// Returns the proxy that a configuration sets for connections to other machines.
#[must_use]
pub fn proxy(config: &KernelConfig) -> Proxy {
    let proxy = match &config.proxy {
        ProxyConfig::None => Proxy::none(),
        // Ignore an error, because the configured URL was checked when the configuration was read.
        ProxyConfig::At(url) => Proxy::at(url).unwrap_or_default(),
        _ => Proxy::from_env(),
    };
    proxy.except(config.no_proxy.iter().map(String::as_str))
}

/// Reads a private key of any supported kind in the format PEM.
fn signing_key(pem: &str) -> Result<SigningKey, String> {
    let kinds = [SigningAlgorithm::Es256, SigningAlgorithm::EdDsa, SigningAlgorithm::Rs256];
    let mut keys = kinds.into_iter().map(|kind| SigningKey::from_pem(kind, pem.as_bytes()));
    keys.find_map(Result::ok).ok_or_else(|| {
        "`auth.private_key` is not a private key in PEM (PKCS #8) of P-256, RSA or Ed25519"
            .to_owned()
    })
}

/// The credentials for the connections to one server: a stored login, or credentials of the kernel itself.
struct ServerLogin {
    server: LoginServer,
    owner: Option<Principal>,
    file: Option<PathBuf>,
    logins: Logins,
    /// The OAuth client with the credentials for the server. It is not set until there is a login.
    oauth: OnceLock<OAuth>,
    report: Arc<ReportLogin>,
}

impl ServerLogin {
    /// Returns the OAuth client, if there is a login or the credentials need none.
    fn oauth(&self) -> Option<&OAuth> {
        if let Some(oauth) = self.oauth.get() {
            return Some(oauth);
        }
        let file = self.file.as_ref().filter(|file| file.exists());
        if file.is_none() && !self.is_machine() {
            return None;
        }
        let oauth = match self.server.oauth(&self.logins.proxy) {
            Ok(oauth) => oauth,
            Err(error) => {
                tracing::warn!(server = %self.server.id, %error, "no credentials");
                return None;
            }
        };
        let oauth = match file {
            _ if self.is_machine() => self.logins.bind_issuer(&self.server.id, oauth),
            Some(file) => oauth.store(FileTokens::at(file)),
            None => oauth,
        };
        Some(self.oauth.get_or_init(|| oauth))
    }

    fn is_machine(&self) -> bool {
        self.server.auth.grant == AuthGrant::ClientCredentials
    }

    /// Adds the remedy to an error that a login can resolve.
    fn explain(&self, error: RpcError) -> RpcError {
        let code = error.code();
        if code != ErrorCode::AUTH_REQUIRED && code != ErrorCode::AUTH_EXPIRED {
            return error;
        }
        tracing::warn!(server = %self.server.id, %error, "authorization failed");
        let id = &self.server.id;
        let reason = match cause(&error) {
            Some(AuthError::ForeignIssuer { .. }) => format!(
                "`{id}` names another authorization server than the one that its credentials are for; if you trust the change, which the log has, write the new one as `issuer` into its `auth`"
            ),
            Some(error) if let Some(fault) = metadata_fault(id, error) => fault,
            _ if self.is_machine() => format!(
                "the credentials of `{id}` are refused; check its `auth` in the configuration"
            ),
            Some(AuthError::MissingScopes { scopes }) => {
                // Do not report this as an error of the server, because other calls can still use the server.
                return AuthorizationFailed::new(self.scopes_remedy(scopes)).into_error(code);
            }
            _ if self.oauth.get().is_some() => {
                format!("the login at `{id}` has expired or was revoked; run `{}`", self.command())
            }
            _ => format!("`{id}` requires a login; run `{}`", self.command()),
        };
        (self.report)(Some(&reason));
        AuthorizationFailed::new(reason).into_error(code)
    }

    /// Returns the reason and the remedy if the login does not include the given scopes.
    fn scopes_remedy(&self, missing: &Scopes) -> String {
        // Also name the granted scopes, because a new login requests only the scopes in the command.
        let scopes = self.granted().union(missing).to_string();
        let scopes = shell_word(&scopes).unwrap_or_else(|| "SCOPES".to_owned());
        let (id, command) = (&self.server.id, self.command());
        format!("the login at `{id}` does not allow this; run `{command} --scopes {scopes}`")
    }

    /// Returns the scopes that the stored tokens have.
    fn granted(&self) -> Scopes {
        let tokens = self.oauth.get().and_then(OAuth::entry).and_then(|entry| entry.tokens);
        tokens.map(|tokens| tokens.scopes).unwrap_or_default()
    }

    /// Returns the command of the program `mgp` for logging in at the server.
    fn command(&self) -> String {
        let mut command = format!("mgp servers login {}", self.server.id);
        let Some(owner) = &self.owner else { return command };
        let name = shell_word(owner.name()).unwrap_or_else(|| "NAME".to_owned());
        let _ = write!(command, " --agent {name}");
        if owner.tenant() != Principal::local().tenant() {
            let tenant = shell_word(owner.tenant().as_str()).unwrap_or_else(|| "NAME".to_owned());
            let _ = write!(command, " --tenant {tenant}");
        }
        command
    }
}

#[async_trait]
impl Credentials for ServerLogin {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        match self.oauth.get() {
            Some(oauth) => oauth.authorization().await.map_err(|error| self.explain(error)),
            None => Ok(None),
        }
    }

    fn for_request<'a>(
        &'a self,
        request: RequestTarget<'a>,
    ) -> BoxFuture<'a, Result<RequestCredentials, RpcError>> {
        match self.oauth.get() {
            Some(oauth) => Box::pin(async move {
                oauth.for_request(request).await.map_err(|error| self.explain(error))
            }),
            None => Box::pin(std::future::ready(Ok(RequestCredentials::default()))),
        }
    }

    fn handle_nonce(&self, nonce: &str) {
        if let Some(oauth) = self.oauth.get() {
            oauth.handle_nonce(nonce);
        }
    }

    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
        let Some(oauth) = self.oauth() else {
            return Err(self.explain(RpcError::new(ErrorCode::AUTH_REQUIRED, "no login")));
        };
        oauth.handle_refusal(refusal).await.map_err(|error| self.explain(error))?;
        (self.report)(None);
        Ok(())
    }
}

/// The store that remembers the issuer of a client that was registered by hand. It does not contain the tokens: they
/// are stored elsewhere, or not at all if the client acts on its own behalf.
struct IssuerStore(FileTokens);

#[async_trait]
impl TokenStore for IssuerStore {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        self.0.load(server, issuer).await
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        self.0.latest(server).await
    }

    async fn save(&self, mut entry: TokenEntry) -> Result<(), TokenStoreError> {
        // Do not bind the client to an issuer that has given it no tokens, because this issuer may be the wrong one.
        if entry.tokens.take().is_none() {
            return Ok(());
        }
        entry.key = None;
        if self.0.latest(&entry.server).await?.as_ref() == Some(&entry) {
            return Ok(());
        }
        self.0.save(entry).await
    }
}

/// Returns the reason and the remedy for a fault in metadata that neither a login nor other credentials can resolve.
/// The texts of the metadata appear only in the log, because readers trust the reason.
fn metadata_fault(id: &ServerId, error: &AuthError) -> Option<String> {
    Some(match error {
        AuthError::NoMetadata { .. } => format!(
            "the authorization server of `{id}` has no metadata; correct or add `issuer` in its `auth`"
        ),
        AuthError::IssuerMismatch { .. } => format!(
            "the metadata of the authorization server of `{id}` names another issuer, which the log has; if you trust it, write it as `issuer` into its `auth`"
        ),
        AuthError::MissingEndpoint { what, .. } => format!(
            "the metadata of the authorization server of `{id}` does not contain the {what}; ask its operator"
        ),
        AuthError::ResourceMismatch { .. } => format!(
            "the metadata of `{id}` is for another URL, which the log has; if you trust that one, write it as `url`"
        ),
        _ => return None,
    })
}

/// Returns the error of the OAuth client that caused another error.
fn cause(error: &RpcError) -> Option<&AuthError> {
    std::error::Error::source(error)?.downcast_ref::<Arc<AuthError>>().map(|cause| &**cause)
}

mgp_types::opaque_debug!(ServerLogin { server });

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgp_discovery::{Config, ExpandedTarget, Expander};
    use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse};
    use serde_json::json;

    use super::*;

    const SERVER: &str = "https://server.example/mcp";
    const ISSUERS: [&str; 2] = ["https://one.example", "https://two.example"];

    /// A simulation of a server that names this issuer, and of the issuer.
    struct Names(&'static str);

    #[async_trait]
    impl Fetch for Names {
        async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
            let issuer = self.0;
            let answer = if request.url.contains("/oauth-protected-resource") {
                json!({ "resource": SERVER, "authorization_servers": [issuer] })
            } else if request.url.ends_with("/token") {
                json!({ "access_token": "s3cret", "token_type": "Bearer" })
            } else {
                json!({ "issuer": issuer, "token_endpoint": format!("{issuer}/token") })
            };
            Ok(FetchResponse::new(200, answer.to_string()))
        }
    }

    /// Returns the OAuth client with this id, as in a new process, for a server that names this issuer.
    fn machine(logins: &Logins, id: &str, issuer: &'static str) -> OAuth {
        let credentials = ClientCredentials::secret(id, "s3cret");
        let oauth = OAuth::client_credentials(SERVER, Arc::new(Names(issuer)), credentials);
        logins.bind_issuer(&"a".into(), oauth)
    }

    #[tokio::test]
    async fn credentials_stay_at_their_first_issuer_after_a_restart() {
        let state = mgp_testkit::temp_dir();
        let logins = Logins::in_folder(state.path());
        let [one, two] = ISSUERS;
        machine(&logins, "job", one).log_in().await.unwrap();
        let file = state.path().join(FOLDER).join("a~issuer.json");
        assert!(!std::fs::read_to_string(file).unwrap().contains("s3cret"));
        for _ in 0..2 {
            let error = machine(&logins, "job", two).log_in().await.unwrap_err();
            assert!(matches!(*error, AuthError::ForeignIssuer { .. }), "{error}");
        }
        machine(&logins, "job", one).log_in().await.unwrap();
        machine(&logins, "other", two).log_in().await.unwrap();
        machine(&logins, "job", two).issuer(two).log_in().await.unwrap();
        machine(&logins, "job", two).log_in().await.unwrap();
        assert!(machine(&logins, "job", one).log_in().await.is_err());
    }

    #[test]
    fn a_client_stays_bound_to_its_issuer_while_there_is_a_login() {
        let state = mgp_testkit::temp_dir();
        let logins = Logins::in_folder(state.path());
        let folder = state.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let record = folder.join("a~issuer.json");
        let others = [record.clone(), folder.join("b.json"), folder.join("a.json.lock")];
        for file in &others {
            std::fs::write(file, "{}").unwrap();
        }
        for owner in [None, Some(Principal::local().agent("ann"))] {
            let login = logins.file(&"a".into(), owner.as_ref()).unwrap();
            std::fs::write(&login, "{}").unwrap();
            assert_eq!(logins.files(&"a".into()).unwrap(), std::slice::from_ref(&login));
            logins.unbind_issuer(&"a".into()).unwrap();
            assert!(record.exists());
            std::fs::remove_file(login).unwrap();
        }
        for _ in 0..2 {
            logins.unbind_issuer(&"a".into()).unwrap();
            assert!(!record.exists() && others[1].exists());
        }
    }

    #[tokio::test]
    async fn missing_scopes_are_named_even_without_quotation_marks() {
        let state = mgp_testkit::temp_dir();
        let logins = Logins::in_folder(state.path()).with_proxy(Proxy::none());
        let server = server(SERVER, ISSUERS[0]);
        let earlier = machine(&logins, "job", ISSUERS[0]);
        earlier.log_in().await.unwrap();
        let file = FileTokens::at(logins.file(&server.id, None).unwrap());
        file.save(earlier.entry().unwrap()).await.unwrap();
        let login = logins.credentials(server, None).unwrap();
        let challenge = "Bearer error=insufficient_scope, scope=write".to_owned();
        let refusal =
            CredentialRefusal::new(403, vec![challenge], Some("Bearer s3cret".to_owned()));
        let error = login.handle_refusal(refusal).await.unwrap_err();
        let remedy = "run `mgp servers login a --scopes write`";
        assert!(error.message().contains(remedy), "{error}");
    }

    #[test]
    fn a_fault_of_metadata_is_not_called_a_refusal_of_the_credentials() {
        let mut server = server(SERVER, ISSUERS[0]);
        server.auth.grant = AuthGrant::ClientCredentials;
        let login = ServerLogin {
            server,
            owner: None,
            file: None,
            logins: Logins::default(),
            oauth: OnceLock::new(),
            report: Arc::new(|_| ()),
        };
        let explained = |error: AuthError| {
            let error = RpcError::from(&error).because(Arc::new(error));
            login.explain(error).message().to_owned()
        };
        let issuer = || "https://theirs.example".to_owned();
        let asked = ISSUERS[0].to_owned();
        for (error, expected) in [
            (AuthError::NoMetadata { issuer: issuer() }, "has no metadata"),
            (AuthError::IssuerMismatch { asked, found: issuer() }, "names another issuer"),
            (
                AuthError::ResourceMismatch { resource: issuer(), server: SERVER.to_owned() },
                "is for another URL",
            ),
            (AuthError::NoBrowser, "are refused; check its `auth`"),
        ] {
            let text = explained(error);
            assert!(text.contains(expected) && !text.contains("theirs"), "{text}");
        }
    }

    fn server(url: &str, issuer: &str) -> LoginServer {
        let text =
            format!("servers = [{{ id = 'a', url = '{url}', auth = {{ issuer = '{issuer}' }} }}]");
        let config = Config::parse("mgp.toml", &text).unwrap().config;
        let expanded = Expander::new(|_| None).server(&config.servers[0]).unwrap();
        let ExpandedTarget::Url { url, auth, .. } = expanded.target else { panic!("no URL") };
        LoginServer { id: expanded.id, url: url.as_str().to_owned(), auth: *auth }
    }

    /// Checks whether a login at the server may connect to a URL, at which no program listens.
    async fn check(server: &LoginServer, url: &str, expected: bool) {
        let fetch = server.fetch(&Proxy::none()).unwrap();
        let fetch = fetch.with_limits(Duration::from_secs(5), 1024);
        let error = fetch.fetch(FetchRequest::get(url)).await.unwrap_err();
        assert_eq!(matches!(error, FetchError::Failed { .. }), expected, "{url}: {error}");
    }

    #[tokio::test]
    async fn only_the_configured_hosts_may_be_in_a_private_network() {
        // Neither address is public, and no program listens at port 1.
        let (private, local) = ("https://0.0.0.0:1", "https://127.0.0.1:1");
        let public = "https://server.example/mcp";
        check(&server(&format!("{private}/mcp"), public), private, true).await;
        check(&server(public, local), local, true).await;
        check(&server(public, "https://issuer.example"), private, false).await;
        check(&server(&format!("{private}/mcp"), public), "https://10.0.0.1", false).await;
        check(&server(&format!("{private}/mcp"), public), local, false).await;
    }
}
