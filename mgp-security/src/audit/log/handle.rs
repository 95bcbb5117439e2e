//! The handle of a log, for callers that record or read events.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::Payload;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditError, AuditFuture, AuditSink, CallRecord, Ticket};
use mgp_types::store::{Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};

use super::config::LogConfig;
use super::digest::DigestKey;
use super::encode;
use super::error::LogError;
use super::group::MAX_EVENT;
use super::query::{AuditPage, AuditQuery, LogReader};
use super::queue::{Acknowledge, CallLedger, Intent, Item, LogQueue, Reservation};
use super::segments::{Disk, LogPlace, SegmentFile};
use super::writer::Writer;
use crate::audit::EventSource;

/// The time limit for a call that waits until the queue has room for its records.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);

/// The time limit for closing, and for dropping the last handle outside a runtime.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for dropping the last handle on a thread of a runtime, which must not be blocked for long. After this
/// time, the writer thread continues to write the queued records in the background.
const RUNTIME_CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// An audit log in the files of one directory. It is append-only, and each record is chained to the record before it
/// (MGP §6).
///
/// This type is a handle that is cheap to clone. When the last handle is dropped, the queued records are written and
/// the log is released. [`close`](Self::close) waits for that; a drop on a thread of a runtime waits only briefly.
/// Acknowledged records are kept if the process is killed.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{AuditLayer, AuditLog, AuditQuery, LogHead, LogConfig, verify};
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
/// let head = LogHead::beside(&dir, "audit").unwrap().unwrap();
/// assert_eq!(verify(&dir, "audit", &head).unwrap(), 2, "the call, and that it was about to run");
/// # });
/// # std::fs::remove_dir_all(&dir).unwrap();
/// ```
#[derive(Clone)]
pub struct AuditLog(Arc<Open>);

struct Open {
    shared: Arc<LogQueue>,
    reader: LogReader,
    /// The name under which the store keeps events for this log, with a receiver of the store's revisions; `None` if
    /// there is no store.
    outbox: Option<(String, watch::Receiver<u64>)>,
    digests: Option<DigestKey>,
    writer: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// Opens a log for exclusive use by this process.
    ///
    /// With a store, the log saves its head in the store, and also writes the events that were committed to the store
    /// for this log. Without a store, the head is saved in a file in the log's directory. Then damage is detected, but
    /// not a change by an attacker who can write both the log and this file.
    ///
    /// If a killed process left an incomplete line, that line is cut off, and a checkpoint records this. Calls that
    /// were running in that process get a final event with the details `cancelled` and `interrupted`. The result of
    /// this event is blocked if the call waited for an approval, otherwise failed.
    ///
    /// # Errors
    /// [`LogError`] if the log cannot be opened, is open elsewhere or was changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the log may stay open for a short time.
    pub async fn open(config: LogConfig, store: Option<Arc<dyn Store>>) -> Result<Self, LogError> {
        Self::open_on(config, store, |segments| Box::new(segments)).await
    }

    pub(super) async fn open_on(
        config: LogConfig,
        store: Option<Arc<dyn Store>>,
        disk_of: impl FnOnce(SegmentFile) -> Box<dyn Disk> + Send + 'static,
    ) -> Result<Self, LogError> {
        let place = LogPlace::new(&config.dir, &config.name)?;
        let outbox = store.as_ref().map(|store| (config.name.clone(), store.revision()));
        let (opened, answer) = oneshot::channel();
        // The writer thread also opens the files, so that no runtime thread blocks on the disk.
        let writer = thread::Builder::new().name("mgp-audit".to_owned()).spawn(move || {
            let digests = config.digest_key.clone();
            let writer = Writer::open(config, store, disk_of);
            let writer = writer.and_then(|writer| {
                let digests = digests.as_deref().map(DigestKey::open).transpose()?;
                Ok((writer, digests))
            });
            match writer {
                Ok((writer, digests)) => {
                    let sent = opened.send(Ok((Arc::clone(writer.shared()), digests)));
                    // Run only if the caller of `open` still waits for the log. Otherwise, the log is closed again.
                    if sent.is_ok() {
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
        let reader = LogReader::new(place, Arc::clone(&shared));
        Ok(Self(Arc::new(Open { shared, reader, outbox, digests, writer: Some(writer) })))
    }

    /// Records an event. The future returns the number of the record once the writer has acknowledged it.
    ///
    /// # Errors
    /// The same errors as [`record`](AuditSink::record).
    pub fn append(&self, event: &AuditEvent) -> AuditFuture<u64> {
        let shared = &self.0.shared;
        if let Some(failure) = shared.failure() {
            return AuditFuture::Ready(Err(failure));
        }
        let Some(text) = encode::event(event).filter(|text| text.len() <= MAX_EVENT) else {
            return AuditFuture::Ready(Err(AuditError::failed(NotRecordable)));
        };
        let room = if shared.take(1) {
            Reservation::Permit
        } else if shared.reserve_place() {
            Reservation::Waiting
        } else {
            return AuditFuture::Ready(Err(AuditError::Full));
        };
        let (ack, answer) = oneshot::channel();
        shared.push(Item::Event { text, room, ack });
        AuditFuture::Later(Box::pin(async move { answer.await.unwrap_or(Err(AuditError::Closed)) }))
    }

    /// Waits until everything recorded before this call is durable, including the head: the records of this handle, and
    /// the events that were committed to the store for this log.
    ///
    /// # Errors
    /// [`AuditError`] if a record cannot be written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the records are written nevertheless.
    pub async fn flush(&self) -> Result<(), AuditError> {
        let (ack, answer) = oneshot::channel();
        if let Some(failure) = self.0.shared.failure() {
            return Err(failure);
        }
        self.0.shared.push(Item::Flush { ack });
        answer.await.unwrap_or(Err(AuditError::Closed)).map(drop)
    }

    /// Closes the log for all handles, after the queued records are durable. Another process can open the log after its
    /// last handle is dropped.
    ///
    /// Does not wait for running calls; their records are written when they end.
    ///
    /// # Errors
    /// [`AuditError`] if a record could not be written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the log still closes, unless the future was never polled.
    pub async fn close(self) -> Result<(), AuditError> {
        let flushed = self.flush().await;
        let shared = Arc::clone(&self.0.shared);
        let close = move || shared.close(CLOSE_TIMEOUT);
        match Handle::try_current() {
            // Ignore the error, which occurs if the runtime is shutting down.
            Ok(runtime) => drop(runtime.spawn_blocking(close).await),
            Err(_) => drop(close()),
        }
        flushed
    }

    /// Returns one page of the written events that match a query. Each call reads a bounded part of the log, so a page
    /// can contain few or no events although more pages follow.
    ///
    /// # Errors
    /// [`StoreError`] if the log cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn query(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        self.0.reader.run(move |reader| reader.query(&query)).await
    }

    /// Returns a receiver of the events that are recorded from now on, each with its number. Events of calls that ran
    /// (`TOOL_EXECUTED`) are left out, because there can be thousands of them per second.
    ///
    /// A receiver that has more than 1,024 events left to receive loses the oldest of them; they can be read with
    /// [`after`](EventSource::after).
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<(u64, Payload)> {
        self.0.shared.watched.subscribe()
    }

    /// Returns the reason why nothing can be recorded now, e.g. a full disk; every call is refused then. Returns `None`
    /// if the log works.
    #[must_use]
    pub fn failure(&self) -> Option<AuditError> {
        self.0.shared.failure()
    }

    /// Returns whether another program has removed or renamed the file to which the log writes, so that nothing can be
    /// recorded any more. Reads the directory.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.0.reader.is_removed()
    }

    /// Returns the directory and the name of the log.
    #[must_use]
    pub fn location(&self) -> (&Path, &str) {
        self.0.reader.place()
    }

    /// Returns the key for digests of secrets, if one is configured.
    #[must_use]
    pub fn digest_key(&self) -> Option<&DigestKey> {
        self.0.digests.as_ref()
    }
}

mgp_types::opaque_debug!(AuditLog);

impl Drop for Open {
    fn drop(&mut self) {
        let patience =
            if Handle::try_current().is_ok() { RUNTIME_CLOSE_TIMEOUT } else { CLOSE_TIMEOUT };
        if self.shared.close(patience)
            && let Some(writer) = self.writer.take()
        {
            let _ = writer.join();
        }
    }
}

impl AuditSink for AuditLog {
    fn begin(&self, mut start: CallRecord) -> AuditFuture<Ticket> {
        let shared = &self.0.shared;
        if let Some(failure) = shared.failure() {
            return AuditFuture::Ready(Err(failure));
        }
        let mut needs_intent = start.needs_intent();
        let mut earlier_intent = None;
        let mut goes_on = false;
        if start.logical.is_some() {
            let mut suspended = shared.suspended.lock();
            // If this is a later request of a suspended call, use the intent and the reserved room of the earlier
            // request.
            if let Some((earlier, intent)) = suspended.resume(&start) {
                start.continue_from(&earlier);
                goes_on = true;
                needs_intent &= intent.is_none();
                earlier_intent = intent;
            }
        }
        let records = u32::from(!goes_on) + u32::from(needs_intent);
        let waits = records > 0 && !shared.take(records);
        if !waits && !needs_intent && earlier_intent.is_none() {
            // The type annotation is needed: the clone has the concrete type, and coerces to a trait object only when
            // it is passed on.
            let ledger: Arc<LogQueue> = Arc::clone(shared);
            return AuditFuture::Ready(Ok(Ticket::new(start, ledger)));
        }
        if waits && !goes_on && !shared.reserve_place() {
            return AuditFuture::Ready(Err(AuditError::Full));
        }
        let intent = if needs_intent { Some(Arc::new(Intent::default())) } else { earlier_intent };
        let account = Arc::new(CallLedger {
            shared: Arc::clone(shared),
            intent: intent.clone(),
            waits: AtomicBool::new(waits && !goes_on),
            void: AtomicBool::new(false),
        });
        let ledger: Arc<CallLedger> = Arc::clone(&account);
        let ticket = Ticket::new(start, ledger);
        if !waits && !needs_intent {
            return AuditFuture::Ready(Ok(ticket));
        }
        let intent = intent.filter(|_| needs_intent);
        if !waits {
            // Submit the intent immediately, and not only when the future is first polled.
            let answer = submit_intent(&account, &ticket, intent);
            return AuditFuture::Later(Box::pin(await_intent(ticket, answer)));
        }
        AuditFuture::Later(Box::pin(async move {
            await_room(&account, records, goes_on).await?;
            let answer = submit_intent(&account, &ticket, intent);
            await_intent(ticket, answer).await
        }))
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        match self.append(&event) {
            AuditFuture::Ready(answer) => AuditFuture::Ready(answer.map(drop)),
            AuditFuture::Later(answer) => {
                AuditFuture::Later(Box::pin(async move { answer.await.map(drop) }))
            }
        }
    }

    fn outbox(&self, store: &dyn Store) -> Option<&str> {
        let (name, own) = self.0.outbox.as_ref()?;
        // Compare the channels: all handles of the same store share one channel, so a different channel means a
        // different store.
        store.revision().same_channel(own).then_some(name)
    }
}

/// Waits up to [`ROOM_TIMEOUT`] until there is room for the records of a call.
async fn await_room(account: &CallLedger, records: u32, goes_on: bool) -> Result<(), AuditError> {
    let room = account.shared.room.acquire_many(records);
    let Ok(Ok(permits)) = tokio::time::timeout(ROOM_TIMEOUT, room).await else {
        // If this request continues a call whose caller was asked a question, the call is recorded as cancelled. If
        // this request begins the call, the call has not run, so no record is needed.
        if !goes_on {
            account.void();
        }
        return Err(account.shared.failure().unwrap_or(AuditError::Full));
    };
    permits.forget();
    if account.waits.swap(false, Ordering::AcqRel) {
        account.shared.release(Reservation::Waiting);
    }
    Ok(())
}

fn submit_intent(
    account: &CallLedger,
    ticket: &Ticket,
    intent: Option<Arc<Intent>>,
) -> Option<oneshot::Receiver<Result<u64, AuditError>>> {
    let intent = intent?;
    let (ack, answer): (Acknowledge, _) = oneshot::channel();
    account.shared.push(Item::Intent { start: Arc::clone(ticket.start()), intent, ack });
    Some(answer)
}

/// Waits until an intent is durable. The future owns the ticket, so dropping the future records the call as cancelled.
async fn await_intent(
    ticket: Ticket,
    answer: Option<oneshot::Receiver<Result<u64, AuditError>>>,
) -> Result<Ticket, AuditError> {
    if let Some(answer) = answer {
        answer.await.unwrap_or(Err(AuditError::Closed))?;
    }
    Ok(ticket)
}

/// The error for an event that cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("the event is not valid JSON, or longer than {MAX_EVENT} bytes")]
struct NotRecordable;

#[async_trait]
impl EventSource for AuditLog {
    async fn after(&self, seq: u64, most: usize) -> Result<Vec<AuditEvent>, StoreError> {
        let query = AuditQuery::new().after(seq).limit(most);
        self.0.reader.run(move |reader| Ok(reader.query(&query)?.events)).await
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.0.shared.newest.subscribe()
    }
}
