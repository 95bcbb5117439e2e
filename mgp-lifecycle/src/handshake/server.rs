//! The server's side: answers `initialize` and `server/discover`, and gives every call the facts of its caller.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::{
    CacheScope, ClientCapabilities, DiscoverResult, Era, Implementation, InitializeParams,
    InitializeResult, Meta, ResultType, Revision, key,
};
use mgp_types::method::{Initialized, Ping, ServerDiscover};
use mgp_types::mgp::MgpCapability;
use mgp_types::service::{
    Asking, Asks, Call, Either, Facts, Kind, MetaKey, MgpService, Reply, WireRules,
};
use mgp_types::{Payload, RpcError};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::callers::{Callers, Said};
use super::era::{self, Way};
use super::gate::{self, Entry};
use super::negotiate;
use super::offer::ServerOffer;
use super::session::{Phase, Session};
use super::veil::{self, Seen};

/// Puts the handshake in front of a server's stack.
///
/// Both eras are served on the same connection: a request with a revision in `_meta` stands alone,
/// any other belongs to the session that `initialize` opened.
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
    typed: Option<Typed>,
    callers: Arc<Callers>,
}

/// Says which tools have an output schema.
type Typed = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl HandshakeLayer {
    /// A layer that offers this.
    pub fn new(offer: ServerOffer) -> Self {
        Self { offer: Arc::new(offer), typed: None, callers: Arc::default() }
    }

    /// Says which tools have an output schema: plain clients get refusals of these as text only,
    /// because some hold even a failed result against the schema.
    pub fn typed(mut self, typed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.typed = Some(Arc::new(typed));
        self
    }
}

impl fmt::Debug for HandshakeLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offer.fmt(f)
    }
}

impl<S> Layer<S> for HandshakeLayer {
    type Service = Handshake<S>;

    fn layer(&self, inner: S) -> Handshake<S> {
        Handshake {
            inner,
            offer: Arc::clone(&self.offer),
            typed: self.typed.clone(),
            callers: Arc::clone(&self.callers),
        }
    }
}

/// Service of [`HandshakeLayer`].
#[derive(Clone)]
pub struct Handshake<S> {
    inner: S,
    offer: Arc<ServerOffer>,
    typed: Option<Typed>,
    callers: Arc<Callers>,
}

impl<S> fmt::Debug for Handshake<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offer.fmt(f)
    }
}

impl<S: MgpService> Service<Call> for Handshake<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let answer = |outcome| Either::Right { future: ready(outcome) };
        match self.admit(&mut call) {
            Ok(Admission::Inner) => {
                let caller = Arc::clone(&call.cx().caller);
                let seen = self.look(&call);
                Either::Left {
                    future: ResponseFuture { inner: self.inner.call(call), caller, seen },
                }
            }
            Ok(Admission::Answered(reply)) => answer(Ok(reply)),
            Err(error) => answer(Err(error.without_recovery())),
        }
    }
}

/// What becomes of a call at the handshake.
enum Admission {
    Inner,
    Answered(Reply),
}

impl<S> Handshake<S> {
    /// Notes what rewriting the outcome needs to know; only plain callers have theirs rewritten.
    fn look(&self, call: &Call) -> Seen {
        let tool = call.tool();
        let is_typed = match (&self.typed, &tool) {
            (Some(typed), Some(tool)) if !call.cx().caller.speaks_mgp() => typed(tool.name),
            _ => false,
        };
        Seen { is_tool_call: tool.is_some(), is_typed }
    }

    fn admit(&self, call: &mut Call) -> Result<Admission, RpcError> {
        let session = call.cx().scope.state::<Session>();
        let (phase, facts) = session.look();
        if call.kind() == Kind::Notification {
            return Ok(self.notification(call, &session, phase, facts));
        }
        let params = call.params();
        let revision = params.meta_member(MetaKey::Revision).map(read::<Revision>).transpose()?;
        let request = era::Request {
            method: call.method().as_str(),
            meta_revision: revision.as_ref(),
            has_capabilities: params.meta_member(MetaKey::ClientCapabilities).is_some(),
            phase,
        };
        match era::way(request, &self.offer.revisions)? {
            Way::Initialize => self.initialize(call, &session).map(Admission::Answered),
            Way::Early => Ok(Admission::Answered(Reply::empty())),
            Way::Legacy => Self::legacy(call, facts, phase),
            Way::Modern => self.modern(call, revision.unwrap_or(Revision::MODERN)),
        }
    }

    // === Legacy ===

    fn initialize(&self, call: &Call, session: &Session) -> Result<Reply, RpcError> {
        let params: InitializeParams = call.params().get()?;
        let Some(revision) = self.offer.legacy_revision(&params.protocol_version) else {
            return Err(era::unsupported_legacy(&params.protocol_version, &self.offer.revisions));
        };
        let offered = params.capabilities.find_mgp();
        let mgp = self.mgp_answer(offered.as_ref());
        let mut facts =
            client_facts(revision.clone(), &params.capabilities, Some(&params.client_info))?;
        facts.mgp = mgp.as_ref().map(MgpCapability::extension_set);
        tracing::debug!(client = %params.client_info.name, %revision, mgp = ?facts.mgp, "initialized");
        let rules = call.cx().scope.state::<WireRules>();
        rules.settle(&revision);
        if facts.speaks_mgp() {
            rules.allow_recovery();
        }
        session.settle(Phase::Initialized, Arc::new(facts));

        let mut capabilities = self.offer.legacy_capabilities(&revision);
        if let Some(mgp) = mgp {
            negotiate::put_server(&mut capabilities, mgp)?;
        }
        let mut result = InitializeResult::new(revision, capabilities, self.offer.info.clone());
        result.instructions.clone_from(&self.offer.instructions);
        Reply::of(&result)
    }

    fn legacy(call: &mut Call, facts: Arc<Facts>, phase: Phase) -> Result<Admission, RpcError> {
        if call.is::<Ping>() {
            return Ok(Admission::Answered(Reply::empty()));
        }
        let asks = facts.asks;
        provide(call, facts);
        // A server sends no requests before the client says that it is ready.
        if asks.any() && phase == Phase::Ready {
            let cx = call.cx_mut();
            cx.asking = Asking::Peer(cx.peer.clone());
        }
        enter(call)
    }

    // === Modern ===

    fn modern(&self, call: &mut Call, revision: Revision) -> Result<Admission, RpcError> {
        let facts = self.modern_facts(call, revision)?;
        if call.is::<ServerDiscover>() {
            let offered = read::<ClientCapabilities>(said(call).capabilities)?.find_mgp();
            provide(call, facts);
            return self.discover(self.mgp_answer(offered.as_ref())).map(Admission::Answered);
        }
        provide(call, facts);
        enter(call)
    }

    /// What the call says of its caller.
    fn modern_facts(&self, call: &Call, revision: Revision) -> Result<Arc<Facts>, RpcError> {
        let said = said(call);
        if let Some(known) = self.callers.known(&revision, said) {
            return Ok(known);
        }
        let facts = Arc::new(self.facts(revision, said)?);
        self.callers.remember(said, &facts);
        Ok(facts)
    }

    fn notification(
        &self,
        call: &mut Call,
        session: &Session,
        phase: Phase,
        facts: Arc<Facts>,
    ) -> Admission {
        if call.tells::<Initialized>() {
            session.ready();
        }
        // Before `initialize` a notification can only come from a modern client, which negotiates with each message.
        let facts = if phase == Phase::New { self.modern_notifier(call) } else { facts };
        let entry = gate::entry(call, &facts);
        provide(call, facts);
        match entry {
            Entry::Pass => Admission::Inner,
            Entry::Refuse(_) | Entry::Drop => Admission::Answered(Reply::None),
        }
    }

    /// What a modern notification says of its sender; one that says nothing, or nothing that can be read, negotiated nothing.
    fn modern_notifier(&self, call: &Call) -> Arc<Facts> {
        let revision = call.params().meta_member(MetaKey::Revision).map(read::<Revision>);
        let spoken = revision.and_then(Result::ok).filter(|revision| {
            revision.era() == Era::Modern && self.offer.revisions.contains(revision)
        });
        let facts = spoken.and_then(|revision| self.modern_facts(call, revision).ok());
        facts.unwrap_or_else(|| Arc::new(Facts::new(Revision::MODERN)))
    }

    fn facts(&self, revision: Revision, said: Said<'_>) -> Result<Facts, RpcError> {
        let capabilities: ClientCapabilities = read(said.capabilities)?;
        let info: Option<Implementation> = said.info.map(read).transpose()?;
        let mgp = self.mgp_answer(capabilities.find_mgp().as_ref());
        let mut facts = client_facts(revision, &capabilities, info.as_ref())?;
        facts.mgp = mgp.as_ref().map(MgpCapability::extension_set);
        Ok(facts)
    }

    fn discover(&self, mgp: Option<MgpCapability>) -> Result<Reply, RpcError> {
        let mut capabilities = self.offer.modern_capabilities();
        // What is offered depends on who asks, so nobody but the asker may keep the answer.
        let scope = if self.offer.mgp.is_some() { CacheScope::Private } else { CacheScope::Public };
        if let Some(mgp) = mgp {
            negotiate::put_server(&mut capabilities, mgp)?;
        }
        let mut result = DiscoverResult::new(self.offer.revisions.clone(), capabilities);
        result.result_type = Some(ResultType::Complete);
        result.instructions.clone_from(&self.offer.instructions);
        result.ttl_ms = Some(DISCOVER_TTL_MS);
        result.cache_scope = Some(scope);
        let mut beside = Meta::new();
        beside.encode(key::SERVER_INFO, &self.offer.info)?;
        result.meta = Some(beside);
        Reply::of(&result)
    }

    fn mgp_answer(
        &self,
        offered: Option<&mgp_types::Lenient<MgpCapability>>,
    ) -> Option<MgpCapability> {
        let ours = self.offer.mgp.as_ref()?;
        let theirs = negotiate::read_offer(offered, ours)?;
        Some(negotiate::server_answer(ours, &theirs))
    }
}

/// How long a client may keep what `server/discover` said: it changes with the program only.
const DISCOVER_TTL_MS: u64 = 3_600_000;

/// What a modern message says of its sender.
fn said(call: &Call) -> Said<'_> {
    let params = call.params();
    Said {
        capabilities: params.meta_member(MetaKey::ClientCapabilities).unwrap_or("{}"),
        info: params.meta_member(MetaKey::ClientInfo),
    }
}

fn enter(call: &Call) -> Result<Admission, RpcError> {
    match gate::entry(call, &call.cx().caller) {
        Entry::Pass => Ok(Admission::Inner),
        Entry::Refuse(error) => Err(error),
        Entry::Drop => Ok(Admission::Answered(Reply::None)),
    }
}

fn provide(call: &mut Call, facts: Arc<Facts>) {
    call.cx_mut().caller = facts;
}

fn client_facts(
    revision: Revision,
    capabilities: &ClientCapabilities,
    info: Option<&Implementation>,
) -> Result<Facts, RpcError> {
    let mut facts = Facts::new(revision);
    facts.asks = Asks::of(capabilities);
    facts.capabilities = Some(Payload::of(capabilities)?);
    facts.info = info.map(Payload::of).transpose()?;
    Ok(facts)
}

/// Reads a member of `_meta`.
fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RpcError> {
    serde_json::from_str(json).map_err(RpcError::invalid_params)
}

pin_project! {
    /// Response future of [`Handshake`]: rewrites the outcome for its caller.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        caller: Arc<Facts>,
        seen: Seen,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.inner.poll(task).map(|outcome| veil::veil(outcome, this.caller, *this.seen))
    }
}

#[cfg(test)]
mod tests;
