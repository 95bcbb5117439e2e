//! The claims of a verified token: subject, issuer, audience, times and scopes (RFC 7519 §4, RFC 9068 §2.2).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::members::{Members, WrongType};
use crate::auth::refused::AuthRefused;

/// The last second of the year 9999; later times are errors.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// The claims of a token with a valid signature.
#[derive(Debug)]
pub(super) struct Claims(Members);

const UNREADABLE: AuthRefused = AuthRefused::Invalid("the claims of the token cannot be read");

const NO_NAME: AuthRefused = AuthRefused::Invalid(
    "the issuer, subject, agent or tenant in the token is not a text, is empty or has control characters",
);

impl From<WrongType> for AuthRefused {
    fn from(_: WrongType) -> Self {
        UNREADABLE
    }
}

impl Claims {
    pub(super) fn parse(payload: &str) -> Result<Self, AuthRefused> {
        Members::of_part(payload).map(Self).ok_or(UNREADABLE)
    }

    /// Returns a string claim, or `None` if it is missing; a string that is empty or has control characters is an
    /// error.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, AuthRefused> {
        let text = self.0.get::<String>(name).map_err(|_| NO_NAME)?;
        if text.as_ref().is_some_and(|text| text.is_empty() || text.contains(char::is_control)) {
            return Err(NO_NAME);
        }
        Ok(text)
    }

    /// Returns whether the token's audience contains one of these resources, compared exactly (RFC 8707 §2).
    pub(super) fn is_for(&self, resources: &[String]) -> Result<bool, AuthRefused> {
        let audience = self.list("aud")?.unwrap_or_default();
        Ok(audience.iter().any(|name| resources.contains(name)))
    }

    /// Returns whether the token is bound to a key (RFC 7800). Such a token is not a bearer token: its sender must
    /// prove that it has the key.
    pub(super) fn is_bound(&self) -> bool {
        self.0.is_set("cnf")
    }

    /// Checks the time claims, allowing for a leeway, and returns the expiry.
    pub(super) fn expires(
        &self,
        now: SystemTime,
        leeway: Duration,
    ) -> Result<SystemTime, AuthRefused> {
        let expires = self.time("exp")?;
        let expires = expires.ok_or(AuthRefused::Invalid("the token has no expiry (`exp`)"))?;
        for name in ["nbf", "iat"] {
            if self.time(name)?.is_some_and(|begins| begins > now + leeway) {
                return Err(AuthRefused::Invalid("the token is not valid yet"));
            }
        }
        if expires + leeway <= now { Err(AuthRefused::Expired) } else { Ok(expires) }
    }

    /// Returns the scopes from the claim `scope` (RFC 9068), or from `scp`, which some issuers use instead.
    pub(super) fn scopes(&self) -> Result<Vec<String>, AuthRefused> {
        let name = if self.0.is_set("scope") { "scope" } else { "scp" };
        let listed = self.list(name)?.unwrap_or_default();
        Ok(listed
            .iter()
            .flat_map(|text| text.split(' '))
            .filter(|scope| !scope.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Returns a claim that is a string or a list of strings.
    fn list(&self, name: &str) -> Result<Option<Vec<String>>, AuthRefused> {
        if let Ok(one) = self.0.get::<String>(name) {
            return Ok(one.map(|one| vec![one]));
        }
        Ok(self.0.get::<Vec<String>>(name)?)
    }

    /// Returns a claim that is a time in seconds since 1970, with or without a fraction.
    fn time(&self, name: &str) -> Result<Option<SystemTime>, AuthRefused> {
        let Some(seconds) = self.0.get::<f64>(name)? else { return Ok(None) };
        if !(0.0..=LAST_SECOND).contains(&seconds) {
            return Err(UNREADABLE);
        }
        Ok(Some(UNIX_EPOCH + Duration::from_secs_f64(seconds)))
    }
}
