//! One server of the fleet.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgp_discovery::{Isolation, Server};
use mgp_types::RpcError;
use mgp_types::mcp::LogLevel;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, ServerId};

use super::feed::Errands;
use super::instance::{Instance, Instances};
use super::servers::Ground;
use super::shelf::Shelf;
use crate::client::Client;
use crate::error::Error;
use crate::supervised::SupervisedClient;

/// How long a call waits for a server that is started for it.
const WAKES: Duration = Duration::from_secs(30);

/// A server: how it was configured, its client, and the way to it.
pub(crate) struct Node {
    id: ServerId,
    config: Arc<Server>,
    /// The one that all share; of a server with an instance for each agent, the one its lists are read from.
    shared: Instance,
    own: Option<Instances>,
    shelf: Shelf,
    errands: Errands,
    /// The level of log messages it was last asked for.
    level: Mutex<Option<LogLevel>>,
}

impl Node {
    /// A server that is not started yet.
    pub(super) fn new(config: Server, ground: &Ground) -> Result<Self, Error> {
        let (id, config) = (config.id.clone(), Arc::new(config));
        let shared = Instance::new(&config, ground, None)?;
        let is_isolated =
            config.mgp.as_ref().is_some_and(|mgp| mgp.isolation == Isolation::PerAgent);
        let own = is_isolated.then(|| Instances::new(Arc::clone(&config), ground.clone()));
        Ok(Self {
            id,
            config,
            shared,
            own,
            shelf: Shelf::default(),
            errands: Errands::default(),
            level: Mutex::default(),
        })
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    pub(crate) fn config(&self) -> &Arc<Server> {
        &self.config
    }

    pub(crate) fn client(&self) -> &SupervisedClient {
        self.shared.client()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.client().state().now()
    }

    /// What it lists besides tools.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    pub(super) fn errands(&self) -> &Errands {
        &self.errands
    }

    /// Whether each principal has an instance of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.own.is_some()
    }

    /// Starts the server unless it runs, and waits until it is there.
    ///
    /// One that rests after too many failures stays down: somebody has to look at it first.
    pub(crate) async fn wake(&self) -> Result<Client, Error> {
        self.shared.wake(WAKES).await
    }

    /// The instance that serves a principal, started unless it runs.
    pub(crate) async fn wake_for(&self, principal: &Principal) -> Result<Client, Error> {
        match &self.own {
            None => self.wake().await,
            Some(own) => own.of(principal)?.wake(WAKES).await,
        }
    }

    /// Passes a call on, through all gates; a server that rests is started for it.
    ///
    /// `may` says whether the caller sees what it calls: for nobody else a server is started.
    pub(crate) fn send(
        self: &Arc<Self>,
        call: Call,
        may: bool,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let Some(own) = self.own.as_ref().filter(|_| may) else {
            if !may || self.client().client().is_ok() {
                return self.shared.send(call);
            }
            let node = Arc::clone(self);
            return Box::pin(async move {
                // What comes of it is told by the gates, which record the call too.
                if let Err(error) = node.wake().await {
                    tracing::debug!(server = %node.id, %error, "the server was not there for a call");
                }
                node.shared.send(call).await
            });
        };
        match own.of(&call.cx().principal) {
            Err(full) => Box::pin(std::future::ready(Err(full))),
            Ok(instance) => Box::pin(async move {
                if let Err(error) = instance.wake(WAKES).await {
                    tracing::debug!(%error, "the instance was not there for a call");
                }
                instance.send(call).await
            }),
        }
    }

    /// The instance of a principal, where it runs.
    pub(crate) fn present(&self, of: &Principal) -> Option<Client> {
        match &self.own {
            None => self.client().client().ok(),
            Some(own) => own.present(of),
        }
    }

    /// Stops everything that runs of it, once what runs there is finished.
    pub(crate) async fn stop(&self, reason: ShutdownReason) {
        if let Some(own) = &self.own {
            own.stop(&reason).await;
        }
        self.client().stop(reason).await;
    }

    /// All that run of it.
    pub(crate) fn running(&self) -> Vec<Client> {
        let own = self.own.as_ref().map(Instances::clients).unwrap_or_default();
        self.client().client().into_iter().chain(own).collect()
    }

    /// Asks for log messages from this level on; `false` where it was asked already.
    pub(crate) fn asks_level(&self, level: Option<LogLevel>) -> bool {
        let mut asked = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *asked, level) != level
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
