//! Taking a registration back: the server drains, and is forgotten then (MGP §15.5).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::Timestamp;
use mgp_types::method::{DiscoveryDeregister, Request as _};
use mgp_types::mgp::{DeregisterParams, DeregisterResult, RegistrationStatus};
use mgp_types::service::{Authority, Context, ServerId};

use tokio::sync::watch;

use super::book::{Inner, Kept, Registrations, is_creator};
use super::event::Event;
use super::record::{Creator, Record, Stage};
use super::refused::RegistrationRefused as Refused;
use super::source;
use super::work::Live;
use crate::error::Error;
use crate::registry::shown;

/// The longest reason, in bytes; a longer one is cut.
const REASON: usize = 512;

impl Registrations {
    /// Drains a registered server and forgets it with its tools, access, permissions and pins.
    ///
    /// Only an operator and whoever registered it may; what others may not see answers as unknown to them.
    ///
    /// # Errors
    /// [`Error::Registration`] with what is in the way; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is deregistered; what has begun goes on, after a crash too.
    pub async fn deregister(
        &self,
        cx: &Context,
        params: DeregisterParams,
    ) -> Result<DeregisterResult, Error> {
        let server = ServerId::from(params.id.as_str());
        self.0.admit(cx, DiscoveryDeregister::METHOD, Some(server)).await?;
        self.0.deregister(cx, params).await
    }
}

impl Inner {
    /// `mgp/discovery/deregister`, by somebody who may.
    pub(super) async fn deregister(
        self: &Arc<Self>,
        cx: &Context,
        params: DeregisterParams,
    ) -> Result<DeregisterResult, Error> {
        let server = ServerId::from(params.id.as_str());
        let reason = params.reason.map(|words| cut(&words).to_owned());
        let turn = self.turn().await;
        self.look(&turn).await?;
        let kept = self.owned(cx, &server)?;
        let live = match &kept.record.stage {
            Stage::Leaving { .. } => self.go_on(&kept),
            Stage::Waiting { .. } | Stage::Rejected { .. } if !kept.record.changed => {
                source::forget(self.config.scripts.clone(), &kept.record.program).await;
                let event = Event::deregistered(&cx.principal, server.clone(), reason.as_deref());
                let event = event.during(cx.trace.as_deref()).build();
                self.take_out(&turn, &kept, vec![event]).await?;
                return Ok(told(&server, &Live::Gone));
            }
            _ => {
                let mut record = Record::clone(&kept.record);
                let (by, at) = (Creator::of(&cx.principal), Timestamp::now());
                record.stage = Stage::Leaving { by, at, reason };
                // What tells of it comes with its end.
                let live = self.decide(turn, Some(kept), record, Vec::new()).await?;
                return Ok(self.left(&server, live).await);
            }
        };
        drop(turn);
        Ok(self.left(&server, live).await)
    }

    async fn left(
        &self,
        server: &ServerId,
        live: Option<watch::Receiver<Live>>,
    ) -> DeregisterResult {
        let live = match live {
            Some(live) => self.outcome(live).await,
            None => Live::Gone,
        };
        told(server, &live)
    }

    /// A registration that the caller may take back.
    fn owned(&self, cx: &Context, server: &ServerId) -> Result<Kept, Refused> {
        let is_operator = cx.principal.authority() == Authority::Operator;
        let known = || self.servers.known().into_iter().find(|it| it.summary.id == server.as_str());
        let sees = || known().and_then(|known| shown(cx, &*self.may, known)).is_some();
        match self.kept(server) {
            Some(kept) if is_operator || is_creator(&kept.record, &cx.principal) => Ok(kept),
            Some(_) if sees() => Err(Refused::NotCreator(server.clone())),
            None if is_operator && (self.servers.configured(server) || known().is_some()) => {
                Err(Refused::Configured(server.clone()))
            }
            None if sees() => Err(Refused::Configured(server.clone())),
            _ => Err(Refused::Unknown(server.clone())),
        }
    }
}

fn told(server: &ServerId, live: &Live) -> DeregisterResult {
    let (status, message) = match live {
        Live::Gone => (RegistrationStatus::Deregistered, "it is gone"),
        _ => (
            RegistrationStatus::Other("draining".into()),
            "it takes no new calls, and is gone once those that run have ended",
        ),
    };
    let mut result = DeregisterResult::new(server.to_string(), status);
    result.message = Some(message.to_owned());
    result
}

fn cut(words: &str) -> &str {
    &words[..words.floor_char_boundary(REASON.min(words.len()))]
}
