//! The stream of changes of a modern client (MCP `subscriptions/listen`).
//!
//! In the modern era a server sends no changes without such a stream. If the user has hooks for changes or subscribes
//! to a resource, the client keeps one stream open: for the lists whose changes the server announces, and for the
//! subscribed resources. Servers also send changes of their state on it.

mod acknowledge;
mod retry_delay;
mod stream;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{ServerCapabilities, SubscriptionFilter};
use mgp_types::service::{Context, Stack};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use self::acknowledge::{AcknowledgeSender, acknowledged};
use self::stream::Listener;
use self::subscriptions::{Agreement, Reportable, Subscriptions};
use crate::cache::ListCache;
use crate::config::ListenConfig;
use crate::handler::Hooks;
use crate::wire::Liveness;

/// The maximum time for which the end of a client waits for the end of its stream.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct StreamContext {
    pub(crate) stack: Stack,
    pub(crate) cx: Context,
    pub(crate) liveness: Liveness,
    pub(crate) lists: Arc<ListCache>,
    pub(crate) hooks: Hooks,
    pub(crate) config: ListenConfig,
    /// The time limit for the server to acknowledge a stream.
    pub(crate) acknowledge_timeout: Duration,
}

/// A client's stream of changes, which is kept open while it is needed, and the subscriptions to resources. The stream
/// is closed when this value is dropped.
pub(crate) struct ChangeStream {
    reportable: Reportable,
    subscriptions: watch::Sender<Subscriptions>,
    agreement: watch::Receiver<Agreement>,
    /// A lock held while subscriptions change, so that a refusal is returned to the caller that caused it.
    changing: tokio::sync::Mutex<()>,
    task: Mutex<Task>,
}

enum Task {
    /// The client needs no stream of changes yet.
    Idle(Box<Listener>),
    Running(JoinHandle<()>),
    /// The client never needs a stream: there are no changes to report to hooks, and no resources to subscribe to.
    None,
}

impl ChangeStream {
    /// Opens the stream immediately if there are hooks for changes that the server reports, else with the first
    /// subscribed resource.
    pub(crate) fn new(
        context: StreamContext,
        capabilities: &ServerCapabilities,
        reports_states: bool,
    ) -> Self {
        let mut reportable = Reportable::of(capabilities, context.hooks.has_change_hooks());
        reportable.states = reports_states && context.hooks.has_state_hooks();
        let (subscriptions, subscription_changes) = watch::channel(Subscriptions::default());
        let (agreement_sender, agreement) = watch::channel(Agreement::default());
        let task = if reportable.is_empty() {
            Task::None
        } else {
            Task::Idle(Box::new(Listener::new(
                context,
                reportable,
                subscription_changes,
                agreement_sender,
            )))
        };
        let stream = Self {
            reportable,
            subscriptions,
            agreement,
            changing: tokio::sync::Mutex::default(),
            task: Mutex::new(task),
        };
        if reportable.needs_stream() {
            stream.start();
        }
        stream
    }

    fn start(&self) {
        let mut task = self.task.lock();
        *task = match std::mem::replace(&mut *task, Task::None) {
            Task::Idle(listener) => Task::Running(tokio::spawn(listener.run())),
            other => other,
        };
    }

    /// Subscribes to a resource; returns when the server has accepted the subscription.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription may remain.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<(), RpcError> {
        if !self.reportable.reports_resources() {
            let message = "the server does not offer subscriptions to resources";
            return Err(RpcError::new(ErrorCode::METHOD_NOT_FOUND, message));
        }
        let _turn = self.changing.lock().await;
        let added = self.change(|subscriptions| subscriptions.add(uri));
        // If the resource was already added, wait for the server's answer to the current subscriptions: the server may
        // have refused this resource when the stream was last opened.
        let generation = added.unwrap_or_else(|| self.subscriptions.borrow().generation);
        self.start();
        let refusal = match self.agreement(generation).await {
            Ok(agreed) if agreed.resource_subscriptions.iter().any(|known| known == uri) => {
                return Ok(());
            }
            Ok(_) => RpcError::invalid_params(format!(
                "the server does not accept a subscription to `{uri}`"
            )),
            Err(error) => error,
        };
        if added.is_some() {
            self.change(|subscriptions| subscriptions.remove(uri));
        }
        Err(refusal)
    }

    /// Unsubscribes from a resource.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription ends a little later, or remains if another change was still running.
    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<(), RpcError> {
        let _turn = self.changing.lock().await;
        let Some(generation) = self.change(|subscriptions| subscriptions.remove(uri)) else {
            return Ok(());
        };
        let outcome = self.agreement(generation).await;
        // The stream may have been updated by a later attempt meanwhile. Read the failure and the state of the stream
        // together, so that both belong to the same attempt.
        let is_kept = {
            let latest = self.agreement.borrow();
            latest.outcome.is_err() && latest.has_stream
        };
        if outcome.is_err() && is_kept {
            // The old stream still reports the resource, so the subscription remains, and the caller can try again.
            self.change(|subscriptions| subscriptions.add(uri));
        }
        outcome.map(drop)
    }

    /// Ends the stream, and returns when its request is cancelled, or after a second. A server would otherwise wait for
    /// the request to end after the connection is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the stream ends nevertheless.
    pub(crate) async fn close(&self) {
        let task = std::mem::replace(&mut *self.task.lock(), Task::None);
        if let Task::Running(running) = task {
            running.abort();
            // The result is that the task was aborted, unless it ended before. A hook that runs in the task may wait
            // for the end of the client, so the task may not end in time.
            let _ = timeout(CLOSE_TIMEOUT, running).await;
        }
    }

    /// Changes the subscriptions; returns their new generation, or `None` if nothing changed.
    fn change(&self, change: impl FnOnce(&mut Subscriptions) -> bool) -> Option<u64> {
        let mut generation = None;
        self.subscriptions.send_if_modified(|subscriptions| {
            let is_new = change(subscriptions);
            if is_new {
                subscriptions.generation += 1;
                generation = Some(subscriptions.generation);
            }
            is_new
        });
        generation
    }

    /// Waits for the server's answer to a generation of subscriptions.
    async fn agreement(&self, generation: u64) -> Result<SubscriptionFilter, RpcError> {
        let mut agreement = self.agreement.clone();
        match agreement.wait_for(|agreement| agreement.generation >= generation).await {
            Ok(agreement) => agreement.outcome.clone(),
            Err(_) => Err(mgp_types::service::connection_closed("the connection ended")),
        }
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        let task = self.task.get_mut();
        if let Task::Running(running) = task {
            running.abort();
        }
    }
}

mgp_types::opaque_debug!(ChangeStream { reportable });
