//! The way to a token: discovery, refreshing, registration, login, and what is kept of each (MCP authorization).
//!
//! Applies to: outbound.

use tokio::time::timeout;
use tracing::{debug, warn};
use url::Url;

use super::address;
use super::assertion;
use super::authorize::Request;
use super::browser::AnyBrowser;
use super::challenge::Demand;
use super::clock::now;
use super::discovery::{Choice, Discovered, discover};
use super::dpop::{Binding, ProofKey, Prover, Schemes, binding};
use super::error::AuthError;
use super::plan::{ClientCredentials, Grant};
use super::register::{self, Age, identity};
use super::scope::{Scopes, select};
use super::session::{Session, Work, is_stale};
use super::store::{Registration, RegistrationKind, Stored, TokenKind, Tokens};
use super::token::{self, Form, Identity};

impl Session {
    /// Does what is to be done; only ever one at a time.
    pub(super) async fn work(&self, work: Work) -> Result<(), AuthError> {
        let server = self.plan.server()?;
        if !self.is_loaded() {
            let kept = self.plan.store.latest(&address::canonical(&server)).await?;
            self.saw(kept.as_ref());
            self.loaded(kept.and_then(|kept| self.ours(kept)));
        }
        match work {
            Work::Prepare => self.prepare(&server).await,
            Work::Renew(demand) => self.renew(&server, demand).await,
            Work::StepUp(demand) => self.step_up(&server, demand).await,
        }
    }

    /// Renews a token that ends soon, before the server refuses it.
    async fn prepare(&self, server: &Url) -> Result<(), AuthError> {
        let Some(mut entry) = self.entry() else { return Ok(()) };
        let Some(tokens) = entry.tokens.clone().filter(is_stale) else { return Ok(()) };
        let found = match self.discover(server, entry.metadata.as_deref(), Some(&entry)).await {
            Ok(found) => found,
            Err(error) => return unless_valid(&tokens, error),
        };
        if found.server.issuer != entry.issuer {
            // What one issuer gave is not shown to another: the server says anew what it wants.
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
        before: Stored,
    ) -> Result<(), AuthError> {
        let demand = Demand::default();
        let turn = self.turn(server, found).await?;
        let mut entry = self.entry_of(server, found, Some(before)).await?;
        let scopes = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        if self.refresh(found, &mut entry, &demand).await? {
            return Ok(());
        }
        if !self.plan.is_machine() {
            self.keep_poorer(entry).await;
            return Ok(());
        }
        drop(turn);
        match self.fetch(found, entry, &scopes, &demand).await {
            // The server says anew what it wants.
            Err(AuthError::NotBound { .. }) => Ok(()),
            done => done,
        }
    }

    /// Gets other tokens than those that were refused.
    async fn renew(&self, server: &Url, mut demand: Demand) -> Result<(), AuthError> {
        let before = self.entry();
        let mut again = 0;
        if let Some(tokens) = before.as_ref().and_then(|entry| entry.tokens.as_ref()) {
            again = self.with_limits(|limits| limits.refused(tokens, now()))?;
            // A bound token that did its work was refused: the server takes them, whatever its challenge forgets to say.
            if tokens.kind == TokenKind::Dpop && again == 0 {
                forget_bearers(&mut demand);
            }
        }
        let found = self.discover(server, demand.metadata.as_deref(), before.as_ref()).await?;
        let turn = self.turn(server, &found).await?;
        let mut entry = self.entry_of(server, &found, before).await?;
        let granted = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        let enough = demand.scope.as_ref().is_none_or(|scopes| granted.contains_all(scopes));
        // The last try is a login: a refreshed token may be refused for what only a login changes.
        if enough && again < self.plan.limit && self.refresh(&found, &mut entry, &demand).await? {
            return Ok(());
        }
        // A person takes their time.
        drop(turn);
        let scopes = self.scopes(&found, demand.scope.as_ref(), &granted);
        self.fetch(&found, entry, &scopes, &demand).await
    }

    /// Gets tokens for more scopes than were granted.
    async fn step_up(&self, server: &Url, mut demand: Demand) -> Result<(), AuthError> {
        let wanted = demand.scope.clone().unwrap_or_default();
        self.with_limits(|limits| limits.step_up(&wanted, now()))?;
        let before = self.entry();
        if kind(before.as_ref()) == Some(TokenKind::Dpop) {
            // The token was understood, and was not enough.
            forget_bearers(&mut demand);
        }
        let hint = demand.metadata.clone().or_else(|| before.as_ref()?.metadata.clone());
        let found = self.discover(server, hint.as_deref(), before.as_ref()).await?;
        let entry = self.entry_of(server, &found, before).await?;
        let granted = entry.tokens.as_ref().map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        let scopes = self.scopes(&found, Some(&wanted), &granted);
        self.fetch(&found, entry, &scopes, &demand).await
    }

    // === what is known ===

    async fn discover(
        &self,
        server: &Url,
        metadata: Option<&str>,
        before: Option<&Stored>,
    ) -> Result<Discovered, AuthError> {
        let rather = before.map(|entry| entry.issuer.as_str());
        // Credentials that the user got somewhere belong there from their first use on.
        let bound = before.filter(|entry| self.plan.bound_id().is_some() && self.is_ours(entry));
        let bound = bound.filter(|entry| entry.registration.is_some());
        let only = self.plan.issuer.as_deref().or(bound.map(|entry| entry.issuer.as_str()));
        let found = discover(&self.plan.fetcher, server, metadata, Choice { only, rather }).await?;
        debug!(server = address::canonical(server), issuer = %found.server.issuer, "authorization server found");
        Ok(found)
    }

    fn scopes(&self, found: &Discovered, wanted: Option<&Scopes>, granted: &Scopes) -> Scopes {
        let offered = found.server.scopes().filter(|_| !self.plan.is_machine());
        let before = self.plan.scopes.union(granted);
        select(wanted, found.scopes.as_ref(), &before, offered.as_ref())
    }

    // === getting tokens ===

    /// Shows the refresh token, if there is one; `false` where a new login is needed.
    async fn refresh(
        &self,
        found: &Discovered,
        entry: &mut Stored,
        demand: &Demand,
    ) -> Result<bool, AuthError> {
        let shown = self.entry().and_then(|entry| entry.tokens).map(|tokens| tokens.access);
        if let Some(tokens) = &entry.tokens
            && shown.is_some_and(|shown| shown != tokens.access)
            && !is_stale(tokens)
        {
            // Another process renewed it.
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
            // The server does not take what would come of it.
            (Binding::None, TokenKind::Dpop) => return Ok(false),
            // What is bound stays bound, and its refresh token is shown with proofs.
            (_, TokenKind::Dpop) => Binding::Must,
            (binding, TokenKind::Bearer) => binding,
        };
        let key = key(entry, binding)?;
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
            ("resource", &found.resource),
        ];
        let who = self.identity(found, &registration);
        let asked = self.ask(found, &who, form, &tokens.scopes, (binding, key.as_ref()));
        match asked.await {
            Ok(mut renewed) => {
                // Where it is not rotated, it stays.
                renewed.refresh = renewed.refresh.or_else(|| Some(refresh.clone()));
                entry.tokens = Some(renewed);
                self.keep(entry.clone()).await;
                Ok(true)
            }
            Err(error) if token::is_final(&error) => {
                debug!(%error, "the refresh token is no longer good");
                if self.take_instead(&tokens, entry).await {
                    return Ok(true);
                }
                entry.tokens = None;
                if token::is_unknown_client(&error) {
                    entry.registration = None;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Gets tokens anew, and keeps them.
    async fn fetch(
        &self,
        found: &Discovered,
        mut entry: Stored,
        scopes: &Scopes,
        demand: &Demand,
    ) -> Result<(), AuthError> {
        let binding = self.binding(found, demand, Some(&entry))?;
        let key = key(&mut entry, binding)?;
        let tokens = self.obtain(found, &mut entry, scopes, (binding, key.as_ref())).await;
        if let Err(AuthError::NotBound { .. }) = &tokens {
            // The authorization server no longer binds: what it once bound decides nothing any more.
            entry.tokens = None;
            self.keep_poorer(entry).await;
            return tokens.map(drop);
        }
        entry.tokens = Some(tokens?);
        self.keep(entry).await;
        Ok(())
    }

    /// Gets tokens, in whichever way was settled.
    async fn obtain(
        &self,
        found: &Discovered,
        entry: &mut Stored,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        match &self.plan.grant {
            Grant::Person(Some(browser)) => {
                self.login(found, entry, browser.as_ref(), scopes, bound).await
            }
            Grant::Person(None) if self.entry().is_some_and(|entry| entry.tokens.is_some()) => {
                Err(AuthError::Expired)
            }
            Grant::Person(None) => Err(AuthError::NoBrowser),
            Grant::Client(credentials) => {
                entry.registration = Some(given(credentials, found));
                let form = vec![("grant_type", "client_credentials")];
                self.ask_for_itself(found, credentials, form, scopes, bound).await
            }
            Grant::Assertion(credentials, assertions) => {
                entry.registration = Some(given(credentials, found));
                let (issuer, resource) = (&found.server.issuer, &found.resource);
                let asking = assertions.assertion(issuer, resource, scopes);
                let assertion = timeout(self.plan.patience, asking).await;
                let assertion = assertion.map_err(|_| AuthError::Stopped)??;
                let form =
                    vec![("grant_type", assertion::GRANT), ("assertion", assertion.expose())];
                self.ask_for_itself(found, credentials, form, scopes, bound).await
            }
        }
    }

    /// Has a person log in.
    async fn login(
        &self,
        found: &Discovered,
        entry: &mut Stored,
        browser: &dyn AnyBrowser,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        loop {
            let (tokens, age) = self.login_once(found, entry, browser, scopes, bound).await;
            match tokens {
                Ok(tokens) => return Ok(tokens),
                Err(error) => {
                    if blames_registration(&error) {
                        // The next login makes another.
                        entry.registration = None;
                        self.keep_poorer(entry.clone()).await;
                    }
                    if age == Age::New || !token::is_unknown_client(&error) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// One login, and whether its registration is from before.
    async fn login_once(
        &self,
        found: &Discovered,
        entry: &mut Stored,
        browser: &dyn AnyBrowser,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> (Result<Tokens, AuthError>, Age) {
        let mut age = Age::New;
        let tokens = async {
            let known = entry.registration.as_ref();
            let registered = known.and_then(|known| known.redirect_uri.as_deref());
            let late = |_| AuthError::browser("it took too long");
            let asking = timeout(self.plan.patience, browser.redirect_uri(registered));
            let redirect_uri = asking.await.map_err(late)??;
            // Before anything is sent: without PKCE there is no login.
            let request = Request::new(&found.server, redirect_uri)?;
            let (plan, redirect_uri) = (&self.plan, &request.redirect_uri);
            let registering =
                register::registration(&plan.fetcher, plan, &found.server, redirect_uri, known);
            let registration;
            (registration, age) = registering.await?;
            let who = identity(&registration);
            entry.registration = Some(without_given_secret(registration));
            if age == Age::New {
                self.keep_poorer(entry.clone()).await;
            }
            let url = request.url(&found.server, &who.id, &found.resource, scopes, bound.1)?;
            let back = timeout(plan.patience, browser.authorize(&url)).await;
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
        // OAuth 2.1 §4.2.3: there is none, and the credentials do as well.
        tokens.refresh = None;
        Ok(tokens)
    }

    async fn ask(
        &self,
        found: &Discovered,
        identity: &Identity,
        form: Form<'_>,
        scopes: &Scopes,
        (binding, key): Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        let bound = (binding, key.map(|key| Prover { key, nonces: &self.nonces }));
        token::request(&self.plan.fetcher, &found.server, identity, form, scopes, bound).await
    }

    /// Whether the tokens that are asked for are to be bound to a key.
    fn binding(
        &self,
        found: &Discovered,
        demand: &Demand,
        before: Option<&Stored>,
    ) -> Result<Binding, AuthError> {
        let settled = binding(self.plan.dpop, found, demand, kind(before))?;
        debug!(?settled, issuer = %found.server.issuer, "whether tokens are bound to a key");
        Ok(settled)
    }

    /// The client as it registered; what its user gave is not in the store, so it is taken from them.
    fn identity(&self, found: &Discovered, registration: &Registration) -> Identity {
        match &self.plan.given {
            Some(known) if registration.kind == RegistrationKind::Given => {
                let mut registration = registration.clone();
                registration.client_secret.clone_from(&known.secret);
                let method = register::method(&found.server, known.secret.as_ref());
                method.clone_into(&mut registration.method);
                identity(&registration)
            }
            _ => identity(registration),
        }
    }
}

/// How tokens are to be bound, and the key.
type Bound<'a> = (Binding, Option<&'a ProofKey>);

/// The key of an entry, made where one is needed and there is none.
fn key(entry: &mut Stored, binding: Binding) -> Result<Option<ProofKey>, AuthError> {
    if binding == Binding::None {
        return Ok(None);
    }
    if entry.key.is_none() {
        entry.key = Some(ProofKey::new()?);
    }
    Ok(entry.key.clone())
}

/// How the tokens of an entry are shown.
fn kind(entry: Option<&Stored>) -> Option<TokenKind> {
    entry.and_then(|entry| entry.tokens.as_ref()).map(|tokens| tokens.kind)
}

fn forget_bearers(demand: &mut Demand) {
    if demand.schemes == Schemes::Bearer {
        demand.schemes = Schemes::Unsaid;
    }
}

/// A token that is still valid does until a better one is got.
fn unless_valid(tokens: &Tokens, error: AuthError) -> Result<(), AuthError> {
    if tokens.expires_at.is_none_or(|at| at > now()) {
        warn!(%error, "a token that ends soon was not renewed");
        return Ok(());
    }
    Err(error)
}

/// Whether a login may have failed because the authorization server no longer takes the registration; many show a page
/// then, and do not come back.
fn blames_registration(error: &AuthError) -> bool {
    match error {
        AuthError::Denied { error, .. } => error != "access_denied",
        AuthError::Browser(_) => true,
        error => token::is_unknown_client(error),
    }
}

/// What is kept of credentials that the user has: whose they are, not what they are.
fn without_given_secret(mut registration: Registration) -> Registration {
    if registration.kind == RegistrationKind::Given {
        registration.client_secret = None;
    }
    registration
}

fn given(credentials: &ClientCredentials, found: &Discovered) -> Registration {
    let who = credentials.identity(&found.server);
    Registration {
        client_id: who.id,
        client_secret: None,
        expires_at: None,
        method: who.proof.method().to_owned(),
        redirect_uri: None,
        kind: RegistrationKind::Given,
    }
}
