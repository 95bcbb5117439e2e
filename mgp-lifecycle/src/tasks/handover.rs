//! Redirects a call's questions and partial results when the call becomes a task.
//!
//! While the call is a request, both are sent to the caller over that request. Once it is a task, questions are kept in
//! the task until they are answered, and partial results are dropped.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context as Poller, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use mgp_types::mcp::Era;
use mgp_types::service::{
    BoxFuture, Call, CallKey, CallerAccess, CallerChannel, CallerRequest, ConsumerGone, Context,
    Method, Outlet, OutletItem, OutletItemKind, Params, Reply, Sink,
};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError, clip, escape_hidden};
use tokio::sync::Notify;

use super::entry::Entry;
use super::negotiate::Plan;
use super::table::Table;

/// Ticket in a call's extensions that lets the handler make the call a task earlier than the layer would.
///
/// A question asked before [`begin`](Self::begin) ends the call: it is returned to the caller, and the call runs again
/// with the answer. A question asked afterwards is kept in the task, and the running call waits for the answer.
#[derive(Clone, Debug)]
pub struct TaskTicket(Arc<CallStage>);

impl TaskTicket {
    pub(super) fn new(stage: Arc<CallStage>) -> Self {
        Self(stage)
    }

    /// Returns the ticket of a call; `None` if the call cannot become a task, because of its tool or its caller.
    #[must_use]
    pub fn of(cx: &Context) -> Option<&Self> {
        cx.extensions.get()
    }

    /// Makes the call a task now; does nothing if it is a task already. If questions of this round are open, the future
    /// never completes: the call ends with these questions, and runs again with the answers.
    ///
    /// # Errors
    /// Returns 3001 (resource exhausted) if there are too many tasks.
    ///
    /// # Cancel safety
    /// If the future is dropped, the call may or may not have become a task.
    pub async fn begin(&self) -> Result<(), RpcError> {
        match self.0.begin_task()? {
            HandOver::Done => Ok(()),
            // The request ends with the questions, and the tool runs again with the answers. So this run must not
            // continue.
            HandOver::Suspended => pending().await,
        }
    }

    /// Recommends a poll interval to the caller. If the call waits for a task of another server, this can be the
    /// interval of that task. Has no effect before the call has become a task. The interval is at least 100 ms and at
    /// most one minute.
    pub fn recommend_interval(&self, interval: Duration) {
        if let Some(entry) = self.0.entry() {
            entry.set_poll_interval(interval.clamp(MIN_INTERVAL, MAX_INTERVAL));
        }
    }

    /// Sets the status message of the task, which describes the running call for display. If the call waits for a task
    /// of another server, this can be the message of that task. Has no effect before the call has become a task. Hidden
    /// characters are escaped, and a message longer than 1 KiB is shortened.
    pub fn set_status_message(&self, message: &str) {
        if let Some(entry) = self.0.entry() {
            entry.set_status_message(escape_hidden(&clip(message, MAX_MESSAGE_BYTES)));
        }
    }
}

/// The limits of the poll intervals that a handler recommends.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum number of bytes of a status message.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The result of the attempt to make a call a task.
enum HandOver {
    Done,
    /// The call has asked questions, so the request ends with these questions, and the call does not become a task.
    Suspended,
}

/// The step that the layer takes after it has polled a call that is still pending.
pub(super) enum NextStep {
    Wait,
    Answer(Reply),
    Task(Arc<Entry>),
}

/// The stage of a call, i.e. a request or a task; also receives the questions that the call asks.
pub(super) struct CallStage {
    /// The context of the call as it arrived, before the layer changed it.
    own: Context,
    table: Weak<Table>,
    plan: Plan,
    stage: Mutex<Stage>,
    handed_over: Notify,
}

enum Stage {
    Request(Round),
    Task(Arc<Entry>),
    /// The request was answered, so the call has no task.
    Closed,
}

/// The state of the call while it is a request.
#[derive(Default)]
struct Round {
    /// The thread that is polling the call for the layer; `None` between two polls.
    polling: Option<ThreadId>,
    /// `true` if a question was asked on the thread `polling` during the poll. If the handler runs on a tokio task of
    /// its own, `run_round` collects the questions on that task instead.
    asked: bool,
    /// Open questions, in the form of the reply that ends the call.
    reply: Option<Reply>,
    /// `true` if questions were collected. The call then ends with them and cannot become a task.
    suspended: bool,
    layer: Option<Waker>,
}

impl CallStage {
    /// Replaces the call's channel for questions, and its outlet for partial results, by a channel and an outlet that
    /// depend on the call's stage. Adds the call's [`TaskTicket`].
    pub(super) fn install(call: &mut Call, table: &Arc<Table>, plan: Plan) -> Arc<Self> {
        let this = Arc::new(Self {
            own: call.cx().clone(),
            table: Arc::downgrade(table),
            plan,
            stage: Mutex::new(Stage::Request(Round::default())),
            handed_over: Notify::new(),
        });
        let cx = call.cx_mut();
        cx.caller_access = CallerAccess::Channel(Arc::clone(&this) as Arc<dyn CallerChannel>);
        let outlet = std::mem::replace(&mut cx.outlet, Outlet::none());
        let stage = Arc::clone(&this);
        cx.outlet = outlet.wrap(|inner| Arc::new(RequestOutlet { inner, stage }));
        cx.extensions.insert(TaskTicket::new(Arc::clone(&this)));
        this
    }

    pub(super) fn own(&self) -> &Context {
        &self.own
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn entry(&self) -> Option<Arc<Entry>> {
        match &*self.stage.lock() {
            Stage::Task(entry) => Some(Arc::clone(entry)),
            Stage::Request(_) | Stage::Closed => None,
        }
    }

    /// Records that the layer is polling the call on this thread.
    pub(super) fn begin_poll(&self) {
        if let Stage::Request(round) = &mut *self.stage.lock() {
            round.polling = Some(thread::current().id());
        }
    }

    /// Returns the step that the layer must take after a poll of the call.
    pub(super) fn end_poll(&self, waker: &Waker) -> NextStep {
        match &mut *self.stage.lock() {
            Stage::Task(entry) => NextStep::Task(Arc::clone(entry)),
            Stage::Closed => NextStep::Wait,
            Stage::Request(round) => {
                round.polling = None;
                round.layer = Some(waker.clone());
                if std::mem::take(&mut round.asked) {
                    self.suspend(round);
                }
                round.reply.take().map_or(NextStep::Wait, NextStep::Answer)
            }
        }
    }

    /// Turns a call that stayed pending into a task.
    pub(super) fn hand_over(&self) -> Result<NextStep, RpcError> {
        let mut stage = self.stage.lock();
        self.become_task(&mut stage)?;
        Ok(match &mut *stage {
            Stage::Task(entry) => NextStep::Task(Arc::clone(entry)),
            Stage::Request(round) => round.reply.take().map_or(NextStep::Wait, NextStep::Answer),
            Stage::Closed => NextStep::Wait,
        })
    }

    fn begin_task(&self) -> Result<HandOver, RpcError> {
        let mut stage = self.stage.lock();
        self.become_task(&mut stage)?;
        let (result, layer) = match &mut *stage {
            Stage::Task(_) | Stage::Closed => (HandOver::Done, None),
            Stage::Request(round) => (HandOver::Suspended, round.layer.take()),
        };
        drop(stage);
        if let Some(layer) = layer {
            layer.wake();
        }
        Ok(result)
    }

    /// Makes the request a task. If the handler has already asked questions, the call ends with these questions
    /// instead, and runs again with the answers.
    fn become_task(&self, stage: &mut Stage) -> Result<(), RpcError> {
        let Stage::Request(round) = stage else { return Ok(()) };
        self.suspend(round);
        if round.suspended {
            return Ok(());
        }
        let Some(table) = self.table.upgrade() else { return Ok(()) };
        let entry = table.insert(&self.own, &self.plan)?;
        let layer = round.layer.take();
        *stage = Stage::Task(entry);
        self.handed_over.notify_waiters();
        if let Some(layer) = layer {
            layer.wake();
        }
        Ok(())
    }

    /// Turns the open questions of the round into the reply to the call.
    fn suspend(&self, round: &mut Round) {
        if let CallerAccess::Channel(asker) = &self.own.caller_access
            && let Some(reply) = asker.take_suspended()
        {
            round.reply = Some(reply);
            round.suspended = true;
        }
    }

    /// Closes a request that was answered or dropped. Returns its task if a task was created but is not driven yet.
    pub(super) fn close(&self) -> Option<Arc<Entry>> {
        match std::mem::replace(&mut *self.stage.lock(), Stage::Closed) {
            Stage::Task(entry) => Some(entry),
            Stage::Request(_) | Stage::Closed => None,
        }
    }

    /// Asks a question after the call has become a task.
    fn ask_in_task(
        &self,
        entry: &Arc<Entry>,
        key: &str,
        ask: CallerRequest,
    ) -> BoxFuture<'static, Result<Payload, RpcError>> {
        if let Some(answer) = entry.answer(key).map(Ok).or_else(|| self.earlier_answer(key, &ask)) {
            return Box::pin(std::future::ready(answer));
        }
        let (question, key) = (entry.open_question(key, ask.clone()), key.to_owned());
        let entry = Arc::clone(entry);
        if self.plan.era == Era::Legacy {
            let own = self.own.clone();
            return Box::pin(async move {
                let _question = question;
                ask_legacy(&entry, own, ask).await
            });
        }
        Box::pin(async move {
            let _question = question;
            loop {
                let changed = entry.changed.notified();
                if let Some(answer) = entry.answer(&key) {
                    return Ok(answer);
                }
                changed.await;
            }
        })
    }

    /// Returns the answer from an earlier round, if any. The question is asked only to look up the answer, and is
    /// withdrawn if there is none.
    fn earlier_answer(&self, key: &str, ask: &CallerRequest) -> Option<Result<Payload, RpcError>> {
        let CallerAccess::Channel(asker) = &self.own.caller_access else { return None };
        let mut answer = asker.ask(key, ask.clone());
        match answer.as_mut().poll(&mut Poller::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => {
                drop(answer);
                asker.take_suspended();
                None
            }
        }
    }
}

/// Sends a question of a task to a legacy caller: over a waiting `tasks/result` if there is one, else over the original
/// call. A caller over HTTP that reads no stream for the latter gets the question with its next `tasks/result`.
async fn ask_legacy(entry: &Entry, own: Context, ask: CallerRequest) -> Result<Payload, RpcError> {
    let waiting = loop {
        let changed = entry.changed.notified();
        if let Some(waiting) = entry.latest_waiting() {
            break waiting;
        }
        if own.peer.is_closed() {
            // The caller has disconnected, but it might connect again and wait for the result, so wait for that.
            changed.await;
            continue;
        }
        tokio::select! {
            // Send first: a `tasks/result` that has arrived meanwhile is found only if the question is unread by then.
            biased;
            answer = send_question(entry, own.clone(), ask.clone()) => return answer,
            () = wait_for_unread(entry, &own) => {}
        }
    };
    send_question(entry, waiting, ask).await
}

/// Waits until the caller waits for the result of its task and has not read what was sent over its original call.
async fn wait_for_unread(entry: &Entry, own: &Context) {
    loop {
        let changed = entry.changed.notified();
        if entry.latest_waiting().is_some() && own.peer.has_unread(own.key) {
            return;
        }
        changed.await;
    }
}

async fn send_question(
    entry: &Entry,
    to: Context,
    ask: CallerRequest,
) -> Result<Payload, RpcError> {
    let params = Params::split(ask.method(), ask.params().as_shared().clone())?;
    let (peer, related) = (to.peer.clone(), to.key);
    let mut cx = to;
    cx.key = CallKey::next();
    cx.outlet = Outlet::none();
    cx.wire_id = None;
    let mut call = Call::request(Method::of(ask.method()), params, cx).related(related);
    let (name, task) = entry.related_task_meta();
    call.hop_mut().meta.push((name.into(), task));
    match peer.send(call).await?.as_body() {
        Some(body) => Ok(body.as_raw().clone()),
        None => Err(RpcError::internal("the caller answered without a result")),
    }
}

impl CallerChannel for CallStage {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let mut stage = self.stage.lock();
        match (&mut *stage, &self.own.caller_access) {
            (Stage::Task(entry), _) => {
                let entry = Arc::clone(entry);
                drop(stage);
                self.ask_in_task(&entry, key, ask)
            }
            (Stage::Request(round), CallerAccess::Channel(asker)) => {
                round.asked |= round.polling == Some(thread::current().id());
                asker.ask(key, ask)
            }
            (Stage::Request(_) | Stage::Closed, _) => {
                let (own, key) = (self.own.clone(), key.to_owned());
                Box::pin(async move { own.ask(&key, ask).await })
            }
        }
    }

    fn forget_early(&self, key: &str) {
        if let CallerAccess::Channel(asker) = &self.own.caller_access {
            asker.forget_early(key);
        }
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        match &self.own.caller_access {
            CallerAccess::Channel(asker) => asker.kept(key),
            _ => None,
        }
    }

    fn keep(&self, key: &str, value: &Payload) {
        if let CallerAccess::Channel(asker) = &self.own.caller_access {
            asker.keep(key, value);
        }
    }

    fn has_asked(&self, key: &str) -> bool {
        matches!(&self.own.caller_access, CallerAccess::Channel(asker) if asker.has_asked(key))
    }

    fn has_suspended(&self) -> bool {
        let CallerAccess::Channel(asker) = &self.own.caller_access else { return false };
        // A question of a task does not end the call. The channel of the request is then ignored, because a task uses
        // this channel only to look up earlier answers.
        let is_task = matches!(&*self.stage.lock(), Stage::Task(_));
        !is_task && asker.has_suspended()
    }

    fn take_suspended(&self) -> Option<Reply> {
        match &mut *self.stage.lock() {
            Stage::Request(round) => {
                if round.reply.is_none() {
                    self.suspend(round);
                }
                round.reply.take()
            }
            Stage::Task(_) | Stage::Closed => None,
        }
    }
}

mgp_types::opaque_debug!(CallStage);

/// An outlet (channel for partial results) that drops items once the call is a task, because a task has no stream for
/// them.
struct RequestOutlet {
    inner: Arc<dyn Sink>,
    stage: Arc<CallStage>,
}

impl Sink for RequestOutlet {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        Box::pin(async move {
            let mut handed_over = pin!(self.stage.handed_over.notified());
            if self.stage.entry().is_some() {
                return Ok(());
            }
            let mut sent = pin!(self.inner.send(item));
            // An item might still wait for a slow consumer when the call becomes a task. The item is dropped then, so
            // that it does not block the task.
            poll_fn(|task| match sent.as_mut().poll(task) {
                Poll::Pending => handed_over.as_mut().poll(task).map(|()| Ok(())),
                ready @ Poll::Ready(_) => ready,
            })
            .await
        })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.stage.entry().is_none() && self.inner.wants(kind)
    }
}
