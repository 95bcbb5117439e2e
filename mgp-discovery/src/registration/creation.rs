//! Tools that an agent creates because none matched its request (MGP §16.6).
//!
//! Such a creation is the registration of a script within a session, after a request for tools found nothing. It passes
//! all checks of a registration by an agent: a grant, the judgement of its code, and the approval of an operator. The
//! server is removed when the session ends, or when the kernel starts again.

use std::sync::Arc;

use mgp_types::method::{DiscoveryRegister, Request as _};
use mgp_types::service::{Authority, Context, ScopeKind, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{Timestamp, clip};
use tokio::runtime::Handle;

use super::event::Event;
use super::record::{Created, Creator, Record, Stage};
use super::registrations::{RegistrationState, Registrations, StoredRegistration, Turn};
use super::source;
use crate::error::DiscoveryError;

/// The maximum number of requested capabilities that are stored with a creation, and the maximum size of each in bytes.
const MAX_WANTED: (usize, usize) = (8, 200);

/// The creation that a caller announced in a session and has not yet registered.
#[derive(Default)]
struct OpenCreation(Mutex<Option<(Creator, Created)>>);

impl Registrations {
    /// Announces a creation: the caller's next registration of a script in this session counts as the creation of a
    /// missing tool.
    ///
    /// # Errors
    /// The reason why the caller cannot create a tool, as a text for the caller.
    pub fn expect_creation(&self, cx: &Context, wanted: &[String]) -> Result<(), String> {
        let state = &self.0;
        if cx.principal.authority() == Authority::Operator {
            return Err("an operator registers servers directly".to_owned());
        }
        if let Err(refused) = state.may(cx, DiscoveryRegister::METHOD) {
            return Err(refused.to_string());
        }
        if state.judge.is_none() || state.config.scripts.is_none() {
            return Err("this kernel cannot judge or store the scripts of agents".to_owned());
        }
        if cx.scope.kind() == ScopeKind::Request || cx.scope.is_ended() {
            return Err("it would end with its session, and this request has none".to_owned());
        }
        let wanted = wanted.iter().take(MAX_WANTED.0).map(|one| clip(one, MAX_WANTED.1));
        let created = Created { wanted: wanted.collect() };
        *cx.scope.state::<OpenCreation>().0.lock() = Some((Creator::of(&cx.principal), created));
        Ok(())
    }

    /// Removes the servers that agents created in sessions of an earlier process.
    pub(super) async fn end_earlier_creations(&self) {
        let records = self.0.records();
        let created = records.values().filter(|stored| stored.record.created.is_some());
        for stored in created {
            self.0.end_creation(&stored.record.program.server(), &stored.record.by).await;
        }
    }
}

impl RegistrationState {
    /// Returns the creation that this caller announced in its session, if there is one; the caller's next registration
    /// of a script counts as this creation.
    pub(super) fn creation(cx: &Context) -> Option<Created> {
        let open = cx.scope.state::<OpenCreation>();
        let open = open.0.lock();
        let (by, created) = open.as_ref()?;
        (*by == Creator::of(&cx.principal)).then(|| created.clone())
    }

    /// Ends the announcement of a creation that is stored now; the caller's next registration is an ordinary one.
    pub(super) fn close_creation(cx: &Context) {
        *cx.scope.state::<OpenCreation>().0.lock() = None;
    }

    /// Binds the server of a creation to the caller's session: the server is removed when the session ends. A creation
    /// that is being stored is removed once it is stored.
    pub(super) fn bind_to_session(self: &Arc<Self>, cx: &Context, server: &ServerId) {
        let (state, server) = (Arc::downgrade(self), server.clone());
        let (by, runtime) = (Creator::of(&cx.principal), Handle::current());
        let ended = cx.scope.on_end(move || {
            let Some(state) = state.upgrade() else { return };
            runtime.spawn(async move { state.end_creation(&server, &by).await });
        });
        ended.keep();
    }

    /// Removes a created server, because its session ended.
    async fn end_creation(self: &Arc<Self>, server: &ServerId, by: &Creator) {
        let ended = async {
            let turn = self.turn().await;
            self.refresh(&turn).await?;
            match self.stored(server) {
                Some(stored) if stored.record.created.is_some() && stored.record.by == *by => {
                    self.withdraw(turn, stored).await
                }
                _ => Ok(()),
            }
        };
        if let Err(error) = ended.await {
            tracing::error!(%server, %error, "removal of a created server failed");
        }
    }

    async fn withdraw(
        self: &Arc<Self>,
        turn: Turn,
        stored: StoredRegistration,
    ) -> Result<(), DiscoveryError> {
        let mut record = Record::clone(&stored.record);
        let reason = "the session in which it was created ended";
        match &stored.record.stage {
            Stage::Leaving { .. } => Ok(()),
            Stage::Waiting { .. } | Stage::Rejected { .. } if !record.changed => {
                source::forget(self.config.scripts.clone(), &record.program).await;
                let (by, server) = (record.by.to_principal(), record.program.server());
                let event = Event::deregistered(&by, server, Some(reason));
                self.remove_record(&turn, &stored, vec![event.build()]).await
            }
            _ => {
                let (by, at, reason) = (record.by.clone(), Timestamp::now(), Some(reason.into()));
                record.stage = Stage::Leaving { by, at, reason };
                self.decide(turn, Some(stored), record, Vec::new()).await.map(drop)
            }
        }
    }
}
