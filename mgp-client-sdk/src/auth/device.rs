//! Logins on another device (RFC 8628): the person enters a code there, and this program polls for the tokens.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{sleep, timeout};
use url::Url;

use super::acquire::{Bound, timed_out};
use super::address::{self, clip_text};
use super::browser::{Browser, DeviceCode};
use super::credentials::CurrentCredentials;
use super::discovery::{Discovered, check_not_local};
use super::error::AuthError;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::Tokens;
use super::token::{self, DEVICE_GRANT, Form, Identity, Seconds};

/// The time between two polls if the server sends no interval. The interval also grows by this time if the server asks
/// to slow down.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
const MAX_POLL_INTERVAL: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
struct Started {
    device_code: Secret,
    user_code: String,
    #[serde(default)]
    verification_uri: Option<String>,
    /// The former name of `verification_uri`, which e.g. Google still sends.
    #[serde(default)]
    verification_url: Option<String>,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    #[serde(default)]
    interval: Option<Seconds>,
    #[serde(default)]
    expires_in: Option<Seconds>,
}

impl CurrentCredentials {
    /// Shows a code to the person, and waits until they have entered it on another device, or the login has expired.
    pub(super) async fn log_in_elsewhere(
        &self,
        (found, endpoint): (&Discovered, &str),
        who: &Identity,
        browser: &dyn Browser,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        let started = self.start(found, endpoint, who, scopes).await?;
        let page = started.verification_uri.as_ref().or(started.verification_url.as_ref());
        let page = self.page(found, page.ok_or_else(|| not_started(endpoint))?)?;
        let complete = started.verification_uri_complete.as_deref();
        let complete = complete.and_then(|url| self.page(found, url).ok());
        let user_code = clip_text(&started.user_code);
        // Show the addresses as parsed, and not as the server sent them: they could contain control characters, which a
        // terminal would obey.
        let complete = complete.as_ref().map(Url::as_str);
        let code = DeviceCode { page: page.as_str(), user_code: &user_code, complete };
        browser.show_device_code(&code);
        let polled = self.poll(found, &started, who, scopes, bound);
        let limit = self.config.login_timeout;
        let lifetime = started.expires_in.map_or(limit, |Seconds(sent)| Duration::from_secs(sent));
        let ended = |_| if lifetime < limit { code_expired() } else { timed_out(limit) };
        timeout(limit.min(lifetime), polled).await.map_err(ended)?
    }

    /// Parses the address of a page that is shown to the person.
    fn page(&self, found: &Discovered, url: &str) -> Result<Url, AuthError> {
        const WHAT: &str = "the page of the login";
        let page = address::parse_secure(WHAT, url)?;
        check_not_local(WHAT, url, &found.server.issuer, &self.config.server()?)?;
        Ok(page)
    }

    async fn start(
        &self,
        found: &Discovered,
        endpoint: &str,
        who: &Identity,
        scopes: &Scopes,
    ) -> Result<Started, AuthError> {
        address::parse_secure("the device endpoint", endpoint)?;
        let text = scopes.to_string();
        let mut form: Form<'_> = vec![("resource", &found.resource)];
        if !scopes.is_empty() {
            form.push(("scope", &text));
        }
        let answer = token::send(&self.config.fetcher, &found.server, endpoint, who, form).await?;
        if answer.status != 200 {
            return Err(token::refusal(endpoint, &answer));
        }
        // Drop serde's error, because it quotes the text, which is secret.
        serde_json::from_slice(&answer.body).map_err(|_| {
            let refusal = token::refusal_with_success(endpoint, &answer);
            refusal.unwrap_or_else(|| not_started(endpoint))
        })
    }

    async fn poll(
        &self,
        found: &Discovered,
        started: &Started,
        who: &Identity,
        scopes: &Scopes,
        bound: Bound<'_>,
    ) -> Result<Tokens, AuthError> {
        let interval =
            started.interval.map_or(POLL_INTERVAL, |Seconds(sent)| Duration::from_secs(sent));
        let mut interval = interval.clamp(Duration::from_millis(100), MAX_POLL_INTERVAL);
        loop {
            sleep(interval).await;
            let form = vec![
                ("grant_type", DEVICE_GRANT),
                ("device_code", started.device_code.expose()),
                ("resource", &found.resource),
            ];
            match self.ask(found, who, form, scopes, bound).await {
                Err(AuthError::Token { error, .. }) if error == "authorization_pending" => {}
                Err(AuthError::Token { error, .. }) if error == "slow_down" => {
                    interval = (interval + POLL_INTERVAL).min(MAX_POLL_INTERVAL);
                }
                Err(AuthError::Token { error, description, .. }) if error == "access_denied" => {
                    return Err(AuthError::Denied { error, description });
                }
                Err(AuthError::Token { error, .. }) if error == "expired_token" => {
                    return Err(code_expired());
                }
                // The person may have entered the code already, so the login continues, with longer waits.
                Err(error) if error.is_temporary() => {
                    interval = (interval * 2).min(MAX_POLL_INTERVAL);
                }
                done => return done,
            }
        }
    }
}

fn not_started(endpoint: &str) -> AuthError {
    AuthError::Document {
        what: "the answer of the device endpoint",
        url: address::display_url(endpoint),
        why: "it is not the start of a login".to_owned(),
    }
}

fn code_expired() -> AuthError {
    AuthError::browser("the code has expired; log in again")
}
