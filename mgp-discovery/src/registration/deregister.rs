//! Removal of a registration: the server is drained, then removed (MGP §15.5).

use std::sync::Arc;

use mgp_types::method::{DiscoveryDeregister, Request as _};
use mgp_types::mgp::{DeregisterParams, DeregisterResult, RegistrationStatus};
use mgp_types::service::{Authority, Context, Principal, ServerId};
use mgp_types::{Timestamp, clip};
use tokio::sync::watch;

use super::event::Event;
use super::record::{Creator, Record, Stage};
use super::refusal::RegistrationError as Refused;
use super::registrations::{
    RegistrationState, Registrations, StoredRegistration, Turn, is_creator,
};
use super::source;
use super::work::Progress;
use crate::error::DiscoveryError;
use crate::registry::shown;

/// The maximum size of the reason for a removal, in bytes; a longer reason is cut off.
const MAX_REASON_BYTES: usize = 512;

impl Registrations {
    /// Drains a registered server and removes it with its tools, access, permissions and pins.
    ///
    /// Only an operator or the principal who registered the server may do this. A caller that cannot see the server
    /// gets the same error as for an unknown server. A rejection of the registration stays in effect, unless an
    /// operator removes the registration.
    ///
    /// # Errors
    /// [`DiscoveryError::Registration`] with the reason why it cannot be removed; [`DiscoveryError::Store`].
    ///
    /// # Cancel safety
    /// If the future is dropped, it is uncertain whether the server is deregistered; a removal that has begun
    /// continues, even after a crash.
    pub async fn deregister(
        &self,
        cx: &Context,
        params: DeregisterParams,
    ) -> Result<DeregisterResult, DiscoveryError> {
        let server = ServerId::from(params.id.as_str());
        self.0.admit(cx, DiscoveryDeregister::METHOD, Some(server)).await?;
        self.0.deregister(cx, params).await
    }
}

impl RegistrationState {
    /// Handles `mgp/discovery/deregister` for a caller that has passed the access checks.
    pub(super) async fn deregister(
        self: &Arc<Self>,
        cx: &Context,
        params: DeregisterParams,
    ) -> Result<DeregisterResult, DiscoveryError> {
        let server = ServerId::from(params.id.as_str());
        let reason = params.reason.map(|words| clip(&words, MAX_REASON_BYTES));
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        let stored = self.owned(cx, &server)?;
        let is_rejected = matches!(stored.record.stage, Stage::Rejected { .. });
        if is_rejected && cx.principal.authority() == Authority::Operator {
            self.end_rejection(&turn, &stored.record).await?;
        }
        let trace = cx.trace.as_deref();
        let removal = self.begin_removal(turn, stored, &cx.principal, reason, trace).await?;
        Ok(reply(&server, &self.outcome(removal).await))
    }

    /// Removes a registration whose server was never started, or begins to drain and remove its server. Returns the
    /// progress of the removal; `None` if the registration is already removed.
    pub(super) async fn begin_removal(
        self: &Arc<Self>,
        turn: Turn,
        stored: StoredRegistration,
        by: &Principal,
        reason: Option<String>,
        trace: Option<&str>,
    ) -> Result<Option<watch::Receiver<Progress>>, DiscoveryError> {
        match &stored.record.stage {
            Stage::Leaving { .. } => Ok(self.resume(&stored)),
            Stage::Waiting { .. } | Stage::Rejected { .. } if !stored.record.changed => {
                // Ignore an error: the server has not run, so its folder has no files that a later server could run.
                let _ = source::forget(self.config.scripts.clone(), &stored.record.program).await;
                let server = stored.record.program.server();
                let event = Event::deregistered(by, server, reason.as_deref()).during(trace);
                self.remove_record(&turn, &stored, vec![event.build()]).await?;
                Ok(None)
            }
            _ => {
                let mut record = Record::clone(&stored.record);
                record.stage = Stage::Leaving { by: Creator::of(by), at: Timestamp::now(), reason };
                // Pass no events, because the audit event is recorded when the removal ends.
                self.decide(turn, Some(stored), record, Vec::new()).await
            }
        }
    }

    /// Returns the registration of a server, or an error if the caller may not remove it.
    fn owned(&self, cx: &Context, server: &ServerId) -> Result<StoredRegistration, Refused> {
        let is_operator = cx.principal.authority() == Authority::Operator;
        let known = || self.servers.known().into_iter().find(|it| it.summary.id == server.as_str());
        let sees = || known().and_then(|known| shown(cx, &*self.may, known)).is_some();
        match self.stored(server) {
            Some(stored) if is_operator || is_creator(&stored.record, &cx.principal) => Ok(stored),
            Some(_) if sees() => Err(Refused::NotCreator(server.clone())),
            None if is_operator && (self.servers.is_configured(server) || known().is_some()) => {
                Err(Refused::Configured(server.clone()))
            }
            None if sees() => Err(Refused::Configured(server.clone())),
            _ => Err(Refused::Unknown(server.clone())),
        }
    }
}

fn reply(server: &ServerId, live: &Progress) -> DeregisterResult {
    let (status, message) = match live {
        Progress::Gone => (RegistrationStatus::Deregistered, "it is gone"),
        _ => (
            RegistrationStatus::Other("draining".into()),
            "it takes no new calls, and is removed once the running calls have ended",
        ),
    };
    let mut result = DeregisterResult::new(server.to_string(), status);
    result.message = Some(message.to_owned());
    result
}
