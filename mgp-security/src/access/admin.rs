//! Queries, grants and revocations of access (MGP §5.4).

use std::collections::BTreeSet;
use std::time::SystemTime;

use mgp_types::method::{AccessGrant, AccessQuery, AccessRevoke, Request};
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessGrantResult, AccessPermission, AccessQueryParams,
    AccessQueryResult, AccessRevokeParams, AccessRevokeResult, AccessSource, Actor,
};
use mgp_types::service::{Authority, Principal, ServerId, TenantId};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, RpcError};

use super::admin_check::AdminCheck;
use super::book::Access;
use super::entry::{Entry, Subject, name_of};
use super::pass::Need;
use super::refused::About;
use super::rules::{Moment, Rules, Seeker};
use crate::audit::Event;
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;
use crate::state::{ChangeError, Found, Snapshot};

/// The maximum number of access entries per tenant. At the maximum, the grant of another entry is refused with code
/// 3001 (resource exhausted).
const MAX_ENTRIES: usize = 10_000;

impl Access {
    /// Creates an access entry, or replaces the agent's entry for the same server or tool. The entry is in force when
    /// this method returns.
    ///
    /// The entry names `by` as the operator who granted it, whatever the params claim.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; code −32602 (invalid params) if the params are invalid,
    /// contradict each other or name another tenant in the member `tenant`; code 3001 (resource exhausted) if the tenant
    /// has too many entries; another code if the entry cannot be stored or the change cannot be recorded. In all these
    /// cases nothing was changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entry may or may not have been created.
    pub async fn grant(
        &self,
        by: &Principal,
        params: AccessGrantParams,
    ) -> Result<AccessGrantResult, RpcError> {
        let check = AdminCheck::without_call(by).within_tenant();
        self.authorise::<AccessGrant>(check, Some(&params.server_id)).await?;
        self.make(check, params).await
    }

    /// Revokes entries; they are no longer in force when this method returns. Revoking an entry that does not exist is
    /// not an error.
    ///
    /// If the params name no tool, every `tool_grant` of the agent on the server is revoked.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; code −32602 (invalid params) if the params name another
    /// tenant in the member `tenant`; another code if the change cannot be stored or recorded. Nothing was changed then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entries may or may not have been revoked.
    pub async fn revoke(
        &self,
        by: &Principal,
        params: AccessRevokeParams,
    ) -> Result<AccessRevokeResult, RpcError> {
        let check = AdminCheck::without_call(by).within_tenant();
        self.authorise::<AccessRevoke>(check, Some(&params.server_id)).await?;
        self.take_back(check, params).await
    }

    /// Removes every entry about a server that is no longer registered. Does not check any authority: the caller of
    /// this method must have checked it.
    ///
    /// # Errors
    /// An error if the change cannot be stored or recorded; some of the entries may have been removed.
    ///
    /// # Cancel safety
    /// The same as for [`revoke`](Self::revoke).
    pub async fn remove_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let _changing = self.entries().begin_change().await;
        let is_meant = |entry: &Entry| entry.access.server_id == server.as_str();
        let event_of = |entry: &Entry| {
            Some(Event::access_revoked(Actor::kernel(), entry).cause("deregistered").build())
        };
        Ok(self.entries().state().take_out(is_meant, event_of).await.map_err(Refusal::from)?)
    }

    /// Removes every entry of a tenant. Does not check any authority: the caller of this method must have checked it.
    ///
    /// # Errors
    /// An error if the change cannot be stored or recorded; some of the entries may have been removed.
    pub(crate) async fn remove_tenant(
        &self,
        by: &Principal,
        tenant: &TenantId,
    ) -> Result<(), RpcError> {
        let _changing = self.entries().begin_change().await;
        let is_meant = |entry: &Entry| entry.tenant == tenant.as_str();
        let allows =
            |entry: &Entry| is_meant(entry) && entry.access.permission == AccessPermission::Allow;
        let event_of =
            |entry: &Entry| Some(Event::access_revoked(by, entry).cause("tenant_removed").build());
        let state = self.entries().state();
        // First remove the entries that allow access. Then, if a later removal fails, no remaining entry allows what a
        // removed entry denied.
        state.take_out(allows, event_of).await.map_err(Refusal::from)?;
        Ok(state.take_out(is_meant, event_of).await.map_err(Refusal::from)?)
    }

    /// If the params name a tool, returns the decision about the tool for an agent. Otherwise, returns the entries that
    /// apply to the agent on a server: the agent's own entries, the entries of its groups and the entries for everyone.
    /// The member `tenant` of the params selects another tenant than the tenant of `by`.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator and asks about an agent other than itself, or asks
    /// about another tenant without being an operator of `local`.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn query(
        &self,
        by: &Principal,
        params: AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        self.answer(AdminCheck::without_call(by).within_tenant(), params).await
    }

    /// Returns the names that have entries in force in a tenant: agents, groups (`group:NAME`) and everyone (`*`).
    /// Reads these names directly from the store, e.g. for a command that displays them. No decision uses them.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
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

    /// Returns an error if the caller is not allowed to use an administrative method, and records the refused attempt.
    pub(super) async fn authorise<R: Request>(
        &self,
        check: AdminCheck<'_>,
        server: Option<&str>,
    ) -> Result<(), RpcError> {
        let (audit, server) = (self.entries().state().audit(), server.map(ServerId::from));
        check.admit(&**audit, server.as_ref(), Need::Write, R::METHOD).await
    }

    pub(super) async fn refuse(
        &self,
        check: AdminCheck<'_>,
        method: &str,
        server: Option<&str>,
        refusal: Refusal,
    ) -> RpcError {
        let server = server.map(ServerId::from);
        check
            .record_refusal(&**self.entries().state().audit(), server.as_ref(), method, refusal)
            .await
    }

    /// Answers `mgp/access/grant` for a caller whose authority was checked.
    pub(super) async fn make(
        &self,
        check: AdminCheck<'_>,
        params: AccessGrantParams,
    ) -> Result<AccessGrantResult, RpcError> {
        check_tenant(check.principal, params.extra.decode("tenant")?)?;
        let _changing = self.entries().begin_change().await;
        // Write the audit events for entries that have expired, before a new entry replaces any of these entries.
        self.entries().record_ends().await.map_err(Refusal::from)?;
        let entry = Entry::asked(params, check.principal, self.now())?;
        let key = entry.key()?;
        for _ in 0..MAX_ATTEMPTS {
            let of_tenant = self.of_tenant(check.principal).await?;
            let before = of_tenant.iter().find(|found| found.key == key);
            if before.is_none() && of_tenant.len() >= MAX_ENTRIES {
                return Err(Refusal::TooManyEntries(MAX_ENTRIES).into());
            }
            let change = Change::new()
                .expect_revision(Rules::SPACE, &key, before.map(|found| found.revision))
                .put(Rules::SPACE, &key, Payload::of(&entry)?);
            let event = Event::access_granted(check.principal, &entry).trace(check.trace);
            let event = match before {
                Some(found) => event.before(&found.entry.to_shown()),
                None => event,
            };
            let status = if before.is_some() { "replaced" } else { "granted" };
            match self.entries().state().commit(change, vec![event.build()]).await {
                // Another process changed the entry: read it again and retry.
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

    /// Answers `mgp/access/revoke` for a caller whose authority was checked.
    pub(super) async fn take_back(
        &self,
        check: AdminCheck<'_>,
        params: AccessRevokeParams,
    ) -> Result<AccessRevokeResult, RpcError> {
        check_tenant(check.principal, params.extra.decode("tenant")?)?;
        let _changing = self.entries().begin_change().await;
        self.entries().record_ends().await.map_err(Refusal::from)?;
        let is_meant = |entry: &AccessEntry| {
            entry.agent_id == params.agent_id
                && entry.server_id == params.server_id
                && entry.entry_type == params.entry_type
                && params
                    .tool_name
                    .as_ref()
                    .is_none_or(|tool| entry.tool_name.as_ref() == Some(tool))
        };
        for _ in 0..MAX_ATTEMPTS {
            let mut gone = self.of_tenant(check.principal).await?;
            gone.retain(|found| is_meant(&found.entry.access));
            let (mut change, mut events) = (Change::new(), Vec::with_capacity(gone.len()));
            for found in &gone {
                change = change
                    .expect_revision(Rules::SPACE, &found.key, Some(found.revision))
                    .remove(Rules::SPACE, &found.key);
                let event = Event::access_revoked(check.principal, &found.entry);
                events.push(event.trace(check.trace).build());
            }
            if gone.is_empty() {
                return Ok(revoked(params, &gone));
            }
            match self.entries().state().commit(change, events).await {
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

    /// Answers `mgp/access/query`.
    pub(super) async fn answer(
        &self,
        check: AdminCheck<'_>,
        params: AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        let named = params.extra.decode::<String>("tenant");
        let own = check.principal.tenant().as_str();
        let is_other = !matches!(&named, Ok(named) if named.as_deref().unwrap_or(own) == own);
        let check = if is_other { check.across_tenants() } else { check };
        let is_own = !is_other && params.agent_id == name_of(check.principal);
        let may = if is_own {
            check.check_end()
        } else {
            check.check(Need::Read, AccessQuery::METHOD, About::Others)
        };
        if let Err(refusal) = may {
            let server = Some(params.server_id.as_str());
            return Err(self.refuse(check, AccessQuery::METHOD, server, refusal).await);
        }
        let named = named?;
        let tenant = named.as_deref().unwrap_or(own);
        let mut result = match &params.tool_name {
            Some(tool) => self.query_decision(check.principal, tenant, &params, tool)?,
            None => self.list_entries(tenant, &params).await?,
        };
        result.agent_id = Some(params.agent_id);
        result.server_id = Some(params.server_id);
        Ok(result)
    }

    fn query_decision(
        &self,
        by: &Principal,
        tenant: &str,
        params: &AccessQueryParams,
        tool: &str,
    ) -> Result<AccessQueryResult, RpcError> {
        let server = ServerId::from(params.server_id.as_str());
        let clock = || self.now();
        let at = Moment::of(&clock);
        let view = self.view_agent(tenant, &params.agent_id);
        let id = Some(server.as_str());
        // If the server is for other tenants, answer as for a server that does not exist. Only operators of `local`
        // learn the reason.
        let hides = by.authority() < Authority::Operator && !view.is_admitted(id);
        let policy = || self.policies().get(Some(&server).filter(|_| !hides));
        let default = || policy().default_for(tenant);
        let decide = |groups: &[Box<str>], agent| {
            let seeker = Seeker { tenant, agent, groups };
            if hides {
                return view.decide_by_entries(seeker, id, Some(tool), &at, default).to_decision();
            }
            view.decide_for(seeker, id, Some(tool), &at, default).to_decision()
        };
        let decision = match Subject::of(&params.agent_id) {
            Subject::Everyone => decide(&[], None),
            Subject::Group(group) => decide(&[group.into()], None),
            Subject::Agent(agent) => {
                let groups = self.groups().of(tenant, agent).unwrap_or_default();
                decide(&groups, Some(agent))
            }
        };
        let mut result = AccessQueryResult::new();
        result.permission = Some(decision.permission());
        let source = decision.source();
        let of_tenants = || AccessSource::Other("tenants".into());
        result.source = Some(if decision.is_of_other_tenants() { of_tenants() } else { source });
        let entry = decision.entry().map(|entry| &entry.access);
        result.granted_by = entry.and_then(|entry| entry.granted_by.clone()).into();
        result.granted_at = entry.and_then(|entry| entry.granted_at.clone()).into();
        result.expires_at = entry.and_then(|entry| entry.expires_at.clone()).into();
        result.extra.encode("tool_name", tool)?;
        result.extra.encode("rule", decision.rule().as_str())?;
        if let Some(confirm) = decision.entry().and_then(|entry| entry.confirm) {
            result.extra.encode("confirm", &confirm)?;
        }
        Ok(result)
    }

    async fn list_entries(
        &self,
        tenant: &str,
        params: &AccessQueryParams,
    ) -> Result<AccessQueryResult, RpcError> {
        let groups = self.groups().of(tenant, &params.agent_id).unwrap_or_default();
        let applies = |entry: &AccessEntry| {
            entry.agent_id == params.agent_id
                || match Subject::of(&entry.agent_id) {
                    Subject::Everyone => true,
                    Subject::Group(group) => groups.iter().any(|known| **known == *group),
                    Subject::Agent(_) => false,
                }
        };
        let now = self.now();
        let found = self.entries().state().latest(|entry| {
            entry.tenant == tenant
                && entry.access.server_id == params.server_id
                && entry.in_force(now)
                && applies(&entry.access)
        });
        let found = found.await.map_err(ChangeError::from).map_err(Refusal::from)?;
        let mut result = AccessQueryResult::new();
        let entries: Vec<AccessEntry> =
            found.into_iter().map(|found| found.entry.to_shown()).collect();
        // Write the member `entries` even if it is empty, because an empty list is the answer to the query.
        result.entries = serde_json::from_str("[]").unwrap_or_default();
        result.entries.extend(entries);
        Ok(result)
    }

    async fn of_tenant(&self, by: &Principal) -> Result<Vec<Found<Entry>>, RpcError> {
        let tenant = by.tenant().as_str();
        let found = self.entries().state().latest(|entry| entry.tenant == tenant).await;
        Ok(found.map_err(ChangeError::from).map_err(Refusal::from)?)
    }
}

/// Refuses a change whose params name another tenant than the operator's, because the change would be made in the
/// operator's tenant.
fn check_tenant(by: &Principal, named: Option<String>) -> Result<(), RpcError> {
    let tenant = by.tenant();
    if named.is_none_or(|named| named == tenant.as_str()) {
        return Ok(());
    }
    Err(RpcError::invalid_params(format!(
        "an operator of the tenant `{tenant}` changes only its entries, so leave out `tenant`"
    )))
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
    result.revoked = gone.iter().map(|found| found.entry.to_shown()).collect();
    result
}
