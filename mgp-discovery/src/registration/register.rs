//! Requests for registration, and their decision (MGP §15.4).

use std::sync::Arc;

use mgp_types::method::{DiscoveryRegister, Request as _};
use mgp_types::mgp::{
    Actor, AuditResult, Permission, RegisterParams, RegisterResult, RegistrationStatus,
};
use mgp_types::service::{Authority, Context, Principal, ServerId};
use mgp_types::{ErrorCode, Sha256Hash, Timestamp};

use super::event::Event;
use super::launch::{secrets, stored_secrets};
use super::params::RegisterRequest;
use super::program::{FileCheck, compare_files, find};
use super::published::{requested, resolve};
use super::record::{Creator, Proposal, Record, Stage};
use super::refusal::{IdHolder, RegistrationError as Refused};
use super::registrations::{
    RegistrationState, Registrations, StoredRegistration, is_creator, operator,
};
use super::rejections::{MAX_REJECTIONS, Rejections};
use super::remote::RegistryTarget;
use super::work::Progress;
use crate::error::DiscoveryError;

impl Registrations {
    /// Registers a server, or requests the approval of an operator.
    ///
    /// A request by an operator needs no further approval; other callers get `pending_approval`.
    ///
    /// # Errors
    /// [`DiscoveryError::Registration`] with the reason of the refusal; [`DiscoveryError::Store`].
    ///
    /// # Cancel safety
    /// If the future is dropped, it is uncertain whether the server is registered; a start that has begun continues.
    pub async fn register(
        &self,
        cx: &Context,
        params: RegisterParams,
    ) -> Result<RegisterResult, DiscoveryError> {
        let server = ServerId::from(params.id.as_str());
        self.0.admit(cx, DiscoveryRegister::METHOD, Some(server)).await?;
        self.0.register(cx, params).await
    }

    /// Approves a waiting registration, if it has not changed since its review, and starts the server.
    ///
    /// `granted` names permissions that this server gets, although sandboxed servers do not get them by default.
    ///
    /// # Errors
    /// [`DiscoveryError::NotRegistrar`] for callers who are not operators; [`DiscoveryError::Registration`] with the
    /// reason why it cannot be approved, e.g. changed files or code that is not accepted; [`DiscoveryError::Store`].
    ///
    /// # Cancel safety
    /// If the future is dropped, it is uncertain whether the registration is approved; a start that has begun
    /// continues.
    pub async fn approve(
        &self,
        by: &Principal,
        server: &ServerId,
        fingerprint: &Sha256Hash,
        granted: &[Permission],
    ) -> Result<RegisterResult, DiscoveryError> {
        operator(by)?;
        let state = &self.0;
        let stored = state.found(server, fingerprint).await?;
        if state.servers.is_configured(server) {
            return Err(Refused::IdTaken { there: server.clone(), is: IdHolder::Other }.into());
        }
        let program = stored.record.program.clone();
        let compared = state.blocking(server, move |config| {
            secrets(&program, config.secrets.as_ref())?;
            compare_files(&program)
        });
        match compared.await? {
            Ok(FileCheck::Same) => {}
            Ok(FileCheck::Changed(now)) => {
                state.replace(stored, *now).await?;
                return Err(Refused::NotWaiting(server.clone()).into());
            }
            Err(reason) => {
                return Err(Refused::MissingFile { server: server.clone(), reason }.into());
            }
        }
        state.judged(&stored.record.program).await?;
        let turn = state.turn().await;
        state.refresh(&turn).await?;
        // Check the revision again: another caller may have decided or replaced the registration while its files were
        // compared and its code was judged.
        if state.stored(server).is_none_or(|now| now.revision != stored.revision) {
            return Err(Refused::NotWaiting(server.clone()).into());
        }
        if !stored.record.changed {
            state.clear_earlier_state(server).await?;
        }
        let mut record = Record { changed: false, ..Record::clone(&stored.record) };
        record.stage = Stage::Approved {
            by: by.subject().to_string(),
            at: Timestamp::now(),
            granted: Permission::canonical(granted),
        };
        let mut events = vec![Event::registered(by, &record, AuditResult::Success).build()];
        events.extend(record.created.as_ref().map(|_| Event::tool_created(by, &record).build()));
        let live = state.decide(turn, Some(stored), record, events).await?;
        state.started(server, live).await
    }

    /// Rejects a waiting registration, if it has not changed since its review. Until the rejection expires, an
    /// identical request of the same principal is refused, even if the principal deregistered or replaced the
    /// registration meanwhile. An operator who deregisters it ends the rejection.
    ///
    /// # Errors
    /// [`DiscoveryError::NotRegistrar`] for callers who are not operators; [`DiscoveryError::Registration`] if no such
    /// registration waits, or the rejection cannot be recorded; [`DiscoveryError::Store`].
    ///
    /// # Cancel safety
    /// If the future is dropped, it is uncertain whether the registration is rejected.
    pub async fn reject(
        &self,
        by: &Principal,
        server: &ServerId,
        fingerprint: &Sha256Hash,
    ) -> Result<(), DiscoveryError> {
        operator(by)?;
        let state = &self.0;
        let stored = state.found(server, fingerprint).await?;
        let mut record = Record::clone(&stored.record);
        let until = (!record.changed).then(|| state.until());
        record.stage = Stage::Rejected { by: by.subject().to_string(), until };
        let event = Event::registered(by, &record, AuditResult::Blocked);
        let event = event.code(ErrorCode::PERMISSION_DENIED).build();
        let turn = state.turn().await;
        state.decide(turn, Some(stored), record, vec![event]).await.map(drop)
    }
}

impl RegistrationState {
    /// Handles `mgp/discovery/register` for a caller that has passed the access checks.
    pub(super) async fn register(
        self: &Arc<Self>,
        cx: &Context,
        params: RegisterParams,
    ) -> Result<RegisterResult, DiscoveryError> {
        let (by, trace) = (&cx.principal, cx.trace.as_deref());
        let until = self.until();
        let mut record = self.propose(cx, params, until.clone()).await?;
        let server = record.program.server();
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        let before = self.free(&server)?;
        if let Some(before) = &before
            && let Some(reply) = earlier_reply(before, &record, by)?
        {
            return Ok(reply);
        }
        let is_operator = by.authority() == Authority::Operator;
        let rejections = self.rejections(&turn).await?;
        if !is_operator && rejections.contains(&record) {
            return Ok(rejected(&record.program));
        }
        self.room(&record, before.as_ref(), &rejections, is_operator)?;
        if is_operator {
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
        let reply = waits(&record.program, Some(&until));
        let created = record.created.clone();
        let is_created = created.is_some();
        if let Some(created) = created {
            // Bind the server before the record is stored, because storing continues even if this future is dropped.
            self.bind_to_session(cx, &server, created);
        }
        self.decide(turn, before, record, events).await?;
        if is_created {
            Self::close_creation(cx);
        }
        Ok(reply)
    }

    /// Creates the record of a request without storing it: reads the params, finds the files, and asks the judge to
    /// check the code.
    async fn propose(
        self: &Arc<Self>,
        cx: &Context,
        params: RegisterParams,
        until: Timestamp,
    ) -> Result<Record, DiscoveryError> {
        let by = &cx.principal;
        let (params, target) = self.find_published(params).await?;
        let (authority, allowed) = (by.authority(), self.servers.allow_list());
        let request = RegisterRequest::read(params, authority, &self.config, allowed, target)?;
        let server = ServerId::from(request.id.as_str());
        // Check before files are read that the id is free. The caller checks it again under the lock that excludes
        // other changes.
        self.free(&server)?;
        if request.source.is_some() && self.config.scripts.is_none() {
            return Err(Refused::Unavailable {
                server,
                reason: "scripts in requests are not accepted here".to_owned(),
                remedy: "name a file in `args`",
            }
            .into());
        }
        let (claimed_by, justification) =
            (request.claimed_by.clone(), request.justification.clone());
        let found = self.blocking(&server, move |config| {
            let mut program = find(request, config)?;
            program.notes.extend(stored_secrets(&program, config.secrets.as_ref()));
            Ok::<_, Refused>(program)
        });
        let program = found.await??;
        let created = program.source.as_ref().and_then(|_| Self::creation(cx));
        if let Err(error) = self.judged(&program).await {
            if let DiscoveryError::Registration(Refused::Rejected { .. }) = error {
                let event = Event::code_rejected(by, server).during(cx.trace.as_deref());
                self.record_event(event).await;
            }
            return Err(error);
        }
        Ok(Record {
            program,
            by: Creator::of(by),
            claimed_by,
            justification,
            asked_at: Timestamp::now(),
            changed: false,
            created,
            stage: Stage::Waiting { until: Some(until) },
        })
    }

    /// If the params name a server of a registry, returns params with the program of its registry entry, and the entry
    /// itself. Returns other params unchanged.
    async fn find_published(
        &self,
        params: RegisterParams,
    ) -> Result<(RegisterParams, Option<RegistryTarget>), Refused> {
        let Some(published) = params.published.clone() else { return Ok((params, None)) };
        let (name, version) = requested(&params, &published)?;
        let found = self.servers.published(name, version).await;
        let found = found.map_err(|reason| Refused::Unavailable {
            server: params.id.as_str().into(),
            reason,
            remedy: "name another server, or ask an operator",
        })?;
        resolve(params, found).map(|(params, target)| (params, Some(target)))
    }

    /// Returns the record that a new registration would replace; `None` if no record has this id. Returns an error if
    /// the id is taken.
    fn free(&self, server: &ServerId) -> Result<Option<StoredRegistration>, Refused> {
        let taken = |there: &str, is| Err(Refused::IdTaken { there: there.into(), is });
        if self.servers.is_configured(server) {
            return taken(server.as_str(), IdHolder::Other);
        }
        if let Some(stored) = self.stored(server) {
            return match &stored.record.stage {
                Stage::Approved { .. } => taken(server.as_str(), IdHolder::Registered),
                Stage::Leaving { .. } => taken(server.as_str(), IdHolder::Leaving),
                // An operator approved other files under this id earlier; that registration must be removed first.
                Stage::Waiting { .. } if stored.record.changed => {
                    taken(server.as_str(), IdHolder::Waiting)
                }
                Stage::Rejected { .. } if stored.record.changed => {
                    taken(server.as_str(), IdHolder::Registered)
                }
                Stage::Waiting { .. } | Stage::Rejected { .. } => Ok(Some(stored)),
            };
        }
        // Ids that differ only in case are treated as equal.
        let is_same = |id: &str| id.eq_ignore_ascii_case(server.as_str());
        if let Some((there, _)) = self.records().iter().find(|(id, _)| is_same(id)) {
            return taken(there, IdHolder::Registered);
        }
        let known = self.servers.known();
        match known.iter().find(|known| is_same(&known.summary.id)) {
            Some(known) => taken(&known.summary.id, IdHolder::Other),
            None => Ok(None),
        }
    }

    /// Returns an error if one more registration would exceed a limit. For operators, only the limit of the total
    /// number of registrations applies.
    fn room(
        &self,
        record: &Record,
        before: Option<&StoredRegistration>,
        rejections: &Rejections,
        is_operator: bool,
    ) -> Result<(), Refused> {
        let config = &self.config;
        if config.max == 0 {
            return Err(Refused::Unavailable {
                server: record.program.server(),
                reason: "servers are not registered here".to_owned(),
                remedy: "ask an operator to add it to `mgp.toml`",
            });
        }
        let records = self.records();
        let others: Vec<&Record> = records
            .values()
            .filter(|stored| before.is_none_or(|before| stored.revision != before.revision))
            .map(|stored| &*stored.record)
            .collect();
        let count = |is: &dyn Fn(&Record) -> bool| others.iter().filter(|other| is(other)).count();
        let is_own = |other: &Record| other.by == record.by;
        let is_of_tenant = |other: &Record| other.by.is_of_same_tenant(&record.by);
        let is_open = |other: &Record| is_of_tenant(other) && other.is_waiting();
        let share = |max| record.by.share_of(max);
        let deregister = "deregister some first";
        let decide = "an operator must decide on some first";
        let wait = "ask an operator, or wait until a rejection ends";
        let limits = [
            (others.len(), config.max, "servers are registered", deregister),
            (count(&is_own), config.max_each, "of your servers are registered", deregister),
            (count(&Record::is_waiting), config.max_pending, "registrations wait", decide),
            (count(&is_of_tenant), share(config.max), "servers of your tenant exist", deregister),
            (count(&is_open), share(config.max_pending), "requests of your tenant wait", decide),
            (
                count(&|other| is_own(other) && other.is_waiting()),
                config.max_pending_each,
                "of your registrations wait",
                decide,
            ),
            (
                rejections.count_of(&record.by),
                config.max_each,
                "of your registrations were rejected",
                wait,
            ),
            (rejections.count(), MAX_REJECTIONS, "registrations were rejected", wait),
        ];
        for (there, most, what, remedy) in
            limits.into_iter().take(if is_operator { 1 } else { usize::MAX })
        {
            if there >= most {
                return Err(Refused::TooMany { there, what, remedy });
            }
        }
        Ok(())
    }

    /// Returns the waiting registration of a server; returns an error if no registration waits, or it has changed since
    /// its review.
    async fn found(
        self: &Arc<Self>,
        server: &ServerId,
        fingerprint: &Sha256Hash,
    ) -> Result<StoredRegistration, DiscoveryError> {
        let turn = self.turn().await;
        self.refresh(&turn).await?;
        let stored = self.stored(server).filter(|stored| {
            stored.record.is_waiting() && stored.record.program.fingerprint() == *fingerprint
        });
        Ok(stored.ok_or_else(|| Refused::NotWaiting(server.clone()))?)
    }

    /// Removes the access entries, pins and other state of an earlier server with this id, because they do not apply to
    /// the new server.
    async fn clear_earlier_state(&self, server: &ServerId) -> Result<(), Refused> {
        self.servers.remove(server).await.map_err(|error| {
            tracing::error!(%server, %error, "removal failed: state of an earlier server remains");
            let reason = "the state of an earlier server of that id is not removed yet; try again";
            Refused::MissingFile { server: server.clone(), reason: reason.to_owned() }
        })
    }

    /// Replaces the files in the record of a waiting registration by the current files on the disk.
    async fn replace(
        self: &Arc<Self>,
        before: StoredRegistration,
        program: Proposal,
    ) -> Result<(), DiscoveryError> {
        let record = Record { program, ..Record::clone(&before.record) };
        let until = match &record.stage {
            Stage::Waiting { until } => until.as_ref(),
            _ => None,
        };
        let event = Event::approval_requested(Actor::kernel(), &record, until).build();
        let turn = self.turn().await;
        self.decide(turn, Some(before), record, vec![event]).await.map(drop)
    }

    /// Waits until the server is started, or until the time limit of the reply, and returns the reply.
    async fn started(
        &self,
        server: &ServerId,
        live: Option<tokio::sync::watch::Receiver<Progress>>,
    ) -> Result<RegisterResult, DiscoveryError> {
        let (status, message) = match self.outcome(live).await {
            Progress::Running => (RegistrationStatus::Connected, "it is registered".to_owned()),
            Progress::Starting => (
                RegistrationStatus::Other("connecting".into()),
                "it is registered and starting; check again later".to_owned(),
            ),
            Progress::Failed(error) => {
                let message = format!("it is registered and did not start: {}", error.message());
                (RegistrationStatus::Error, message)
            }
            Progress::Suspended => (
                RegistrationStatus::Error,
                "the configuration took its id; it is suspended until the id is free".to_owned(),
            ),
            Progress::Leaving | Progress::Gone => {
                (RegistrationStatus::Error, "it was deregistered meanwhile".to_owned())
            }
        };
        let mut result = RegisterResult::new(server.to_string(), status);
        result.message = Some(message);
        Ok(result)
    }
}

/// Returns the reply to a new request for an id, if it repeats the earlier request for this id. Returns `None` if the
/// new request replaces the earlier request, and an error if it must not replace it.
fn earlier_reply(
    before: &StoredRegistration,
    record: &Record,
    by: &Principal,
) -> Result<Option<RegisterResult>, Refused> {
    let is_same = is_creator(&before.record, by)
        && before.record.program.fingerprint() == record.program.fingerprint();
    let is_operator = by.authority() == Authority::Operator;
    match &before.record.stage {
        // The requester has become an operator, so the repeated request needs no further approval.
        _ if is_same && is_operator => Ok(None),
        Stage::Waiting { until } if is_same => Ok(Some(waits(&record.program, until.as_ref()))),
        Stage::Rejected { .. } if is_same => Ok(Some(rejected(&record.program))),
        Stage::Rejected { .. } => Ok(None),
        _ => Err(Refused::IdTaken { there: before.record.program.server(), is: IdHolder::Waiting }),
    }
}

fn rejected(program: &Proposal) -> RegisterResult {
    let mut result = RegisterResult::new(program.id.as_str(), RegistrationStatus::Rejected);
    let message = "rejected by an operator; ask one, or request something else";
    result.message = Some(message.to_owned());
    result
}

fn waits(program: &Proposal, until: Option<&Timestamp>) -> RegisterResult {
    let mut result = RegisterResult::new(program.id.as_str(), RegistrationStatus::PendingApproval);
    let mut message = "an operator must approve it".to_owned();
    // Ignore the result, because texts can always be encoded.
    let _ = result.extra.encode("approval_id", &program.fingerprint().to_string());
    if let Some(until) = until {
        message = format!("{message}; it waits until {until}");
        let _ = result.extra.encode("expires_at", until.as_str());
    }
    result.message = Some(message);
    result
}
