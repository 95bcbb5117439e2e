//! The server's side of the handshake: answers `initialize` and `server/discover`, and attaches the facts about its
//! caller to every call.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::{
    CacheScope, ClientCapabilities, DiscoverResult, Era, Implementation, InitializeParams,
    InitializeResult, Meta, ResultType, Revision, key,
};
use mgp_types::method::{Initialized, Ping, ServerDiscover};
use mgp_types::mgp::{ExtensionSet, MgpCapability};
use mgp_types::service::{
    AcceptedRequests, Call, CallerAccess, Either, Kind, MetaKey, MgpService, PeerInfo, Reply,
    WireRules,
};
use mgp_types::{Lenient, Payload, RpcError};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::callers::{CallerMeta, RecentCallers};
use super::era::{self, Route};
use super::gate::{self, GateDecision};
use super::negotiate;
use super::offer::ServerOffer;
use super::plain_errors::{CallInfo, HasOutputSchema, adapt_to_caller};
use super::state::{HandshakeState, Phase};

/// The layer for the handshake in a server's stack.
///
/// One connection serves both eras of MCP: a request with a revision in `_meta` (modern) needs no session; any other
/// request (legacy) belongs to the session that `initialize` started.
///
/// ```
/// use mgp_lifecycle::{HandshakeLayer, ServerOffer};
/// use mgp_types::mcp::Implementation;
/// use mgp_types::service::{Router, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let offer = ServerOffer::new(Implementation::new("weather", "1.0"));
/// let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(Router::new())));
/// assert_eq!(client.request("tools/list", "{}").await.unwrap_err().code().0, -32600);
///
/// let hello = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
/// let result = client.request("initialize", hello).await.unwrap();
/// assert!(result.as_str().contains(r#""protocolVersion":"2025-06-18""#));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct HandshakeLayer {
    offer: Arc<ServerOffer>,
    has_output_schema: Option<HasOutputSchema>,
    callers: Arc<RecentCallers>,
}

impl HandshakeLayer {
    /// Creates a layer with an offer.
    pub fn new(offer: ServerOffer) -> Self {
        Self { offer: Arc::new(offer), has_output_schema: None, callers: Arc::default() }
    }

    /// Sets the function that returns whether a tool has an output schema. For such a tool, a client without MGP gets
    /// the reason of a refused call only as text, because some clients check even failed results against the schema.
    pub fn typed(mut self, has_schema: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.has_output_schema = Some(Arc::new(has_schema));
        self
    }
}

mgp_types::opaque_debug!(HandshakeLayer { offer });

mgp_types::layer_service! {
    /// The service that [`HandshakeLayer`] creates.
    pub Handshake for HandshakeLayer
}

impl<S: MgpService> Service<Call> for Handshake<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let answer = |outcome| Either::Right { future: ready(outcome) };
        match self.admit(&mut call) {
            Ok(Admission::Forward) => {
                let caller = Arc::clone(&call.cx().caller);
                let info = self.call_info(&call);
                if info.typed.is_some() && might_become_task(&call) {
                    // Store these facts in the call: the outcome of a task does not pass this layer, and the layer for
                    // tasks uses the facts to give the outcome the form that its caller expects.
                    call.cx_mut().extensions.insert(info.clone());
                }
                Either::Left {
                    future: ResponseFuture { inner: self.inner.call(call), caller, info },
                }
            }
            Ok(Admission::Answered(reply)) => answer(Ok(reply)),
            Err(error) => answer(Err(error.without_recovery())),
        }
    }
}

/// The decision of the handshake about a call.
enum Admission {
    Forward,
    Answered(Reply),
}

impl<S> Handshake<S> {
    /// Returns the facts that are needed to adapt the outcome of a call to its caller. The tool and its output schema
    /// matter only for clients without MGP, so they are left out for other clients.
    fn call_info(&self, call: &Call) -> CallInfo {
        let tool = call.tool();
        let typed = match (&self.layer.has_output_schema, &tool) {
            (Some(has), Some(tool)) if !call.cx().caller.supports_mgp() => {
                Some((Arc::clone(has), tool.name.into()))
            }
            _ => None,
        };
        CallInfo { is_tool_call: tool.is_some(), typed }
    }

    fn admit(&self, call: &mut Call) -> Result<Admission, RpcError> {
        let session = call.cx().scope.state::<HandshakeState>();
        let (phase, facts) = session.snapshot();
        if call.kind() == Kind::Notification {
            return Ok(self.notification(call, &session, phase, facts));
        }
        let params = call.params();
        let revision = params.meta_member(MetaKey::Revision).map(read::<Revision>).transpose()?;
        let request = era::RequestFacts {
            method: call.method().as_str(),
            meta_revision: revision.as_ref(),
            has_capabilities: params.meta_member(MetaKey::ClientCapabilities).is_some(),
            phase,
        };
        match era::route(request, &self.layer.offer.revisions)? {
            Route::Initialize => self.initialize(call, &session).map(Admission::Answered),
            Route::Early => Ok(Admission::Answered(Reply::empty())),
            Route::Legacy => self.legacy(call, facts, phase),
            Route::Modern => self.modern(call, revision.unwrap_or(Revision::MODERN)),
        }
    }

    // === Legacy ===

    fn initialize(&self, call: &Call, session: &HandshakeState) -> Result<Reply, RpcError> {
        let params: InitializeParams = call.params().get()?;
        let offer = &self.layer.offer;
        let Some(revision) = offer.legacy_revision(&params.protocol_version) else {
            return Err(era::unsupported_legacy(&params.protocol_version, &offer.revisions));
        };
        let offered = params.capabilities.find_mgp();
        let mut facts =
            client_facts(revision.clone(), &params.capabilities, Some(&params.client_info))?;
        let mgp = self.negotiate_mgp(offered.as_ref(), &mut facts);
        tracing::debug!(client = %params.client_info.name, %revision, mgp = ?facts.mgp, "initialized");
        let rules = call.cx().scope.state::<WireRules>();
        rules.set_revision(&revision);
        if facts.supports_mgp() {
            rules.allow_recovery();
        }
        session.settle(Phase::Initialized, Arc::new(facts));

        let mut capabilities = offer.legacy_capabilities(&revision);
        if let Some(mgp) = mgp {
            negotiate::put_server(&mut capabilities, mgp, params.capabilities.mgp_places())?;
        }
        let mut result = InitializeResult::new(revision, capabilities, offer.info.clone());
        result.instructions.clone_from(&offer.instructions);
        Reply::of(&result)
    }

    fn legacy(
        &self,
        call: &mut Call,
        facts: Arc<PeerInfo>,
        phase: Phase,
    ) -> Result<Admission, RpcError> {
        if call.is::<Ping>() {
            return Ok(Admission::Answered(Reply::empty()));
        }
        let asks = facts.accepts;
        call.cx_mut().caller = facts;
        // A server must not send requests before the client is ready, so the caller can be asked only then.
        if asks.any() && phase == Phase::Ready {
            let cx = call.cx_mut();
            cx.caller_access = CallerAccess::Peer(cx.peer.clone());
        }
        enter(call, self.served())
    }

    // === Modern ===

    fn modern(&self, call: &mut Call, revision: Revision) -> Result<Admission, RpcError> {
        let facts = self.modern_facts(call, revision)?;
        if call.is::<ServerDiscover>() {
            let capabilities: ClientCapabilities = read(caller_meta(call).capabilities)?;
            call.cx_mut().caller = facts;
            return self.discover(&capabilities).map(Admission::Answered);
        }
        call.cx_mut().caller = facts;
        enter(call, self.served())
    }

    /// Returns the extensions that the server offers to every client.
    fn served(&self) -> ExtensionSet {
        self.layer.offer.mgp.as_ref().map_or(ExtensionSet::EMPTY, negotiate::offered)
    }

    /// Returns the facts about a call's caller, from the cache if the caller's `_meta` was parsed before.
    fn modern_facts(&self, call: &Call, revision: Revision) -> Result<Arc<PeerInfo>, RpcError> {
        let meta = caller_meta(call);
        if let Some(facts) = self.layer.callers.get(&revision, meta) {
            return Ok(facts);
        }
        let facts = Arc::new(self.facts(revision, meta)?);
        self.layer.callers.insert(meta, &facts);
        Ok(facts)
    }

    fn notification(
        &self,
        call: &mut Call,
        session: &HandshakeState,
        phase: Phase,
        facts: Arc<PeerInfo>,
    ) -> Admission {
        if call.tells::<Initialized>() {
            session.set_ready();
        }
        // A notification before `initialize` can only come from a modern client, whose `_meta` contains what was
        // negotiated, so read it from there.
        let facts = if phase == Phase::New { self.modern_sender(call) } else { facts };
        let decision = gate::check(call, &facts, self.served());
        call.cx_mut().caller = facts;
        match decision {
            GateDecision::Pass => Admission::Forward,
            GateDecision::Refuse(_) | GateDecision::Drop => Admission::Answered(Reply::None),
        }
    }

    /// Returns the facts about the sender of a modern notification. Without a valid `_meta`, nothing counts as
    /// negotiated.
    fn modern_sender(&self, call: &Call) -> Arc<PeerInfo> {
        let revision = call.params().meta_member(MetaKey::Revision).map(read::<Revision>);
        let supported = revision.and_then(Result::ok).filter(|revision| {
            revision.era() == Era::Modern && self.layer.offer.revisions.contains(revision)
        });
        let facts = supported.and_then(|revision| self.modern_facts(call, revision).ok());
        facts.unwrap_or_else(|| Arc::new(PeerInfo::new(Revision::MODERN)))
    }

    fn facts(&self, revision: Revision, meta: CallerMeta<'_>) -> Result<PeerInfo, RpcError> {
        let capabilities: ClientCapabilities = read(meta.capabilities)?;
        let info: Option<Implementation> = meta.info.map(read).transpose()?;
        let mut facts = client_facts(revision, &capabilities, info.as_ref())?;
        self.negotiate_mgp(capabilities.find_mgp().as_ref(), &mut facts);
        Ok(facts)
    }

    fn discover(&self, client: &ClientCapabilities) -> Result<Reply, RpcError> {
        let mgp = self.mgp_answer(client.find_mgp().as_ref());
        let offer = &self.layer.offer;
        let mut capabilities = offer.modern_capabilities();
        // With an MGP offer, the answer depends on the caller, so it must not be stored in shared caches.
        let scope = if offer.mgp.is_some() { CacheScope::Private } else { CacheScope::Public };
        if let Some(mut mgp) = mgp {
            let asks_in_rounds = offer.mgp.as_ref().is_some_and(|ours| ours.asks_in_rounds);
            mgp.asks_in_rounds = asks_in_rounds.then_some(true);
            negotiate::put_server(&mut capabilities, mgp, client.mgp_places())?;
        }
        let mut result = DiscoverResult::new(offer.revisions.clone(), capabilities);
        result.result_type = Some(ResultType::Complete);
        result.instructions.clone_from(&offer.instructions);
        result.ttl_ms = Some(DISCOVER_TTL_MS);
        result.cache_scope = Some(scope);
        let mut meta = Meta::new();
        meta.encode(key::SERVER_INFO, &offer.info)?;
        result.meta = Some(meta);
        Reply::of(&result)
    }

    fn mgp_answer(&self, offered: Option<&Lenient<MgpCapability>>) -> Option<MgpCapability> {
        let ours = self.layer.offer.mgp.as_ref()?;
        let theirs = negotiate::read_offer(offered, ours)?;
        Some(negotiate::server_answer(ours, &theirs))
    }

    /// Stores the result of the negotiation with a client, and returns the answer to the client's offer.
    fn negotiate_mgp(
        &self,
        offered: Option<&Lenient<MgpCapability>>,
        facts: &mut PeerInfo,
    ) -> Option<MgpCapability> {
        let ours = self.layer.offer.mgp.as_ref()?;
        let theirs = negotiate::read_offer(offered, ours)?;
        let answer = negotiate::server_answer(ours, &theirs);
        // An extension is active only if the answer contains it, so that both sides agree.
        facts.mgp = Some(negotiate::active(ours, &theirs) & answer.extension_set());
        facts.mgp_version = Some(theirs.version);
        Some(answer)
    }
}

/// The time that a client can cache the answer to `server/discover`: 1 h, in milliseconds. The answer can change only
/// when the program is updated.
const DISCOVER_TTL_MS: u64 = 3_600_000;

fn caller_meta(call: &Call) -> CallerMeta<'_> {
    let params = call.params();
    CallerMeta {
        capabilities: params.meta_member(MetaKey::ClientCapabilities).unwrap_or("{}"),
        info: params.meta_member(MetaKey::ClientInfo),
    }
}

fn enter(call: &Call, served: ExtensionSet) -> Result<Admission, RpcError> {
    match gate::check(call, &call.cx().caller, served) {
        GateDecision::Pass => Ok(Admission::Forward),
        GateDecision::Refuse(error) => Err(error),
        GateDecision::Drop => Ok(Admission::Answered(Reply::None)),
    }
}

/// Returns whether a tool call might become a task. The text is only searched and not parsed, so `true` can be wrong.
fn might_become_task(call: &Call) -> bool {
    let caller = &call.cx().caller;
    match caller.era {
        Era::Modern => {
            let offered = caller.capabilities.as_ref();
            offered.is_some_and(|offered| offered.as_str().contains(key::TASKS_EXTENSION))
        }
        Era::Legacy => call.params().may_contain_member("\"task\""),
    }
}

fn client_facts(
    revision: Revision,
    capabilities: &ClientCapabilities,
    info: Option<&Implementation>,
) -> Result<PeerInfo, RpcError> {
    let mut facts = PeerInfo::new(revision);
    facts.accepts = AcceptedRequests::from_capabilities(capabilities);
    facts.shows_apps = capabilities.shows_apps();
    facts.capabilities = Some(Payload::of(capabilities)?);
    facts.info = info.map(Payload::of).transpose()?;
    Ok(facts)
}

/// Parses a member of `_meta`.
fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RpcError> {
    serde_json::from_str(json).map_err(RpcError::invalid_params)
}

pin_project! {
    /// Response future of [`Handshake`]: adapts the outcome to its caller.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        caller: Arc<PeerInfo>,
        info: CallInfo,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.inner.poll(task).map(|outcome| adapt_to_caller(outcome, this.caller, this.info))
    }
}

#[cfg(test)]
mod tests;
