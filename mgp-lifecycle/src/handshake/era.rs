//! The era machine: to which family of revisions a message belongs (DESIGN §4).
//!
//! It is pure: transports and layers bring the facts, it only decides.
//!
//! Applies to: both.

use mgp_types::mcp::{Era, Revision};
use mgp_types::method::{Initialize, Ping, Request as _, ServerDiscover};
use mgp_types::service::HttpFault;
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;

use super::session::Phase;
use crate::error::Refusal;

/// What is known about an inbound request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Its method.
    pub(crate) method: &'a str,
    /// The revision in its `_meta`, which only modern requests have.
    pub(crate) meta_revision: Option<&'a Revision>,
    /// Whether its `_meta` says what the client can do.
    pub(crate) has_capabilities: bool,
    /// How far the legacy handshake of its scope is.
    pub(crate) phase: Phase,
}

/// Which way a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It opens the legacy era.
    Initialize,
    /// It belongs to the legacy session.
    Legacy,
    /// It stands alone.
    Modern,
    /// It may be answered before anything was negotiated.
    Early,
}

/// Decides the way of a request.
pub(crate) fn way(request: Request<'_>, supported: &[Revision]) -> Result<Way, RpcError> {
    if let Some(revision) = request.meta_revision {
        if revision.era() != Era::Modern || !supported.contains(revision) {
            return Err(unsupported(revision, supported));
        }
        if !request.has_capabilities {
            return Err(RpcError::invalid_params(
                "`_meta` lacks `io.modelcontextprotocol/clientCapabilities`",
            ));
        }
        return Ok(Way::Modern);
    }
    match (request.method, request.phase) {
        (Initialize::METHOD, Phase::New) => Ok(Way::Initialize),
        (Initialize::METHOD, _) => Err(Refusal::AlreadyInitialized.into()),
        (ServerDiscover::METHOD, _) => {
            Err(RpcError::invalid_params("`_meta` lacks `io.modelcontextprotocol/protocolVersion`"))
        }
        (Ping::METHOD, Phase::New) => Ok(Way::Early),
        (_, Phase::New) => Err(Refusal::NotInitialized.into()),
        (_, Phase::Initialized | Phase::Ready) => Ok(Way::Legacy),
    }
}

/// −32022, which tells a client what to try instead.
fn unsupported(requested: &Revision, supported: &[Revision]) -> RpcError {
    let message = format!("unsupported protocol version `{requested}`");
    with_choice(RpcError::new(ErrorCode::UNSUPPORTED_VERSION, message), requested, supported)
}

/// −32602, as `initialize` says the same.
pub(crate) fn unsupported_legacy(requested: &Revision, supported: &[Revision]) -> RpcError {
    let error = RpcError::new(ErrorCode::INVALID_PARAMS, "Unsupported protocol version");
    with_choice(error, requested, supported)
}

fn with_choice(error: RpcError, requested: &Revision, supported: &[Revision]) -> RpcError {
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

/// What a client learned from its first probe (`server/discover`).
#[derive(Debug)]
pub(crate) enum Probe<'a> {
    /// The server answered.
    Answered,
    /// It refused.
    Refused(&'a RpcError),
    /// It said nothing in time.
    Silent,
}

/// What a client does after its probe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The server is modern.
    Modern,
    /// The server is modern and speaks only these.
    Retry(Vec<Revision>),
    /// The server is modern, and does not say what it can do.
    Unsaid,
    /// Fall back to `initialize`: the server does not know the probe.
    Initialize,
    /// Fall back to `initialize`, though nothing says that the server is of the legacy era: it failed, or said nothing.
    Guess,
    /// Neither era would help: the refusal is what there is to say.
    Refuse,
}

/// Decides after a probe: only a recognised modern refusal is a reason to stay modern.
///
/// Over HTTP a refusal with a status of its own says more than one on a pipe: of the codes that modern servers alone
/// answer with 4xx, `−32601` came from one that lacks the probe, the others are about the request itself.
/// A server that is busy is no legacy one, and takes `initialize` no better.
pub(crate) fn after_probe(probe: &Probe<'_>) -> Next {
    #[derive(serde::Deserialize)]
    struct Data {
        supported: Vec<Revision>,
    }
    match probe {
        Probe::Answered => Next::Modern,
        Probe::Refused(error) if error.code() == ErrorCode::UNSUPPORTED_VERSION => {
            let data = error.as_data().and_then(|data| data.get::<Data>().ok());
            let modern = data.map_or(Vec::new(), |data| {
                data.supported
                    .into_iter()
                    .filter(|revision| revision.era() == Era::Modern)
                    .collect()
            });
            if modern.is_empty() { Next::Initialize } else { Next::Retry(modern) }
        }
        Probe::Refused(error) => match HttpFault::of(error) {
            Some(
                HttpFault::Unreached
                | HttpFault::Status(300..=399 | 401 | 403 | 408 | 429 | 503)
                | HttpFault::Answered(408 | 429 | 503),
            ) => Next::Refuse,
            Some(HttpFault::Answered(400..=499)) => match error.code() {
                ErrorCode::METHOD_NOT_FOUND => Next::Unsaid,
                ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_CLIENT_CAPABILITY => Next::Refuse,
                _ => Next::Initialize,
            },
            Some(
                HttpFault::Cut | HttpFault::Status(500..=599) | HttpFault::Answered(500..=599),
            ) => Next::Guess,
            _ if matches!(error.code(), ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED) => {
                Next::Refuse
            }
            // The caller's own patience ended before that for the probe.
            _ if error.code() == ErrorCode::TIMEOUT => Next::Guess,
            _ => Next::Initialize,
        },
        Probe::Silent => Next::Guess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, phase: Phase) -> Request<'_> {
        Request { method, meta_revision: None, has_capabilities: false, phase }
    }

    fn judged(request: Request<'_>) -> Result<Way, i32> {
        way(request, Revision::SUPPORTED).map_err(|error| error.code().0)
    }

    #[test]
    fn legacy_requests_follow_initialize() {
        assert_eq!(judged(request("initialize", Phase::New)), Ok(Way::Initialize));
        assert_eq!(judged(request("ping", Phase::New)), Ok(Way::Early));
        assert_eq!(judged(request("tools/list", Phase::New)), Err(-32600));
        assert_eq!(judged(request("tools/list", Phase::Initialized)), Ok(Way::Legacy));
        assert_eq!(judged(request("tools/list", Phase::Ready)), Ok(Way::Legacy));
        assert_eq!(judged(request("initialize", Phase::Ready)), Err(-32600));
        assert_eq!(judged(request("server/discover", Phase::New)), Err(-32602));
    }

    #[test]
    fn modern_requests_stand_alone_in_any_phase() {
        let modern = Revision::MODERN;
        for phase in [Phase::New, Phase::Initialized, Phase::Ready] {
            let mut request = request("tools/list", phase);
            request.meta_revision = Some(&modern);
            assert_eq!(judged(request), Err(-32602));
            request.has_capabilities = true;
            assert_eq!(judged(request), Ok(Way::Modern));
        }
        let (legacy, unknown) = (Revision::LATEST_LEGACY, Revision::from("2099-01-01"));
        for revision in [&legacy, &unknown] {
            let mut request = request("tools/list", Phase::New);
            request.meta_revision = Some(revision);
            assert_eq!(judged(request), Err(-32022));
        }
    }

    #[test]
    fn only_a_modern_refusal_keeps_a_client_modern() {
        let refused = |code| RpcError::new(ErrorCode(code), "no");
        assert_eq!(after_probe(&Probe::Answered), Next::Modern);
        assert_eq!(after_probe(&Probe::Silent), Next::Guess);
        assert_eq!(after_probe(&Probe::Refused(&refused(3003))), Next::Guess);
        for code in [-32601, -32602, -32600, -32000, 1000] {
            assert_eq!(after_probe(&Probe::Refused(&refused(code))), Next::Initialize, "{code}");
        }
        let data =
            Payload::from_trusted(r#"{"supported":["2026-07-28","2025-11-25"],"requested":"x"}"#);
        let error = refused(-32022).data(data);
        assert_eq!(after_probe(&Probe::Refused(&error)), Next::Retry(vec![Revision::MODERN]));
    }

    #[test]
    fn over_http_the_status_tells_a_modern_refusal_from_a_legacy_one() {
        let judged = |code, fault| {
            after_probe(&Probe::Refused(&RpcError::new(ErrorCode(code), "no").because(fault)))
        };
        let (answered, status) = (HttpFault::Answered, HttpFault::Status);
        assert_eq!(judged(-32601, answered(404)), Next::Unsaid);
        // A legacy server refuses an unknown method, or a request without a session.
        assert_eq!(judged(-32601, status(200)), Next::Initialize);
        for code in [-32600, -32602, -32000] {
            assert_eq!(judged(code, answered(400)), Next::Initialize, "{code}");
        }
        for code in [-32020, -32021] {
            assert_eq!(judged(code, answered(400)), Next::Refuse, "{code}");
        }
        assert_eq!(judged(-32022, answered(400)), Next::Initialize);
        for code in [400, 404, 405, 406, 415] {
            assert_eq!(judged(-32600, status(code)), Next::Initialize, "{code}");
        }
        for code in [301, 307, 401, 403, 408, 429, 503] {
            assert_eq!(judged(-32600, status(code)), Next::Refuse, "{code}");
        }
        for code in [408, 429, 503] {
            assert_eq!(judged(-32603, answered(code)), Next::Refuse, "{code}");
        }
        for code in [500, 502, 504] {
            assert_eq!(judged(5001, status(code)), Next::Guess, "{code}");
            assert_eq!(judged(-32603, answered(code)), Next::Guess, "{code}");
        }
        assert_eq!(judged(5001, HttpFault::Cut), Next::Guess);
        assert_eq!(judged(2000, HttpFault::Unreached), Next::Refuse);
    }
}
