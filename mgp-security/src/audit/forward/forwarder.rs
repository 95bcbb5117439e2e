//! Who gets which events, and how far each has them.
//!
//! Applies to: outbound.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mgp_types::service::{MgpService, Stack};
use mgp_types::store::Store;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use super::super::source::EventSource;
use super::task::Task;

/// How it is known that a sink has an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// It was sent: what was on its way when the sink died is missing there until the sink sees the gap and
    /// [asks](super::Replay) for it, which it can with the next event.
    #[default]
    Sent,
    /// The sink said so: after each batch it is asked what it has of it by `mgp.audit.replay`, and what is missing is
    /// sent again.
    ///
    /// The sink must serve that tool, and drop events that it has already.
    Asked,
}

/// Sends the events of a log to the sinks an operator named, in order, with their numbers (C11 as amended, D4).
///
/// How far each sink is stands in the store, under its name, so that forwarding goes on there after a restart; it is
/// written once a second, and what is sent again after a crash has its old number.
/// While a sink cannot be reached it is tried again, after a quarter of a second at first and half a minute at most.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Delivery, Event, Forwarder};
/// use mgp_types::mgp::Actor;
/// use mgp_types::service::{AuditSink, MemoryAudit, Reply, Stack, mock};
/// use mgp_types::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let log = MemoryAudit::new();
/// let forwarder = Forwarder::new(Arc::new(log.clone()), Arc::new(MemoryStore::new()))
///     .sink("archive", Delivery::Sent);
///
/// let archive = mock::peer(Stack::from_fn(|_| async { Ok(Reply::None) }));
/// let mut forwarding = forwarder.forward("archive", archive.peer()).unwrap();
/// log.record(Event::policy_changed(Actor::kernel(), None).build()).await.unwrap();
/// forwarding.reaches(1).await;
/// assert_eq!(archive.seen().len(), 1);
///
/// assert!(forwarder.forward("anybody", archive.peer()).is_err());
/// # });
/// ```
#[derive(Clone)]
#[must_use = "nothing is forwarded before `forward`"]
pub struct Forwarder {
    source: Arc<dyn EventSource>,
    store: Arc<dyn Store>,
    sinks: Arc<BTreeMap<String, Delivery>>,
    /// What runs for each sink, so that a second connection takes over from the first.
    running: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

impl Forwarder {
    /// Forwards to nobody yet.
    pub fn new(source: Arc<dyn EventSource>, store: Arc<dyn Store>) -> Self {
        Self { source, store, sinks: Arc::default(), running: Arc::default() }
    }

    /// Names a sink; it gets all events there are, from the oldest on.
    pub fn sink(mut self, name: impl Into<String>, confirm: Delivery) -> Self {
        Arc::make_mut(&mut self.sinks).insert(name.into(), confirm);
        self
    }

    /// Whether an operator named this sink.
    #[must_use]
    pub fn names(&self, sink: &str) -> bool {
        self.sinks.contains_key(sink)
    }

    /// Forwards to a sink over its connection, until what is returned is dropped.
    ///
    /// The connection may be a stack that finds another one when the first is gone.
    /// Where the sink has one already, this one takes over.
    /// It must not be a stack that records calls: asking what the sink has would be an event to forward.
    ///
    /// # Errors
    /// [`NotNamed`]: a peer that negotiated `audit` gets nothing unless an operator named it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn forward(&self, sink: &str, peer: impl MgpService) -> Result<Forwarding, NotNamed> {
        let confirm = *self.sinks.get(sink).ok_or_else(|| NotNamed(sink.to_owned()))?;
        let (reached, progress) = watch::channel(0);
        let task = Task {
            name: sink.to_owned(),
            source: Arc::clone(&self.source),
            store: Arc::clone(&self.store),
            peer: Stack::new(peer),
            confirm,
            reached,
        };
        let handle = tokio::spawn(task.run());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = running.insert(sink.to_owned(), handle.abort_handle()) {
            before.abort();
        }
        Ok(Forwarding { handle, progress })
    }
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Forwarder").field(&self.sinks).finish()
    }
}

/// Events on their way to one sink; dropping it stops them.
#[derive(Debug)]
#[must_use = "dropping it stops the forwarding"]
pub struct Forwarding {
    handle: JoinHandle<()>,
    progress: watch::Receiver<u64>,
}

impl Forwarding {
    /// The number of the last event that the sink has, as far as is known.
    #[must_use]
    pub fn reached(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until the sink has an event; returns early when another connection took over.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn reaches(&mut self, seq: u64) {
        // An error says that the task is gone.
        let _ = self.progress.wait_for(|reached| *reached >= seq).await;
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Nobody named this sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` gets no audit events: no operator named it as a sink")]
pub struct NotNamed(String);
