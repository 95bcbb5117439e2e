//! The client's side of the handshake: probes whether the server supports the modern era, falls back to `initialize`,
//! and runs the permission gate (MGP §2, §3.4).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mcp::{
    DiscoverResult, Era, Implementation, InitializeParams, InitializeResult, Revision,
    ServerCapabilities, UnsupportedVersionData, key,
};
use mgp_types::method::{Initialize, Request, ServerDiscover};
use mgp_types::service::{
    Call, Context, MgpService, Params, PeerInfo, PermissionAuthority, Reply, WireRules,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::era::{self, NextStep, ProbeOutcome};
use super::offer::ClientOffer;
use super::permission::PermissionFlow;
use super::state::{HandshakeState, Phase};
use super::{initialized, negotiate};

/// The minimum time for which the client still waits for the answer to the probe after the server refused `initialize`:
/// the server can be a modern server that starts slowly.
const REFUSED_WAIT: Duration = Duration::from_secs(15);

/// Settings of [`connect`].
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectConfig {
    /// The era of the connection.
    pub era: EraChoice,
    /// The time after which the client also sends `initialize` to a server that has not answered the probe. Default: 10
    /// s.
    ///
    /// Most legacy servers refuse the probe immediately; this limit is for legacy servers that do not answer it. It
    /// includes the time that the server needs to start. The first answer that completes a handshake counts, so a
    /// modern server that starts slowly is still recognised as modern. The clients of this workspace wait at most 3 s
    /// for a server that they reach over pipes.
    pub probe_timeout: Duration,
    /// The time limit of the handshake, not counting the decisions about permissions. Default: 30 s.
    pub handshake_timeout: Duration,
    /// Gate that decides, from the permissions a server needs, whether the connection proceeds. It runs after the
    /// server has answered; in the legacy era, before `initialized` is sent.
    pub permission_gate: Option<Arc<dyn ConnectGate>>,
    /// Authority that decides about the permissions a server needs, and reports later changes (MGP §3.4).
    ///
    /// Decisions are stored under the id in [`Context::server`], so the context of the connection must have a server
    /// id.
    pub grantor: Option<Arc<dyn PermissionAuthority>>,
    /// The action if a permission the server needs is denied. Default: proceed.
    pub on_denied: UngrantedPolicy,
    /// The action if the decision about the permissions timed out. Default: proceed.
    pub on_deferred: UngrantedPolicy,
    /// Maximum time for the decision of the gate or the authority; after that it counts as deferred. Default: 60 s.
    pub permission_timeout: Duration,
}

impl Default for ConnectConfig {
    fn default() -> Self {
        Self {
            era: EraChoice::Auto,
            probe_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(30),
            permission_gate: None,
            grantor: None,
            on_denied: UngrantedPolicy::Proceed,
            on_deferred: UngrantedPolicy::Proceed,
            permission_timeout: Duration::from_mins(1),
        }
    }
}

mgp_types::opaque_debug!(ConnectConfig { era });

/// The era that a client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// The modern era (MCP 2026-07-28) if the server answers the probe, i.e. `server/discover`; otherwise the legacy
    /// era.
    #[default]
    Auto,
    /// Only the legacy era (MCP 2025-11-25 and earlier); no probe is sent.
    Legacy,
    /// Only the modern era (MCP 2026-07-28); the client does not fall back to `initialize`.
    Modern,
}

/// Converts an era into the choice of that era only, and `None` into [`EraChoice::Auto`].
impl From<Option<Era>> for EraChoice {
    fn from(era: Option<Era>) -> Self {
        match era {
            None => Self::Auto,
            Some(Era::Legacy) => Self::Legacy,
            Some(Era::Modern) => Self::Modern,
        }
    }
}

/// The action if a server lacks a permission that it needs (MGP §3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UngrantedPolicy {
    /// The connection proceeds; calls of tools that need the permission are refused.
    #[default]
    Proceed,
    /// The connection is closed, after the server was notified of the reason.
    Close,
}

/// Gate that decides whether a connection proceeds, given the permissions the server needs (MGP §3.4).
///
/// Implement this trait with the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait ConnectGate: Send + Sync {
    /// Decides based on `facts.permissions_required`, the permissions that the server needs.
    async fn decide(&self, facts: Arc<PeerInfo>, cx: Context) -> ConnectDecision;
}

/// The decision of a [`ConnectGate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectDecision {
    /// The connection proceeds; calls that need a permission that was not granted are refused.
    Proceed,
    /// The connection is closed, because the permissions are rejected.
    Reject,
}

/// The reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server did not complete the handshake in time.
    #[error("the server did not finish the handshake within {}", mgp_types::duration_words(*.0))]
    TimedOut(Duration),
    /// The server refused the handshake, or the connection was closed.
    #[error("the handshake failed: {0}")]
    Refused(#[source] RpcError),
    /// The server chose a revision that the client did not request and does not support.
    #[error("the server speaks revision `{0}`, which is not supported here")]
    Unsupported(Revision),
    /// The permissions the server needs were rejected.
    #[error("the permissions the server needs were rejected: {}", .0.join(", "))]
    Rejected(Vec<String>),
    /// The decision about the permissions the server needs timed out.
    #[error("the decision about the permissions the server needs timed out: {}", .0.join(", "))]
    Deferred(Vec<String>),
    /// The server has no id, but decisions and records about a server are stored under its id.
    #[error(
        "decisions and records of a server are stored by its id; give it one with `.server_id(…)`"
    )]
    MissingServerId,
}

/// Performs the handshake over an outbound stack; the result is stored in the scope of the connection.
///
/// The stack must contain a [`RequestMetaLayer`](super::RequestMetaLayer) that was created with the [`HandshakeState`]
/// of the same scope.
///
/// # Errors
/// Returns an error with the reason if the handshake failed; the connection cannot be used in that case.
///
/// # Cancel safety
/// Not cancel safe: close the connection if the future is dropped.
pub async fn connect<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    config: &ConnectConfig,
) -> Result<Arc<PeerInfo>, ConnectError> {
    let flow = permission_flow(cx, config)?;
    let limit = config.handshake_timeout;
    let facts = timeout(limit, negotiate(stack, cx, offer, config))
        .await
        .map_err(|_| ConnectError::TimedOut(limit))??;
    run_gate(&facts, cx, config).await?;
    if let Some(flow) = flow {
        flow.run(stack, &facts, cx, config).await?;
    }
    if facts.era == Era::Legacy {
        initialized::notify(stack, cx).await.map_err(ConnectError::Refused)?;
        cx.scope.state::<HandshakeState>().set_ready();
    }
    Ok(facts)
}

/// Creates the permission flow of this connection and stores it in the connection's scope.
fn permission_flow(
    cx: &Context,
    config: &ConnectConfig,
) -> Result<Option<PermissionFlow>, ConnectError> {
    let Some(grantor) = &config.grantor else { return Ok(None) };
    let server = cx.server.clone().ok_or(ConnectError::MissingServerId)?;
    let flow = PermissionFlow::new(server, Arc::clone(grantor), config.permission_timeout);
    cx.scope.state::<HandshakeState>().set_permissions(flow.clone());
    Ok(Some(flow))
}

async fn negotiate<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    config: &ConnectConfig,
) -> Result<Arc<PeerInfo>, ConnectError> {
    if config.era == EraChoice::Legacy {
        return initialize(stack, cx, offer).await;
    }
    let mut probing = pin!(probe_twice(stack, cx, offer));
    if config.era == EraChoice::Modern {
        return match probing.await? {
            ProbeResult::Modern(facts) => Ok(facts),
            ProbeResult::Undescribed(revision) => Ok(store_undescribed(cx, revision)),
            // With `EraChoice::Modern` the client does not fall back to `initialize`, so return the server's refusal as
            // the error.
            ProbeResult::Legacy(refusal) => {
                let unknown = || RpcError::method_not_found(ServerDiscover::METHOD);
                Err(ConnectError::Refused(refusal.unwrap_or_else(unknown)))
            }
        };
    }
    let refused_wait = config.probe_timeout.max(REFUSED_WAIT);
    match timeout(config.probe_timeout, &mut probing).await {
        Ok(result) => match result? {
            ProbeResult::Modern(facts) => Ok(facts),
            ProbeResult::Undescribed(revision) => {
                modern_if_refused(initialize(stack, cx, offer).await, cx, revision)
            }
            ProbeResult::Legacy(_) => initialize(stack, cx, offer).await,
        },
        Err(_) => first_answer(probing, stack, cx, offer, refused_wait).await,
    }
}

/// Sends `initialize` in addition to a probe that was not answered in time. The first answer that completes a handshake
/// counts.
async fn first_answer<S: MgpService>(
    mut probing: Pin<&mut impl Future<Output = Result<ProbeResult, ConnectError>>>,
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    wait: Duration,
) -> Result<Arc<PeerInfo>, ConnectError> {
    cx.scope.state::<HandshakeState>().set_guessed();
    let mut initializing = pin!(initialize(stack, cx, offer));
    tokio::select! {
        probed = &mut probing => match probed? {
            ProbeResult::Modern(facts) => Ok(facts),
            ProbeResult::Undescribed(revision) => {
                modern_if_refused(initializing.await, cx, revision)
            }
            ProbeResult::Legacy(_) => initializing.await,
        },
        initialized = &mut initializing => match initialized {
            // The server might be modern: a modern server refuses `initialize`, and answers the probe once it is ready.
            // So wait for this answer.
            Err(ConnectError::Refused(refusal)) => match timeout(wait, probing).await {
                Ok(Ok(ProbeResult::Modern(facts))) => Ok(facts),
                Ok(Ok(ProbeResult::Undescribed(revision))) if era::is_refused(&refusal) => {
                    Ok(store_undescribed(cx, revision))
                }
                _ => Err(ConnectError::Refused(refusal)),
            },
            result => result,
        },
    }
}

/// Returns the facts about a server that refused the probe as an unknown method with a 4xx status. `initialized` is the
/// outcome of `initialize`, which the client sent next. If the server accepted `initialize`, the server is legacy: some
/// legacy servers refuse only the probe. If the server refused `initialize` too, it counts as modern, without
/// `server/discover`.
fn modern_if_refused(
    initialized: Result<Arc<PeerInfo>, ConnectError>,
    cx: &Context,
    revision: Revision,
) -> Result<Arc<PeerInfo>, ConnectError> {
    match initialized {
        Err(ConnectError::Refused(refusal)) if era::is_refused(&refusal) => {
            tracing::debug!(error = %refusal, "modern server without `server/discover`");
            Ok(store_undescribed(cx, revision))
        }
        result => result,
    }
}

/// Sends the probe, and sends it again if the server requires another modern revision.
async fn probe_twice<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
) -> Result<ProbeResult, ConnectError> {
    match probe(stack, cx, offer, &Revision::MODERN).await? {
        ProbeAnswer::Retry(revision) => match probe(stack, cx, offer, &revision).await? {
            ProbeAnswer::Retry(_) => Ok(ProbeResult::Legacy(None)),
            ProbeAnswer::Known(result) => Ok(result),
        },
        ProbeAnswer::Known(result) => Ok(result),
    }
}

enum ProbeResult {
    Modern(Arc<PeerInfo>),
    /// The server does not know the probe. It is modern, with this revision, unless it accepts `initialize`.
    Undescribed(Revision),
    /// The server is legacy; contains its refusal of the probe, if it sent one.
    Legacy(Option<RpcError>),
}

enum ProbeAnswer {
    Known(ProbeResult),
    /// The server is modern, and requires the client to use this revision.
    Retry(Revision),
}

/// Sends the probe, `server/discover`, with a given revision.
async fn probe<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    revision: &Revision,
) -> Result<ProbeAnswer, ConnectError> {
    let call = modern_probe(cx, offer, revision).map_err(ConnectError::Refused)?;
    let answer = stack.clone().call(call).await;
    let next = match &answer {
        Err(error) => era::after_probe(&ProbeOutcome::Refused(error)),
        Ok(_) => era::after_probe(&ProbeOutcome::Answered),
    };
    let known = match (next, answer) {
        (NextStep::Modern, Ok(reply)) => {
            let Ok(result) = reply.get::<DiscoverResult>() else {
                return Ok(ProbeAnswer::Known(ProbeResult::Legacy(None)));
            };
            if !result.supported_versions.contains(revision) {
                return Ok(ProbeAnswer::Known(ProbeResult::Legacy(None)));
            }
            let info = result.meta.as_ref().and_then(|meta| meta.server_info().ok().flatten());
            let mut facts =
                server_facts(revision.clone(), &result.capabilities, info.as_ref(), offer);
            facts.instructions = result.instructions;
            ProbeResult::Modern(store_facts(cx, Phase::Ready, facts))
        }
        (NextStep::Retry(supported), _) => {
            let revision = supported.into_iter().find(|revision| *revision == Revision::MODERN);
            match revision {
                Some(revision) => return Ok(ProbeAnswer::Retry(revision)),
                None => ProbeResult::Legacy(None),
            }
        }
        (NextStep::ModernUndescribed, _) => ProbeResult::Undescribed(revision.clone()),
        (NextStep::Fail, Err(error)) => return Err(ConnectError::Refused(error)),
        (next, answer) => {
            if next == NextStep::GuessLegacy {
                cx.scope.state::<HandshakeState>().set_guessed();
            }
            ProbeResult::Legacy(answer.err())
        }
    };
    Ok(ProbeAnswer::Known(known))
}

fn modern_probe(cx: &Context, offer: &ClientOffer, revision: &Revision) -> Result<Call, RpcError> {
    let mut call = Call::request(
        mgp_types::service::Method::from_static(ServerDiscover::METHOD),
        Params::none(),
        cx.clone(),
    );
    call.hop_mut().meta = vec![
        (key::PROTOCOL_VERSION.into(), Payload::of(revision)?),
        (key::CLIENT_CAPABILITIES.into(), Payload::of(&offer.modern_capabilities()?)?),
        (key::CLIENT_INFO.into(), Payload::of(&offer.info)?),
    ];
    Ok(call)
}

async fn initialize<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
) -> Result<Arc<PeerInfo>, ConnectError> {
    let mut capabilities = offer.capabilities.clone();
    if let Some(mgp) = &offer.mgp {
        negotiate::put_legacy(&mut capabilities, negotiate::client_offer(mgp));
    }
    let mut params =
        InitializeParams::new(Revision::LATEST_LEGACY, capabilities, offer.info.clone());
    let first: Result<InitializeResult, _> =
        request::<Initialize, _, _, _>(stack, cx, &params).await;
    let result = match first {
        Err(ConnectError::Refused(refusal)) => {
            // A server that refuses the newest revision can list other revisions in its refusal, and the client might
            // support one of them. So look for such a revision.
            let Some(older) = supported_revision(&refusal) else {
                return Err(ConnectError::Refused(refusal));
            };
            params.protocol_version = older;
            request::<Initialize, _, _, _>(stack, cx, &params).await?
        }
        first => first?,
    };
    let revision = result.protocol_version;
    if !Revision::LEGACY.contains(&revision) {
        return Err(ConnectError::Unsupported(revision));
    }
    cx.scope.state::<WireRules>().set_revision(&revision);
    let mut facts = server_facts(revision, &result.capabilities, Some(&result.server_info), offer);
    facts.instructions = result.instructions;
    Ok(store_facts(cx, Phase::Initialized, facts))
}

/// Returns the newest supported legacy revision that is listed in a refusal of `initialize` (−32602, MCP lifecycle).
fn supported_revision(refusal: &RpcError) -> Option<Revision> {
    let named = refusal.code() == ErrorCode::INVALID_PARAMS;
    let data: UnsupportedVersionData = refusal.as_data().filter(|_| named)?.get().ok()?;
    let ours =
        |revision: &&Revision| data.supported.contains(*revision) && data.requested != **revision;
    Revision::LEGACY.iter().rev().find(ours).cloned()
}

/// Returns the facts about a server. Only extensions that both sides offered are active, because some servers answer
/// with all their extensions, whatever the client offered.
fn server_facts(
    revision: Revision,
    capabilities: &ServerCapabilities,
    info: Option<&Implementation>,
    offer: &ClientOffer,
) -> PeerInfo {
    let mut facts = PeerInfo::new(revision);
    facts.capabilities = Payload::of(capabilities).ok();
    facts.info = info.and_then(|info| Payload::of(info).ok());
    let Some(ours) = &offer.mgp else { return facts };
    let found = capabilities.find_mgp();
    if let Some(theirs) = negotiate::read_offer(found.as_ref(), ours) {
        facts.mgp = Some(negotiate::active(ours, &theirs));
        facts.mgp_version = Some(theirs.version.clone());
        facts.claimed_server_id.clone_from(&theirs.server_id);
        facts.claimed_trust_level.clone_from(&theirs.trust_level);
        facts.asks_in_rounds = theirs.asks_in_rounds == Some(true);
        facts.permissions_required = theirs
            .permissions_required
            .iter()
            .map(|permission| permission.as_str().to_owned())
            .collect();
    }
    facts
}

/// Stores that the server is modern and does not describe its capabilities.
fn store_undescribed(cx: &Context, revision: Revision) -> Arc<PeerInfo> {
    store_facts(cx, Phase::Ready, PeerInfo::new(revision))
}

fn store_facts(cx: &Context, phase: Phase, facts: PeerInfo) -> Arc<PeerInfo> {
    let facts = Arc::new(facts);
    cx.scope.state::<HandshakeState>().settle(phase, Arc::clone(&facts));
    facts
}

async fn run_gate(
    facts: &Arc<PeerInfo>,
    cx: &Context,
    config: &ConnectConfig,
) -> Result<(), ConnectError> {
    let Some(gate) = &config.permission_gate else { return Ok(()) };
    if facts.permissions_required.is_empty() {
        return Ok(());
    }
    let deciding = gate.decide(Arc::clone(facts), cx.clone());
    match timeout(config.permission_timeout, deciding).await {
        Ok(ConnectDecision::Reject) => {
            Err(ConnectError::Rejected(facts.permissions_required.clone()))
        }
        Ok(ConnectDecision::Proceed) => Ok(()),
        Err(_) => {
            tracing::warn!("permission request timed out; deferred");
            match config.on_deferred {
                UngrantedPolicy::Proceed => Ok(()),
                UngrantedPolicy::Close => {
                    Err(ConnectError::Deferred(facts.permissions_required.clone()))
                }
            }
        }
    }
}

async fn request<R, S, P, T>(stack: &S, cx: &Context, params: &P) -> Result<T, ConnectError>
where
    R: Request<Params = P, Result = T>,
    S: MgpService,
    P: Serialize,
    T: DeserializeOwned,
{
    let reply = send(stack, Call::ask::<R>(params, cx.clone())).await?;
    reply.get().map_err(ConnectError::Refused)
}

async fn send<S: MgpService>(
    stack: &S,
    call: Result<Call, RpcError>,
) -> Result<Reply, ConnectError> {
    let call = call.map_err(ConnectError::Refused)?;
    stack.clone().call(call).await.map_err(ConnectError::Refused)
}

#[cfg(test)]
mod tests;
