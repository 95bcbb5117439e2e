//! Tools that an agent creates because no existing tool matched its request (MGP §16.6).
//!
//! A creation is the registration of a script within a session, after a request for tools found nothing. It passes all
//! checks of a registration by an agent: the agent's grant, the judgement of the code, and the approval of an operator.
//! The server is removed when the session ends, or when the kernel starts again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::clip;
use mgp_types::method::{DiscoveryRegister, Request as _};
use mgp_types::service::{Authority, Context, ScopeKind, ServerId};
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::record::{Created, Creator};
use super::registrations::{RegistrationState, Registrations};
use super::work::RETRY_DELAYS;
use crate::error::DiscoveryError;

/// The maximum number of requested capabilities that are stored with a creation, and the maximum size of each in bytes.
const MAX_WANTED: (usize, usize) = (8, 200);

/// A creation that a caller announced in its session; the script is not registered yet.
#[derive(Default)]
struct OpenCreation(Mutex<Option<(Creator, Created)>>);

impl Registrations {
    /// Announces a creation: the caller's next registration of a script in this session counts as the creation of a
    /// missing tool.
    ///
    /// # Errors
    /// The reason why the caller cannot create a tool, in words for the caller.
    pub fn expect_creation(&self, cx: &Context, wanted: &[String]) -> Result<(), String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
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
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let created = Created { wanted: wanted.collect(), number };
        *cx.scope.state::<OpenCreation>().0.lock() = Some((Creator::of(&cx.principal), created));
        Ok(())
    }

    /// Removes the servers that agents created in sessions of an earlier process.
    pub(super) async fn end_earlier_creations(&self) {
        let records = self.0.records();
        for stored in records.values() {
            let Some(created) = stored.record.created.clone() else { continue };
            let (server, by) = (stored.record.program.server(), stored.record.by.clone());
            if self.0.remove_creation(&server, &by, &created).await.is_err() {
                tokio::spawn(Arc::clone(&self.0).end_creation(server, by, created));
            }
        }
    }
}

impl RegistrationState {
    /// Returns the creation that this caller announced in its session, if any; the caller's next registration of a
    /// script counts as this creation.
    pub(super) fn creation(cx: &Context) -> Option<Created> {
        let open = cx.scope.state::<OpenCreation>();
        let open = open.0.lock();
        let (by, created) = open.as_ref()?;
        (*by == Creator::of(&cx.principal)).then(|| created.clone())
    }

    /// Ends the announcement of a creation after its script was registered, so that the caller's next registration is
    /// an ordinary registration.
    pub(super) fn close_creation(cx: &Context) {
        *cx.scope.state::<OpenCreation>().0.lock() = None;
    }

    /// Binds the server of a creation to the caller's session: when the session ends, the server is removed, even if
    /// its registration is only being stored at that time.
    pub(super) fn bind_to_session(
        self: &Arc<Self>,
        cx: &Context,
        server: &ServerId,
        created: Created,
    ) {
        let (state, server) = (Arc::downgrade(self), server.clone());
        let (by, runtime) = (Creator::of(&cx.principal), Handle::current());
        let ended = cx.scope.on_end(move || {
            let Some(state) = state.upgrade() else { return };
            runtime.spawn(state.end_creation(server, by, created));
        });
        ended.keep();
    }

    /// Removes a created server after its session ended; repeats a failed removal.
    async fn end_creation(self: Arc<Self>, server: ServerId, by: Creator, created: Created) {
        let (mut wait, longest) = RETRY_DELAYS;
        loop {
            match self.remove_creation(&server, &by, &created).await {
                // A closed store is not opened again, so leave the removal to the next start of the kernel.
                Ok(()) | Err(DiscoveryError::Store(StoreError::Closed)) => return,
                Err(error) => {
                    tracing::error!(%server, %error, "removal of a created server failed; retrying");
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
    }

    async fn remove_creation(
        self: &Arc<Self>,
        server: &ServerId,
        by: &Creator,
        created: &Created,
    ) -> Result<(), DiscoveryError> {
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        match self.stored(server) {
            Some(stored)
                if stored.record.created.as_ref() == Some(created) && stored.record.by == *by =>
            {
                let reason = Some("the session in which it was created ended".to_owned());
                let by = by.to_principal();
                self.begin_removal(turn, stored, &by, reason, None).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}
