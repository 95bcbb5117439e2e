//! The client's side: probes for the modern era, falls back to `initialize`, runs the permission gate (MGP §2, §3.4).
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{
    DiscoverResult, Era, Implementation, InitializeParams, InitializeResult, Revision,
    ServerCapabilities, UnsupportedVersionData, key,
};
use mgp_types::method::{Initialize, Initialized, Request, ServerDiscover};
use mgp_types::service::{
    BoxFuture, Call, Context, Facts, Grantor, MgpService, Params, Reply, WireRules,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::era::{self, Next, Probe};
use super::negotiate;
use super::offer::ClientOffer;
use super::permission::PermissionFlow;
use super::session::{Phase, Session};

/// How to connect.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectConfig {
    /// Which era to speak.
    pub era: EraChoice,
    /// How long a server may take to answer the probe before it is taken for a legacy one. 10 s.
    ///
    /// Legacy servers refuse the probe at once; this is for those that say nothing, and includes the server's start.
    pub probe_timeout: Duration,
    /// How long the whole handshake may take, the gate apart. 30 s.
    pub handshake_timeout: Duration,
    /// Decides about the permissions a server needs, between the answer and `initialized`.
    pub gate: Option<Arc<dyn PermissionGate>>,
    /// Decides about the permissions a server needs, and tells what stands while it is connected (MGP §3.4).
    ///
    /// Decisions are kept under the id in [`Context::server`], so the context of the connection must have one.
    pub grantor: Option<Arc<dyn Grantor>>,
    /// What becomes of the connection when a permission the server needs is denied. It proceeds.
    pub denied: Ungranted,
    /// What becomes of it when nobody decided in time. It proceeds.
    pub deferred: Ungranted,
    /// How long the gate, and the grantor, may take; then the decision is deferred. 60 s.
    pub permission_timeout: Duration,
}

impl Default for ConnectConfig {
    fn default() -> Self {
        Self {
            era: EraChoice::Auto,
            probe_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(30),
            gate: None,
            grantor: None,
            denied: Ungranted::Proceed,
            deferred: Ungranted::Proceed,
            permission_timeout: Duration::from_mins(1),
        }
    }
}

impl std::fmt::Debug for ConnectConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectConfig").field("era", &self.era).finish_non_exhaustive()
    }
}

/// Which era a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Modern where the server answers the probe, else legacy.
    #[default]
    Auto,
    /// Legacy only: no probe is sent.
    Legacy,
    /// Modern only.
    Modern,
}

/// That era only, or whichever the server speaks.
impl From<Option<Era>> for EraChoice {
    fn from(era: Option<Era>) -> Self {
        match era {
            None => Self::Auto,
            Some(Era::Legacy) => Self::Legacy,
            Some(Era::Modern) => Self::Modern,
        }
    }
}

/// What becomes of a connection to a server that lacks a permission it needs (MGP §3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ungranted {
    /// It goes on; calls of tools that need the permission are refused.
    #[default]
    Proceed,
    /// It is closed, after the server was told why.
    Close,
}

/// Decides whether a connection goes on, given what the server needs (MGP §3.4).
pub trait PermissionGate: Send + Sync {
    /// Decides; `facts.permissions_required` says what the server needs.
    fn decide(&self, facts: Arc<Facts>, cx: Context) -> BoxFuture<'static, Verdict>;
}

/// What the gate decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The connection goes on; what was not granted is refused call by call.
    Proceed,
    /// The connection is closed.
    Reject,
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server did not finish the handshake in time.
    #[error("the server did not finish the handshake within {0:?}")]
    TimedOut(Duration),
    /// The server refused, or its connection is gone.
    #[error("the handshake failed: {0}")]
    Refused(#[source] RpcError),
    /// The server settled on a revision nobody asked for.
    #[error("the server speaks revision `{0}`, which is not supported here")]
    Unsupported(Revision),
    /// The permissions the server needs were rejected.
    #[error("the permissions the server needs were rejected: {}", .0.join(", "))]
    Rejected(Vec<String>),
    /// Nobody decided about the permissions the server needs.
    #[error("nobody decided in time about the permissions the server needs: {}", .0.join(", "))]
    Deferred(Vec<String>),
    /// What is decided and recorded of a server is kept under its id, and it has none.
    #[error(
        "what is decided and recorded of a server is kept under its id; give it one with `.server_id(…)`"
    )]
    Nameless,
}

/// Shakes hands over an outbound stack; what was settled is kept in the scope of the connection.
///
/// The stack must carry a [`StampLayer`](super::StampLayer) for the same scope's [`Session`].
///
/// # Errors
/// Why it failed; the connection is then of no use.
///
/// # Cancel safety
/// Dropping the future leaves the connection half-way; close it.
pub async fn connect<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    config: &ConnectConfig,
) -> Result<Arc<Facts>, ConnectError> {
    let flow = permission_flow(cx, config)?;
    let limit = config.handshake_timeout;
    let facts = timeout(limit, settle(stack, cx, offer, config))
        .await
        .map_err(|_| ConnectError::TimedOut(limit))??;
    run_gate(&facts, cx, config).await?;
    if let Some(flow) = flow {
        flow.run(stack, &facts, cx, config).await?;
    }
    if facts.era == Era::Legacy {
        let ready = Call::tell::<Initialized>(&mgp_types::mcp::EmptyParams::new(), cx.clone());
        ready_call(stack, ready).await?;
        cx.scope.state::<Session>().ready();
    }
    Ok(facts)
}

/// The flow of this connection, where anybody can find it who has the scope.
fn permission_flow(
    cx: &Context,
    config: &ConnectConfig,
) -> Result<Option<PermissionFlow>, ConnectError> {
    let Some(grantor) = &config.grantor else { return Ok(None) };
    let server = cx.server.clone().ok_or(ConnectError::Nameless)?;
    let flow = PermissionFlow::new(server, Arc::clone(grantor), config.permission_timeout);
    cx.scope.state::<Session>().keep_permissions(flow.clone());
    Ok(Some(flow))
}

async fn settle<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    config: &ConnectConfig,
) -> Result<Arc<Facts>, ConnectError> {
    if config.era != EraChoice::Legacy {
        let found = match probe(stack, cx, offer, config, &Revision::MODERN).await? {
            Probed::Retry(revision) => probe(stack, cx, offer, config, &revision).await?,
            found => found,
        };
        match found {
            Probed::Modern(facts) => return Ok(facts),
            // There is nothing to fall back to: what the server said is what is wrong.
            Probed::Legacy(refusal) if config.era == EraChoice::Modern => {
                let unknown = || RpcError::method_not_found(ServerDiscover::METHOD);
                return Err(ConnectError::Refused(refusal.unwrap_or_else(unknown)));
            }
            _ => {}
        }
    }
    initialize(stack, cx, offer).await
}

/// What a probe found.
enum Probed {
    /// A modern server.
    Modern(Arc<Facts>),
    /// A modern server that wants to be asked in this revision.
    Retry(Revision),
    /// A legacy one, with what it said to the probe.
    Legacy(Option<RpcError>),
}

/// Sends `server/discover`.
async fn probe<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
    config: &ConnectConfig,
    revision: &Revision,
) -> Result<Probed, ConnectError> {
    let call = modern_probe(cx, offer, revision).map_err(ConnectError::Refused)?;
    let answer = timeout(config.probe_timeout, stack.clone().call(call)).await;
    let next = match &answer {
        Err(_) => era::after_probe(&Probe::Silent),
        Ok(Err(error)) => era::after_probe(&Probe::Refused(error)),
        Ok(Ok(_)) => era::after_probe(&Probe::Answered),
    };
    match (next, answer) {
        (Next::Modern, Ok(Ok(reply))) => {
            let Ok(result) = reply.get::<DiscoverResult>() else {
                return Ok(Probed::Legacy(None));
            };
            if !result.supported_versions.contains(revision) {
                return Ok(Probed::Legacy(None));
            }
            let info = result.meta.as_ref().and_then(|meta| meta.server_info().ok().flatten());
            let mut facts =
                server_facts(revision.clone(), &result.capabilities, info.as_ref(), offer);
            facts.instructions = result.instructions;
            Ok(Probed::Modern(keep(cx, Phase::Ready, facts)))
        }
        (Next::Retry(supported), _) => {
            let spoken = supported.into_iter().find(|revision| *revision == Revision::MODERN);
            Ok(spoken.map_or(Probed::Legacy(None), Probed::Retry))
        }
        (Next::Unsaid, _) => {
            Ok(Probed::Modern(keep(cx, Phase::Ready, Facts::new(revision.clone()))))
        }
        (Next::Refuse, Ok(Err(error))) => Err(ConnectError::Refused(error)),
        (next, answer) => {
            if next == Next::Guess {
                cx.scope.state::<Session>().guessed();
            }
            Ok(Probed::Legacy(answer.ok().and_then(Result::err)))
        }
    }
}

fn modern_probe(cx: &Context, offer: &ClientOffer, revision: &Revision) -> Result<Call, RpcError> {
    let mut capabilities = offer.capabilities.clone();
    if let Some(mgp) = &offer.mgp {
        negotiate::put_client(&mut capabilities, negotiate::client_offer(mgp))?;
        capabilities.mgp = None;
    }
    let mut call = Call::request(
        mgp_types::service::Method::from_static(ServerDiscover::METHOD),
        Params::none(),
        cx.clone(),
    );
    call.hop_mut().meta = vec![
        (key::PROTOCOL_VERSION.into(), Payload::of(revision)?),
        (key::CLIENT_CAPABILITIES.into(), Payload::of(&capabilities)?),
        (key::CLIENT_INFO.into(), Payload::of(&offer.info)?),
    ];
    Ok(call)
}

async fn initialize<S: MgpService>(
    stack: &S,
    cx: &Context,
    offer: &ClientOffer,
) -> Result<Arc<Facts>, ConnectError> {
    let mut capabilities = offer.capabilities.clone();
    if let Some(mgp) = &offer.mgp {
        negotiate::put_client(&mut capabilities, negotiate::client_offer(mgp))
            .map_err(ConnectError::Refused)?;
    }
    let mut params =
        InitializeParams::new(Revision::LATEST_LEGACY, capabilities, offer.info.clone());
    let first: Result<InitializeResult, _> = ask::<Initialize, _, _, _>(stack, cx, &params).await;
    let result = match first {
        Err(ConnectError::Refused(refusal)) => {
            // A server that refuses the newest revision may name one that is spoken here.
            let Some(older) = spoken(&refusal) else { return Err(ConnectError::Refused(refusal)) };
            params.protocol_version = older;
            ask::<Initialize, _, _, _>(stack, cx, &params).await?
        }
        first => first?,
    };
    let revision = result.protocol_version;
    if !Revision::LEGACY.contains(&revision) {
        return Err(ConnectError::Unsupported(revision));
    }
    cx.scope.state::<WireRules>().settle(&revision);
    let mut facts = server_facts(revision, &result.capabilities, Some(&result.server_info), offer);
    facts.instructions = result.instructions;
    Ok(keep(cx, Phase::Initialized, facts))
}

/// The newest legacy revision of those a refusal of `initialize` names (−32602, MCP lifecycle).
fn spoken(refusal: &RpcError) -> Option<Revision> {
    let named = refusal.code() == ErrorCode::INVALID_PARAMS;
    let data: UnsupportedVersionData = refusal.as_data().filter(|_| named)?.get().ok()?;
    let ours =
        |revision: &&Revision| data.supported.contains(*revision) && data.requested != **revision;
    Revision::LEGACY.iter().rev().find(ours).cloned()
}

/// The active MGP set is computed here too: some servers answer with all they have (checklist C41),
/// and what we did not offer is not active whatever they say (C42).
fn server_facts(
    revision: Revision,
    capabilities: &ServerCapabilities,
    info: Option<&Implementation>,
    offer: &ClientOffer,
) -> Facts {
    let mut facts = Facts::new(revision);
    facts.capabilities = Payload::of(capabilities).ok();
    facts.info = info.and_then(|info| Payload::of(info).ok());
    let Some(ours) = &offer.mgp else { return facts };
    let found = capabilities.find_mgp();
    if let Some(theirs) = negotiate::read_offer(found.as_ref(), ours) {
        facts.mgp = Some(negotiate::active(ours, &theirs));
        facts.claimed_server_id.clone_from(&theirs.server_id);
        facts.permissions_required = theirs
            .permissions_required
            .iter()
            .map(|permission| permission.as_str().to_owned())
            .collect();
    }
    facts
}

fn keep(cx: &Context, phase: Phase, facts: Facts) -> Arc<Facts> {
    let facts = Arc::new(facts);
    cx.scope.state::<Session>().settle(phase, Arc::clone(&facts));
    facts
}

async fn run_gate(
    facts: &Arc<Facts>,
    cx: &Context,
    config: &ConnectConfig,
) -> Result<(), ConnectError> {
    let Some(gate) = &config.gate else { return Ok(()) };
    if facts.permissions_required.is_empty() {
        return Ok(());
    }
    let deciding = gate.decide(Arc::clone(facts), cx.clone());
    match timeout(config.permission_timeout, deciding).await {
        Ok(Verdict::Reject) => Err(ConnectError::Rejected(facts.permissions_required.clone())),
        Ok(Verdict::Proceed) => Ok(()),
        Err(_) => {
            tracing::warn!("nobody decided about the permissions in time: deferred");
            Ok(())
        }
    }
}

async fn ask<R, S, P, T>(stack: &S, cx: &Context, params: &P) -> Result<T, ConnectError>
where
    R: Request<Params = P, Result = T>,
    S: MgpService,
    P: Serialize,
    T: DeserializeOwned,
{
    let reply = ready_call(stack, Call::ask::<R>(params, cx.clone())).await?;
    reply.get().map_err(ConnectError::Refused)
}

async fn ready_call<S: MgpService>(
    stack: &S,
    call: Result<Call, RpcError>,
) -> Result<Reply, ConnectError> {
    let call = call.map_err(ConnectError::Refused)?;
    stack.clone().call(call).await.map_err(ConnectError::Refused)
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Peer, Principal, Scope, ScopeKind, Stack};

    use super::*;

    #[tokio::test]
    async fn a_refusal_that_names_a_revision_is_answered_in_it_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for refusals in [1, 2] {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let server = Stack::from_fn(move |call: Call| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                async move {
                    if call.is::<Initialize>() {
                        return Err(RpcError::method_not_found(Initialize::METHOD));
                    }
                    if number < refusals {
                        let data =
                            r#"{"supported":["2030-01-01","2026-07-28"],"requested":"2026-07-28"}"#;
                        return Err(RpcError::new(ErrorCode::UNSUPPORTED_VERSION, "no")
                            .data(Payload::from_trusted(data)));
                    }
                    Reply::of(&DiscoverResult::new(
                        vec![Revision::MODERN],
                        ServerCapabilities::new(),
                    ))
                }
            });
            let cx =
                Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
            let offer = ClientOffer::new(Implementation::new("c", "1"));
            let found = connect(&server, &cx, &offer, &ConnectConfig::default()).await;
            assert_eq!(found.is_ok(), refusals == 1);
            // The second time it is taken for a legacy server, which refuses as well.
            assert_eq!(asked.load(Ordering::Relaxed), if refusals == 1 { 2 } else { 3 });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_modern_server_that_starts_slowly_is_not_taken_for_a_legacy_one() {
        let server = Stack::from_fn(|_| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Reply::of(&DiscoverResult::new(vec![Revision::MODERN], ServerCapabilities::new()))
        });
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let offer = ClientOffer::new(Implementation::new("c", "1"));
        let facts = connect(&server, &cx, &offer, &ConnectConfig::default()).await.unwrap();
        assert_eq!(facts.revision, Revision::MODERN);
    }
}
