//! The stream a modern client keeps open to hear of changes (MCP `subscriptions/listen`).
//!
//! In the modern era a server tells nothing to a client that does not listen.
//! So a client whose user wants to hear of changes, or watches a resource, keeps one such request open: for the lists the
//! server announces changes of and for the resources that are watched. A server that speaks of its states does it there.
//!
//! Applies to: outbound, modern.

mod ear;
mod pause;
mod stream;
mod wish;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgp_types::mcp::{ServerCapabilities, SubscriptionFilter};
use mgp_types::service::{Context, Stack};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use self::ear::acknowledged;
use self::stream::Listener;
use self::wish::{Offer, Settled, Wish};
use crate::cache::Lists;
use crate::config::ListenConfig;
use crate::handler::Hooks;
use crate::wire::Life;

/// What a client needs to listen.
pub(crate) struct Parts {
    pub(crate) stack: Stack,
    pub(crate) cx: Context,
    pub(crate) life: Life,
    pub(crate) lists: Arc<Lists>,
    pub(crate) hooks: Hooks,
    pub(crate) config: ListenConfig,
    /// How long a server may take to say that it agrees.
    pub(crate) patience: Duration,
}

/// Whether a server tells of its states besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Changes,
    States,
}

/// What is listened for, and the task that does; it ends with this.
pub(crate) struct Listening {
    offer: Offer,
    wish: watch::Sender<Wish>,
    settled: watch::Receiver<Settled>,
    /// One change of the wish after another, so that a refusal is for the one who caused it.
    turn: tokio::sync::Mutex<()>,
    task: Mutex<Task>,
}

enum Task {
    /// Nobody wants to hear anything yet.
    Idle(Box<Listener>),
    Running(JoinHandle<()>),
    /// There is nothing to hear.
    None,
}

impl Listening {
    /// Listens at once where the user hears of changes, else once a resource is watched.
    pub(crate) fn new(parts: Parts, capabilities: &ServerCapabilities, told: Told) -> Self {
        let mut offer = Offer::of(capabilities, parts.hooks.hears_changes());
        offer.states = told == Told::States && parts.hooks.hears_states();
        let (wish, wishes) = watch::channel(Wish::default());
        let (settle, settled) = watch::channel(Settled::default());
        let task = if offer.is_empty() {
            Task::None
        } else {
            Task::Idle(Box::new(Listener::new(parts, offer, wishes, settle)))
        };
        let listening = Self {
            offer,
            wish,
            settled,
            turn: tokio::sync::Mutex::default(),
            task: Mutex::new(task),
        };
        if offer.is_heard() {
            listening.start();
        }
        listening
    }

    fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        *task = match std::mem::replace(&mut *task, Task::None) {
            Task::Idle(listener) => Task::Running(tokio::spawn(listener.run())),
            other => other,
        };
    }

    /// Watches a resource; it is watched once the server agreed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave it watched.
    pub(crate) async fn watch(&self, uri: &str) -> Result<(), RpcError> {
        if !self.offer.watches() {
            let message = "the server does not offer to watch resources";
            return Err(RpcError::new(ErrorCode::METHOD_NOT_FOUND, message));
        }
        let _turn = self.turn.lock().await;
        let Some(generation) = self.change(|wish| wish.add(uri)) else { return Ok(()) };
        self.start();
        let refusal = match self.settled(generation).await {
            Ok(agreed) if agreed.resource_subscriptions.iter().any(|known| known == uri) => {
                return Ok(());
            }
            Ok(_) => RpcError::invalid_params(format!("the server does not watch `{uri}`")),
            Err(error) => error,
        };
        self.change(|wish| wish.remove(uri));
        Err(refusal)
    }

    /// Stops watching a resource.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it unwatched a little later.
    pub(crate) async fn unwatch(&self, uri: &str) -> Result<(), RpcError> {
        let _turn = self.turn.lock().await;
        match self.change(|wish| wish.remove(uri)) {
            Some(generation) => self.settled(generation).await.map(drop),
            None => Ok(()),
        }
    }

    /// Changes the wish; gives the generation of one that is new.
    fn change(&self, change: impl FnOnce(&mut Wish) -> bool) -> Option<u64> {
        let mut generation = None;
        self.wish.send_if_modified(|wish| {
            let is_new = change(wish);
            if is_new {
                wish.generation += 1;
                generation = Some(wish.generation);
            }
            is_new
        });
        generation
    }

    /// What became of a wish.
    async fn settled(&self, generation: u64) -> Result<SubscriptionFilter, RpcError> {
        let mut settled = self.settled.clone();
        match settled.wait_for(|settled| settled.generation >= generation).await {
            Ok(settled) => settled.outcome.clone(),
            Err(_) => Err(mgp_types::service::closed("the connection ended")),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Task::Running(running) = task {
            running.abort();
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offer.fmt(f)
    }
}
