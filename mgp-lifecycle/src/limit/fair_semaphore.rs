//! A fair semaphore. Taking a permit costs one atomic operation if only the total is limited and no call waits;
//! otherwise permits are taken and passed on under a lock.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll, ready};

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use tokio::sync::oneshot;

use super::caller::Caller;
use super::concurrency::LimitConfig;
use super::wait_queue::{EntryId, WaitQueue};
use crate::error::LifecycleError;

/// The value that one waiting call adds to `FairSemaphore::count`; the lower 32 bits contain the number of running
/// calls.
const ONE_WAITING: u64 = 1 << 32;

/// Semaphore that grants the permits of a limit, and queues the calls that wait for a permit.
#[derive(Debug)]
pub(super) struct FairSemaphore {
    /// The number of running calls, plus the number of waiting calls times [`ONE_WAITING`].
    ///
    /// Both numbers are in one atomic, so that no wake-up is lost: the task that releases a permit either sees the
    /// waiting call, or releases the permit before that call looks for one.
    count: AtomicU64,
    running: u64,
    config: LimitConfig,
    /// `true` if only the total number of running calls is limited. `false` if callers or tools have their own limits;
    /// running calls are then counted for each of them.
    is_plain: bool,
    queue: Mutex<QueueState>,
}

#[derive(Debug)]
struct QueueState {
    waiting: WaitQueue<WaitingCall>,
    running: RunningCounts,
}

/// The number of running calls per caller, and per tool that has its own limit.
#[derive(Debug, Default)]
struct RunningCounts {
    callers: HashMap<Caller, usize, ahash::RandomState>,
    tools: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
struct WaitingCall {
    /// The caller whose count contains the running call; the principal of the call determines its turn in the queue.
    counted: Caller,
    /// The tool, if it has its own limit.
    tool: Option<Box<str>>,
    permit: oneshot::Sender<Permit>,
}

/// Permission to run one call. When a permit is dropped, the next waiting call gets a permit.
#[derive(Debug)]
pub(super) struct Permit {
    semaphore: Arc<FairSemaphore>,
    /// The counts to decrease when the permit is dropped, if callers or tools have limits.
    counted: Option<Box<CountedCall>>,
}

#[derive(Debug)]
struct CountedCall {
    caller: Caller,
    tool: Option<Box<str>>,
}

/// The result of [`FairSemaphore::acquire`].
pub(super) enum Acquired {
    Now(Permit),
    Later(Waiting),
}

impl FairSemaphore {
    pub(super) fn new(config: LimitConfig) -> Self {
        Self {
            count: AtomicU64::new(0),
            running: u64::try_from(config.max_running).unwrap_or(u64::MAX).min(ONE_WAITING / 2),
            is_plain: config.running_per_caller.is_none() && config.tools.is_empty(),
            config,
            queue: Mutex::new(QueueState {
                waiting: WaitQueue::new(),
                running: RunningCounts::default(),
            }),
        }
    }

    pub(super) fn running(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Relaxed) % ONE_WAITING).unwrap_or(usize::MAX)
    }

    /// Returns the number of running calls of one caller.
    pub(super) fn running_of(&self, principal: &Principal) -> usize {
        let queue = self.queue.lock();
        queue.running.callers.get(&self.caller(principal)).copied().unwrap_or(0)
    }

    /// Returns the caller whose count contains the calls of a principal.
    fn caller(&self, principal: &Principal) -> Caller {
        if self.config.by_agent { Caller::by_agent(principal) } else { Caller::of(principal) }
    }

    pub(super) fn waiting(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Relaxed) / ONE_WAITING).unwrap_or(usize::MAX)
    }

    /// Returns a permit if only the total number is limited, a permit is free, and no call waits for one.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        if !self.is_plain {
            return None;
        }
        let mut count = self.count.load(Ordering::Relaxed);
        // Waiting calls make the count larger than any limit, so no new call gets a permit here while calls wait.
        while count < self.running {
            let taken = self.count.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Some(Permit { semaphore: Arc::clone(self), counted: None }),
                Err(now) => count = now,
            }
        }
        None
    }

    /// Returns a permit if possible; otherwise, adds the call to the queue, or returns an error if the limits of the
    /// queue are reached.
    pub(super) fn acquire(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
    ) -> Result<Acquired, LifecycleError> {
        let counted = self.caller(principal);
        let tool = self.config.tools.contains_key(tool).then(|| Box::from(tool));
        let mut queue = self.queue.lock();
        let fits =
            |queue: &QueueState| queue.running.have_room(&self.config, &counted, tool.as_deref());
        if fits(&queue) {
            // Free permits are first given to waiting calls that can run now. Calls that wait because of the limit of
            // their caller or tool do not block this call.
            let unused = self.grant_waiting(&mut queue);
            let passes = fits(&queue) && !self.can_any_run(&queue) && self.take_slot();
            let permit =
                passes.then(|| self.permit(&mut queue.running, counted.clone(), tool.clone()));
            if permit.is_some() || !unused.is_empty() {
                drop(queue);
                drop(unused);
                if let Some(permit) = permit {
                    return Ok(Acquired::Now(permit));
                }
                queue = self.queue.lock();
            }
        }
        // The users of an agent take turns, even if their calls are counted together.
        let caller = Caller::of(principal);
        if self.config.waiting_per_caller.is_some_and(|max| queue.waiting.len_of(&caller) >= max) {
            return Err(LifecycleError::Saturated);
        }
        let evicted = if queue.waiting.len() >= self.config.max_waiting {
            let evicted = queue.waiting.evict_for(&caller).ok_or(LifecycleError::Saturated)?;
            self.count.fetch_sub(ONE_WAITING, Ordering::AcqRel);
            Some(evicted)
        } else {
            None
        };
        let (permit, receiver) = oneshot::channel();
        let id = queue.waiting.push(&caller, WaitingCall { counted, tool, permit });
        self.count.fetch_add(ONE_WAITING, Ordering::AcqRel);
        let unused = self.grant_waiting(&mut queue);
        drop(queue);
        // Dropping evicted calls and unused permits wakes other tasks, so do it after the lock is released.
        drop((evicted, unused));
        let semaphore = Arc::clone(self);
        Ok(Acquired::Later(Waiting { semaphore, caller, id, receiver: Some(receiver) }))
    }

    /// Returns a permit regardless of the limits, for a function that runs on after its call.
    pub(super) fn acquire_beyond(self: &Arc<Self>, principal: &Principal, tool: &str) -> Permit {
        let tool = self.config.tools.contains_key(tool).then(|| Box::from(tool));
        let mut queue = self.queue.lock();
        self.count.fetch_add(1, Ordering::AcqRel);
        self.permit(&mut queue.running, self.caller(principal), tool)
    }

    /// Returns whether the limits of callers and tools would let any of the waiting calls run.
    fn can_any_run(&self, queue: &QueueState) -> bool {
        queue.waiting.any(|_, call| {
            queue.running.have_room(&self.config, &call.counted, call.tool.as_deref())
        })
    }

    /// Counts one more running call, if the total number is below its limit; returns whether it was counted.
    fn take_slot(&self) -> bool {
        let add = |count: u64| (count % ONE_WAITING < self.running).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Creates the permit of a call that was counted as running.
    fn permit(
        self: &Arc<Self>,
        running: &mut RunningCounts,
        caller: Caller,
        tool: Option<Box<str>>,
    ) -> Permit {
        if self.is_plain {
            return Permit { semaphore: Arc::clone(self), counted: None };
        }
        *running.callers.entry(caller.clone()).or_default() += 1;
        if let Some(tool) = &tool {
            *running.tools.entry(tool.clone()).or_default() += 1;
        }
        let counted = Some(Box::new(CountedCall { caller, tool }));
        Permit { semaphore: Arc::clone(self), counted }
    }

    /// Gives free permits to waiting calls. Returns the permits of calls that no longer wait; drop them after the lock
    /// is released.
    fn grant_waiting(self: &Arc<Self>, queue: &mut QueueState) -> Vec<Permit> {
        let mut unused = Vec::new();
        let QueueState { waiting, running } = queue;
        while waiting.len() > 0 && self.take_slot() {
            let next = waiting.pop(|_, call| {
                running.have_room(&self.config, &call.counted, call.tool.as_deref())
            });
            let Some((_, call)) = next else {
                self.count.fetch_sub(1, Ordering::AcqRel);
                break;
            };
            self.count.fetch_sub(ONE_WAITING, Ordering::AcqRel);
            let permit = self.permit(running, call.counted, call.tool);
            unused.extend(call.permit.send(permit).err());
        }
        unused
    }

    /// Releases a permit, and grants it to a waiting call.
    fn release(self: &Arc<Self>, counted: Option<Box<CountedCall>>) {
        let before = self.count.fetch_sub(1, Ordering::AcqRel);
        if before < ONE_WAITING && counted.is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        if let Some(counted) = counted {
            let CountedCall { caller, tool } = *counted;
            decrement(&mut queue.running.callers, &caller);
            if let Some(tool) = tool {
                decrement(&mut queue.running.tools, &tool);
            }
        }
        let unused = self.grant_waiting(&mut queue);
        drop(queue);
        drop(unused);
    }
}

impl RunningCounts {
    fn have_room(&self, config: &LimitConfig, caller: &Caller, tool: Option<&str>) -> bool {
        let of_caller = || self.callers.get(caller).copied().unwrap_or(0);
        let of_tool = |tool| self.tools.get(tool).copied().unwrap_or(0);
        config.running_per_caller.is_none_or(|max| of_caller() < max)
            && tool.is_none_or(|tool| config.tools.get(tool).is_none_or(|max| of_tool(tool) < *max))
    }
}

/// Decreases the count of a key by one, and removes the key when its count is zero.
fn decrement<K, Q, S>(counts: &mut HashMap<K, usize, S>, key: &Q)
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

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.counted.take());
    }
}

/// A call that waits for a permit; dropping this value removes the call from the queue.
#[derive(Debug)]
pub(super) struct Waiting {
    semaphore: Arc<FairSemaphore>,
    caller: Caller,
    id: EntryId,
    /// Receiver of the permit; `None` after completion.
    receiver: Option<oneshot::Receiver<Permit>>,
}

impl Future for Waiting {
    type Output = Result<Permit, LifecycleError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let Some(receiver) = self.receiver.as_mut() else {
            return Poll::Ready(Err(LifecycleError::Saturated));
        };
        // A dropped sender means that the call was evicted from the queue, so refuse the call.
        let result = ready!(Pin::new(receiver).poll(task)).map_err(|_| LifecycleError::Saturated);
        self.receiver = None;
        Poll::Ready(result)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // If a permit was sent meanwhile, it is dropped with the channel, and so passed on to another call.
        if self.receiver.is_some() {
            let entry = self.semaphore.queue.lock().waiting.remove(&self.caller, self.id);
            if entry.is_some() {
                self.semaphore.count.fetch_sub(ONE_WAITING, Ordering::AcqRel);
            }
        }
    }
}
