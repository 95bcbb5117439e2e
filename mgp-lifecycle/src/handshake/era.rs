//! Chooses the era of MCP (legacy or modern) of a request or a connection. The functions are pure; transports and
//! layers provide their input.

use std::error::Error as _;

use mgp_types::mcp::{Era, Revision};
use mgp_types::method::{Initialize, Ping, Request as _, ServerDiscover};
use mgp_types::service::{HttpFailure, is_connection_lost};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;

use super::state::Phase;
use crate::error::LifecycleError;

/// The facts about an inbound request that determine its [`Route`], i.e. how the handshake treats it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) method: &'a str,
    /// Revision in the request's `_meta`; only modern requests have one.
    pub(crate) meta_revision: Option<&'a Revision>,
    /// If `true`, the request's `_meta` contains the client's capabilities.
    pub(crate) has_capabilities: bool,
    /// The phase of the legacy handshake on the connection or session of the request.
    pub(crate) phase: Phase,
}

/// The way the handshake treats a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The request `initialize`, which starts a legacy session.
    Initialize,
    /// A request within the legacy session.
    Legacy,
    /// A modern request, which contains everything that is needed to answer it.
    Modern,
    /// A request that can be answered before anything was negotiated.
    Early,
}

pub(crate) fn route(request: RequestFacts<'_>, supported: &[Revision]) -> Result<Route, RpcError> {
    if let Some(revision) = request.meta_revision {
        if revision.era() != Era::Modern || !supported.contains(revision) {
            return Err(unsupported(revision, supported));
        }
        if !request.has_capabilities {
            return Err(RpcError::invalid_params(
                "`_meta` lacks `io.modelcontextprotocol/clientCapabilities`",
            ));
        }
        return Ok(Route::Modern);
    }
    match (request.method, request.phase) {
        (Initialize::METHOD, Phase::New) => Ok(Route::Initialize),
        (Initialize::METHOD, _) => Err(LifecycleError::AlreadyInitialized.into()),
        (ServerDiscover::METHOD, _) => {
            Err(RpcError::invalid_params("`_meta` lacks `io.modelcontextprotocol/protocolVersion`"))
        }
        (Ping::METHOD, Phase::New) => Ok(Route::Early),
        (_, Phase::New) => Err(LifecycleError::NotInitialized.into()),
        (_, Phase::Initialized | Phase::Ready) => Ok(Route::Legacy),
    }
}

/// Returns error −32022 (unsupported version), which lists the revisions that the client can use instead.
fn unsupported(requested: &Revision, supported: &[Revision]) -> RpcError {
    let version = mgp_types::clip(&requested.to_string(), 60);
    let message = format!("unsupported protocol version `{version}`");
    with_revisions(RpcError::new(ErrorCode::UNSUPPORTED_VERSION, message), requested, supported)
}

/// Returns error −32602 (invalid params), the answer to `initialize` if its revision is not supported.
pub(crate) fn unsupported_legacy(requested: &Revision, supported: &[Revision]) -> RpcError {
    let error = RpcError::new(ErrorCode::INVALID_PARAMS, "Unsupported protocol version");
    with_revisions(error, requested, supported)
}

fn with_revisions(error: RpcError, requested: &Revision, supported: &[Revision]) -> RpcError {
    #[derive(Serialize)]
    struct Data<'a> {
        supported: &'a [Revision],
        requested: &'a Revision,
    }
    match Payload::of(&Data { supported, requested }) {
        Ok(data) => error.data(data),
        Err(_) => error,
    }
}

/// The outcome of a client's first probe (`server/discover`).
#[derive(Debug)]
pub(crate) enum ProbeOutcome<'a> {
    Answered,
    Refused(&'a RpcError),
}

/// The next step of a client after its probe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    Modern,
    /// Send the probe again with one of these modern revisions; the server supports no other revisions.
    Retry(Vec<Revision>),
    /// The server refused the probe as an unknown method. Some legacy servers do so too, so the server is modern only
    /// if it also refuses `initialize`.
    ModernUndescribed,
    /// Fall back to `initialize`: the server does not know the probe.
    Initialize,
    /// Fall back to `initialize`, although the failure of the probe does not show that the server is legacy.
    GuessLegacy,
    /// Fail with the error of the probe, because `initialize` would fail too: e.g. the server is busy, requires a login
    /// or cannot be reached, or the probe could not be sent.
    Fail,
}

/// Decides the next step after a probe. If the server refused the probe, the client stays in the modern era only if
/// legacy servers never send such a refusal.
///
/// Over HTTP, the status also counts. Modern servers combine three codes with a 4xx status: `−32601` then means that
/// the server does not have `server/discover`; `−32020` and `−32021` mean that the request itself is wrong. As some
/// legacy servers also send `−32601` with such a status, the client first tries `initialize`. A busy server (408, 429,
/// 503) does not count as legacy, because it would not accept `initialize` either.
pub(crate) fn after_probe(probe: &ProbeOutcome<'_>) -> NextStep {
    #[derive(serde::Deserialize)]
    struct Data {
        supported: Vec<Revision>,
    }
    match probe {
        ProbeOutcome::Answered => NextStep::Modern,
        ProbeOutcome::Refused(error) if error.code() == ErrorCode::UNSUPPORTED_VERSION => {
            let data = error.as_data().and_then(|data| data.get::<Data>().ok());
            let modern = data.map_or(Vec::new(), |data| {
                data.supported
                    .into_iter()
                    .filter(|revision| revision.era() == Era::Modern)
                    .collect()
            });
            if modern.is_empty() { NextStep::Initialize } else { NextStep::Retry(modern) }
        }
        ProbeOutcome::Refused(error) => match HttpFailure::from_error(error) {
            Some(
                HttpFailure::Unreachable
                | HttpFailure::Status(300..=399 | 401 | 403 | 408 | 429 | 503)
                | HttpFailure::StatusWithError(408 | 429 | 503),
            ) => NextStep::Fail,
            Some(HttpFailure::StatusWithError(400..=499)) => match error.code() {
                ErrorCode::METHOD_NOT_FOUND => NextStep::ModernUndescribed,
                ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_CLIENT_CAPABILITY => NextStep::Fail,
                _ => NextStep::Initialize,
            },
            Some(
                HttpFailure::ConnectionLost
                | HttpFailure::Status(500..=599)
                | HttpFailure::StatusWithError(500..=599),
            ) => NextStep::GuessLegacy,
            _ if matches!(error.code(), ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED) => {
                NextStep::Fail
            }
            _ if is_unsent(error) => NextStep::Fail,
            // The deadline of the call ended the probe, so it is unknown whether the server is legacy or only slow.
            _ if error.code() == ErrorCode::TIMEOUT => NextStep::GuessLegacy,
            _ => NextStep::Initialize,
        },
    }
}

/// Returns whether an error means that this side could not send a request, e.g. because the server that issues its
/// credentials did not answer, or sent a document that cannot be used. Such an error has a source, unlike an error with
/// the same code from a server.
fn is_unsent(error: &RpcError) -> bool {
    matches!(error.code(), ErrorCode::UPSTREAM_UNAVAILABLE | ErrorCode::UPSTREAM_ERROR)
        && HttpFailure::from_error(error).is_none()
        && error.source().is_some()
}

/// Returns whether an error means that the server refused the request, and not that a temporary failure occurred.
pub(crate) fn is_refused(error: &RpcError) -> bool {
    match HttpFailure::from_error(error) {
        Some(HttpFailure::Status(status) | HttpFailure::StatusWithError(status)) => {
            matches!(status, 400..=499) && !matches!(status, 401 | 403 | 408 | 429)
        }
        Some(HttpFailure::NoAnswer) | None => {
            let can_pass = matches!(
                error.code(),
                ErrorCode::TIMEOUT | ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED
            );
            !can_pass && !is_unsent(error) && !is_connection_lost(error)
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, phase: Phase) -> RequestFacts<'_> {
        RequestFacts { method, meta_revision: None, has_capabilities: false, phase }
    }

    fn routed(request: RequestFacts<'_>) -> Result<Route, i32> {
        route(request, Revision::SUPPORTED).map_err(|error| error.code().0)
    }

    #[test]
    fn modern_requests_are_self_contained_in_any_phase() {
        let modern = Revision::MODERN;
        for phase in [Phase::New, Phase::Initialized, Phase::Ready] {
            let mut request = request("tools/list", phase);
            request.meta_revision = Some(&modern);
            assert_eq!(routed(request), Err(-32602));
            request.has_capabilities = true;
            assert_eq!(routed(request), Ok(Route::Modern));
        }
        let (legacy, unknown) = (Revision::LATEST_LEGACY, Revision::from("2099-01-01"));
        for revision in [&legacy, &unknown] {
            let mut request = request("tools/list", Phase::New);
            request.meta_revision = Some(revision);
            assert_eq!(routed(request), Err(-32022));
        }
    }

    #[test]
    fn only_a_modern_refusal_keeps_a_client_modern() {
        let refused = |code| RpcError::new(ErrorCode(code), "no");
        assert_eq!(after_probe(&ProbeOutcome::Answered), NextStep::Modern);
        assert_eq!(after_probe(&ProbeOutcome::Refused(&refused(3003))), NextStep::GuessLegacy);
        for code in [-32601, -32602, -32600, -32000, 1000] {
            assert_eq!(
                after_probe(&ProbeOutcome::Refused(&refused(code))),
                NextStep::Initialize,
                "{code}"
            );
        }
        let data =
            Payload::from_trusted(r#"{"supported":["2026-07-28","2025-11-25"],"requested":"x"}"#);
        let error = refused(-32022).data(data);
        assert_eq!(
            after_probe(&ProbeOutcome::Refused(&error)),
            NextStep::Retry(vec![Revision::MODERN])
        );
    }

    #[test]
    fn credentials_that_cannot_be_obtained_do_not_decide_the_era() {
        for code in [ErrorCode::UPSTREAM_UNAVAILABLE, ErrorCode::UPSTREAM_ERROR] {
            let sent = RpcError::new(code, "no");
            assert_eq!(after_probe(&ProbeOutcome::Refused(&sent)), NextStep::Initialize);
            assert!(is_refused(&sent));
            let unsent = sent.because(std::fmt::Error);
            assert_eq!(after_probe(&ProbeOutcome::Refused(&unsent)), NextStep::Fail);
            assert!(!is_refused(&unsent));
        }
    }

    #[test]
    fn over_http_the_status_distinguishes_a_modern_refusal_from_a_legacy_one() {
        let step = |code, fault| {
            after_probe(&ProbeOutcome::Refused(
                &RpcError::new(ErrorCode(code), "no").because(fault),
            ))
        };
        let (answered, status) = (HttpFailure::StatusWithError, HttpFailure::Status);
        assert_eq!(step(-32601, answered(404)), NextStep::ModernUndescribed);
        // This is how a legacy server refuses an unknown method or a request without a session.
        assert_eq!(step(-32601, status(200)), NextStep::Initialize);
        for code in [-32600, -32602, -32000] {
            assert_eq!(step(code, answered(400)), NextStep::Initialize, "{code}");
        }
        for code in [-32020, -32021] {
            assert_eq!(step(code, answered(400)), NextStep::Fail, "{code}");
        }
        assert_eq!(step(-32022, answered(400)), NextStep::Initialize);
        for code in [400, 404, 405, 406, 415] {
            assert_eq!(step(-32600, status(code)), NextStep::Initialize, "{code}");
        }
        for code in [301, 307, 401, 403, 408, 429, 503] {
            assert_eq!(step(-32600, status(code)), NextStep::Fail, "{code}");
        }
        for code in [408, 429, 503] {
            assert_eq!(step(-32603, answered(code)), NextStep::Fail, "{code}");
        }
        for code in [500, 502, 504] {
            assert_eq!(step(5001, status(code)), NextStep::GuessLegacy, "{code}");
            assert_eq!(step(-32603, answered(code)), NextStep::GuessLegacy, "{code}");
        }
        assert_eq!(step(5001, HttpFailure::ConnectionLost), NextStep::GuessLegacy);
        assert_eq!(step(2000, HttpFailure::Unreachable), NextStep::Fail);
    }
}
