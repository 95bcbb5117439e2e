//! Removal of a registration: the server is drained, then removed (MGP §15.5).

use std::sync::Arc;

use mgp_types::Timestamp;
use mgp_types::method::{DiscoveryDeregister, Request as _};
use mgp_types::mgp::{DeregisterParams, DeregisterResult, RegistrationStatus};
use mgp_types::service::{Authority, Context, ServerId};

use tokio::sync::watch;

use super::event::Event;
use super::record::{Creator, Record, Stage};
use super::refusal::RegistrationError as Refused;
use super::registrations::{RegistrationState, Registrations, StoredRegistration, is_creator};
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
    /// gets the same error as for an unknown one. The rejection of a registration ends only if an operator removes it.
    ///
    /// # Errors
    /// [`DiscoveryError::Registration`] with the reason why it cannot be removed; [`DiscoveryError::Store`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not be deregistered; a removal that has begun continues, even
    /// after a crash.
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
        let reason = params.reason.map(|words| cut(&words).to_owned());
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        let stored = self.owned(cx, &server)?;
        let is_rejected = matches!(stored.record.stage, Stage::Rejected { .. });
        if is_rejected && cx.principal.authority() == Authority::Operator {
            self.end_rejection(&turn, &stored.record).await?;
        }
        let live = match &stored.record.stage {
            Stage::Leaving { .. } => self.resume(&stored),
            Stage::Waiting { .. } | Stage::Rejected { .. } if !stored.record.changed => {
                source::forget(self.config.scripts.clone(), &stored.record.program).await;
                let event = Event::deregistered(&cx.principal, server.clone(), reason.as_deref());
                let event = event.during(cx.trace.as_deref()).build();
                self.remove_record(&turn, &stored, vec![event]).await?;
                return Ok(reply(&server, &Progress::Gone));
            }
            _ => {
                let mut record = Record::clone(&stored.record);
                let (by, at) = (Creator::of(&cx.principal), Timestamp::now());
                record.stage = Stage::Leaving { by, at, reason };
                // The audit event is recorded later, when the removal ends.
                let live = self.decide(turn, Some(stored), record, Vec::new()).await?;
                return Ok(self.left(&server, live).await);
            }
        };
        drop(turn);
        Ok(self.left(&server, live).await)
    }

    async fn left(
        &self,
        server: &ServerId,
        live: Option<watch::Receiver<Progress>>,
    ) -> DeregisterResult {
        let live = match live {
            Some(live) => self.outcome(live).await,
            None => Progress::Gone,
        };
        reply(server, &live)
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

fn cut(words: &str) -> &str {
    &words[..words.floor_char_boundary(MAX_REASON_BYTES.min(words.len()))]
}
