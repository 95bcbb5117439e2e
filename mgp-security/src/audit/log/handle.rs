//! The handle of a log: what callers record through, and read.
//!
//! Applies to: both.

use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditSink, Audited, BoxFuture, Start, Ticket, Unaudited};
use mgp_types::store::{Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::config::LogConfig;
use super::digest::DigestKey;
use super::error::LogError;
use super::group::EVENT_MAX;
use super::json;
use super::query::{AuditPage, AuditQuery, Reader};
use super::queue::{Account, Intent, Item, Kept, Room, Shared};
use super::segments::{Disk, Place, Segments};
use super::writer::Writer;
use crate::audit::EventSource;

/// How long a call waits for room.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long closing waits until everything is kept, and so does dropping the last handle outside a runtime.
const FAREWELL: Duration = Duration::from_secs(5);

/// The same on a thread of a runtime, which has others to serve: the log is written all the same.
const BRIEF: Duration = Duration::from_millis(200);

/// An audit log in files of one directory: append-only, each record chained to the one before (MGP §6).
///
/// It is a cheap handle; dropping the last one writes what was handed over, and frees the log for others.
/// [`close`](Self::close) waits for that; dropping waits no longer than a moment on a thread of a runtime.
/// What was acknowledged survives a killed process.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{AuditLayer, AuditLog, AuditQuery, Head, LogConfig, verify};
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # let dir = std::env::temp_dir().join(format!("mgp-audit-log-doc-{}", std::process::id()));
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let log = AuditLog::open(LogConfig::new(&dir), None).await.unwrap();
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(AuditLayer::new(Arc::new(log.clone())).layer(tools)));
/// client.request("tools/call", r#"{"name":"water"}"#).await.unwrap();
///
/// log.flush().await.unwrap();
/// let page = log.query(AuditQuery::new().tool("water")).await.unwrap();
/// assert_eq!(page.events[0].event_type.as_str(), "TOOL_EXECUTED");
///
/// let head = Head::beside(&dir, "audit").unwrap().unwrap();
/// assert_eq!(verify(&dir, "audit", &head).unwrap(), 2, "the call, and that it was about to run");
/// # });
/// # std::fs::remove_dir_all(&dir).unwrap();
/// ```
#[derive(Clone)]
pub struct AuditLog(Arc<Open>);

struct Open {
    shared: Arc<Shared>,
    reader: Reader,
    /// The name in the store, and the store's news, where there is one.
    outbox: Option<(String, watch::Receiver<u64>)>,
    digests: Option<DigestKey>,
    writer: Option<JoinHandle<()>>,
}

// === impl AuditLog ===

impl AuditLog {
    /// Opens a log, for this process alone.
    ///
    /// With a store, the head is kept there and events that were committed for this log are taken out of it.
    /// Without one the head is kept in a file beside the log: that finds damage, but not one who may change both.
    ///
    /// A line that a killed process left incomplete is cut off, which a checkpoint says, and calls that it had begun
    /// are recorded as failed, `cancelled` and `interrupted`.
    ///
    /// # Errors
    /// [`LogError`].
    ///
    /// # Cancel safety
    /// The log may be open for a moment still.
    pub async fn open(config: LogConfig, store: Option<Arc<dyn Store>>) -> Result<Self, LogError> {
        Self::open_on(config, store, |segments| Box::new(segments)).await
    }

    pub(super) async fn open_on(
        config: LogConfig,
        store: Option<Arc<dyn Store>>,
        disk_of: impl FnOnce(Segments) -> Box<dyn Disk> + Send + 'static,
    ) -> Result<Self, LogError> {
        let place = Place::new(&config.dir, &config.name)?;
        let outbox = store.as_ref().map(|store| (config.name.clone(), store.revision()));
        let (opened, answer) = oneshot::channel();
        // The thread that writes reads the files too, so that no runtime waits for a disk.
        let writer = thread::Builder::new().name("mgp-audit".to_owned()).spawn(move || {
            let digests = config.digest_key.clone();
            let writer = Writer::open(config, store, disk_of);
            let writer = writer.and_then(|writer| {
                let digests = digests.as_deref().map(DigestKey::open).transpose()?;
                Ok((writer, digests))
            });
            match writer {
                Ok((writer, digests)) => {
                    let told = opened.send(Ok((Arc::clone(writer.shared()), digests)));
                    // Where nobody waits any more the log is closed again.
                    if told.is_ok() {
                        writer.run();
                    }
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        let writer = writer.map_err(LogError::io(&place.dir, "written by a thread"))?;
        let (shared, digests) = match answer.await {
            Ok(opened) => opened?,
            Err(_) => match writer.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(StoreError::Closed.into()),
            },
        };
        let reader = Reader::new(place, Arc::clone(&shared));
        Ok(Self(Arc::new(Open { shared, reader, outbox, digests, writer: Some(writer) })))
    }

    /// Records an event and answers with the number of its record, once it is kept.
    ///
    /// # Errors
    /// As [`record`](AuditSink::record).
    pub fn append(&self, event: &AuditEvent) -> Audited<u64> {
        let shared = &self.0.shared;
        if let Some(failure) = shared.failure() {
            return Audited::Ready(Err(failure));
        }
        let Some(text) = json::event(event).filter(|text| text.len() <= EVENT_MAX) else {
            return Audited::Ready(Err(Unaudited::failed(TooMuch)));
        };
        let room = if shared.take(1) {
            Room::Permit
        } else if shared.queue_up() {
            Room::Waiting
        } else {
            return Audited::Ready(Err(Unaudited::Full));
        };
        let (kept, answer) = oneshot::channel();
        shared.push(Item::Event { text, room, kept });
        Audited::Later(Box::pin(async move { answer.await.unwrap_or(Err(Unaudited::Closed)) }))
    }

    /// Waits until everything that was handed over before is kept, and its head too: what was recorded here, and what
    /// was committed to the store for this log.
    ///
    /// # Errors
    /// [`Unaudited`] when it cannot be written.
    ///
    /// # Cancel safety
    /// It is written all the same.
    pub async fn flush(&self) -> Result<(), Unaudited> {
        let (kept, answer) = oneshot::channel();
        if let Some(failure) = self.0.shared.failure() {
            return Err(failure);
        }
        self.0.shared.push(Item::Flush { kept });
        answer.await.unwrap_or(Err(Unaudited::Closed)).map(drop)
    }

    /// Ends the log for all its handles, once what was handed over is kept; others may open it when the last one is gone.
    ///
    /// Calls that run are waited for elsewhere: their records are written when they end.
    ///
    /// # Errors
    /// [`Unaudited`] when something could not be written.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the log closing, or open if it was not polled.
    pub async fn close(self) -> Result<(), Unaudited> {
        let flushed = self.flush().await;
        let shared = Arc::clone(&self.0.shared);
        let close = move || shared.close(FAREWELL);
        match Handle::try_current() {
            // It fails where the runtime ends, and with it whatever was waited for.
            Ok(runtime) => drop(runtime.spawn_blocking(close).await),
            Err(_) => drop(close()),
        }
        flushed
    }

    /// Finds events that are kept; each call looks at a bounded part of the log.
    ///
    /// # Errors
    /// [`StoreError`] when the log cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn query(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        self.0.reader.run(move |reader| reader.query(&query)).await
    }

    /// Where the log is kept, and under which name.
    #[must_use]
    pub fn place(&self) -> (&Path, &str) {
        self.0.reader.place()
    }

    /// The key for digests of what may not stand in the log, where the configuration names one.
    #[must_use]
    pub fn digest_key(&self) -> Option<&DigestKey> {
        self.0.digests.as_ref()
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLog").field(&self.0.reader).finish()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let patience = if Handle::try_current().is_ok() { BRIEF } else { FAREWELL };
        if self.shared.close(patience)
            && let Some(writer) = self.writer.take()
        {
            let _ = writer.join();
        }
    }
}

// === impl AuditSink ===

impl AuditSink for AuditLog {
    fn begin(&self, mut start: Start) -> Audited<Ticket> {
        let shared = &self.0.shared;
        if let Some(failure) = shared.failure() {
            return Audited::Ready(Err(failure));
        }
        let mut needs_intent = start.needs_intent();
        let mut earlier_intent = None;
        let mut goes_on = false;
        if start.logical.is_some() {
            let mut suspended = shared.suspended.lock().unwrap_or_else(PoisonError::into_inner);
            // The room of the earlier round, and its intent, are now those of this one.
            if let Some((earlier, intent)) = suspended.resume(&start) {
                start.continues(&earlier);
                goes_on = true;
                needs_intent &= intent.is_none();
                earlier_intent = intent;
            }
        }
        let records = u32::from(!goes_on) + u32::from(needs_intent);
        let waits = records > 0 && !shared.take(records);
        if !waits && !needs_intent && earlier_intent.is_none() {
            // Naming the type first lets the clone widen to the trait object.
            let ledger: Arc<Shared> = Arc::clone(shared);
            return Audited::Ready(Ok(Ticket::new(start, ledger)));
        }
        if waits && !goes_on && !shared.queue_up() {
            return Audited::Ready(Err(Unaudited::Full));
        }
        let intent = if needs_intent { Some(Arc::new(Intent::default())) } else { earlier_intent };
        let account = Arc::new(Account {
            shared: Arc::clone(shared),
            intent: intent.clone(),
            waits: AtomicBool::new(waits && !goes_on),
            void: AtomicBool::new(false),
        });
        let ledger: Arc<Account> = Arc::clone(&account);
        let ticket = Ticket::new(start, ledger);
        if !waits && !needs_intent {
            return Audited::Ready(Ok(ticket));
        }
        let intent = intent.filter(|_| needs_intent);
        if !waits {
            // Handed over here, so that no time is lost until the future is polled.
            let answer = announce(&account, &ticket, intent);
            return Audited::Later(Box::pin(kept(ticket, answer)));
        }
        Audited::Later(Box::pin(async move {
            let room = account.shared.room.acquire_many(records);
            let Ok(Ok(permits)) = tokio::time::timeout(PATIENCE, room).await else {
                // A call that had begun in an earlier round is recorded as cancelled; others never ran.
                if !goes_on {
                    account.void();
                }
                return Err(account.shared.failure().unwrap_or(Unaudited::Full));
            };
            permits.forget();
            if account.waits.swap(false, Ordering::AcqRel) {
                account.shared.give_back(Room::Waiting);
            }
            let answer = announce(&account, &ticket, intent);
            kept(ticket, answer).await
        }))
    }

    fn record(&self, event: AuditEvent) -> Audited<()> {
        match self.append(&event) {
            Audited::Ready(answer) => Audited::Ready(answer.map(drop)),
            Audited::Later(answer) => {
                Audited::Later(Box::pin(async move { answer.await.map(drop) }))
            }
        }
    }

    fn outbox(&self, store: &dyn Store) -> Option<&str> {
        let (name, own) = self.0.outbox.as_ref()?;
        // Handles of one store share its news.
        store.revision().same_channel(own).then_some(name)
    }
}

/// Hands over the intent of a call, if it needs one.
fn announce(
    account: &Account,
    ticket: &Ticket,
    intent: Option<Arc<Intent>>,
) -> Option<oneshot::Receiver<Result<u64, Unaudited>>> {
    let intent = intent?;
    let (kept, answer): (Kept, _) = oneshot::channel();
    account.shared.push(Item::Intent { start: Arc::clone(ticket.start()), intent, kept });
    Some(answer)
}

/// Waits until an intent is kept. Until then the ticket is held here: dropped with this, it records a cancelled call.
async fn kept(
    ticket: Ticket,
    answer: Option<oneshot::Receiver<Result<u64, Unaudited>>>,
) -> Result<Ticket, Unaudited> {
    if let Some(answer) = answer {
        answer.await.unwrap_or(Err(Unaudited::Closed))?;
    }
    Ok(ticket)
}

/// Why an event is not taken.
#[derive(Debug, thiserror::Error)]
#[error("the event is no JSON, or longer than {EVENT_MAX} bytes")]
struct TooMuch;

// === impl EventSource ===

impl EventSource for AuditLog {
    fn after(
        &self,
        seq: u64,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>> {
        let query = AuditQuery::new().after(seq).limit(most);
        Box::pin(self.0.reader.run(move |reader| Ok(reader.query(&query)?.events)))
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.0.shared.newest.subscribe()
    }
}
