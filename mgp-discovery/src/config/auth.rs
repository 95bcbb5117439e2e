//! `login` and `[servers.auth]`: how a server at a URL authorizes `mgp` (MCP authorization).

use super::addresses;
use super::table_reader::Reader;

/// The settings for logging in at a server with a URL. Its texts have the type `T`: `String` before `${…}` is expanded,
/// [`Expanded`](crate::Expanded) after.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig<T = String> {
    /// Determines whether all agents share one login at the server.
    pub login: LoginScope,
    /// The way the client obtains tokens.
    pub grant: AuthGrant,
    /// Determines whether the client proves that it possesses the key to which its token is bound (`DPoP`, RFC 9449).
    pub dpop: DpopUse,
    /// Scopes that are requested in addition to the scopes that the server names.
    pub scopes: Vec<String>,
    /// The id of the client, if it was registered at the authorization server by hand.
    pub client_id: Option<T>,
    /// The secret that belongs to `client_id`; `None` if the client has none.
    pub client_secret: Option<T>,
    /// The client's private key, as PEM.
    pub private_key: Option<T>,
    /// The id (`kid`) of `private_key` at the authorization server.
    pub key_id: Option<T>,
    /// The only authorization server whose tokens are trusted; `None` for the authorization server that the server's
    /// metadata names.
    pub issuer: Option<T>,
}

/// The agents that share one login at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginScope {
    /// All agents share one login at the server.
    #[default]
    Shared,
    /// Each agent has its own login at the server.
    Agent,
}

/// The ways the client can obtain tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthGrant {
    /// A person logs in, and the client obtains the tokens of that login.
    #[default]
    Login,
    /// The kernel obtains tokens with its own client credentials.
    ClientCredentials,
}

/// The policy for proofs that the client possesses the key to which its token is bound (`DPoP`, RFC 9449).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopUse {
    /// Proofs are sent if the server's metadata offers support for them.
    #[default]
    Offered,
    /// Proofs are always sent; a server without support for them cannot be used.
    Always,
    /// The client never sends proofs of possession.
    Never,
}

impl<T> Default for AuthConfig<T> {
    fn default() -> Self {
        Self {
            login: LoginScope::default(),
            grant: AuthGrant::default(),
            dpop: DpopUse::default(),
            scopes: Vec::new(),
            client_id: None,
            client_secret: None,
            private_key: None,
            key_id: None,
            issuer: None,
        }
    }
}

impl<T> AuthConfig<T> {
    /// Returns the texts of this table, each with the name of its key.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &T)> {
        let Self { client_id, client_secret, private_key, key_id, issuer, .. } = self;
        let texts = [
            ("client_id", client_id),
            ("client_secret", client_secret),
            ("private_key", private_key),
            ("key_id", key_id),
            ("issuer", issuer),
        ];
        texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)))
    }

    /// Converts each text with a function, whose arguments are the name of the text's key and the text; copies the
    /// other settings.
    pub(crate) fn map<U>(&self, mut convert: impl FnMut(&'static str, &T) -> U) -> AuthConfig<U> {
        let mut one = |name, text: &Option<T>| text.as_ref().map(|text| convert(name, text));
        AuthConfig {
            login: self.login,
            grant: self.grant,
            dpop: self.dpop,
            scopes: self.scopes.clone(),
            client_id: one("client_id", &self.client_id),
            client_secret: one("client_secret", &self.client_secret),
            private_key: one("private_key", &self.private_key),
            key_id: one("key_id", &self.key_id),
            issuer: one("issuer", &self.issuer),
        }
    }
}

// Omits the texts, which may be secret.
mgp_types::opaque_debug!(AuthConfig<T> { login, grant, dpop, scopes });

/// Reads `login` and the table `auth` of a server.
pub(super) fn auth(reader: &mut Reader<'_, '_, '_>) -> AuthConfig {
    let login = match reader.text("login").as_deref() {
        Some("agent") => LoginScope::Agent,
        _ => LoginScope::Shared,
    };
    let Some(mut below) = reader.below("auth", "servers.auth") else {
        return AuthConfig { login, ..AuthConfig::default() };
    };
    let auth = AuthConfig {
        login,
        grant: match below.text("grant").as_deref() {
            Some("client_credentials") => AuthGrant::ClientCredentials,
            _ => AuthGrant::Login,
        },
        dpop: match below.text("dpop").as_deref() {
            Some("always") => DpopUse::Always,
            Some("never") => DpopUse::Never,
            _ => DpopUse::Offered,
        },
        scopes: below.texts("scopes"),
        client_id: below.text("client_id"),
        client_secret: below.text("client_secret"),
        private_key: below.text("private_key"),
        key_id: below.text("key_id"),
        issuer: addresses::issuer(&mut below),
    };
    if auth.key_id.is_some() && auth.private_key.is_none() {
        let remedy = "write the `private_key` that it names, or leave it out".to_owned();
        below.error("key_id", "has no `private_key`", Some(remedy));
    }
    let is_machine = auth.grant == AuthGrant::ClientCredentials;
    let has_proof = auth.client_secret.is_some() || auth.private_key.is_some();
    if is_machine && (auth.client_id.is_none() || !has_proof) {
        let remedy = "write `client_id`, and `client_secret` or `private_key`, e.g. as `${NAME}`";
        below.error("grant", "has no credentials", Some(remedy.to_owned()));
    } else if auth.client_id.is_none() && has_proof {
        let remedy = "write the `client_id` that it belongs to".to_owned();
        below.error("client_secret", "has no `client_id`", Some(remedy));
    } else if !is_machine && auth.private_key.is_some() {
        let remedy = "write `grant = \"client_credentials\"`, or use `client_secret`".to_owned();
        below.error("private_key", "does not fit a person's login", Some(remedy));
    } else if is_machine && login == LoginScope::Agent {
        let remedy = "leave one of them out".to_owned();
        reader.error("login", "conflicts with `grant = \"client_credentials\"`", Some(remedy));
    }
    auth
}
