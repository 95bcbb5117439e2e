//! Proposal 4 (`scopes`): scopes that tools require, checks before a call, and sessions with granted scopes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Member, ToolMembers};
use crate::mcp;
use crate::mgp::Extension;
use crate::record::{List, RawObject, record};
use crate::{RpcError, Timestamp};

record! {
    /// Parameters of `mgp/permissions/check`.
    pub struct CheckPermissionsParams {
        /// The name of the tool.
        req tool: String,
        /// The scopes that the caller claims to hold. The claim is not trusted: only the scopes of the caller's session
        /// count.
        list scopes_held: List<String>,
        /// The arguments of the intended call.
        opt parameters: Option<RawObject>,
    }

    /// Result of `mgp/permissions/check`.
    pub struct CheckPermissionsResult {
        /// `true` if the call would run immediately.
        req allowed: bool,
        /// The scopes that the caller lacks for the call.
        list missing_scopes: List<String>,
        /// The URL of a page on which the user can grant the missing scopes.
        opt elevation_url: Option<String>,
        /// The reason why the call would not run.
        opt reason: Option<String>,
        /// The code of the error with which the call would fail (an addition of this implementation).
        opt code: Option<i32>,
    }

    /// Parameters of `mgp/scopes/negotiate`.
    pub struct NegotiateScopesParams {
        /// The wanted scopes; `temp:30min` limits the session to half an hour.
        list requested_scopes: List<String>,
        /// The reason for the request, which is recorded.
        opt justification: Option<String>,
        /// The wanted duration of the session, in seconds.
        opt ttl_seconds: Option<u64>,
        /// The token of a session to extend, instead of creating a new session (an addition of this implementation).
        opt refresh_token: Option<String>,
    }

    /// Result of `mgp/scopes/negotiate`.
    pub struct NegotiateScopesResult {
        /// The granted scopes.
        req granted_scopes: Vec<String>,
        /// The scopes that were not granted.
        list denied_scopes: List<DeniedScope>,
        /// The session; absent if nothing was granted.
        opt session: Option<ScopeSession>,
    }

    /// A scope that was not granted.
    pub struct DeniedScope {
        /// The name of the scope.
        req scope: String,
        /// The reason why the scope was not granted.
        opt reason: Option<String>,
    }

    /// A session that holds scopes for a limited time.
    pub struct ScopeSession {
        /// The token, which the caller sends with each call.
        req token: String,
        /// The scopes of the session.
        req scopes: Vec<String>,
        /// The end of the session.
        req expires_at: Timestamp,
        /// The token that extends the session.
        opt refresh_token: Option<String>,
        /// The time without a call after which the session ends, in seconds.
        opt inactivity_timeout_seconds: Option<u64>,
    }

    /// Parameters of `mgp/scopes/revoke`.
    pub struct RevokeScopesParams {
        /// The token of the session.
        req token: String,
    }

    /// Result of `mgp/scopes/revoke`.
    pub struct RevokeScopesResult {
        /// `true` if the session existed.
        req revoked: bool,
    }
}

/// The token of a session in which scopes were granted. A call contains it in `_meta`, or in the HTTP header
/// `X-MCP-Session-Token`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionToken(pub String);

crate::opaque_debug!(SessionToken);

impl Member for SessionToken {
    const EXTENSION: Extension = Extension::Scopes;
    const NAME: &'static str = "session_token";
}

/// Returns the scopes that a tool requires, in the order in which its server lists them.
#[must_use]
pub fn required_scopes(tool: &mcp::Tool) -> Vec<String> {
    ToolMembers::of(tool).read("required_scopes").unwrap_or_default()
}

/// Returns the duration of a scope such as `temp:30min`; `None` if the scope has another form.
///
/// # Errors
/// Returns −32602 (invalid params) if the scope begins with `temp:` and has no valid duration.
pub fn temporary(scope: &str) -> Result<Option<Duration>, RpcError> {
    let Some(text) = scope.strip_prefix("temp:") else { return Ok(None) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" | "sec" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok().filter(|number| *number > 0);
    match number.zip(seconds).and_then(|(number, unit)| number.checked_mul(unit)) {
        Some(seconds) => Ok(Some(Duration::from_secs(seconds))),
        None => Err(RpcError::invalid_params(format!(
            "`{}` is not a duration; write e.g. `temp:30min`",
            crate::clip(scope, 64)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_scope_is_a_duration() {
        for (scope, expected) in [
            ("temp:30min", Ok(Some(1800))),
            ("temp:90s", Ok(Some(90))),
            ("temp:2h", Ok(Some(7200))),
            ("read:tickets", Ok(None)),
            ("temp:soon", Err(())),
            ("temp:0min", Err(())),
            ("temp:99999999999999999999d", Err(())),
        ] {
            let read = temporary(scope).map(|time| time.map(|time| time.as_secs())).map_err(drop);
            assert_eq!(read, expected, "{scope}");
        }
    }
}
