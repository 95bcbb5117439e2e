//! One server of the fleet.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::Server;
use mgp_types::RpcError;
use mgp_types::mcp::{ElicitationCapability, ListChanged, SamplingCapability};
use mgp_types::mgp::ServerState;
use mgp_types::service::{BoxFuture, Call, Reply, ServerId};

use super::reach;
use super::servers::Ground;
use crate::client::Client;
use crate::error::Error;
use crate::kernel::policy;
use crate::supervised::SupervisedClient;
use crate::switchboard::Hop;

/// How long a call waits for a server that is started for it.
const WAKES: Duration = Duration::from_secs(30);

/// A server: how it was configured, its client, and the way to it.
pub(crate) struct Node {
    id: ServerId,
    config: Arc<Server>,
    client: SupervisedClient,
    hop: Hop,
}

impl Node {
    /// A server that is not started yet.
    pub(super) fn new(config: Server, ground: &Ground) -> Result<Self, Error> {
        let (id, config) = (config.id.clone(), Arc::new(config));
        let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .governed(&ground.governance, id.clone())
            .config(|config| {
                // Whoever calls is asked what a server asks; those who cannot be asked refuse.
                let offered = &mut config.offer.capabilities;
                offered.elicitation.get_or_insert_with(ElicitationCapability::new);
                offered.sampling.get_or_insert_with(SamplingCapability::new);
                offered.roots.get_or_insert_with(ListChanged::new);
            });
        if config.mgp.is_none() {
            builder = builder.plain();
        }
        let news = ground.news.clone();
        let told = id.clone();
        builder = builder.on_change(move |what| news.tell(&told, what));
        let target = reach::target(&config, &ground.expander);
        let client = SupervisedClient::new(builder, target, policy::supervision(&config))?;
        let hop = Hop::supervised(id.clone(), client.clone());
        Ok(Self { id, config, client, hop })
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    pub(crate) fn config(&self) -> &Arc<Server> {
        &self.config
    }

    pub(crate) fn client(&self) -> &SupervisedClient {
        &self.client
    }

    pub(crate) fn state(&self) -> ServerState {
        self.client.state().now()
    }

    /// Starts the server unless it runs, and waits until it is there.
    ///
    /// One that rests after too many failures stays down: somebody has to look at it first.
    pub(crate) async fn wake(&self) -> Result<Client, Error> {
        if let Ok(client) = self.client.client() {
            return Ok(client);
        }
        if matches!(self.state(), ServerState::Registered | ServerState::Disconnected) {
            self.client.start().await;
        }
        match tokio::time::timeout(WAKES, self.client.ready()).await {
            Ok(ready) => ready,
            Err(_) => self.client.client(),
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
        if !may || self.client.client().is_ok() {
            return self.hop.send(call);
        }
        let node = Arc::clone(self);
        Box::pin(async move {
            // What comes of it is told by the gates, which record the call too.
            if let Err(error) = node.wake().await {
                tracing::debug!(server = %node.id, %error, "the server was not there for a call");
            }
            node.hop.send(call).await
        })
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("state", &self.state()).finish()
    }
}
