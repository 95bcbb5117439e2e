//! Forwards audit events to sinks, and stores for each sink the number of the last event delivered to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mgp_types::service::{MgpService, Stack};
use mgp_types::store::Store;
use mgp_types::sync::Mutex;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use super::super::source::EventSource;
use super::sink::SinkTask;

/// The condition under which an event counts as delivered to a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The event was sent. A sink that dies loses the events that were in transit. When it receives the next event, it
    /// notices the gap in the numbers, and can [request](super::Replay) the missing events.
    #[default]
    Sent,
    /// The sink confirmed the event: after each batch the forwarder queries the sink with `mgp.audit.replay`, and sends
    /// missing events again.
    ///
    /// The sink must serve `mgp.audit.replay` as a tool, and must ignore events that it already has.
    Confirmed,
}

/// A sender of the events of a log to the sinks that an operator configured, in order, with their numbers.
///
/// Once a second, the number of the last event delivered to each sink is saved in the store under the sink's name.
/// After a restart, forwarding continues with the event after that number. If the forwarding was not
/// [stopped](Forwarding::stop), e.g. because of a crash, some events may be sent twice, with the same number. While a
/// sink is unreachable, sending is retried with delays that grow from a quarter of a second to half a minute.
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
/// forwarding.wait_for(1).await;
/// assert_eq!(archive.received().len(), 1);
///
/// assert!(forwarder.forward("anybody", archive.peer()).is_err());
/// # });
/// ```
#[derive(Clone)]
#[must_use = "no event is forwarded before `forward` is called"]
pub struct Forwarder {
    source: Arc<dyn EventSource>,
    store: Arc<dyn Store>,
    sinks: Arc<BTreeMap<String, Delivery>>,
    /// The forwarding task of each sink. A new connection to a sink aborts the task of the earlier connection.
    running: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

impl Forwarder {
    /// Creates a forwarder without sinks.
    pub fn new(source: Arc<dyn EventSource>, store: Arc<dyn Store>) -> Self {
        Self { source, store, sinks: Arc::default(), running: Arc::default() }
    }

    /// Adds a sink, which gets all events of the log from the oldest on.
    pub fn sink(mut self, name: impl Into<String>, confirm: Delivery) -> Self {
        Arc::make_mut(&mut self.sinks).insert(name.into(), confirm);
        self
    }

    /// Returns whether a sink of this name was added.
    #[must_use]
    pub fn has_sink(&self, sink: &str) -> bool {
        self.sinks.contains_key(sink)
    }

    /// Forwards to a sink over a connection, until the return value is dropped.
    ///
    /// The connection can be a stack that reconnects. It replaces an earlier connection to the same sink. It must not
    /// be a stack that records calls: each query to the sink would be another event to forward.
    ///
    /// # Errors
    /// [`UnknownSink`] if the sink was not [added](Self::sink), even if the peer negotiated `audit`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn forward(&self, sink: &str, peer: impl MgpService) -> Result<Forwarding, UnknownSink> {
        let confirm = *self.sinks.get(sink).ok_or_else(|| UnknownSink(sink.to_owned()))?;
        let (reached, progress) = watch::channel(0);
        let (stop, stopping) = watch::channel(false);
        let task = SinkTask {
            name: sink.to_owned(),
            source: Arc::clone(&self.source),
            store: Arc::clone(&self.store),
            peer: Stack::new(peer),
            confirm,
            reached,
            stopping,
        };
        let handle = tokio::spawn(task.run());
        let mut running = self.running.lock();
        if let Some(before) = running.insert(sink.to_owned(), handle.abort_handle()) {
            before.abort();
        }
        Ok(Forwarding { handle, progress, stop })
    }
}

mgp_types::opaque_debug!(Forwarder { sinks });

/// The active forwarding to one sink. Dropping it stops the forwarding.
#[derive(Debug)]
#[must_use = "dropping it stops the forwarding"]
pub struct Forwarding {
    handle: JoinHandle<()>,
    progress: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
}

impl Forwarding {
    /// Returns the number of the last event that is known to have been delivered, or that the log removed before its
    /// delivery.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Waits until all events up to the number `seq` count as delivered to the sink. Returns early if another
    /// connection replaces this one.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_for(&mut self, seq: u64) {
        // An error means that the task has ended, so the wait is over, too.
        let _ = self.progress.wait_for(|reached| *reached >= seq).await;
    }

    /// Sends the events that are still in the log, until the sink accepts no more of them, and then stops the
    /// forwarding. Returns after the number of the last delivered event is saved, so that no event is sent twice.
    ///
    /// # Cancel safety
    /// If the future is dropped, the forwarding continues to stop.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        // The task drops the sender of its progress when it ends, so this wait lasts until the end of the task.
        let _ = self.progress.clone().wait_for(|_| false).await;
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// The error for a sink name that was not added to the forwarder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` gets no audit events; the operator must add it as a sink")]
pub struct UnknownSink(String);
