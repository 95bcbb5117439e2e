//! A process of a server, and one for each principal where these may not share it (MGP §15.2 `isolation`).
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mgp_discovery::{Approved, Server};
use mgp_types::mcp::{ElicitationCapability, ListChanged, SamplingCapability};
use mgp_types::method::LogMessage;
use mgp_types::mgp::{ExtensionSet, ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, Router};
use mgp_types::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::diary::Diary;
use super::feed;
use super::hold::Hold;
use super::servers::Ground;
use super::target;
use super::users::Users;
use crate::hops::GoesLayer;
use crate::log::{self, LevelLayer};
use crate::policy;
use mgp_client_sdk::{Client, Error, Hop, SupervisedClient, gateway};

/// How many instances a server has; one that nobody uses gives way.
const INSTANCES: usize = 32;

/// How long an instance is kept that nobody uses.
const IDLE: Duration = Duration::from_mins(5);

/// How long a connection waits for a decision about the permissions of its server: what a person decides comes later.
const ASKED_FOR: Duration = Duration::from_millis(100);

/// A supervised client, and the way over it.
pub(super) struct Instance {
    client: SupervisedClient,
    hop: Hop,
    users: Users,
}

impl Instance {
    /// One that is not started yet; `of` is whose it is, where it is not everyone's.
    pub(super) fn new(
        config: &Arc<Server>,
        approved: Option<&Approved>,
        ground: &Ground,
        diary: &Arc<Diary>,
        of: Option<&Principal>,
    ) -> Result<Self, Error> {
        let id = config.id.clone();
        let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .governed(&ground.governance, id.clone())
            .era(config.era.into())
            .layer(LevelLayer)
            .layer(GoesLayer)
            .config(|config| {
                // Whoever calls is asked what a server asks; those who cannot be asked refuse.
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
                config.connect.permission_timeout = ASKED_FOR;
            });
        builder = match &config.mgp {
            None => builder.plain(),
            Some(mgp) if !mgp.extensions.is_empty() => {
                builder.limit_extensions(ExtensionSet::from_names(&mgp.extensions))
            }
            Some(_) => builder,
        };
        let (ear, whose) = (ground.ear(id.clone()), of.cloned());
        let (bystander, logs) = (ear.clone(), ear.clone());
        let of_bystander = whose.clone();
        let of_logs = whose.clone();
        let users = Users::default();
        let spoken_to = users.clone();
        builder = gateway::ask_unattributed(builder, move |method| {
            bystander.bystander(method, of_bystander.as_ref())
        });
        builder = builder.on_change(move |what| ear.changed(what, whose.as_ref())).answers(
            Router::new().on_notification::<LogMessage, _, _>(move |cx, message| {
                log::told(&logs, of_logs.as_ref(), &spoken_to, &cx, message);
                std::future::ready(Ok(()))
            }),
        );
        let target = target::target(config, approved, ground, diary);
        let client = gateway::supervise(builder, target, policy::supervision(config))?;
        let hop = Hop::supervised(id, client.clone());
        Ok(Self { client, hop, users })
    }

    pub(super) fn client(&self) -> &SupervisedClient {
        &self.client
    }

    /// For whom it has worked.
    pub(super) fn users(&self) -> &Users {
        &self.users
    }

    /// Its client, where it takes calls: one that drains takes none.
    pub(super) fn present(&self) -> Option<Client> {
        let is_leaving = self.client.state().now() == ServerState::Draining;
        self.client.client().ok().filter(|_| !is_leaving)
    }

    /// Starts it unless it runs or is held, and waits until it is there; one that drains is started once it has ended.
    pub(super) async fn wake(&self, hold: &Hold, at_most: Duration) -> Result<Client, Error> {
        if let Some(client) = self.present() {
            return Ok(client);
        }
        if hold.is_set() {
            return self.client.client();
        }
        let rests = matches!(
            self.client.state().now(),
            ServerState::Registered | ServerState::Disconnected | ServerState::Draining
        );
        if rests && !hold.start(&self.client).await {
            return self.client.client();
        }
        match tokio::time::timeout(at_most, self.client.ready()).await {
            Ok(ready) => ready,
            Err(_) => self.client.client(),
        }
    }

    pub(super) fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.hop.send(call)
    }
}

/// The instances of one server, by whose they are.
pub(super) struct Instances(Arc<Inner>);

struct Inner {
    config: Arc<Server>,
    ground: Ground,
    diary: Arc<Diary>,
    hold: Hold,
    table: Mutex<HashMap<Principal, Arc<Own>>>,
}

/// The instance of one principal.
pub(super) struct Own {
    instance: Instance,
    running: AtomicUsize,
    used: Mutex<Instant>,
}

impl Instances {
    pub(super) fn new(config: Arc<Server>, ground: Ground, diary: Arc<Diary>, hold: Hold) -> Self {
        Self(Arc::new(Inner { config, ground, diary, hold, table: Mutex::default() }))
    }

    /// That of a principal, kept for as long as it is used.
    pub(super) fn of(&self, principal: &Principal) -> Result<Using, RpcError> {
        let mut table = self.0.table();
        if let Some(own) = table.get(principal) {
            return Ok(Using::enter(own, &self.0.hold));
        }
        if table.len() >= INSTANCES {
            let unused = table.iter().filter(|(of, own)| own.is_free() && !self.0.is_watched(of));
            let oldest = unused.min_by_key(|(_, own)| own.used()).map(|(of, _)| of.clone());
            let Some(oldest) = oldest else { return Err(full(&self.0.config)) };
            self.0.end(&mut table, &oldest);
        }
        let instance =
            Instance::new(&self.0.config, None, &self.0.ground, &self.0.diary, Some(principal));
        let instance = instance.map_err(RpcError::from)?;
        let used = Mutex::new(Instant::now());
        let own = Arc::new(Own { instance, running: AtomicUsize::new(0), used });
        table.insert(principal.clone(), Arc::clone(&own));
        let (of, ground) = (principal.clone(), self.0.ground.clone());
        let ear = ground.ear(self.0.config.id.clone());
        tokio::spawn(feed::follow_own(Arc::downgrade(&own), ear, of, ground));
        tokio::spawn(end_unused(Arc::downgrade(&self.0), principal.clone(), Arc::downgrade(&own)));
        Ok(Using::enter(&own, &self.0.hold))
    }

    pub(super) fn present(&self, of: &Principal) -> Option<Client> {
        self.0.table().get(of)?.instance.client.client().ok()
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        self.0.table().values().filter_map(|own| own.instance.client.client().ok()).collect()
    }

    pub(super) async fn stop(&self, reason: &ShutdownReason) {
        let all: Vec<_> = self.0.table().drain().map(|(_, own)| own).collect();
        let stops = all.iter().map(|own| own.instance.client.stop(reason.clone()));
        futures_util::future::join_all(stops).await;
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, HashMap<Principal, Arc<Own>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its principal waits for news of a resource: that is a use.
    fn is_watched(&self, of: &Principal) -> bool {
        self.ground.watching.has(&self.config.id, Some(of))
    }

    fn end(&self, table: &mut HashMap<Principal, Arc<Own>>, of: &Principal) {
        let Some(own) = table.remove(of) else { return };
        tracing::debug!(server = %self.config.id, ?of, "an instance that nobody uses is stopped");
        tokio::spawn(async move {
            own.instance.client.stop(ShutdownReason::IdleTimeout).await;
        });
    }
}

impl Own {
    pub(super) fn client(&self) -> &SupervisedClient {
        self.instance.client()
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_free(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }
}

/// Somebody who uses an instance; counted until it is dropped.
pub(super) struct Using {
    own: Arc<Own>,
    hold: Hold,
}

impl Using {
    fn enter(own: &Arc<Own>, hold: &Hold) -> Self {
        own.running.fetch_add(1, Ordering::AcqRel);
        Self { own: Arc::clone(own), hold: hold.clone() }
    }

    /// As [`Instance::wake`].
    pub(super) async fn wake(&self, at_most: Duration) -> Result<Client, Error> {
        self.own.instance.wake(&self.hold, at_most).await
    }

    /// Passes a call on.
    pub(super) async fn send(self, call: Call) -> Result<Reply, RpcError> {
        self.own.instance.send(call).await
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.own.touch();
        self.own.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops an instance once nobody used it for a while.
async fn end_unused(all: Weak<Inner>, of: Principal, own: Weak<Own>) {
    loop {
        let Some(until) = own.upgrade().map(|own| own.used() + IDLE) else { return };
        tokio::time::sleep_until(until.max(Instant::now() + Duration::from_secs(1))).await;
        let (Some(all), Some(own)) = (all.upgrade(), own.upgrade()) else { return };
        let mut table = all.table();
        if all.is_watched(&of) {
            own.touch();
        } else if own.is_free() && own.used().elapsed() >= IDLE {
            // It may be another one by now.
            if table.get(&of).is_some_and(|present| Arc::ptr_eq(present, &own)) {
                all.end(&mut table, &of);
            }
            return;
        }
    }
}

fn full(config: &Server) -> RpcError {
    RpcError::new(
        ErrorCode::RESOURCE_EXHAUSTED,
        format!(
            "all {INSTANCES} instances of `{}` are in use; try again once one is free",
            config.id
        ),
    )
}

impl fmt::Debug for Instances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instances({})", self.0.table().len())
    }
}
