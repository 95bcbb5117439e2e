//! What is done about a registration: started, removed, made to rest; one thing at a time for each (MGP §15.4, §15.5).
//!
//! Work belongs to the registrations, not to who asked for it: a caller that leaves changes nothing.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mgp::{AuditResult, ServerState, ServerSummary};
use mgp_types::service::ServerId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::book::{Book, Inner, Kept};
use super::event::Event;
use super::record::{Record, Stage};
use super::source;
use crate::registry::Known;

/// How much longer than told a server may take to drain.
const GRACE: Duration = Duration::from_secs(10);
/// The first and the longest wait before something is tried to be removed again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Work on one server, or what came of it.
pub(super) struct Work {
    /// The revision of the record that asks for it.
    revision: u64,
    live: watch::Receiver<Live>,
    task: JoinHandle<()>,
}

/// How far work has come.
#[derive(Clone, Debug)]
pub(super) enum Live {
    /// It is being started.
    Starting,
    /// It runs, or is known and started with its first call.
    Running,
    /// It did not start.
    Failed(RpcError),
    /// The configuration has its id.
    Resting,
    /// It drains, and is removed then.
    Leaving,
    /// It is gone.
    Gone,
}

impl Live {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Starting | Self::Leaving)
    }
}

/// The work of one server, which tells how far it has come.
type Doing = watch::Sender<Live>;

impl Inner {
    fn works(&self) -> MutexGuard<'_, HashMap<ServerId, Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins what the stage of a registration asks for, unless that has begun.
    pub(super) fn go_on(self: &Arc<Self>, kept: &Kept) -> Option<watch::Receiver<Live>> {
        let server = kept.record.program.server();
        let first = match &kept.record.stage {
            Stage::Approved { .. } => Live::Starting,
            Stage::Leaving { .. } => Live::Leaving,
            Stage::Waiting { .. } | Stage::Rejected { .. } => return None,
        };
        if let Some(work) = self.works().get(&server).filter(|it| it.revision == kept.revision) {
            return Some(work.live.clone());
        }
        let (inner, is_leaving) = (Arc::clone(self), matches!(first, Live::Leaving));
        Some(self.begin(kept, first, move |doing| async move {
            if is_leaving {
                inner.leave(&server, &doing).await;
            } else {
                inner.start(&server, &doing).await;
            }
        }))
    }

    /// Begins some work in place of what was done before, which is given up first.
    fn begin<F>(
        &self,
        kept: &Kept,
        first: Live,
        work: impl FnOnce(Doing) -> F + Send + 'static,
    ) -> watch::Receiver<Live>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (doing, live) = watch::channel(first);
        let (server, revision) = (kept.record.program.server(), kept.revision);
        let mut works = self.works();
        let before = works.remove(&server).map(|before| before.task);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                before.abort();
                // Whatever it came to, it is over.
                let _ = before.await;
            }
            work(doing).await;
        });
        works.insert(server, Work { revision, live: live.clone(), task });
        live
    }

    /// Forgets the work on servers that are no longer registered.
    pub(super) fn forget_all_but(&self, book: &Book) {
        self.works().retain(|server, _| book.contains_key(server.as_str()));
    }

    async fn start(self: Arc<Self>, server: &ServerId, doing: &Doing) {
        if self.servers.configured(server) {
            doing.send_replace(Live::Resting);
            return;
        }
        let Some(approved) = self.approved(server) else {
            doing.send_replace(Live::Gone);
            return;
        };
        let starting = self.servers.start(approved);
        // It was handed over; who waits for that hears it.
        doing.send_replace(Live::Starting);
        match starting.await {
            Ok(()) => drop(doing.send_replace(Live::Running)),
            Err(error) => {
                tracing::warn!(%server, %error, "a registered server did not start");
                doing.send_replace(Live::Failed(error.clone()));
                if let Some(kept) = self.kept(server) {
                    let event = Event::ended(&kept.record, AuditResult::Failure, "not_started");
                    self.tell(event.code(error.code())).await;
                }
            }
        }
    }

    /// Drains and removes a server, then its record: whoever is stopped in between does it again.
    async fn leave(self: Arc<Self>, server: &ServerId, doing: &Doing) {
        let (mut wait, longest) = AGAIN;
        // What the configuration has by now is no longer ours to stop.
        if !self.servers.configured(server) {
            self.drain(server).await;
        }
        loop {
            match self.remove(server).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(%server, %error, "a server is not removed yet; it is tried again");
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
        doing.send_replace(Live::Gone);
    }

    async fn drain(&self, server: &ServerId) {
        let within = self.config.drain;
        let patience = within.saturating_add(GRACE);
        if timeout(patience, self.servers.drain(server, within)).await.is_err() {
            tracing::error!(%server, "a server did not drain in its time; it is removed all the same");
        }
    }

    async fn remove(self: &Arc<Self>, server: &ServerId) -> Result<(), RpcError> {
        if !self.servers.configured(server) {
            self.servers.remove(server).await?;
        }
        let turn = self.turn().await;
        self.look(&turn).await?;
        let Some(kept) = self.kept(server) else { return Ok(()) };
        let Stage::Leaving { by, reason, .. } = &kept.record.stage else { return Ok(()) };
        let folder = self.config.scripts.clone();
        source::forget(folder, &kept.record.program).await;
        let event = Event::deregistered(&by.to_principal(), server.clone(), reason.as_deref());
        self.take_out(&turn, &kept, vec![event.build()]).await?;
        self.forget_all_but(&self.book());
        Ok(())
    }

    /// Makes a server rest, because the configuration has its id; the future ends when it has stopped.
    pub(super) fn give_way(
        self: &Arc<Self>,
        kept: &Kept,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let server = kept.record.program.server();
        let is_ours = match &kept.record.stage {
            Stage::Approved { .. } | Stage::Leaving { .. } => true,
            // What waits again may still run as it was approved before.
            Stage::Waiting { .. } | Stage::Rejected { .. } => kept.record.changed,
        };
        let is_leaving = matches!(kept.record.stage, Stage::Leaving { .. });
        if !is_ours || (!is_leaving && self.is_resting(&server)) {
            return None;
        }
        let inner = Arc::clone(self);
        let first = if is_leaving { Live::Leaving } else { Live::Starting };
        let mut live = self.begin(kept, first, move |doing| async move {
            inner.drain(&server).await;
            if is_leaving {
                inner.leave(&server, &doing).await;
            } else {
                doing.send_replace(Live::Resting);
            }
        });
        // An error says that the work was given up for other work, which does what is right then.
        Some(async move { drop(live.wait_for(Live::is_over).await) })
    }

    /// Whether a server was made to rest.
    fn is_resting(&self, server: &ServerId) -> bool {
        let works = self.works();
        works.get(server).is_some_and(|work| matches!(*work.live.borrow(), Live::Resting))
    }

    /// Starts what was made to rest.
    pub(super) fn rest_no_more(self: &Arc<Self>, kept: &Kept) {
        let server = kept.record.program.server();
        if self.is_resting(&server) {
            self.works().remove(&server);
            self.go_on(kept);
        }
    }

    /// How a server that whoever runs it does not list is told of.
    pub(super) fn told(&self, record: &Record) -> Known {
        let program = &record.program;
        let server = program.server();
        let live = self.works().get(&server).map(|work| work.live.borrow().clone());
        let state = match (&record.stage, live) {
            (Stage::Leaving { .. }, _) => ServerState::Draining,
            (Stage::Approved { .. }, Some(Live::Starting)) => ServerState::Connecting,
            (Stage::Approved { .. }, Some(Live::Failed(_))) => ServerState::Error,
            _ => ServerState::Registered,
        };
        let mut summary = ServerSummary::new(program.id.as_str(), state);
        summary.trust_level = Some(program.trust.clone());
        let word = match &record.stage {
            Stage::Waiting { .. } => "pending_approval",
            Stage::Rejected { .. } => "rejected",
            Stage::Approved { .. } => "approved",
            Stage::Leaving { .. } => "leaving",
        };
        // A word can always be written.
        let _ = summary.extra.encode("registration", word);
        Known::new(summary, program.mgp.permissions_required.iter().cloned())
    }

    /// Waits until work is over, or for as long as a caller is made to wait.
    pub(super) async fn outcome(&self, mut live: watch::Receiver<Live>) -> Live {
        let over = timeout(self.config.answers_within, live.wait_for(Live::is_over));
        if let Ok(Ok(over)) = over.await {
            return over.clone();
        }
        live.borrow().clone()
    }
}
