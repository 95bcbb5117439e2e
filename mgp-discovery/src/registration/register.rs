//! Asking for a registration, and deciding about it (MGP §15.4; checklist C33).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::method::{DiscoveryRegister, Request as _};
use mgp_types::mgp::{
    Actor, AuditResult, Permission, RegisterParams, RegisterResult, RegistrationStatus,
};
use mgp_types::service::{Authority, Context, Principal, ServerId};
use mgp_types::{ErrorCode, Hash, RpcError, Timestamp};

use super::ask::Asked;
use super::book::{Inner, Kept, Registrations, is_creator, operator};
use super::event::Event;
use super::program::{Now, find, look};
use super::record::{Creator, Proposal, Record, Stage};
use super::refused::{Holder, RegistrationRefused as Refused};
use super::work::Live;
use crate::error::Error;

impl Registrations {
    /// Registers a server, or asks an operator whether it may be.
    ///
    /// What an operator asks for is approved by that; everybody else gets `pending_approval`.
    ///
    /// # Errors
    /// [`Error::Registration`] with what is in the way; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was registered; a start that has begun goes on.
    pub async fn register(
        &self,
        cx: &Context,
        params: RegisterParams,
    ) -> Result<RegisterResult, Error> {
        let server = ServerId::from(params.id.as_str());
        self.0.admit(cx, DiscoveryRegister::METHOD, Some(server)).await?;
        self.0.register(cx, params).await
    }

    /// Approves what waits, if it is what was looked at, and starts it.
    ///
    /// Of what a sandboxed server is denied it gets the permissions that are named here, and no others.
    ///
    /// # Errors
    /// [`Error::NotRegistrar`] for everybody but operators; [`Error::Registration`] when that does not wait, when its
    /// files are others by now, or its code is not accepted; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was approved; a start that has begun goes on.
    pub async fn approve(
        &self,
        by: &Principal,
        server: &ServerId,
        fingerprint: &Hash,
        granted: &[Permission],
    ) -> Result<RegisterResult, Error> {
        operator(by)?;
        let inner = &self.0;
        let kept = inner.found(server, fingerprint).await?;
        if inner.servers.configured(server) {
            return Err(Refused::Taken { there: server.clone(), is: Holder::Other }.into());
        }
        let program = kept.record.program.clone();
        match inner.blocking(server, move |_| look(&program)).await? {
            Ok(Now::Same) => {}
            Ok(Now::Changed(now)) => {
                inner.replace(kept, *now).await?;
                return Err(Refused::NotWaiting(server.clone()).into());
            }
            Err(reason) => {
                return Err(Refused::NotThere { server: server.clone(), reason }.into());
            }
        }
        inner.judged(&kept.record.program).await?;
        if !kept.record.changed {
            inner.begin_anew(server).await?;
        }
        let mut record = Record { changed: false, ..Record::clone(&kept.record) };
        record.stage = Stage::Approved {
            by: by.subject().to_string(),
            at: Timestamp::now(),
            granted: Permission::canonical(granted),
        };
        let event = Event::registered(by, &record, AuditResult::Success);
        let turn = inner.turn().await;
        let live = inner.decide(turn, Some(kept), record, vec![event.build()]).await?;
        inner.started(server, live).await
    }

    /// Rejects what waits, if it is what was looked at; the same is not asked again for a while.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was rejected.
    pub async fn reject(
        &self,
        by: &Principal,
        server: &ServerId,
        fingerprint: &Hash,
    ) -> Result<(), Error> {
        operator(by)?;
        let inner = &self.0;
        let kept = inner.found(server, fingerprint).await?;
        let mut record = Record::clone(&kept.record);
        let until = (!record.changed).then(|| inner.until());
        record.stage = Stage::Rejected { by: by.subject().to_string(), until };
        let event = Event::registered(by, &record, AuditResult::Blocked);
        let event = event.code(ErrorCode::PERMISSION_DENIED).build();
        let turn = inner.turn().await;
        inner.decide(turn, Some(kept), record, vec![event]).await.map(drop)
    }
}

impl Inner {
    /// `mgp/discovery/register`, by somebody who may.
    pub(super) async fn register(
        self: &Arc<Self>,
        cx: &Context,
        params: RegisterParams,
    ) -> Result<RegisterResult, Error> {
        let (by, trace) = (&cx.principal, cx.trace.as_deref());
        let asked = Asked::read(params, by.authority(), &self.config)?;
        let server = ServerId::from(asked.id.as_str());
        // Before files are looked at, and once more when it counts.
        self.free(&server)?;
        if asked.source.is_some() && self.config.scripts.is_none() {
            return Err(Refused::Unavailable {
                server,
                reason: "scripts in requests are not taken here".to_owned(),
                remedy: "name a file in `args`",
            }
            .into());
        }
        let (claimed_by, justification) = (asked.claimed_by.clone(), asked.justification.clone());
        let program = self.blocking(&server, move |config| find(asked, config)).await??;
        if let Err(error) = self.judged(&program).await {
            if let Error::Registration(Refused::Rejected { .. }) = error {
                self.tell(Event::code_rejected(by, server).during(trace)).await;
            }
            return Err(error);
        }
        let until = self.until();
        let mut record = Record {
            program,
            by: Creator::of(by),
            claimed_by,
            justification,
            asked_at: Timestamp::now(),
            changed: false,
            stage: Stage::Waiting { until: Some(until.clone()) },
        };
        let turn = self.turn().await;
        self.look(&turn).await?;
        let before = self.free(&server)?;
        if let Some(before) = &before
            && let Some(told) = said_before(before, &record, by)?
        {
            return Ok(told);
        }
        self.room(&record, before.as_ref())?;
        if by.authority() == Authority::Operator {
            record.stage = Stage::Approved {
                by: by.subject().to_string(),
                at: Timestamp::now(),
                granted: Vec::new(),
            };
            let event = Event::registered(by, &record, AuditResult::Success).during(trace);
            let live = self.decide(turn, before, record, vec![event.build()]).await?;
            return self.started(&server, live).await;
        }
        let event = Event::registered(by, &record, AuditResult::Blocked).during(trace);
        let event = event.code(ErrorCode::PERMISSION_DENIED);
        let question = Event::approval_requested(Actor::of(by), &record, Some(&until));
        let events = vec![event.build(), question.during(trace).build()];
        let told = waits(&record.program, Some(&until));
        self.decide(turn, before, record, events).await?;
        Ok(told)
    }

    /// Whether an id is free; what is in its place may be something that is over.
    fn free(&self, server: &ServerId) -> Result<Option<Kept>, Refused> {
        let taken = |there: &str, is| Err(Refused::Taken { there: there.into(), is });
        if self.servers.configured(server) {
            return taken(server.as_str(), Holder::Other);
        }
        if let Some(kept) = self.kept(server) {
            return match &kept.record.stage {
                Stage::Approved { .. } => taken(server.as_str(), Holder::Registered),
                Stage::Leaving { .. } => taken(server.as_str(), Holder::Leaving),
                // It ran before, so it is more than a question.
                _ if kept.record.changed => taken(server.as_str(), Holder::Waiting),
                Stage::Waiting { .. } | Stage::Rejected { .. } => Ok(Some(kept)),
            };
        }
        // Two servers whose names differ in case only are taken for one another.
        let is_same = |id: &str| id.eq_ignore_ascii_case(server.as_str());
        if let Some((there, _)) = self.book().iter().find(|(id, _)| is_same(id)) {
            return taken(there, Holder::Registered);
        }
        let known = self.servers.known();
        match known.iter().find(|known| is_same(&known.summary.id)) {
            Some(known) => taken(&known.summary.id, Holder::Other),
            None => Ok(None),
        }
    }

    /// Whether there is room for one more.
    fn room(&self, record: &Record, before: Option<&Kept>) -> Result<(), Refused> {
        let config = &self.config;
        if config.most == 0 {
            return Err(Refused::Unavailable {
                server: record.program.server(),
                reason: "servers are not registered here".to_owned(),
                remedy: "have an operator put it into `mgp.toml`",
            });
        }
        let book = self.book();
        let others: Vec<&Record> = book
            .values()
            .filter(|kept| before.is_none_or(|before| kept.revision != before.revision))
            .map(|kept| &*kept.record)
            .collect();
        let count = |is: &dyn Fn(&Record) -> bool| others.iter().filter(|other| is(other)).count();
        let is_own = |other: &Record| other.by == record.by;
        // Operators are bounded by what there may be in all.
        let is_operator = matches!(record.stage, Stage::Approved { .. });
        let most_each = if is_operator { usize::MAX } else { config.most_each };
        let deregister = "deregister some first";
        let decide = "an operator must decide about some first";
        for (there, most, what, remedy) in [
            (others.len(), config.most, "servers are registered", deregister),
            (count(&is_own), most_each, "of your servers are registered", deregister),
            (count(&Record::is_waiting), config.waiting, "registrations wait", decide),
            (
                count(&|other| is_own(other) && other.is_waiting()),
                config.waiting_each,
                "of your registrations wait",
                decide,
            ),
        ] {
            if there >= most {
                return Err(Refused::TooMany { there, what, remedy });
            }
        }
        Ok(())
    }

    /// What waits under a name, if it is what was looked at.
    async fn found(self: &Arc<Self>, server: &ServerId, fingerprint: &Hash) -> Result<Kept, Error> {
        let turn = self.turn().await;
        self.look(&turn).await?;
        let kept = self.kept(server).filter(|kept| {
            kept.record.is_waiting() && kept.record.program.fingerprint() == *fingerprint
        });
        Ok(kept.ok_or_else(|| Refused::NotWaiting(server.clone()))?)
    }

    /// Forgets what a server of that id had before: access and pins were meant for another one.
    async fn begin_anew(&self, server: &ServerId) -> Result<(), Refused> {
        self.servers.remove(server).await.map_err(|error| {
            tracing::error!(%server, %error, "what a server had before is not forgotten");
            let reason = "what a server of that id had before is not forgotten yet; try again";
            Refused::NotThere { server: server.clone(), reason: reason.to_owned() }
        })
    }

    /// Puts what the files are now in the place of what waits.
    async fn replace(self: &Arc<Self>, before: Kept, program: Proposal) -> Result<(), Error> {
        let record = Record { program, ..Record::clone(&before.record) };
        let until = match &record.stage {
            Stage::Waiting { until } => until.as_ref(),
            _ => None,
        };
        let event = Event::approval_requested(Actor::kernel(), &record, until).build();
        let turn = self.turn().await;
        self.decide(turn, Some(before), record, vec![event]).await.map(drop)
    }

    /// What whoever waits for a start is told.
    async fn started(
        &self,
        server: &ServerId,
        live: Option<tokio::sync::watch::Receiver<Live>>,
    ) -> Result<RegisterResult, Error> {
        let live = match live {
            Some(live) => self.outcome(live).await,
            None => Live::Gone,
        };
        let (status, message) = match live {
            Live::Running => (RegistrationStatus::Connected, "it is registered".to_owned()),
            Live::Starting => (
                RegistrationStatus::Other("connecting".into()),
                "it is registered and starts; look again in a while".to_owned(),
            ),
            Live::Failed(error) => (RegistrationStatus::Error, told(&error)),
            Live::Resting => (
                RegistrationStatus::Error,
                "the configuration took its id; it rests until that gives it back".to_owned(),
            ),
            Live::Leaving | Live::Gone => {
                (RegistrationStatus::Error, "it was deregistered meanwhile".to_owned())
            }
        };
        let mut result = RegisterResult::new(server.to_string(), status);
        result.message = Some(message);
        Ok(result)
    }
}

/// What a registration that did not start says to whoever asked for it.
fn told(error: &RpcError) -> String {
    format!("it is registered and did not start: {}", error.message())
}

/// What whoever asks for the same once more is told; none where it takes the place of what was there.
fn said_before(
    before: &Kept,
    record: &Record,
    by: &Principal,
) -> Result<Option<RegisterResult>, Refused> {
    let is_same = is_creator(&before.record, by)
        && before.record.program.fingerprint() == record.program.fingerprint();
    let is_operator = by.authority() == Authority::Operator;
    match &before.record.stage {
        // They are an operator by now, and so need none.
        _ if is_same && is_operator => Ok(None),
        Stage::Waiting { until } if is_same => Ok(Some(waits(&record.program, until.as_ref()))),
        Stage::Rejected { .. } if is_same => {
            let mut result =
                RegisterResult::new(record.program.id.as_str(), RegistrationStatus::Rejected);
            result.message = Some("an operator said no; ask one, or for something else".to_owned());
            Ok(Some(result))
        }
        Stage::Rejected { .. } => Ok(None),
        _ => Err(Refused::Taken { there: before.record.program.server(), is: Holder::Waiting }),
    }
}

fn waits(program: &Proposal, until: Option<&Timestamp>) -> RegisterResult {
    let mut result = RegisterResult::new(program.id.as_str(), RegistrationStatus::PendingApproval);
    let mut message = "an operator must approve it".to_owned();
    // Words can always be written.
    let _ = result.extra.encode("approval_id", &program.fingerprint().to_string());
    if let Some(until) = until {
        message = format!("{message}; it waits until {until}");
        let _ = result.extra.encode("expires_at", until.as_str());
    }
    result.message = Some(message);
    result
}
