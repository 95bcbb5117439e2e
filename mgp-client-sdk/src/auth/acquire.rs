//! Obtains tokens: discovery, registration, login and refresh, and storage of the results (MCP authorization).

use std::time::Duration;

use tokio::time::timeout;
use tracing::{debug, warn};
use url::Url;

use super::address;
use super::assertion;
use super::authorize::Request;
use super::browser::Browser;
use super::challenge::Demand;
use super::config::{ClientCredentials, Grant};
use super::credentials::{CurrentCredentials, INSUFFICIENT_SCOPE, TokenWork, is_stale};
use super::discovery::{Choice, Discovered, discover};
use super::dpop::{Binding, ProofKey, Prover, Schemes, binding};
use super::error::AuthError;
use super::metadata::AuthServer;
use super::now;
use super::register::{self, RegistrationOrigin, identity};
use super::scope::{Scopes, select_scopes};
use super::store::{Registration, RegistrationKind, TokenEntry, TokenKind, Tokens};
use super::token::{self, Form, Identity};

impl CurrentCredentials {
    /// Obtains or replaces tokens, as `work` requires. Only one piece of work runs at a time.
    pub(super) async fn do_work(&self, work: TokenWork) -> Result<(), AuthError> {
        let server = self.config.server()?;
        if !self.is_loaded() {
            let stored = self.config.store.latest(&address::canonical(&server)).await?;
            self.note_stored(stored.as_ref());
            self.set_loaded(stored.and_then(|stored| self.usable(stored)));
        }
        match work {
            TokenWork::Prepare => self.prepare(&server).await,
            TokenWork::Renew(demand) => self.renew(&server, demand).await,
            TokenWork::StepUp(demand) => self.step_up(&server, demand).await,
        }
    }

    /// Renews a token that expires soon, so that the server does not refuse it.
    async fn prepare(&self, server: &Url) -> Result<(), AuthError> {
        let Some(mut entry) = self.entry() else { return Ok(()) };
        let Some(tokens) = entry.tokens.clone().filter(is_stale) else { return Ok(()) };
        let found = match self.discover(server, entry.metadata.as_deref(), Some(&entry)).await {
            Ok(found) => found,
            Err(error) if !error.is_temporary() && has_expired(&tokens) => {
                // The server's metadata may have moved, so this is not an error yet: the next refusal by the server
                // names the new address.
                debug!(%error, "expired token not renewed");
                return Ok(());
            }
            Err(error) => return unless_valid(&tokens, error),
        };
        if found.server.issuer != entry.issuer {
            // The server now uses another issuer, and credentials of one issuer are never sent to another issuer. So
            // drop the tokens; a login follows when the server next refuses a request.
            entry.tokens = None;
            self.take(entry);
            return Ok(());
        }
        let renewed = self.renew_ahead(server, &found, entry).await;
        renewed.or_else(|error| unless_valid(&tokens, error))
    }

    async fn renew_ahead(
        &self,
        server: &Url,
        found: &Discovered,
        before: TokenEntry,
    ) -> Result<(), AuthError> {
        let demand = Demand::default();
        let lock = self.lock_renewal(server, found).await?;
        let mut entry = self.load_entry(server, found, Some(before)).await?;
        let scopes = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        if self.refresh(found, &mut entry, &demand).await? {
            return Ok(());
        }
        if !self.config.is_machine() {
            self.save_without_tokens(entry).await;
            return Ok(());
        }
        drop(lock);
        match self.fetch(found, entry, &scopes, &demand).await {
            // This is not an error yet: new tokens are requested when the server next refuses a request.
            Err(AuthError::TokenNotBound { .. }) => Ok(()),
            done => done,
        }
    }

    /// Replaces tokens that the server refused.
    async fn renew(&self, server: &Url, mut demand: Demand) -> Result<(), AuthError> {
        let before = self.entry();
        let mut again = 0;
        if let Some(tokens) = before.as_ref().and_then(|entry| entry.tokens.as_ref()) {
            again = self.with_limits(|limits| limits.refused(tokens, now()))?;
            // `again` counts the refusals of new tokens in a row. If it is 0, the token was at least a minute old when
            // it was refused. So the server has presumably accepted the token before, and supports bound tokens even if
            // its challenge names only `Bearer`.
            if tokens.kind == TokenKind::Dpop && again == 0 {
                forget_bearers(&mut demand);
            }
        }
        let found = self.discover(server, demand.metadata.as_deref(), before.as_ref()).await?;
        let lock = self.lock_renewal(server, &found).await?;
        let mut entry = self.load_entry(server, &found, before).await?;
        let granted = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        // Without a browser no login can add scopes, but the refreshed token may be enough for other requests.
        let enough = matches!(self.config.grant, Grant::Person(None))
            || demand.scope.as_ref().is_none_or(|scopes| granted.contains_all(scopes));
        // The last allowed attempt requests new tokens instead of refreshing these tokens, because the server might
        // refuse refreshed tokens for the same reason.
        if enough && again < self.config.limit && self.refresh(&found, &mut entry, &demand).await? {
            return Ok(());
        }
        // Release the lock while a person logs in.
        drop(lock);
        let scopes = self.scopes(&found, demand.scope.as_ref(), &granted);
        self.fetch(&found, entry, &scopes, &demand).await
    }

    /// Requests tokens with more scopes than have been granted.
    async fn step_up(&self, server: &Url, mut demand: Demand) -> Result<(), AuthError> {
        let before = self.entry();
        let hint = demand.metadata.clone().or_else(|| before.as_ref()?.metadata.clone());
        let wanted = match &demand.scope {
            Some(scopes) => scopes.clone(),
            None => self.listed_scopes(server, hint.as_deref(), before.as_ref()).await?,
        };
        // Only a login grants more scopes, and this client has no browser for a login. So fail with the missing scopes.
        if matches!(self.config.grant, Grant::Person(None)) {
            return Err(AuthError::MissingScopes { scopes: wanted });
        }
        self.with_limits(|limits| limits.step_up(&wanted, now()))?;
        if kind(before.as_ref()) == Some(TokenKind::Dpop) {
            // The server accepted the bound token and refused only its scopes, so it supports bound tokens.
            forget_bearers(&mut demand);
        }
        let found = self.discover(server, hint.as_deref(), before.as_ref()).await?;
        let entry = self.load_entry(server, &found, before).await?;
        let granted = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        let scopes = self.scopes(&found, Some(&wanted), &granted);
        self.fetch(&found, entry, &scopes, &demand).await
    }

    /// Returns the scopes that the metadata of the server lists; fails if none of them is new, because another login
    /// would then have the same result.
    async fn listed_scopes(
        &self,
        server: &Url,
        metadata: Option<&str>,
        before: Option<&TokenEntry>,
    ) -> Result<Scopes, AuthError> {
        let listed = self.discover(server, metadata, before).await?.scopes.unwrap_or_default();
        let tokens = before.and_then(|entry| entry.tokens.as_ref());
        if tokens.map_or(listed.is_empty(), |tokens| tokens.scopes.contains_all(&listed)) {
            return Err(AuthError::Forbidden { error: INSUFFICIENT_SCOPE.to_owned() });
        }
        Ok(listed)
    }

    // === Discovery ===

    async fn discover(
        &self,
        server: &Url,
        metadata: Option<&str>,
        before: Option<&TokenEntry>,
    ) -> Result<Discovered, AuthError> {
        let preferred = before.map(|entry| entry.issuer.as_str());
        // Credentials that the user configured belong to the issuer at which they were first used, so only this issuer
        // may be chosen.
        let bound = before.filter(|entry| {
            self.config.bound_id().is_some() && self.is_from_our_credentials(entry)
        });
        let bound = bound.filter(|entry| entry.registration.is_some());
        let only = self.config.issuer.as_deref().or(bound.map(|entry| entry.issuer.as_str()));
        let found =
            discover(&self.config.fetcher, server, metadata, Choice { only, preferred }).await?;
        debug!(server = address::canonical(server), issuer = %found.server.issuer, "authorization server found");
        Ok(found)
    }

    fn scopes(&self, found: &Discovered, wanted: Option<&Scopes>, granted: &Scopes) -> Scopes {
        let offered = found.server.scopes().filter(|_| !self.config.is_machine());
        let before = self.config.scopes.union(granted);
        select_scopes(wanted, found.scopes.as_ref(), &before, offered.as_ref())
    }

    // === Tokens ===

    /// Replaces the tokens of `entry` by tokens that another process has stored, or else by using the refresh token.
    /// Returns `false` if neither is possible, so that new tokens must be requested.
    async fn refresh(
        &self,
        found: &Discovered,
        entry: &mut TokenEntry,
        demand: &Demand,
    ) -> Result<bool, AuthError> {
        let in_use = self.entry().and_then(|entry| entry.tokens).map(|tokens| tokens.access);
        if let Some(tokens) = &entry.tokens
            && in_use.is_none_or(|access| access != tokens.access)
            && !is_stale(tokens)
        {
            // Another process has stored newer tokens, so use them.
            self.take(entry.clone());
            return Ok(true);
        }
        let Some(tokens) = entry.tokens.clone() else { return Ok(false) };
        let (Some(refresh), Some(registration)) =
            (tokens.refresh.clone(), entry.registration.clone())
        else {
            return Ok(false);
        };
        let binding = match (self.binding(found, demand, Some(entry))?, tokens.kind) {
            // The next token must not be bound to a key, but a refresh would return another bound token. So request new
            // tokens instead.
            (Binding::None, TokenKind::Dpop) => return Ok(false),
            // A token that is bound to a key stays bound, so its refresh request needs proofs.
            (_, TokenKind::Dpop) => Binding::Must,
            (binding, TokenKind::Bearer) => binding,
        };
        let key = key(entry, binding)?;
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
            ("resource", &found.resource),
        ];
        let who = self.identity(&found.server, &registration);
        let asked = self.ask(found, &who, form, &tokens.scopes, (binding, key.as_ref()));
        match asked.await {
            Ok(mut renewed) => {
                // If the response contains no new refresh token, the old refresh token stays valid.
                renewed.refresh = renewed.refresh.or_else(|| Some(refresh.clone()));
                entry.tokens = Some(renewed);
                self.save_renewed(entry.clone()).await?;
                Ok(true)
            }
            Err(error) if token::is_final(&error) => {
                if self.adopt_stored(&tokens, entry).await {
                    debug!(%error, "refresh token refused; another process has renewed the tokens");
                    return Ok(true);
                }
                warn!(%error, "refresh token refused");
                entry.tokens = None;
                if token::is_unknown_client(&error) {
                    entry.registration = None;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Requests new tokens and stores them.
    async fn fetch(
        &self,
        found: &Discovered,
        mut entry: TokenEntry,
        scopes: &Scopes,
        demand: &Demand,
    ) -> Result<(), AuthError> {
        let binding = self.binding(found, demand, Some(&entry))?;
        let key = key(&mut entry, binding)?;
        let tokens = self.obtain(found, &mut entry, scopes, (binding, key.as_ref())).await;
        if let Err(AuthError::TokenNotBound { .. }) = &tokens {
            // The authorization server no longer binds tokens. Remove the earlier bound tokens, because with them the
            // next request would require a binding again.
            entry.tokens = None;
            self.save_without_tokens(entry).await;
            return tokens.map(drop);
        }
        entry.tokens = Some(tokens?);
        self.save(entry).await;
        Ok(())
    }

    /// Requests tokens with the configured grant.
    async fn obtain(
        &self,
        found: &Discovered,
        entry: &mut TokenEntry,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        match &self.config.grant {
            Grant::Person(Some(browser)) => {
                self.login(found, entry, browser.as_ref(), scopes, bound).await
            }
            Grant::Person(None) if self.entry().is_some_and(|entry| entry.tokens.is_some()) => {
                Err(AuthError::Expired)
            }
            Grant::Person(None) => Err(AuthError::NoBrowser),
            Grant::Client(credentials) => {
                entry.registration = Some(preregistered(credentials, found));
                let form = vec![("grant_type", "client_credentials")];
                self.ask_for_itself(found, credentials, form, scopes, bound).await
            }
            Grant::Assertion(credentials, assertions) => {
                entry.registration = Some(preregistered(credentials, found));
                let (issuer, resource) = (&found.server.issuer, &found.resource);
                let asking = assertions.assertion(issuer, resource, scopes);
                let assertion = timeout(self.config.login_timeout, asking).await;
                let assertion = assertion.map_err(|_| AuthError::Stopped)??;
                let form =
                    vec![("grant_type", assertion::GRANT), ("assertion", assertion.expose())];
                self.ask_for_itself(found, credentials, form, scopes, bound).await
            }
        }
    }

    /// Lets a person log in. Repeats the login once if the authorization server no longer knows the stored client
    /// registration, or refuses scopes that may only be missing in that registration.
    async fn login(
        &self,
        found: &Discovered,
        entry: &mut TokenEntry,
        browser: &dyn Browser,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        // A refresh token works only with the registration for which it was issued, so keep that registration until new
        // tokens replace the refresh token.
        let is_needed = entry.tokens.as_ref().is_some_and(|tokens| tokens.refresh.is_some());
        let mut needed = None;
        loop {
            let (tokens, age) = self.login_once(found, entry, browser, scopes, bound).await;
            let error = match tokens {
                Ok(tokens) => return Ok(tokens),
                Err(error) => error,
            };
            if needed.is_some() {
                // The login with more scopes failed, but the tokens of the earlier login are still valid. Restore the
                // registration that belongs to them.
                entry.registration = needed;
                self.save_without_tokens(entry.clone()).await;
                return Err(error);
            }
            let is_unknown = token::is_unknown_client(&error);
            let is_repeated =
                age == RegistrationOrigin::Old && (is_unknown || token::is_scope_refused(&error));
            if is_repeated && !is_unknown && is_needed {
                needed = entry.registration.take();
            } else if is_unknown || is_repeated || blames_registration(&error) && !is_needed {
                // Remove the registration, so that the next login registers the client again.
                entry.registration = None;
                self.save_without_tokens(entry.clone()).await;
            }
            if !is_repeated {
                return Err(error);
            }
        }
    }

    /// Runs one login. Also returns the origin of the registration that the login used.
    async fn login_once(
        &self,
        found: &Discovered,
        entry: &mut TokenEntry,
        browser: &dyn Browser,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> (Result<Tokens, AuthError>, RegistrationOrigin) {
        let mut age = RegistrationOrigin::New;
        let tokens = async {
            let known = entry.registration.as_ref();
            let registered = known.and_then(|known| known.redirect_uri.as_deref());
            let late = |_| timed_out(self.config.login_timeout);
            let asking = timeout(self.config.login_timeout, browser.redirect_uri(registered));
            let redirect_uri = asking.await.map_err(late)??;
            let device = found.server.device_authorization_endpoint.as_deref();
            let device = device.filter(|_| browser.is_elsewhere());
            // `Request::new` checks what a login by redirect requires, so it is called before anything is sent.
            let request = Request::new(&found.server, redirect_uri.clone());
            let request = match (request, device) {
                (Err(error), None) => return Err(error),
                (request, _) => request,
            };
            let (config, redirect_uri) = (&self.config, &redirect_uri);
            let (fetcher, server) = (&config.fetcher, &found.server);
            let registering =
                register::registration(fetcher, config, server, redirect_uri, scopes, known);
            let registration;
            (registration, age) = registering.await?;
            let who = identity(&registration);
            entry.registration = Some(without_given_secret(registration));
            if age == RegistrationOrigin::New {
                self.save_without_tokens(entry.clone()).await;
            }
            if let Some(endpoint) = device {
                let at = (found, endpoint);
                let done = self.log_in_elsewhere(at, &who, browser, scopes, bound).await;
                if request.is_err() || !done.as_ref().is_err_and(token::is_grant_refused) {
                    return done;
                }
            }
            let request = request?;
            let url = request.url(&found.server, &who.id, &found.resource, scopes, bound.1)?;
            let back = timeout(config.login_timeout, browser.authorize(&url)).await;
            let code = request.code(&back.map_err(late)??)?;
            let form = vec![
                ("grant_type", "authorization_code"),
                ("code", code.expose()),
                ("redirect_uri", redirect_uri),
                ("code_verifier", request.pkce.verifier.expose()),
                ("resource", &found.resource),
            ];
            self.ask(found, &who, form, scopes, bound).await
        };
        let tokens = tokens.await;
        (tokens, age)
    }

    async fn ask_for_itself(
        &self,
        found: &Discovered,
        credentials: &ClientCredentials,
        mut form: Form<'_>,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        let text = scopes.to_string();
        form.push(("resource", &found.resource));
        if !scopes.is_empty() {
            form.push(("scope", &text));
        }
        let who = credentials.identity(&found.server);
        let mut tokens = self.ask(found, &who, form, scopes, bound).await?;
        // OAuth 2.1 §4.2.3: refresh tokens are not used here, because the credentials can be used again instead.
        tokens.refresh = None;
        Ok(tokens)
    }

    pub(super) async fn ask(
        &self,
        found: &Discovered,
        identity: &Identity,
        form: Form<'_>,
        scopes: &Scopes,
        (binding, key): Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        let bound = (binding, key.map(|key| Prover { key, nonces: &self.nonces }));
        token::request(&self.config.fetcher, &found.server, identity, form, scopes, bound).await
    }

    /// Decides whether tokens are requested with a binding to a key.
    fn binding(
        &self,
        found: &Discovered,
        demand: &Demand,
        before: Option<&TokenEntry>,
    ) -> Result<Binding, AuthError> {
        let settled = binding(self.config.dpop, found, demand, kind(before))?;
        debug!(?settled, issuer = %found.server.issuer, "token binding decided");
        Ok(settled)
    }

    /// Returns the client's identity. A secret that the user configured is taken from the configuration; it is
    /// never stored.
    pub(super) fn identity(&self, found: &AuthServer, registration: &Registration) -> Identity {
        match &self.config.preregistered {
            Some(known) if registration.kind == RegistrationKind::Preregistered => {
                let mut registration = registration.clone();
                registration.client_secret.clone_from(&known.secret);
                let method = register::method(found, known.secret.as_ref());
                method.clone_into(&mut registration.method);
                identity(&registration)
            }
            _ => identity(registration),
        }
    }
}

/// The kind of binding for requested tokens, and the key to which they are bound, if any.
pub(super) type Bound<'a> = (Binding, Option<&'a ProofKey>);

/// Returns the key of an entry; creates the key if it is missing. Returns `None` if no binding is requested.
fn key(entry: &mut TokenEntry, binding: Binding) -> Result<Option<ProofKey>, AuthError> {
    if binding == Binding::None {
        return Ok(None);
    }
    if entry.key.is_none() {
        entry.key = Some(ProofKey::new()?);
    }
    Ok(entry.key.clone())
}

fn kind(entry: Option<&TokenEntry>) -> Option<TokenKind> {
    entry.and_then(|entry| entry.tokens.as_ref()).map(|tokens| tokens.kind)
}

fn forget_bearers(demand: &mut Demand) {
    if demand.schemes == Schemes::Bearer {
        demand.schemes = Schemes::Unstated;
    }
}

/// Logs the error of a renewal and returns `Ok` if the current token is still valid; otherwise returns the error.
fn unless_valid(tokens: &Tokens, error: AuthError) -> Result<(), AuthError> {
    if !has_expired(tokens) {
        warn!(%error, "renewing a token failed; it expires soon");
        return Ok(());
    }
    Err(error)
}

fn has_expired(tokens: &Tokens) -> bool {
    tokens.expires_at.is_some_and(|at| at <= now())
}

/// Returns whether the registration might be the cause of a failed login. If a registration is no longer valid, many
/// authorization servers show a page instead of redirecting.
fn blames_registration(error: &AuthError) -> bool {
    match error {
        AuthError::Denied { error, .. } => error != "access_denied",
        AuthError::Browser(_) => true,
        error => token::is_unknown_client(error),
    }
}

/// Returns the error for a login that took longer than the limit.
pub(super) fn timed_out(limit: Duration) -> AuthError {
    AuthError::browser(format!("the login timed out after {}", mgp_types::duration_words(limit)))
}

/// Removes a secret that the user configured, so that only the id of these credentials is stored.
fn without_given_secret(mut registration: Registration) -> Registration {
    if registration.kind == RegistrationKind::Preregistered {
        registration.client_secret = None;
    }
    registration
}

fn preregistered(credentials: &ClientCredentials, found: &Discovered) -> Registration {
    let who = credentials.identity(&found.server);
    Registration {
        client_id: who.id,
        client_secret: None,
        expires_at: None,
        method: who.proof.method().to_owned(),
        redirect_uri: None,
        kind: RegistrationKind::Preregistered,
    }
}
