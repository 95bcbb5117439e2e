//! The instances of an isolated server, which has an instance for each principal (MGP §15.2 `isolation`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_client_sdk::{Client, Error};
use mgp_discovery::ServerConfig;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{Call, Context, Principal, Reply, TenantId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::era_choice::{SessionKind, SessionUse};
use super::instance::{Instance, InstanceParts, restore_on_connect};
use super::log_messages::ServedPrincipals;
use super::session::Session;
use super::subscriptions::Source;

/// The maximum number of instances of an isolated server. At the limit, the kernel stops the oldest unused instance to
/// make room for a new one.
const MAX_INSTANCES: usize = 32;

/// The time after which the kernel stops an unused instance.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The interval between two checks whether a busy instance has become idle.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The instances of an isolated server, by principal.
pub(super) struct Instances(Arc<InstanceTable>);

struct InstanceTable {
    /// The parts that all instances share. Their `owner` is `None`; each instance replaces it by its own owner.
    parts: InstanceParts,
    by_owner: Mutex<HashMap<Principal, Arc<AgentInstance>>>,
}

/// The instance of one principal.
struct AgentInstance {
    instance: Instance,
    running: AtomicUsize,
    used_at: Mutex<Instant>,
}

impl Instances {
    pub(super) fn new(parts: InstanceParts) -> Self {
        Self(Arc::new(InstanceTable { parts, by_owner: Mutex::default() }))
    }

    /// Returns a principal's instance, in a guard that keeps it running. Creates the instance if necessary.
    pub(super) fn get_or_create(&self, owner: &Principal) -> Result<InstanceGuard, RpcError> {
        let InstanceTable { parts, by_owner } = &*self.0;
        let mut table = by_owner.lock();
        if let Some(instance) = table.get(owner) {
            return Ok(InstanceGuard::new(instance));
        }
        if table.len() >= MAX_INSTANCES {
            let unused = table
                .iter()
                .filter(|(owner, instance)| instance.is_free() && !self.0.has_subscription(owner));
            let oldest = unused.min_by_key(|(_, instance)| instance.used_at());
            let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) else {
                return Err(too_many(&parts.config));
            };
            self.0.remove(&mut table, &oldest);
        }
        let instance = Instance::new(InstanceParts {
            owner: Some(owner.clone()),
            served: ServedPrincipals::default(),
            ..parts.clone()
        })?;
        let used_at = Mutex::new(Instant::now());
        let instance = Arc::new(AgentInstance { instance, running: AtomicUsize::new(0), used_at });
        table.insert(owner.clone(), Arc::clone(&instance));
        let (context, server) = (parts.context.clone(), parts.config.id.clone());
        let main = Arc::downgrade(instance.instance.main());
        tokio::spawn(restore_on_connect(main, context, server, Some(owner.clone())));
        instance.instance.resume_legacy();
        let weak = Arc::downgrade(&instance);
        tokio::spawn(stop_idle(Arc::downgrade(&self.0), owner.clone(), weak));
        Ok(InstanceGuard::new(&instance))
    }

    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        let table = self.0.by_owner.lock();
        table.values().flat_map(|one| one.instance.sessions()).cloned().collect()
    }

    /// Returns the connected clients of a principal's instance of the server.
    pub(super) fn clients_of(&self, owner: &Principal) -> Vec<Client> {
        let instance = self.0.by_owner.lock().get(owner).cloned();
        instance.iter().flat_map(|one| one.instance.sessions()).filter_map(connected).collect()
    }

    /// Returns the kind of the session to which a client of a principal's instance belongs.
    pub(super) fn kind_of(&self, owner: &Principal, client: &Client) -> SessionKind {
        let instance = self.0.by_owner.lock().get(owner).cloned();
        instance.map_or(SessionKind::Main, |one| one.instance.kind_of(client))
    }

    /// Returns the connected clients of all instances, each with the owner of its instance.
    pub(super) fn clients(&self) -> Vec<(Principal, Client)> {
        let table = self.0.by_owner.lock();
        let of_each = table.iter().flat_map(|(owner, one)| {
            let clients = one.instance.sessions().filter_map(connected);
            clients.map(move |client| (owner.clone(), client))
        });
        of_each.collect()
    }

    pub(super) async fn stop(&self, reason: &ShutdownReason, drain: Option<Duration>) {
        let InstanceTable { parts, by_owner } = &*self.0;
        let (owners, all): (Vec<_>, Vec<_>) = by_owner.lock().drain().unzip();
        parts.context.stopped.add(&parts.config.id, owners);
        // Do not let the drain wait for answers of callers, because they cannot reach these instances any more.
        let sessions = all.iter().flat_map(|one| one.instance.sessions());
        sessions.for_each(|session| session.hop().end_all_parked());
        let stops = all.iter().map(|one| one.instance.stop(reason, drain));
        futures_util::future::join_all(stops).await;
    }

    /// Stops the instances of a removed tenant, without waiting for their end. A later tenant with this name gets new
    /// ones, because an instance may remember what its callers sent.
    pub(super) fn forget_tenant(&self, tenant: &TenantId) {
        let removed: Vec<_> = {
            let mut table = self.0.by_owner.lock();
            table.extract_if(|owner, _| owner.tenant() == tenant).collect()
        };
        for (_, one) in removed {
            one.instance.sessions().for_each(|session| session.hop().end_all_parked());
            tokio::spawn(async move {
                one.instance.stop(&ShutdownReason::OperatorRequest, None).await;
            });
        }
    }
}

/// A guard of an instance: the instance counts as used until the guard is dropped.
pub(super) struct InstanceGuard(Arc<AgentInstance>);

impl InstanceGuard {
    fn new(instance: &Arc<AgentInstance>) -> Self {
        instance.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(instance))
    }

    /// Opens the sessions in which the owner is subscribed to resources or events, each in a task.
    pub(super) fn resume(self) {
        let InstanceParts { config, context, owner, .. } = self.0.instance.parts();
        let (server, owner) = (config.id.clone(), owner.clone());
        let has_events = context.events.hub().has_subscriber(&server, owner.as_ref());
        let main = Source { server, owner, session: SessionKind::Main };
        let needs_main = has_events || context.subscriptions.has(&main);
        self.0.instance.resume_legacy();
        if needs_main {
            let permits = Arc::clone(&context.start_permits.resumes);
            tokio::spawn(async move { self.0.instance.wake_main(Some(&permits)).await.map(drop) });
        }
    }

    /// Returns the client of the session that serves a caller. Connects the session if that is allowed.
    pub(super) async fn wake(
        &self,
        cx: &Context,
        session_use: SessionUse,
    ) -> Result<Client, Error> {
        self.0.instance.wake_for(cx, session_use, None).await.1
    }

    pub(super) async fn send(self, call: Call) -> Result<Reply, RpcError> {
        let (session, woken) = self.0.instance.wake_for(call.cx(), SessionUse::Call, None).await;
        if let Err(error) = woken {
            tracing::debug!(%error, "instance not ready for a call");
        }
        session.send(call).await
    }
}

impl Drop for InstanceGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl InstanceTable {
    /// Returns whether a principal is subscribed to any resource or event of the server. Its instance then counts as
    /// used.
    fn has_subscription(&self, owner: &Principal) -> bool {
        let InstanceParts { config, context, .. } = &self.parts;
        context.has_subscriber(&config.id, owner)
    }

    fn remove(&self, table: &mut HashMap<Principal, Arc<AgentInstance>>, owner: &Principal) {
        let Some(instance) = table.remove(owner) else { return };
        tracing::debug!(server = %self.parts.config.id, ?owner, "stopping idle instance");
        tokio::spawn(async move {
            instance.instance.stop(&ShutdownReason::IdleTimeout, None).await;
        });
    }
}

impl AgentInstance {
    fn touch(&self) {
        *self.used_at.lock() = Instant::now();
    }

    fn used_at(&self) -> Instant {
        *self.used_at.lock()
    }

    fn is_free(&self) -> bool {
        let is_running = self.running.load(Ordering::Acquire) > 0;
        !is_running && !self.instance.sessions().any(|session| session.has_calls())
    }
}

fn connected(session: &Arc<Session>) -> Option<Client> {
    session.client().client().ok()
}

/// Stops an instance once it has been unused for [`IDLE_TIMEOUT`].
async fn stop_idle(table: Weak<InstanceTable>, owner: Principal, instance: Weak<AgentInstance>) {
    loop {
        let Some(due) = instance.upgrade().map(|one| one.used_at() + IDLE_TIMEOUT) else { return };
        tokio::time::sleep_until(due.max(Instant::now() + IDLE_INTERVAL)).await;
        let (Some(table), Some(instance)) = (table.upgrade(), instance.upgrade()) else { return };
        let mut by_owner = table.by_owner.lock();
        if table.has_subscription(&owner) {
            instance.touch();
        } else if instance.is_free() && instance.used_at().elapsed() >= IDLE_TIMEOUT {
            // Remove only this instance from the table: a new one may have replaced it.
            if by_owner.get(&owner).is_some_and(|present| Arc::ptr_eq(present, &instance)) {
                table.remove(&mut by_owner, &owner);
            }
            return;
        }
    }
}

fn too_many(config: &ServerConfig) -> RpcError {
    RpcError::new(
        ErrorCode::RESOURCE_EXHAUSTED,
        format!(
            "all {MAX_INSTANCES} instances of `{}` are in use; try again once one is free",
            config.id
        ),
    )
}
