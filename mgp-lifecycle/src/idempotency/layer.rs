//! The layer that runs each call with an idempotency key only once.
//!
//! Applies to: inbound and outbound.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgp_types::proposal::{
    CallMembers, IdempotencyHeader, IdempotencyKey, IdempotencyTtl, Member as _, OriginalTimestamp,
    ResultMembers, SessionState, WasReplay,
};
use mgp_types::service::{
    AgentId, BoxFuture, Call, CallRecord, CallerAccess, CallerChannel, ConsumerGone, Context,
    Either, MgpService, OutletItem, OutletItemKind, Peer, Reply, ServerId, Sink, StreamLimit,
    WaitMark,
};
use mgp_types::store::Change;
use mgp_types::{Payload, RpcError, Sha256Hash, Timestamp, canonical_hash};
use tokio::sync::watch;
use tokio::time::timeout;
use tower_service::Service;
use tracing::Instrument as _;

use super::keys::{Claim, KeyedCall};
use super::stored::{RunEnd, SPACE, StoredKey};
use super::{CompensationKey, Idempotency};
use crate::error::LifecycleError;
use crate::transaction::StepOf;

/// The maximum time to wait for the notice that the caller has disconnected, after a partial result was refused. A
/// partial result can be refused a moment before this notice arrives.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(1);

/// Layer that runs a tool call with an idempotency key only once, and answers its repetitions with the stored result.
///
/// The same key of another caller, or for another server or tool, counts as a different key. Place the layer inside all
/// gates (layers that decide about calls), so that the gates decide about a repetition and record it like every call.
///
/// A call with a key continues even if its caller disconnects, so that the caller gets the result when it repeats the
/// call. A call whose handler can ask a modern caller questions is the exception: it ends with the request of its
/// current round. The next round continues it only if that request returned a question. If the request was interrupted,
/// the outcome of the call is unknown.
#[derive(Clone)]
#[must_use]
pub struct IdempotencyLayer {
    keys: Idempotency,
    may_repeat: Option<Arc<MayRepeat>>,
    recheck: Option<Arc<Recheck>>,
}

type MayRepeat = dyn Fn(&Call) -> bool + Send + Sync;
type Recheck = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;

impl IdempotencyLayer {
    /// Creates a layer that stores the results of calls in `keys`.
    pub fn new(keys: Idempotency) -> Self {
        Self { keys, may_repeat: None, recheck: None }
    }

    /// Sets the function that returns whether a call may run again when it is unknown how its first run ended. By
    /// default, no call runs again.
    pub fn may_repeat(
        mut self,
        may_repeat: impl Fn(&Call) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.may_repeat = Some(Arc::new(may_repeat));
        self
    }

    /// Sets the function that checks a call again, e.g. for access. It is called after the call has waited for an equal
    /// call to end, and before the call is answered with the result of an earlier call.
    pub fn recheck(
        mut self,
        recheck: impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + 'static,
    ) -> Self {
        self.recheck = Some(Arc::new(recheck));
        self
    }

    /// Reads the key of a call, if it has one, and adds it to the call's audit record. If the call is forwarded,
    /// replaces the key by one of this process ([`send_own_key`]).
    fn read(&self, call: &mut Call) -> Result<Option<KeyedCall>, RpcError> {
        let Some(mut keyed) = read_key(call)? else { return Ok(None) };
        keyed.may_repeat = self.may_repeat.as_ref().is_some_and(|may_repeat| may_repeat(call));
        if let Some(compensation) = call.cx().extensions.get::<CompensationKey>() {
            compensation.note(&self.keys, &keyed.id);
        }
        if let Some(record) = call.cx().extensions.get::<CallRecord>() {
            record.add_note(IdempotencyKey::NAME, Payload::of(&keyed.key)?);
        }
        if call.cx().server.is_some() {
            send_own_key(call, &keyed.id)?;
        }
        Ok(Some(keyed))
    }
}

/// Reads the key of a call, if it has one. In the result, `may_repeat` is `false`; the layer sets it afterwards.
fn read_key(call: &Call) -> Result<Option<KeyedCall>, RpcError> {
    let cx = call.cx();
    let Some(key) = key_of(cx)? else { return Ok(None) };
    let Some(tool) = call.tool() else { return Ok(None) };
    let caller = &cx.principal;
    let agent = caller.as_agent().map(AgentId::as_str);
    let owner = (caller.tenant().as_str(), caller.subject().as_str(), agent);
    let server = cx.server.as_ref().map_or("", ServerId::as_str);
    let whole = Payload::of(&(owner, server, tool.name, &key.0))?;
    let ttl = cx.member::<IdempotencyTtl>()?;
    // The tool refuses a malformed state, so ignore it here.
    let state = cx.member::<SessionState>().ok().flatten();
    Ok(Some(KeyedCall {
        key,
        id: Sha256Hash::digest(whole.as_str().as_bytes()).to_string(),
        owner: Payload::of(&owner)?.as_str().to_owned(),
        arguments: canonical_hash(tool.arguments.unwrap_or("{}"))?.to_string(),
        ttl_ms: ttl.map(|IdempotencyTtl(seconds)| seconds.saturating_mul(1000)),
        logical: cx.logical.clone(),
        may_repeat: false,
        is_compensation: cx.extensions.get::<CompensationKey>().is_some(),
        transaction: cx.extensions.get::<StepOf>().map_or(String::new(), |step| step.0.clone()),
        state: state.map(|state| Sha256Hash::digest(state.0.as_bytes()).to_string()),
    }))
}

/// Checks the form of the key of a tool call and of its time to live, if the call has a key.
///
/// Outer layers can call this function, so that a malformed key is refused before a person is asked about the call.
///
/// # Errors
/// Returns −32602 (invalid params) if the key or its time to live is malformed.
pub(crate) fn check_key(cx: &Context) -> Result<(), RpcError> {
    if key_of(cx)?.is_some() {
        cx.member::<IdempotencyTtl>()?;
    }
    Ok(())
}

/// Returns the key of a tool call: the member of the call, or else the header of its HTTP request. Refuses a malformed
/// key.
pub(crate) fn key_of(cx: &Context) -> Result<Option<IdempotencyKey>, RpcError> {
    let mut key = cx.member::<IdempotencyKey>()?;
    let negotiated = cx.caller.mgp.unwrap_or_default();
    if key.is_none() && negotiated.contains(IdempotencyKey::EXTENSION) {
        key = cx.extensions.get::<IdempotencyHeader>().map(|header| header.0.clone());
    }
    if let Some(key) = &key {
        key.check()?;
    }
    Ok(key)
}

/// Replaces the key that is sent to the called server. That server gets the calls of all callers from this process, so
/// equal keys of different callers would otherwise be the same key.
fn send_own_key(call: &mut Call, id: &str) -> Result<(), RpcError> {
    let extensions = &mut call.cx_mut().extensions;
    let mut members = extensions.get::<CallMembers>().cloned().unwrap_or_default();
    members.set(&IdempotencyKey(id.to_owned()))?;
    extensions.insert(members);
    Ok(())
}

mgp_types::opaque_debug!(IdempotencyLayer);

mgp_types::layer_service! {
    /// The service that [`IdempotencyLayer`] creates.
    pub IdempotencyService for IdempotencyLayer
}

impl<S: MgpService> Service<Call> for IdempotencyService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        match self.layer.read(&mut call) {
            Ok(None) => Either::Left { future: self.inner.call(call) },
            Ok(Some(keyed)) => {
                let once = call_once(self.layer.clone(), self.inner.clone(), call, keyed);
                Either::Right { future: Box::pin(once) }
            }
            Err(refused) => Either::Right { future: Box::pin(std::future::ready(Err(refused))) },
        }
    }
}

/// Runs a call, or returns the result of an equal call that has run.
async fn call_once<S: MgpService>(
    layer: IdempotencyLayer,
    mut inner: S,
    mut call: Call,
    keyed: KeyedCall,
) -> Result<Reply, RpcError> {
    let (key, ended) = loop {
        match layer.keys.claim(&keyed)? {
            Claim::Run(key, ended) => break (key, ended),
            Claim::Replay(end, began_at) => {
                if let Some(recheck) = &layer.recheck {
                    recheck(&call)?;
                }
                note_replay(call.cx(), &began_at)?;
                if let Some(results) = call.cx().extensions.get::<ResultMembers>()
                    && let Some(members) = &end.members
                {
                    results.restore(&members.get()?);
                }
                add_members(call.cx(), &keyed.key, true, &began_at)?;
                let not_kept = || Err(LifecycleError::ResultNotKept(began_at).into());
                return end.answer().unwrap_or_else(not_kept);
            }
            Claim::Wait(mut running) => {
                // `changed` fails once the run has ended, because its sender is then dropped.
                while running.changed().await.is_ok() {}
                WaitMark::mark(call.cx_mut());
                if let Some(recheck) = &layer.recheck {
                    recheck(&call)?;
                }
            }
        }
    };
    let began_at = key.began_at();
    let cx = call.cx().clone();
    let asker = match &cx.caller_access {
        CallerAccess::Channel(asker) => Some(Arc::clone(asker)),
        _ => None,
    };
    let _caller = ignore_gone_caller(&mut call);
    let mut run = Run { keys: layer.keys, id: keyed.id, asker, ended: Some(ended) };
    let member = keyed.key;
    let results = cx.extensions.get_shared::<ResultMembers>();
    let running = async move {
        run.store_start(key).await?;
        let outcome = inner.call(call).await;
        run.store_end(RunEnd::of(&outcome, results.as_deref())).await;
        outcome
    };
    let reply = run_on(&cx, running).await?;
    add_members(&cx, &member, false, &began_at)?;
    Ok(reply)
}

/// Runs a call to its end even if its caller disconnects. A call that can ask its caller questions through a channel is
/// the exception: it ends with the request of its current round.
pub(crate) async fn run_on(
    cx: &Context,
    running: impl Future<Output = Result<Reply, RpcError>> + Send + 'static,
) -> Result<Reply, RpcError> {
    if matches!(cx.caller_access, CallerAccess::Channel(_)) {
        return running.await;
    }
    let running = tokio::spawn(running.instrument(tracing::Span::current()));
    running.await.map_err(|_| RpcError::internal("the call panicked"))?
}

/// Hides from the handler of a call that its caller has left, if the call continues nevertheless ([`run_on`]).
/// Otherwise the handler would notice that its partial results are no longer received and would end early, and its
/// incomplete result would answer the repetitions of the call. The caller has left once the returned sender is dropped.
#[must_use]
pub(crate) fn ignore_gone_caller(call: &mut Call) -> watch::Sender<()> {
    let (waiting, caller) = watch::channel(());
    let cx = call.cx_mut();
    if !matches!(cx.caller_access, CallerAccess::Channel(_)) {
        let (limit, sent) = (cx.extensions.get_shared::<StreamLimit>(), AtomicU64::new(0));
        let (peer, outlet) = (cx.peer.clone(), std::mem::take(&mut cx.outlet));
        cx.outlet =
            outlet.wrap(|inner| Arc::new(UndeliveredSink { inner, peer, caller, limit, sent }));
    }
    waiting
}

/// A sink (receiver of partial results) for a call whose caller may leave. Once the caller has left, it also accepts
/// the items that its inner sink refuses, up to the maximum total size of the call's chunks. It still refuses
/// callbacks, because they would get no answer.
struct UndeliveredSink {
    inner: Arc<dyn Sink>,
    peer: Peer,
    /// The channel that is closed when the caller leaves.
    caller: watch::Receiver<()>,
    limit: Option<Arc<StreamLimit>>,
    /// The total size of the chunks so far, in bytes.
    sent: AtomicU64,
}

impl UndeliveredSink {
    /// Returns whether the caller has left. Waits a moment for the notice of that, because a partial result can be
    /// refused before the notice arrives. A partial result can also be refused because it exceeds a limit or the caller
    /// reads too slowly.
    async fn has_caller_left(&self) -> bool {
        let mut caller = self.caller.clone();
        // `changed` fails once the sender is dropped, i.e. once the caller has left.
        let left = async { while caller.changed().await.is_ok() {} };
        self.peer.is_closed() || timeout(LEAVING_TIMEOUT, left).await.is_ok()
    }
}

impl Sink for UndeliveredSink {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let size = match &item {
            OutletItem::Chunk(chunk) => chunk.content.as_str().len() as u64,
            _ => 0,
        };
        // A callback needs the caller's answer. So its refusal is passed on, and the tool stops waiting for an answer.
        let may_vanish = !matches!(item, OutletItem::Callback(_));
        let sent = self.sent.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        let max = self.limit.as_ref().map_or(StreamLimit::DEFAULT_BYTES, |limit| limit.bytes());
        let sending = self.inner.send(item);
        Box::pin(async move {
            let outcome = sending.await;
            let is_refused = outcome.is_err() && may_vanish && sent <= max;
            if is_refused && self.has_caller_left().await { Ok(()) } else { outcome }
        })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

fn add_members(
    cx: &Context,
    key: &IdempotencyKey,
    was_replay: bool,
    began_at: &Timestamp,
) -> Result<(), RpcError> {
    cx.add_to_result(key)?;
    cx.add_to_result(&WasReplay(was_replay))?;
    cx.add_to_result(&OriginalTimestamp(began_at.clone()))
}

/// Records in the audit log that a call was answered without being run.
fn note_replay(cx: &Context, began_at: &Timestamp) -> Result<(), RpcError> {
    if let Some(record) = cx.extensions.get::<CallRecord>() {
        record.add_note("replay_of", Payload::of(began_at)?);
    }
    Ok(())
}

/// Guard of a running call. If the guard is dropped before the end of the call is stored, the outcome counts as
/// unknown.
struct Run {
    keys: Idempotency,
    id: String,
    /// The channel for questions to the caller of the run. `None` if the caller cannot be asked, or the run has an
    /// outcome.
    asker: Option<Arc<dyn CallerChannel>>,
    /// The sender that signals the end of the run; `None` once the end is recorded.
    ended: Option<watch::Sender<()>>,
}

impl Run {
    /// Stores that the call is about to run; if that fails, the call must not run.
    async fn store_start(&mut self, key: StoredKey) -> Result<(), RpcError> {
        let change = Change::new().put(SPACE, self.id.as_str(), Payload::of(&key)?);
        let stored = self.keys.commit(change).await;
        if stored.is_err() {
            self.keys.forget(&self.id);
            // From now on the key can belong to the run of another call, which this guard must not mark as interrupted.
            self.ended = None;
        }
        stored.map_err(RpcError::from)
    }

    /// Stores the outcome. If that fails, the error is only logged: the caller still gets the result, and the call is
    /// not run again.
    async fn store_end(mut self, end: RunEnd) {
        self.asker = None;
        let stored = match end {
            RunEnd::NotRun => {
                self.keys.forget(&self.id);
                Ok(())
            }
            RunEnd::Unknown => return,
            RunEnd::Ended(end) => {
                let changed = self.keys.0.table.lock().end(&self.id, end);
                let change =
                    changed.into_iter().fold(Change::new(), |change, (id, key)| match Payload::of(
                        &key,
                    ) {
                        Ok(value) => change.put(SPACE, id, value),
                        Err(_) => change,
                    });
                self.keys.commit(change).await
            }
        };
        self.ended = None;
        if let Err(error) = stored {
            tracing::warn!(%error, "result of a call with an idempotency key not stored");
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.ended.is_some() {
            let has_asked = self.asker.as_ref().is_some_and(|asker| asker.has_suspended());
            self.keys.0.table.lock().interrupt(&self.id, has_asked);
        }
    }
}

impl Idempotency {
    /// Checks the key of a tool call, if it has one; changes nothing.
    ///
    /// A stack can use this function to refuse a call before a person is asked about it; [`IdempotencyLayer`] checks
    /// the key again before the call runs. The layers between this check and [`IdempotencyLayer`] must not change the
    /// arguments of the call, because the key belongs to the arguments that reach that layer.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the key is malformed, or was used with other arguments.
    pub fn check(&self, call: &Call) -> Result<(), RpcError> {
        if let Some(keyed) = read_key(call)? {
            self.0.table.lock().check(&keyed)?;
        }
        Ok(())
    }

    fn claim(&self, call: &KeyedCall) -> Result<Claim, LifecycleError> {
        let mut table = self.0.table.lock();
        let (expired, claim) = table.claim(call);
        if !expired.is_empty() {
            let remove = |change: Change, id| change.remove(SPACE, id);
            self.write_behind(expired.into_iter().fold(Change::new(), remove));
        }
        claim
    }

    /// Removes a key that is not needed, e.g. because its call did not run, so that the key can be used again.
    pub(super) fn forget(&self, id: &str) {
        let mut table = self.0.table.lock();
        table.remove(id);
        self.write_behind(Change::new().remove(SPACE, id));
    }

    /// Removes keys from the store in the background; losing this change would do no harm.
    ///
    /// Must be called while the table is locked, so that a key that is used again immediately is stored after this
    /// removal and not before it.
    fn write_behind(&self, change: Change) {
        let committed = self.0.store.commit(change);
        tokio::spawn(async move {
            if let Err(error) = committed.await {
                tracing::debug!(%error, "idempotency keys not removed from the store");
            }
        });
    }
}
