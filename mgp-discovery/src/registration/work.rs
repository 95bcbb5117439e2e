//! The work on registrations, i.e. the start, removal and suspension of servers. For each server, only one such task
//! runs at a time (MGP §15.4, §15.5).
//!
//! The work runs in tasks of its own, so it continues if the caller drops its future.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mgp::{AuditResult, Extension, ExtensionSet, ServerState, ServerSummary};
use mgp_types::service::ServerId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::event::Event;
use super::record::{Record, Stage};
use super::registrations::{Records, RegistrationState, StoredRegistration};
use super::source;
use crate::registry::KnownServer;

/// The additional time that a drain may take beyond its limit. After that, the server is removed without further
/// waiting.
const DRAIN_GRACE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the maximum delay before a failed removal is tried again.
pub(super) const RETRY_DELAYS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_mins(1));

/// The running or finished work on one server.
pub(super) struct Work {
    /// The revision of the record that requested the work.
    revision: u64,
    live: watch::Receiver<Progress>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// The server is being started.
    Starting,
    /// The server runs, or the runner knows it and starts it at its first call.
    Running,
    Failed(RpcError),
    /// The server is suspended, because the configuration has a server with the same id.
    Suspended,
    /// The server is being drained and removed.
    Leaving,
    /// The server is removed.
    Gone,
}

impl Progress {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Starting | Self::Leaving)
    }
}

/// The sender of the progress of one server's work.
type ProgressSender = watch::Sender<Progress>;

impl RegistrationState {
    /// Begins the work that the stage of a registration requires, unless this work has already begun. Returns the
    /// progress of the work; `None` if no work is required.
    pub(super) fn resume(
        self: &Arc<Self>,
        stored: &StoredRegistration,
    ) -> Option<watch::Receiver<Progress>> {
        let server = stored.record.program.server();
        let first = match &stored.record.stage {
            Stage::Approved { .. } => Progress::Starting,
            Stage::Leaving { .. } => Progress::Leaving,
            Stage::Waiting { .. } | Stage::Rejected { .. } => return None,
        };
        if let Some(work) =
            self.work.lock().get(&server).filter(|it| it.revision == stored.revision)
        {
            return Some(work.live.clone());
        }
        let (state, is_leaving) = (Arc::clone(self), matches!(first, Progress::Leaving));
        Some(self.begin(stored, first, move |sender| async move {
            if is_leaving {
                state.leave(&server, &sender).await;
            } else {
                state.start(&server, &sender).await;
            }
        }))
    }

    /// Aborts earlier work on the server, then begins the new work.
    fn begin<F>(
        &self,
        stored: &StoredRegistration,
        first: Progress,
        work: impl FnOnce(ProgressSender) -> F + Send + 'static,
    ) -> watch::Receiver<Progress>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, live) = watch::channel(first);
        let (server, revision) = (stored.record.program.server(), stored.revision);
        let mut all_work = self.work.lock();
        let before = all_work.remove(&server).map(|before| before.task);
        // Abort the earlier work here and not in the new task, because the new task may itself be aborted before it
        // runs.
        before.iter().for_each(JoinHandle::abort);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                // Ignore the result of the earlier work, because only its end matters.
                let _ = before.await;
            }
            work(sender).await;
        });
        all_work.insert(server, Work { revision, live: live.clone(), task });
        live
    }

    /// Forgets the work on servers that are no longer registered.
    pub(super) fn forget_all_but(&self, records: &Records) {
        self.work.lock().retain(|server, _| records.contains_key(server.as_str()));
    }

    async fn start(self: Arc<Self>, server: &ServerId, sender: &ProgressSender) {
        if self.servers.is_configured(server) {
            sender.send_replace(Progress::Suspended);
            return;
        }
        let Some(approved) = self.approved(server) else {
            sender.send_replace(Progress::Gone);
            return;
        };
        let starting = self.servers.start(approved);
        // The runner knows the server now; notify the callers that wait for this.
        sender.send_replace(Progress::Starting);
        match starting.await {
            Ok(()) => drop(sender.send_replace(Progress::Running)),
            Err(error) => {
                tracing::warn!(%server, %error, "start failed");
                sender.send_replace(Progress::Failed(error.clone()));
                if let Some(stored) = self.stored(server) {
                    let event = Event::ended(&stored.record, AuditResult::Failure, "not_started");
                    self.record_event(event.code(error.code())).await;
                }
            }
        }
    }

    /// Drains and removes a server, then removes its record. The record is removed last, so that the work is repeated
    /// after a crash.
    async fn leave(self: Arc<Self>, server: &ServerId, sender: &ProgressSender) {
        let (mut wait, longest) = RETRY_DELAYS;
        // If a server of the configuration now has this id, do not drain that server.
        if !self.servers.is_configured(server) {
            self.drain(server).await;
        }
        loop {
            match self.remove(server).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(%server, %error, "removal failed; retrying");
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
        sender.send_replace(Progress::Gone);
    }

    async fn drain(&self, server: &ServerId) {
        let within = self.config.drain_timeout;
        let longest = within.saturating_add(DRAIN_GRACE_TIMEOUT);
        if timeout(longest, self.servers.drain(server, within)).await.is_err() {
            tracing::error!(%server, "drain timeout; removing the server anyway");
        }
    }

    async fn remove(self: &Arc<Self>, server: &ServerId) -> Result<(), RpcError> {
        if !self.servers.is_configured(server) {
            self.servers.remove(server).await?;
        }
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        let Some(stored) = self.stored(server) else { return Ok(()) };
        let Stage::Leaving { by, reason, .. } = &stored.record.stage else { return Ok(()) };
        let folder = self.config.scripts.clone();
        source::forget(folder, &stored.record.program).await.map_err(RpcError::internal)?;
        let event = Event::deregistered(&by.to_principal(), server.clone(), reason.as_deref());
        self.remove_record(&turn, &stored, vec![event.build()]).await?;
        self.forget_all_but(&self.records());
        Ok(())
    }

    /// Suspends a registered server, because the configuration now has a server with the same id. The returned future
    /// completes when the registered server is drained, or other work replaces this work; `None` if there is nothing to
    /// stop.
    pub(super) fn suspend(
        self: &Arc<Self>,
        stored: &StoredRegistration,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let server = stored.record.program.server();
        let is_ours = match &stored.record.stage {
            Stage::Approved { .. } | Stage::Leaving { .. } => true,
            // If the registration waits again because its files changed, the server might still run with the files that
            // were approved earlier.
            Stage::Waiting { .. } | Stage::Rejected { .. } => stored.record.changed,
        };
        let is_leaving = matches!(stored.record.stage, Stage::Leaving { .. });
        if !is_ours || (!is_leaving && self.is_suspended(&server)) {
            return None;
        }
        let state = Arc::clone(self);
        let first = if is_leaving { Progress::Leaving } else { Progress::Starting };
        let mut live = self.begin(stored, first, move |sender| async move {
            state.drain(&server).await;
            if is_leaving {
                state.leave(&server, &sender).await;
            } else {
                sender.send_replace(Progress::Suspended);
            }
        });
        // Ignore an error: it means that other work has replaced this work, and that work brings the server to the
        // right state.
        Some(async move { drop(live.wait_for(Progress::is_over).await) })
    }

    fn is_suspended(&self, server: &ServerId) -> bool {
        let work = self.work.lock();
        work.get(server).is_some_and(|work| matches!(*work.live.borrow(), Progress::Suspended))
    }

    /// Starts a suspended server.
    pub(super) fn resume_suspended(self: &Arc<Self>, stored: &StoredRegistration) {
        let server = stored.record.program.server();
        if self.is_suspended(&server) {
            self.work.lock().remove(&server);
            self.resume(stored);
        }
    }

    /// Returns the list entry of a registered server that the runner does not list.
    pub(super) fn list_entry(&self, record: &Record) -> KnownServer {
        let program = &record.program;
        let server = program.server();
        let live = self.work.lock().get(&server).map(|work| work.live.borrow().clone());
        let state = match (&record.stage, live) {
            (Stage::Leaving { .. }, _) => ServerState::Draining,
            (Stage::Approved { .. }, Some(Progress::Starting)) => ServerState::Connecting,
            (Stage::Approved { .. }, Some(Progress::Failed(_))) => ServerState::Error,
            _ => ServerState::Registered,
        };
        let mut summary = ServerSummary::new(program.id.as_str(), state);
        summary.trust_level = Some(program.trust.clone());
        // Until the server is started, list the extensions of its registration (§15.3).
        let extensions = ExtensionSet::from_names(program.mgp.extensions.iter());
        let words = extensions.without(Extension::ErrorHandling).iter();
        summary.extensions = words.map(|extension| extension.to_string()).collect();
        let word = match &record.stage {
            Stage::Waiting { .. } => "pending_approval",
            Stage::Rejected { .. } => "rejected",
            Stage::Approved { .. } => "approved",
            Stage::Leaving { .. } => "leaving",
        };
        // Ignore the result, because a word can always be encoded.
        let _ = summary.extra.encode("registration", word);
        KnownServer::new(summary, program.mgp.permissions_required.iter().cloned())
    }

    /// Waits until the work ends, or until the time limit of the reply, and returns the progress. `live` is `None` if
    /// the registration is already removed.
    pub(super) async fn outcome(&self, live: Option<watch::Receiver<Progress>>) -> Progress {
        let Some(mut live) = live else { return Progress::Gone };
        let over = timeout(self.config.reply_timeout, live.wait_for(Progress::is_over));
        if let Ok(Ok(over)) = over.await {
            return over.clone();
        }
        live.borrow().clone()
    }
}
