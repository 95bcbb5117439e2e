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
use mgp_types::{ErrorCode, PrivateFileError, RpcError, Sha256Hash};

use super::cli_hints::shell_word;

/// The subfolder of the state folder that contains the files with tokens.
const FOLDER: &str = "logins";

/// The number of hash digits in the name of a file with an agent's tokens.
const HASH_DIGITS: usize = 32;

/// The logins at servers at URLs.
///
/// Each login, of one agent or of all agents together, has its own file in the state folder.
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
    /// If set, the host of `url` may only have public addresses, like all hosts that the server names.
    pub only_public: bool,
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
        // No file with an agent's tokens has this name: the names of these files have a hash in place of `issuer`.
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

    /// Deletes the logins at a registered server that was removed, and begins to revoke their tokens; does not wait for
    /// that. Only logs failures.
    pub(crate) async fn delete_all(&self, id: &ServerId) {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(server = %id, %error, "the logins at a removed server were not all deleted");
        };
        let files = self.files(id).unwrap_or_else(|error| {
            failed(&error);
            Vec::new()
        });
        for file in files {
            let entries = FileTokens::at(&file).entries().await.unwrap_or_default();
            if let Err(error) = std::fs::remove_file(&file) {
                failed(&error);
            }
            for entry in entries.into_iter().filter(|entry| entry.tokens.is_some()) {
                let (id, url, proxy) = (id.clone(), entry.server.clone(), self.proxy.clone());
                let auth = AuthConfig::default();
                let login = LoginServer { id, url, auth, only_public: true };
                tokio::spawn(async move { login.revoke(&entry, &proxy).await });
            }
        }
        if let Err(error) = self.unbind_issuer(id) {
            failed(&error);
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
    /// Revokes the tokens of a deleted login at their issuer; only logs a failure.
    async fn revoke(&self, entry: &TokenEntry, proxy: &Proxy) {
        let revoked = match self.oauth(proxy) {
            Ok(oauth) => Box::pin(oauth.revoke(entry)).await.map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        if let Err(error) = revoked {
            tracing::warn!(server = %self.id, %error, "not all tokens of a deleted login were revoked");
        }
    }

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
                (Some(pem), _) => {
                    let key = signing_key(pem.as_str())?;
                    let key = match text(&auth.key_id) {
                        Some(key_id) => key.id(key_id),
                        None => key,
                    };
                    ClientCredentials::key(id, key)
                }
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

    /// Returns the downloader for a login. The hosts of `url`, unless `only_public` is set, and of the `issuer` in the
    /// configuration may have any address, even in a private network. All other hosts must have public addresses.
    fn fetch(&self, proxy: &Proxy) -> Result<GuardedFetch, HttpClientError> {
        let mut fetch = GuardedFetch::for_server(&self.url)?.proxy(proxy.clone())?;
        let issuer = self.auth.issuer.as_ref().map(Expanded::as_str);
        let own = (!self.only_public).then_some(self.url.as_str());
        for url in own.into_iter().chain(issuer) {
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
        let stored = match cause(&error) {
            Some(AuthError::Store(error)) => Some(error),
            _ => None,
        };
        let is_unusable = stored.is_some_and(is_unusable);
        if !is_unusable && code != ErrorCode::AUTH_REQUIRED && code != ErrorCode::AUTH_EXPIRED {
            return match stored {
                Some(TokenStoreError::File(_)) => self.without_file(&error),
                _ => error,
            };
        }
        let code = if is_unusable { ErrorCode::AUTH_REQUIRED } else { code };
        tracing::warn!(server = %self.server.id, %error, "authorization failed");
        let id = &self.server.id;
        let reason = match cause(&error) {
            Some(AuthError::ForeignIssuer { .. }) => format!(
                "`{id}` names another authorization server than the one that its credentials are for; if you trust the change, which the log has, write the new one as `issuer` into its `auth`"
            ),
            Some(error) if let Some(fault) = server_fault(id, error) => fault,
            // Callers can be on other machines, so only the log names the file.
            _ if is_unusable && self.is_machine() => format!(
                "the record of the issuer of `{id}` cannot be used; remove its file, which the log names"
            ),
            _ if is_unusable => {
                let login = self.command();
                let logout = login.replacen("login", "logout", 1);
                format!("the stored login at `{id}` cannot be used; run `{logout}`, then `{login}`")
            }
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

    /// Logs an error in reading or writing the file of the login, and returns an error that does not name the file.
    /// Keeps the error code and does not report a missing login, because a later attempt may succeed, e.g. when the
    /// disk has space again.
    fn without_file(&self, error: &RpcError) -> RpcError {
        let id = &self.server.id;
        tracing::warn!(server = %id, %error, "a stored login cannot be read or written");
        let reason = format!(
            "the stored login at `{id}` cannot be read or written at present; the log has the reason"
        );
        AuthorizationFailed::new(reason).into_error(error.code())
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

/// Returns the reason and the remedy for a refusal, or a fault in metadata, that neither a login nor other credentials
/// can resolve. Readers trust this text, so it quotes nothing that a server sent; only the log does.
fn server_fault(id: &ServerId, error: &AuthError) -> Option<String> {
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
        AuthError::Proof { hint, .. } => {
            format!("`{id}` refuses the proofs of possession of its token (DPoP): {hint}")
        }
        AuthError::Token { error, .. } if error == "invalid_dpop_proof" => format!(
            "the authorization server of `{id}` refuses the proofs of possession (DPoP); check the clock of this machine"
        ),
        AuthError::NoDpop { why, .. } => format!(
            "no token for `{id}` can be bound to a key (DPoP): {why}; check `dpop` in its `auth`, or ask its operator"
        ),
        _ => return None,
    })
}

/// Returns whether a stored login cannot be used until a person replaces its file.
fn is_unusable(error: &TokenStoreError) -> bool {
    match error {
        TokenStoreError::File(error) => {
            !matches!(error, PrivateFileError::Io { .. } | PrivateFileError::Busy { .. })
        }
        error => matches!(error, TokenStoreError::Damaged { .. }),
    }
}

/// Returns the error of the OAuth client that caused another error.
fn cause(error: &RpcError) -> Option<&AuthError> {
    std::error::Error::source(error)?.downcast_ref::<Arc<AuthError>>().map(|cause| &**cause)
}

mgp_types::opaque_debug!(ServerLogin { server });

#[cfg(test)]
mod tests;
