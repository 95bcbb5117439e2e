//! Asking, granting and taking back (MGP §5.4): who may, and what comes of it.
//!
//! Applies to: inbound.

use std::collections::BTreeSet;
use std::time::SystemTime;

use mgp_types::method::{AccessGrant, AccessQuery, AccessRevoke, Request};
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessGrantResult, AccessQueryParams, AccessQueryResult,
    AccessRevokeParams, AccessRevokeResult, Actor,
};
use mgp_types::service::{Principal, ServerId, TenantId};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, RpcError};

use super::asker::{About, Asker};
use super::book::Access;
use super::entry::{Entry, Who, name_of};
use super::expiry::ATTEMPTS;
use super::pass::Need;
use super::rules::{Moment, Rules, Seeker};
use crate::audit::Event;
use crate::error::Refusal;
use crate::state::{ChangeError, Found, Snapshot};

/// How many entries a tenant may have; a grant that would be one more is refused with 3001.
const ENTRIES_MAX: usize = 10_000;

impl Access {
    /// Makes an entry, or replaces the one the agent has there; in force once it is answered.
    ///
    /// Who made it is `by`, whatever the params claim.
    ///
    /// # Errors
    /// 1000 when `by` is no operator; −32602 when the entry would mean nothing; 3001 when the tenant has too many;
    /// else it cannot be kept or recorded. Nothing was changed then.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the entry was made.
    pub async fn grant(
        &self,
        by: &Principal,
        params: AccessGrantParams,
    ) -> Result<AccessGrantResult, RpcError> {
        let asker = Asker::alone(by);
        self.authorise::<AccessGrant>(asker, Some(&params.server_id)).await?;
        self.make(asker, params).await
    }

    /// Takes entries back; no longer in force once it is answered. To take back what is not there is no error.
    ///
    /// Without a tool every `tool_grant` of the agent on the server goes.
    ///
    /// # Errors
    /// 1000 when `by` is no operator; else it cannot be kept or recorded, and nothing was changed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the entries went.
    pub async fn revoke(
        &self,
        by: &Principal,
        params: AccessRevokeParams,
    ) -> Result<AccessRevokeResult, RpcError> {
        let asker = Asker::alone(by);
        self.authorise::<AccessRevoke>(asker, Some(&params.server_id)).await?;
        self.take_back(asker, params).await
    }

    /// Forgets every entry about a server that is registered no longer; whoever removes it was asked who they are.
    ///
    /// # Errors
    /// It cannot be kept or recorded; some of the entries may be gone.
    ///
    /// # Cancel safety
    /// As [`revoke`](Self::revoke).
    pub async fn deregistered(&self, server: &ServerId) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_meant = |entry: &Entry| entry.access.server_id == server.as_str();
        let told = |entry: &Entry| {
            Some(Event::access_revoked(Actor::kernel(), entry).cause("deregistered").build())
        };
        Ok(self.0.state.take_out(is_meant, told).await.map_err(Refusal::from)?)
    }

    /// Says what is decided about a tool for an agent, or which entries it has on a server: its own, those of its groups
    /// and everyone's.
    ///
    /// # Errors
    /// 1000 when `by` is no operator and asks about somebody else.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn query(
        &self,
        by: &Principal,
        params: AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        self.answer(Asker::alone(by), params).await
    }

    /// Everybody of a tenant whom a store has an entry of that is in force, groups included: for those who decide nothing.
    ///
    /// # Errors
    /// The store cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn named_in(
        store: &dyn Store,
        tenant: &TenantId,
    ) -> Result<BTreeSet<String>, StoreError> {
        let now = SystemTime::now();
        let records = store.load(Rules::SPACE).await?.records.into_iter();
        let entries = records.filter_map(|record| record.value?.get::<Entry>().ok());
        let of_tenant =
            entries.filter(|entry| entry.tenant == tenant.as_str() && entry.in_force(now));
        Ok(of_tenant.map(|entry| entry.access.agent_id.clone()).collect())
    }

    /// Refuses those who may not change anything, and records that they tried.
    pub(super) async fn authorise<R: Request>(
        &self,
        asker: Asker<'_>,
        server: Option<&str>,
    ) -> Result<(), RpcError> {
        match asker.may(Need::Write, R::METHOD, About::All) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.refuse(asker, R::METHOD, server, refusal).await),
        }
    }

    pub(super) async fn refuse(
        &self,
        asker: Asker<'_>,
        method: &str,
        server: Option<&str>,
        refusal: Refusal,
    ) -> RpcError {
        let server = server.map(ServerId::from);
        asker.refused(&**self.0.state.audit(), server.as_ref(), method, refusal).await
    }

    /// `mgp/access/grant`, by somebody who may.
    pub(super) async fn make(
        &self,
        asker: Asker<'_>,
        params: AccessGrantParams,
    ) -> Result<AccessGrantResult, RpcError> {
        let _turn = self.0.turn.lock().await;
        // What has ended is told before anything takes its place.
        self.sweep().await.map_err(Refusal::from)?;
        let entry = Entry::asked(params, asker.principal, self.now())?;
        let key = entry.key()?;
        for _ in 0..ATTEMPTS {
            let of_tenant = self.of_tenant(asker.principal).await?;
            let before = of_tenant.iter().find(|found| found.key == key);
            if before.is_none() && of_tenant.len() >= ENTRIES_MAX {
                return Err(Refusal::TooManyEntries(ENTRIES_MAX).into());
            }
            let change = Change::new()
                .expect(Rules::SPACE, &key, before.map(|found| found.revision))
                .put(Rules::SPACE, &key, Payload::of(&entry)?);
            let event = Event::access_granted(asker.principal, &entry).during(asker.trace);
            let event = match before {
                Some(found) => event.before(&found.entry.to_told()),
                None => event,
            };
            let status = if before.is_some() { "replaced" } else { "granted" };
            match self.0.state.commit(change, vec![event.build()]).await {
                // Another process changed the entry; look again at what is there.
                Err(ChangeError::Store(StoreError::Conflict { .. })) => {}
                done => {
                    done.map_err(Refusal::from)?;
                    return granted(status, &key, entry);
                }
            }
        }
        Err(Refusal::from(ChangeError::Store(StoreError::Busy("others change the same entry")))
            .into())
    }

    /// `mgp/access/revoke`, by somebody who may.
    pub(super) async fn take_back(
        &self,
        asker: Asker<'_>,
        params: AccessRevokeParams,
    ) -> Result<AccessRevokeResult, RpcError> {
        let _turn = self.0.turn.lock().await;
        self.sweep().await.map_err(Refusal::from)?;
        let is_meant = |entry: &AccessEntry| {
            entry.agent_id == params.agent_id
                && entry.server_id == params.server_id
                && entry.entry_type == params.entry_type
                && params
                    .tool_name
                    .as_ref()
                    .is_none_or(|tool| entry.tool_name.as_ref() == Some(tool))
        };
        for _ in 0..ATTEMPTS {
            let mut gone = self.of_tenant(asker.principal).await?;
            gone.retain(|found| is_meant(&found.entry.access));
            let (mut change, mut events) = (Change::new(), Vec::with_capacity(gone.len()));
            for found in &gone {
                change = change
                    .expect(Rules::SPACE, &found.key, Some(found.revision))
                    .remove(Rules::SPACE, &found.key);
                let event = Event::access_revoked(asker.principal, &found.entry);
                events.push(event.during(asker.trace).build());
            }
            if gone.is_empty() {
                return Ok(revoked(params, &gone));
            }
            match self.0.state.commit(change, events).await {
                Err(ChangeError::Store(StoreError::Conflict { .. })) => {}
                done => {
                    done.map_err(Refusal::from)?;
                    return Ok(revoked(params, &gone));
                }
            }
        }
        Err(Refusal::from(ChangeError::Store(StoreError::Busy("others change the same entry")))
            .into())
    }

    /// `mgp/access/query`.
    pub(super) async fn answer(
        &self,
        asker: Asker<'_>,
        params: AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        let is_own = params.agent_id == name_of(asker.principal);
        let may = if is_own {
            asker.holds()
        } else {
            asker.may(Need::Read, AccessQuery::METHOD, About::Others)
        };
        if let Err(refusal) = may {
            let server = Some(params.server_id.as_str());
            return Err(self.refuse(asker, AccessQuery::METHOD, server, refusal).await);
        }
        let tenant = asker.principal.tenant().as_str();
        let mut result = match &params.tool_name {
            Some(tool) => self.decision(tenant, &params, tool)?,
            None => self.entries(tenant, &params).await?,
        };
        result.agent_id = Some(params.agent_id);
        result.server_id = Some(params.server_id);
        Ok(result)
    }

    fn decision(
        &self,
        tenant: &str,
        params: &AccessQueryParams,
        tool: &str,
    ) -> Result<AccessQueryResult, RpcError> {
        let server = ServerId::from(params.server_id.as_str());
        let clock = || self.now();
        let at = Moment::of(&clock);
        let look = |seeker: Seeker<'_>| self.look_for(seeker, Some(&server), Some(tool), &at);
        let decided = match Who::of(&params.agent_id) {
            Who::Everyone => look(Seeker { tenant, agent: None, groups: &[] }),
            Who::Group(group) => look(Seeker { tenant, agent: None, groups: &[group.into()] }),
            Who::Agent(agent) => self.0.seek_agent(tenant, agent, |seeker| {
                look(seeker.unwrap_or(Seeker { tenant, agent: None, groups: &[] }))
            }),
        };
        let mut result = AccessQueryResult::new();
        result.permission = Some(decided.permission());
        result.source = Some(decided.source());
        let entry = decided.entry().map(|entry| &entry.access);
        result.granted_by = entry.and_then(|entry| entry.granted_by.clone()).into();
        result.granted_at = entry.and_then(|entry| entry.granted_at.clone()).into();
        result.expires_at = entry.and_then(|entry| entry.expires_at.clone()).into();
        result.extra.encode("tool_name", tool)?;
        result.extra.encode("rule", decided.rule().as_str())?;
        if let Some(confirm) = decided.entry().and_then(|entry| entry.confirm) {
            result.extra.encode("confirm", &confirm)?;
        }
        Ok(result)
    }

    async fn entries(
        &self,
        tenant: &str,
        params: &AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        let groups = self.0.groups.of(tenant, &params.agent_id).unwrap_or_default();
        let applies = |entry: &AccessEntry| {
            entry.agent_id == params.agent_id
                || match Who::of(&entry.agent_id) {
                    Who::Everyone => true,
                    Who::Group(group) => groups.iter().any(|known| **known == *group),
                    Who::Agent(_) => false,
                }
        };
        let now = self.now();
        let found = self.0.state.latest(|entry| {
            entry.tenant == tenant
                && entry.access.server_id == params.server_id
                && entry.in_force(now)
                && applies(&entry.access)
        });
        let found = found.await.map_err(ChangeError::from).map_err(Refusal::from)?;
        let mut result = AccessQueryResult::new();
        let entries: Vec<AccessEntry> =
            found.into_iter().map(|found| found.entry.to_told()).collect();
        // Written even where there are none: the list is the answer.
        result.entries = serde_json::from_str("[]").unwrap_or_default();
        result.entries.extend(entries);
        Ok(result)
    }

    async fn of_tenant(&self, by: &Principal) -> Result<Vec<Found<Entry>>, RpcError> {
        let tenant = by.tenant().as_str();
        let found = self.0.state.latest(|entry| entry.tenant == tenant).await;
        Ok(found.map_err(ChangeError::from).map_err(Refusal::from)?)
    }
}

fn granted(status: &str, key: &str, entry: Entry) -> Result<AccessGrantResult, RpcError> {
    let Entry { access: entry, confirm, .. } = entry;
    let mut result = AccessGrantResult::new(
        status,
        entry.agent_id,
        entry.server_id,
        entry.entry_type,
        entry.permission,
    );
    result.id = Some(Entry::id(key));
    result.tool_name = entry.tool_name;
    result.granted_by = entry.granted_by;
    result.granted_at = entry.granted_at;
    result.expires_at = entry.expires_at;
    if let Some(confirm) = confirm {
        result.extra.encode("confirm", &confirm)?;
    }
    Ok(result)
}

fn revoked(params: AccessRevokeParams, gone: &[Found<Entry>]) -> AccessRevokeResult {
    let count = u64::try_from(gone.len()).unwrap_or(u64::MAX);
    let mut result = AccessRevokeResult::new("revoked", count);
    result.agent_id = Some(params.agent_id);
    result.server_id = Some(params.server_id);
    result.entry_type = Some(params.entry_type);
    result.revoked = gone.iter().map(|found| found.entry.to_told()).collect();
    result
}
