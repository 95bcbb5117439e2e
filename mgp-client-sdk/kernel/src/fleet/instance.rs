//! The instance of a server that all principals share, and one for each principal where they may not share it
//! (MGP §15.2 `isolation`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, Error, Hop, SupervisedClient, gateway};
use mgp_discovery::{ApprovedRegistration, ServerConfig};
use mgp_types::mcp::{ElicitationCapability, ListChanged, SamplingCapability};
use mgp_types::method::LogMessage;
use mgp_types::mgp::{ExtensionSet, ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, Router};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::context::FleetContext;
use super::log_messages::{LevelLayer, ServedPrincipals, forward_log, request_level};
use super::notifier::ServerNotifier;
use super::server_log::ServerLog;
use super::start::StartHold;
use super::target;
use crate::hops::HopCountLayer;
use crate::policy;

/// Instances per server; an unused one is stopped to make room.
const MAX_INSTANCES: usize = 32;

/// Time after which an unused instance of a principal is stopped.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// Interval at which a busy instance is looked at again.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a connection waits for a decision about its server's permissions; a person may decide later.
const PERMISSION_TIMEOUT: Duration = Duration::from_millis(100);

/// Time between the state "connected" and a usable client.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// A supervised client, and the hop that passes calls on to it.
pub(super) struct Instance {
    client: SupervisedClient,
    hop: Hop,
    served: ServedPrincipals,
}

impl Instance {
    /// Creates an instance that is not started yet; `owner` is the principal of an isolated one.
    pub(super) fn new(
        config: &Arc<ServerConfig>,
        approved: Option<&ApprovedRegistration>,
        context: &FleetContext,
        log: &Arc<ServerLog>,
        owner: Option<&Principal>,
    ) -> Result<Self, Error> {
        let id = config.id.clone();
        let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .governed(&context.governance, id.clone())
            .era(config.era.into())
            .layer(LevelLayer)
            .layer(HopCountLayer)
            .config(|config| {
                // Questions of the server go on to the caller; the hop refuses what that caller did not offer.
                let offered = &mut config.offer.capabilities;
                let ask = offered.elicitation.get_or_insert_with(ElicitationCapability::new);
                ask.form.get_or_insert_default();
                ask.url.get_or_insert_default();
                let sample = offered.sampling.get_or_insert_with(SamplingCapability::new);
                sample.tools.get_or_insert_default();
                sample.context.get_or_insert_default();
                let mut roots = ListChanged::new();
                roots.list_changed = Some(true);
                offered.roots.get_or_insert(roots);
                config.connect.permission_timeout = PERMISSION_TIMEOUT;
            });
        builder = match &config.mgp {
            None => builder.plain(),
            Some(mgp) if !mgp.extensions.is_empty() => {
                builder.limit_extensions(ExtensionSet::from_names(&mgp.extensions))
            }
            Some(_) => builder,
        };
        let served = ServedPrincipals::default();
        builder = handle_notifications(builder, &context.notifier(id.clone()), owner, &served);
        let target = target::target(config, approved, context, log);
        let client = gateway::supervise(builder, target, policy::supervision(config))?;
        let hop = Hop::supervised(id, client.clone());
        Ok(Self { client, hop, served })
    }

    pub(super) fn client(&self) -> &SupervisedClient {
        &self.client
    }

    pub(super) fn served(&self) -> &ServedPrincipals {
        &self.served
    }

    /// Returns the client if it accepts calls; a draining one accepts none.
    pub(super) fn present(&self) -> Option<Client> {
        let is_draining = self.client.state().now() == ServerState::Draining;
        self.client.client().ok().filter(|_| !is_draining)
    }

    /// Starts the instance unless it runs or is held, and waits until it is connected; one that drains is started after.
    pub(super) async fn wake(&self, hold: &StartHold, timeout: Duration) -> Result<Client, Error> {
        if let Some(client) = self.present() {
            return Ok(client);
        }
        if hold.is_set() {
            return self.client.client();
        }
        let is_down = matches!(
            self.client.state().now(),
            ServerState::Registered | ServerState::Disconnected | ServerState::Draining
        );
        if is_down && !hold.start(&self.client).await {
            return self.client.client();
        }
        match tokio::time::timeout(timeout, self.client.ready()).await {
            Ok(ready) => ready,
            Err(_) => self.client.client(),
        }
    }

    pub(super) fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.hop.send(call)
    }
}

/// Connects what a server sends outside of calls to the clients that see it.
fn handle_notifications(
    builder: ClientBuilder,
    notifier: &ServerNotifier,
    owner: Option<&Principal>,
    served: &ServedPrincipals,
) -> ClientBuilder {
    let (questions, changes, logs) = (notifier.clone(), notifier.clone(), notifier.clone());
    let (asked, changed, logged) = (owner.cloned(), owner.cloned(), owner.cloned());
    let served = served.clone();
    gateway::ask_unattributed(builder, move |method| {
        questions.find_unattributed(method, asked.as_ref())
    })
    .on_change(move |change| changes.handle(change, changed.as_ref()))
    .answers(Router::new().on_notification::<LogMessage, _, _>(move |cx, message| {
        forward_log(&logs, logged.as_ref(), &served, &cx, message);
        std::future::ready(Ok(()))
    }))
}

/// The instances of an isolated server, by their principals.
pub(super) struct Instances(Arc<InstanceTable>);

struct InstanceTable {
    config: Arc<ServerConfig>,
    context: FleetContext,
    log: Arc<ServerLog>,
    hold: StartHold,
    by_owner: Mutex<HashMap<Principal, Arc<AgentInstance>>>,
}

/// The instance of one principal.
struct AgentInstance {
    instance: Instance,
    running: AtomicUsize,
    used_at: Mutex<Instant>,
}

impl Instances {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        context: FleetContext,
        log: Arc<ServerLog>,
        hold: StartHold,
    ) -> Self {
        Self(Arc::new(InstanceTable { config, context, log, hold, by_owner: Mutex::default() }))
    }

    /// Returns the instance of a principal, and keeps it until the guard is dropped.
    pub(super) fn get_or_create(&self, owner: &Principal) -> Result<InstanceGuard, RpcError> {
        let InstanceTable { config, context, log, hold, by_owner } = &*self.0;
        let mut table = by_owner.lock();
        if let Some(instance) = table.get(owner) {
            return Ok(InstanceGuard::new(instance, hold));
        }
        if table.len() >= MAX_INSTANCES {
            let unused = table
                .iter()
                .filter(|(owner, instance)| instance.is_free() && !self.0.has_subscription(owner));
            let oldest = unused.min_by_key(|(_, instance)| instance.used_at());
            let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) else {
                return Err(too_many(config));
            };
            self.0.remove(&mut table, &oldest);
        }
        let instance = Instance::new(config, None, context, log, Some(owner))?;
        let used_at = Mutex::new(Instant::now());
        let instance = Arc::new(AgentInstance { instance, running: AtomicUsize::new(0), used_at });
        table.insert(owner.clone(), Arc::clone(&instance));
        let notifier = context.notifier(config.id.clone());
        let weak = Arc::downgrade(&instance);
        tokio::spawn(watch_state(weak.clone(), notifier, owner.clone(), context.clone()));
        tokio::spawn(stop_idle(Arc::downgrade(&self.0), owner.clone(), weak));
        Ok(InstanceGuard::new(&instance, hold))
    }

    pub(super) fn present(&self, owner: &Principal) -> Option<Client> {
        self.0.by_owner.lock().get(owner)?.instance.client.client().ok()
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        let table = self.0.by_owner.lock();
        table.values().filter_map(|one| one.instance.client.client().ok()).collect()
    }

    pub(super) async fn stop(&self, reason: &ShutdownReason) {
        let all: Vec<_> = self.0.by_owner.lock().drain().map(|(_, instance)| instance).collect();
        let stops = all.iter().map(|one| one.instance.client.stop(reason.clone()));
        futures_util::future::join_all(stops).await;
    }
}

impl InstanceTable {
    /// Returns whether a principal is subscribed to a resource; that counts as a use.
    fn has_subscription(&self, owner: &Principal) -> bool {
        self.context.subscriptions.has(&self.config.id, Some(owner))
    }

    fn remove(&self, table: &mut HashMap<Principal, Arc<AgentInstance>>, owner: &Principal) {
        let Some(instance) = table.remove(owner) else { return };
        tracing::debug!(server = %self.config.id, ?owner, "stopping idle instance");
        tokio::spawn(async move {
            instance.instance.client.stop(ShutdownReason::IdleTimeout).await;
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
        self.running.load(Ordering::Acquire) == 0
    }
}

/// A use of an instance; counted until it is dropped.
pub(super) struct InstanceGuard {
    instance: Arc<AgentInstance>,
    hold: StartHold,
}

impl InstanceGuard {
    fn new(instance: &Arc<AgentInstance>, hold: &StartHold) -> Self {
        instance.running.fetch_add(1, Ordering::AcqRel);
        Self { instance: Arc::clone(instance), hold: hold.clone() }
    }

    /// As [`Instance::wake`].
    pub(super) async fn wake(&self, timeout: Duration) -> Result<Client, Error> {
        self.instance.instance.wake(&self.hold, timeout).await
    }

    pub(super) async fn send(self, call: Call) -> Result<Reply, RpcError> {
        self.instance.instance.send(call).await
    }
}

impl Drop for InstanceGuard {
    fn drop(&mut self) {
        self.instance.touch();
        self.instance.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops an instance once it was unused for a while.
async fn stop_idle(table: Weak<InstanceTable>, owner: Principal, instance: Weak<AgentInstance>) {
    loop {
        let Some(due) = instance.upgrade().map(|one| one.used_at() + IDLE_TIMEOUT) else { return };
        tokio::time::sleep_until(due.max(Instant::now() + IDLE_INTERVAL)).await;
        let (Some(table), Some(instance)) = (table.upgrade(), instance.upgrade()) else { return };
        let mut by_owner = table.by_owner.lock();
        if table.has_subscription(&owner) {
            instance.touch();
        } else if instance.is_free() && instance.used_at().elapsed() >= IDLE_TIMEOUT {
            // A new instance may have replaced it.
            if by_owner.get(&owner).is_some_and(|present| Arc::ptr_eq(present, &instance)) {
                table.remove(&mut by_owner, &owner);
            }
            return;
        }
    }
}

/// Requests what the principal wants whenever its instance is connected, until the instance is dropped.
async fn watch_state(
    instance: Weak<AgentInstance>,
    notifier: ServerNotifier,
    owner: Principal,
    context: FleetContext,
) {
    let states = instance.upgrade().map(|one| one.instance.client.state().watch());
    let Some(mut states) = states else { return };
    loop {
        if *states.borrow_and_update() == ServerState::Connected {
            let Some(instance) = instance.upgrade() else { return };
            let ready = tokio::time::timeout(READY_TIMEOUT, instance.instance.client.ready()).await;
            if let Ok(Ok(client)) = ready {
                if let Some(level) = notifier.wanted_level(Some(&owner)) {
                    request_level(&client, notifier.server(), level).await;
                }
                let (subscriptions, server) = (&context.subscriptions, notifier.server());
                for key in subscriptions.resubscribe(server, Some(&owner), &client).await {
                    notifier.resource_updated(&key);
                }
            }
        }
        if states.changed().await.is_err() {
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
