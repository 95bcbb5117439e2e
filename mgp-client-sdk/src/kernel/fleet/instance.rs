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
use super::reach;
use super::servers::Ground;
use crate::client::Client;
use crate::error::Error;
use crate::kernel::hops::GoesLayer;
use crate::kernel::log::{self, LevelLayer};
use crate::kernel::policy;
use crate::supervised::SupervisedClient;
use crate::switchboard::Hop;
use crate::wire::Bystander;

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
                builder.at_most(ExtensionSet::from_names(&mgp.extensions))
            }
            Some(_) => builder,
        };
        let (ear, whose) = (ground.ear(id.clone()), of.cloned());
        let (bystander, logs) = (ear.clone(), ear.clone());
        let of_bystander = whose.clone();
        let of_logs = whose.clone();
        builder = builder
            .on_change(move |what| ear.changed(what, whose.as_ref()))
            .config(move |config| {
                config.bystander = Some(Bystander::new(move |method| {
                    bystander.bystander(method, of_bystander.as_ref())
                }));
            })
            .answers(Router::new().on_notification::<LogMessage, _, _>(move |cx, message| {
                log::told(&logs, of_logs.as_ref(), &cx, message);
                std::future::ready(Ok(()))
            }));
        let target = reach::target(config, approved, ground, diary);
        let client = SupervisedClient::new(builder, target, policy::supervision(config))?;
        let hop = Hop::supervised(id, client.clone());
        Ok(Self { client, hop })
    }

    pub(super) fn client(&self) -> &SupervisedClient {
        &self.client
    }

    pub(super) async fn wake(&self, at_most: Duration) -> Result<Client, Error> {
        if let Ok(client) = self.client.client() {
            return Ok(client);
        }
        if matches!(self.client.state().now(), ServerState::Registered | ServerState::Disconnected)
        {
            self.client.start().await;
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
    table: Mutex<HashMap<Principal, Arc<Own>>>,
}

/// The instance of one principal.
pub(super) struct Own {
    instance: Instance,
    running: AtomicUsize,
    used: Mutex<Instant>,
}

impl Instances {
    pub(super) fn new(config: Arc<Server>, ground: Ground, diary: Arc<Diary>) -> Self {
        Self(Arc::new(Inner { config, ground, diary, table: Mutex::default() }))
    }

    /// That of a principal.
    pub(super) fn of(&self, principal: &Principal) -> Result<Arc<Own>, RpcError> {
        let mut table = self.0.table();
        if let Some(own) = table.get(principal) {
            own.touch();
            return Ok(Arc::clone(own));
        }
        if table.len() >= INSTANCES {
            let unused = table.iter().filter(|(_, own)| own.is_free());
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
        tokio::spawn(end_unused(Arc::downgrade(&self.0), principal.clone(), Arc::downgrade(&own)));
        Ok(own)
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

    fn end(&self, table: &mut HashMap<Principal, Arc<Own>>, of: &Principal) {
        let Some(own) = table.remove(of) else { return };
        tracing::debug!(server = %self.config.id, ?of, "an instance that nobody uses is stopped");
        tokio::spawn(async move {
            own.instance.client.stop(ShutdownReason::OperatorRequest).await;
        });
    }
}

impl Own {
    pub(super) async fn wake(&self, at_most: Duration) -> Result<Client, Error> {
        self.instance.wake(at_most).await
    }

    pub(super) fn send(
        self: &Arc<Self>,
        call: Call,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (running, sending) = (Running::enter(self), self.instance.send(call));
        Box::pin(async move {
            let _running = running;
            sending.await
        })
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

/// A call that runs there; counted until it is dropped.
struct Running(Arc<Own>);

impl Running {
    fn enter(own: &Arc<Own>) -> Self {
        own.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(own))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops an instance once nobody used it for a while.
async fn end_unused(all: Weak<Inner>, of: Principal, own: Weak<Own>) {
    loop {
        let Some(until) = own.upgrade().map(|own| own.used() + IDLE) else { return };
        tokio::time::sleep_until(until.max(Instant::now() + Duration::from_secs(1))).await;
        let (Some(all), Some(own)) = (all.upgrade(), own.upgrade()) else { return };
        let mut table = all.table();
        if own.is_free() && own.used().elapsed() >= IDLE {
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
