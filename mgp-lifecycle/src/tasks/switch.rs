//! Turns a call's way out from its request to its task: its questions and its partial results.
//!
//! Until the hand-over both go where the caller wanted them.
//! Afterwards questions belong to the task and wait there for answers, and partial results go nowhere.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context as Poller, Poll, Waker};
use std::thread::{self, ThreadId};

use mgp_types::mcp::Era;
use mgp_types::service::{
    Ask, Asker, Asking, BoxFuture, Call, CallKey, Context, Gone, Item, ItemKind, Method, Outlet,
    Params, Reply, Sink,
};
use mgp_types::{Payload, RpcError};
use tokio::sync::Notify;

use super::entry::Entry;
use super::negotiate::Plan;
use super::table::Table;

/// Lets a running call become a task before the layer decides; found in the call's extensions.
///
/// A tool that asks its caller before and after this point asks in two ways:
/// before it the call is answered with the question and runs again, afterwards the task waits for the answer.
#[derive(Clone, Debug)]
pub struct TaskTicket(Arc<Switch>);

impl TaskTicket {
    pub(super) fn new(switch: Arc<Switch>) -> Self {
        Self(switch)
    }

    /// The ticket of a call; none where it stays a request, because of its tool or its caller.
    #[must_use]
    pub fn of(cx: &Context) -> Option<&Self> {
        cx.extensions.get()
    }

    /// Makes the call a task now; the second time does nothing.
    ///
    /// # Errors
    /// 3001 when there are too many tasks.
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have made the task.
    pub async fn begin(&self) -> Result<(), RpcError> {
        match self.0.begin()? {
            Began::Yes => Ok(()),
            // The round ends with the questions it has; the tool runs again with the answers.
            Began::InRound => pending().await,
        }
    }

    /// Whether the call is a task now.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.0.entry().is_some()
    }
}

/// What became of a hand-over.
enum Began {
    Yes,
    InRound,
}

/// What the layer does after it polled a call that is still pending.
pub(super) enum Turn {
    Wait,
    Answer(Reply),
    Task(Arc<Entry>),
}

/// Where a call is.
pub(super) struct Switch {
    /// The surroundings as the caller gave them.
    own: Context,
    table: Weak<Table>,
    plan: Plan,
    stage: Mutex<Stage>,
    turned: Notify,
}

enum Stage {
    Request(Round),
    Task(Arc<Entry>),
    /// The request was answered without a task.
    Over,
}

/// The call while it is a request.
#[derive(Default)]
struct Round {
    /// The thread on which the layer polls the call.
    polling: Option<ThreadId>,
    /// A gate asked in that very poll; what others ask is theirs to take, when their own poll is over.
    asked: bool,
    /// Questions that are the reply of the call.
    reply: Option<Reply>,
    /// Questions were taken: the call ends with them, so it cannot become a task.
    taken: bool,
    layer: Option<Waker>,
}

impl Switch {
    /// Puts a switch into a call.
    pub(super) fn install(call: &mut Call, table: &Arc<Table>, plan: Plan) -> Arc<Self> {
        let switch = Arc::new(Self {
            own: call.cx().clone(),
            table: Arc::downgrade(table),
            plan,
            stage: Mutex::new(Stage::Request(Round::default())),
            turned: Notify::new(),
        });
        let cx = call.cx_mut();
        cx.asking = Asking::Via(Arc::clone(&switch) as Arc<dyn Asker>);
        let outlet = std::mem::replace(&mut cx.outlet, Outlet::none());
        let turning = Arc::clone(&switch);
        cx.outlet = outlet.wrap(|inner| Arc::new(Turning { inner, switch: turning }));
        cx.extensions.insert(TaskTicket::new(Arc::clone(&switch)));
        switch
    }

    pub(super) fn own(&self) -> &Context {
        &self.own
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self) -> Option<Arc<Entry>> {
        match &*self.stage() {
            Stage::Task(entry) => Some(Arc::clone(entry)),
            Stage::Request(_) | Stage::Over => None,
        }
    }

    /// Notes that the layer polls the call on this thread now.
    pub(super) fn polling(&self) {
        if let Stage::Request(round) = &mut *self.stage() {
            round.polling = Some(thread::current().id());
        }
    }

    /// Decides after such a poll.
    pub(super) fn polled(&self, waker: &Waker) -> Turn {
        match &mut *self.stage() {
            Stage::Task(entry) => Turn::Task(Arc::clone(entry)),
            Stage::Over => Turn::Wait,
            Stage::Request(round) => {
                round.polling = None;
                round.layer = Some(waker.clone());
                if std::mem::take(&mut round.asked) {
                    self.suspend(round);
                }
                round.reply.take().map_or(Turn::Wait, Turn::Answer)
            }
        }
    }

    /// Makes a task of a call that stayed pending.
    pub(super) fn hand_over(&self) -> Result<Turn, RpcError> {
        let mut stage = self.stage();
        self.turn(&mut stage)?;
        Ok(match &mut *stage {
            Stage::Task(entry) => Turn::Task(Arc::clone(entry)),
            Stage::Request(round) => round.reply.take().map_or(Turn::Wait, Turn::Answer),
            Stage::Over => Turn::Wait,
        })
    }

    fn begin(&self) -> Result<Began, RpcError> {
        let mut stage = self.stage();
        self.turn(&mut stage)?;
        let (began, layer) = match &mut *stage {
            Stage::Task(_) | Stage::Over => (Began::Yes, None),
            Stage::Request(round) => (Began::InRound, round.layer.take()),
        };
        drop(stage);
        if let Some(layer) = layer {
            layer.wake();
        }
        Ok(began)
    }

    /// Turns from request to task, unless questions of the round are open: those come first.
    fn turn(&self, stage: &mut Stage) -> Result<(), RpcError> {
        let Stage::Request(round) = stage else { return Ok(()) };
        self.suspend(round);
        if round.taken {
            return Ok(());
        }
        let Some(table) = self.table.upgrade() else { return Ok(()) };
        let entry = table.insert(&self.own, &self.plan)?;
        let layer = round.layer.take();
        *stage = Stage::Task(entry);
        self.turned.notify_waiters();
        if let Some(layer) = layer {
            layer.wake();
        }
        Ok(())
    }

    /// Makes the open questions of the round the reply of the call.
    fn suspend(&self, round: &mut Round) {
        if let Asking::Via(asker) = &self.own.asking
            && let Some(reply) = asker.take_suspended()
        {
            round.reply = Some(reply);
            round.taken = true;
        }
    }

    /// The request is answered or dropped; a task that nobody drives yet is handed back.
    pub(super) fn close(&self) -> Option<Arc<Entry>> {
        match std::mem::replace(&mut *self.stage(), Stage::Over) {
            Stage::Task(entry) => Some(entry),
            Stage::Request(_) | Stage::Over => None,
        }
    }

    /// Asks after the hand-over.
    fn ask_in_task(
        &self,
        entry: &Arc<Entry>,
        key: &str,
        ask: Ask,
    ) -> BoxFuture<'static, Result<Payload, RpcError>> {
        if let Some(answer) = entry.answer(key).map(Ok).or_else(|| self.answered_before(key, &ask))
        {
            return Box::pin(std::future::ready(answer));
        }
        let (open, key) = (entry.open(key, ask.clone()), key.to_owned());
        let entry = Arc::clone(entry);
        if self.plan.era == Era::Legacy {
            let own = self.own.clone();
            return Box::pin(async move {
                let _open = open;
                ask_legacy(&entry, own, ask).await
            });
        }
        Box::pin(async move {
            let _open = open;
            loop {
                let changed = entry.changed.notified();
                if let Some(answer) = entry.answer(&key) {
                    return Ok(answer);
                }
                changed.await;
            }
        })
    }

    /// The answer of an earlier round: it is there at once or not at all, and dropping a question withdraws it.
    fn answered_before(&self, key: &str, ask: &Ask) -> Option<Result<Payload, RpcError>> {
        let Asking::Via(asker) = &self.own.asking else { return None };
        let mut answer = asker.ask(key, ask.clone());
        match answer.as_mut().poll(&mut Poller::from_waker(Waker::noop())) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => {
                drop(answer);
                asker.take_suspended();
                None
            }
        }
    }
}

/// Sends a question of a task to a legacy caller: to one that waits for the result, else where the call came from.
async fn ask_legacy(entry: &Entry, own: Context, ask: Ask) -> Result<Payload, RpcError> {
    let to = loop {
        let changed = entry.changed.notified();
        match entry.waiting() {
            Some(waiting) => break waiting,
            None if !own.peer.is_closed() => break own,
            // The caller left; it may come back and wait for the result.
            None => changed.await,
        }
    };
    let params = Params::split(ask.method(), ask.params().as_shared().clone())?;
    let (peer, related) = (to.peer.clone(), to.key);
    let mut cx = to;
    cx.key = CallKey::next();
    cx.outlet = Outlet::none();
    cx.wire_id = None;
    let mut call = Call::request(Method::of(ask.method()), params, cx).related(related);
    let (name, task) = entry.related();
    call.hop_mut().meta.push((name.into(), task));
    match peer.send(call).await?.as_body() {
        Some(body) => Ok(body.as_raw().clone()),
        None => Err(RpcError::internal("the caller answered without a result")),
    }
}

impl Asker for Switch {
    fn ask(&self, key: &str, ask: Ask) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let mut stage = self.stage();
        match (&mut *stage, &self.own.asking) {
            (Stage::Task(entry), _) => {
                let entry = Arc::clone(entry);
                drop(stage);
                self.ask_in_task(&entry, key, ask)
            }
            (Stage::Request(round), Asking::Via(asker)) => {
                round.asked |= round.polling == Some(thread::current().id());
                asker.ask(key, ask)
            }
            (Stage::Request(_) | Stage::Over, _) => {
                let (own, key) = (self.own.clone(), key.to_owned());
                Box::pin(async move { own.ask(&key, ask).await })
            }
        }
    }

    fn forget_early(&self, key: &str) {
        if let Asking::Via(asker) = &self.own.asking {
            asker.forget_early(key);
        }
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        match &self.own.asking {
            Asking::Via(asker) => asker.kept(key),
            _ => None,
        }
    }

    fn keep(&self, key: &str, value: &Payload) {
        if let Asking::Via(asker) = &self.own.asking {
            asker.keep(key, value);
        }
    }

    fn take_suspended(&self) -> Option<Reply> {
        match &mut *self.stage() {
            Stage::Request(round) => {
                if round.reply.is_none() {
                    self.suspend(round);
                }
                round.reply.take()
            }
            Stage::Task(_) | Stage::Over => None,
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.stage() {
            Stage::Request(_) => "Switch(request)",
            Stage::Task(_) => "Switch(task)",
            Stage::Over => "Switch(over)",
        })
    }
}

/// An outlet that ends in nothing once the call is a task: nobody has a stream open for it.
struct Turning {
    inner: Arc<dyn Sink>,
    switch: Arc<Switch>,
}

impl Sink for Turning {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        Box::pin(async move {
            let mut turned = pin!(self.switch.turned.notified());
            if self.switch.entry().is_some() {
                return Ok(());
            }
            let mut sent = pin!(self.inner.send(item));
            // An item that waits for a slow consumer must not hold up the task.
            poll_fn(|task| match sent.as_mut().poll(task) {
                Poll::Pending => turned.as_mut().poll(task).map(|()| Ok(())),
                ready @ Poll::Ready(_) => ready,
            })
            .await
        })
    }

    fn wants(&self, kind: ItemKind) -> bool {
        self.switch.entry().is_none() && self.inner.wants(kind)
    }
}
