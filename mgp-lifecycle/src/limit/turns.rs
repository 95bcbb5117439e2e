//! Turns to run, handed from call to call: a free one costs an atomic step, the rest happens under a lock.
//!
//! Applies to: both.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, ready};

use mgp_types::service::Principal;
use tokio::sync::oneshot;

use super::caller::Caller;
use super::concurrency::LimitConfig;
use super::line::{Line, Number};
use crate::error::Refusal;

/// One call that waits, in the count.
const WAITS: u64 = 1 << 32;

/// All turns of a limit.
#[derive(Debug)]
pub(super) struct Turns {
    /// Calls that run, and above them in units of [`WAITS`] those that wait.
    ///
    /// One word: who gives a turn back either sees that somebody waits, or did so before that one looked for a turn.
    count: AtomicU64,
    running: u64,
    config: LimitConfig,
    /// Whether it only matters how many run in all.
    is_plain: bool,
    held: Mutex<Held>,
}

/// What the count does not say.
#[derive(Debug)]
struct Held {
    line: Line<Place>,
    shares: Shares,
}

/// What runs, where that is bounded: of each caller, and of tools with a bound of their own.
#[derive(Debug, Default)]
struct Shares {
    callers: HashMap<Caller, usize, ahash::RandomState>,
    tools: HashMap<Box<str>, usize>,
}

/// Where a turn is sent to.
#[derive(Debug)]
struct Place {
    /// A tool with a bound of its own.
    tool: Option<Box<str>>,
    turn: oneshot::Sender<Turn>,
}

/// The right to run, given on when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    /// For whom it counts, where that is bounded.
    who: Option<Box<Who>>,
}

#[derive(Debug)]
struct Who {
    caller: Caller,
    tool: Option<Box<str>>,
}

/// A turn, or a place in the line.
pub(super) enum Entered {
    /// It may run.
    Now(Turn),
    /// It waits.
    Later(Waiting),
}

impl Turns {
    pub(super) fn new(config: LimitConfig) -> Self {
        Self {
            count: AtomicU64::new(0),
            running: u64::try_from(config.running).unwrap_or(u64::MAX).min(WAITS / 2),
            is_plain: config.running_each.is_none() && config.tools.is_empty(),
            config,
            held: Mutex::new(Held { line: Line::new(), shares: Shares::default() }),
        }
    }

    pub(super) fn config(&self) -> &LimitConfig {
        &self.config
    }

    /// Calls that run.
    pub(super) fn running(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Relaxed) % WAITS).unwrap_or(usize::MAX)
    }

    /// Calls that wait.
    pub(super) fn waiting(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Relaxed) / WAITS).unwrap_or(usize::MAX)
    }

    /// Takes a turn if one is free and nobody waits for it.
    pub(super) fn try_enter(self: &Arc<Self>) -> Option<Turn> {
        if !self.is_plain {
            return None;
        }
        let mut count = self.count.load(Ordering::Relaxed);
        // Anybody who waits makes the count larger than any bound.
        while count < self.running {
            let taken = self.count.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Some(Turn { turns: Arc::clone(self), who: None }),
                Err(now) => count = now,
            }
        }
        None
    }

    /// Takes a turn, or a place in the line.
    pub(super) fn enter(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
    ) -> Result<Entered, Refusal> {
        let caller = Caller::of(principal);
        let tool = self.config.tools.contains_key(tool).then(|| Box::from(tool));
        let mut held = self.held();
        let fits = |held: &Held| held.shares.have_room(&self.config, &caller, tool.as_deref());
        if fits(&held) {
            // A turn that is free belongs to those before it, as far as they may go; who waits for a share holds up nobody.
            let refused = self.hand_out(&mut held);
            let passes = fits(&held) && !self.may_any_go(&held) && self.take();
            let turn = passes.then(|| self.start(&mut held.shares, caller.clone(), tool.clone()));
            if turn.is_some() || !refused.is_empty() {
                drop(held);
                drop(refused);
                if let Some(turn) = turn {
                    return Ok(Entered::Now(turn));
                }
                held = self.held();
            }
        }
        if self.config.waiting_each.is_some_and(|most| held.line.len_of(&caller) >= most) {
            return Err(Refusal::Saturated);
        }
        let gives_way = if held.line.len() >= self.config.waiting {
            let gives_way = held.line.make_room(&caller).ok_or(Refusal::Saturated)?;
            self.count.fetch_sub(WAITS, Ordering::AcqRel);
            Some(gives_way)
        } else {
            None
        };
        let (turn, comes) = oneshot::channel();
        let number = held.line.push(&caller, Place { tool, turn });
        self.count.fetch_add(WAITS, Ordering::AcqRel);
        let refused = self.hand_out(&mut held);
        drop(held);
        // Wakes others, so it happens without the lock.
        drop((gives_way, refused));
        Ok(Entered::Later(Waiting { turns: Arc::clone(self), caller, number, comes: Some(comes) }))
    }

    /// Whether anybody who waits could run if there was a turn.
    fn may_any_go(&self, held: &Held) -> bool {
        let Held { line, shares } = held;
        line.any(|caller, place| shares.have_room(&self.config, caller, place.tool.as_deref()))
    }

    /// Counts one more that runs, if there is room.
    fn take(&self) -> bool {
        let add = |count: u64| (count % WAITS < self.running).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Makes a turn of one that was counted.
    fn start(
        self: &Arc<Self>,
        shares: &mut Shares,
        caller: Caller,
        tool: Option<Box<str>>,
    ) -> Turn {
        if self.is_plain {
            return Turn { turns: Arc::clone(self), who: None };
        }
        *shares.callers.entry(caller.clone()).or_default() += 1;
        if let Some(tool) = &tool {
            *shares.tools.entry(tool.clone()).or_default() += 1;
        }
        Turn { turns: Arc::clone(self), who: Some(Box::new(Who { caller, tool })) }
    }

    /// Gives free turns to those who wait; what nobody took is to be dropped without the lock.
    fn hand_out(self: &Arc<Self>, held: &mut Held) -> Vec<Turn> {
        let mut refused = Vec::new();
        let Held { line, shares } = held;
        while line.len() > 0 && self.take() {
            let next = line.take(|caller, place| {
                shares.have_room(&self.config, caller, place.tool.as_deref())
            });
            let Some((caller, place)) = next else {
                self.count.fetch_sub(1, Ordering::AcqRel);
                break;
            };
            self.count.fetch_sub(WAITS, Ordering::AcqRel);
            let turn = self.start(shares, caller, place.tool);
            refused.extend(place.turn.send(turn).err());
        }
        refused
    }

    /// Takes a turn back, and gives it on.
    fn leave(self: &Arc<Self>, who: Option<Box<Who>>) {
        let before = self.count.fetch_sub(1, Ordering::AcqRel);
        if before < WAITS && who.is_none() {
            return;
        }
        let mut held = self.held();
        if let Some(who) = who {
            let Who { caller, tool } = *who;
            one_less(&mut held.shares.callers, &caller);
            if let Some(tool) = tool {
                one_less(&mut held.shares.tools, &tool);
            }
        }
        let refused = self.hand_out(&mut held);
        drop(held);
        drop(refused);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    fn have_room(&self, config: &LimitConfig, caller: &Caller, tool: Option<&str>) -> bool {
        let of_caller = || self.callers.get(caller).copied().unwrap_or(0);
        let of_tool = |tool| self.tools.get(tool).copied().unwrap_or(0);
        config.running_each.is_none_or(|most| of_caller() < most)
            && tool
                .is_none_or(|tool| config.tools.get(tool).is_none_or(|most| of_tool(tool) < *most))
    }
}

/// Counts one less, and forgets who has none.
fn one_less<K, Q, S>(counts: &mut HashMap<K, usize, S>, key: &Q)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
    S: BuildHasher,
{
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.leave(self.who.take());
    }
}

/// A call that waits for its turn; dropping it gives up its place.
#[derive(Debug)]
pub(super) struct Waiting {
    turns: Arc<Turns>,
    caller: Caller,
    number: Number,
    /// None once it has come to an end.
    comes: Option<oneshot::Receiver<Turn>>,
}

impl Future for Waiting {
    type Output = Result<Turn, Refusal>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let Some(comes) = self.comes.as_mut() else {
            return Poll::Ready(Err(Refusal::Saturated));
        };
        // Nobody sends any more: somebody else needed the place.
        let came = ready!(Pin::new(comes).poll(task)).map_err(|_| Refusal::Saturated);
        self.comes = None;
        Poll::Ready(came)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A turn that was sent meanwhile goes with its channel.
        if self.comes.is_some() {
            let place = self.turns.held().line.remove(&self.caller, self.number);
            if place.is_some() {
                self.turns.count.fetch_sub(WAITS, Ordering::AcqRel);
            }
        }
    }
}
