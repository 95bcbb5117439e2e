//! Resources that are watched above: asked for below once, however many watch (MCP `subscribe`, `updated`).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_server_sdk::{Watch, Watches};
use mgp_types::mcp::{Era, SubscribeParams};
use mgp_types::method::{ResourcesSubscribe, ResourcesUnsubscribe};
use mgp_types::service::{BoxFuture, Call, Context, Principal, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::switch::Switch;
use mgp_client_sdk::gateway::{self, WeakClient};
use mgp_client_sdk::{Client, Error};

/// How many resources are watched below.
const WATCHED: usize = 65_536;

/// What is watched below, and how many watch it.
#[derive(Clone, Default)]
pub(super) struct Watching(Arc<Mutex<HashMap<String, Held>>>);

/// A resource of an instance that is watched.
struct Held {
    watchers: usize,
    server: ServerId,
    of: Option<Principal>,
    uri: String,
    /// The client that was asked for it; none before, and where that failed.
    at: Option<WeakClient>,
}

impl Held {
    fn is_at(&self, client: &Client) -> bool {
        self.at.as_ref().is_some_and(|at| at.is(client))
    }
}

/// The name of a resource of a server, and of whose instance, among all that are watched.
pub(super) fn name(server: &ServerId, of: Option<&Principal>, uri: &str) -> String {
    // An id has no blank, and a URI none either.
    match of {
        None => format!("{server} {uri}"),
        Some(of) => format!("{server} {of:?} {uri}"),
    }
}

impl Watching {
    /// Watches a resource below, unless somebody does already.
    async fn begin(
        &self,
        server: &ServerId,
        of: Option<Principal>,
        client: &Client,
        uri: &str,
    ) -> Result<Watch, RpcError> {
        let name = name(server, of.as_ref(), uri);
        {
            let mut table = self.table();
            if table.len() >= WATCHED && !table.contains_key(&name) {
                let message = "too many resources are watched; stop watching some first";
                return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
            }
            let held = table.entry(name.clone()).or_insert_with(|| Held {
                watchers: 0,
                server: server.clone(),
                of,
                uri: uri.to_owned(),
                at: None,
            });
            held.watchers += 1;
        }
        let watch = Watch::new(name.clone()).guard(Guard { all: self.clone(), name: name.clone() });
        // A guard that is dropped for a failure takes it back.
        self.ask(client, &name).await?;
        Ok(watch)
    }

    /// Asks a server for a resource, unless this very client was asked already: then `false`.
    async fn ask(&self, client: &Client, name: &str) -> Result<bool, RpcError> {
        let uri = {
            let mut table = self.table();
            let Some(held) = table.get_mut(name).filter(|held| !held.is_at(client)) else {
                return Ok(false);
            };
            held.at = Some(gateway::weak(client));
            held.uri.clone()
        };
        let asked = subscribe(client, &uri).await;
        if asked.is_err()
            && let Some(held) = self.table().get_mut(name).filter(|held| held.is_at(client))
        {
            held.at = None;
        }
        asked.map(|()| true)
    }

    /// Whether anything of a server is watched; `of` is whose instance it is, where it is not everyone's.
    pub(super) fn has(&self, server: &ServerId, of: Option<&Principal>) -> bool {
        self.table().values().any(|held| held.server == *server && held.of.as_ref() == of)
    }

    /// Asks a server that has come back for all that is watched there; gives the names of what it was not asked for yet.
    pub(super) async fn again(
        &self,
        server: &ServerId,
        of: Option<&Principal>,
        client: &Client,
    ) -> Vec<String> {
        let is_mine = |held: &Held| held.server == *server && held.of.as_ref() == of;
        let mine: Vec<_> = {
            let table = self.table();
            table.iter().filter(|(_, held)| is_mine(held)).map(|(name, _)| name.clone()).collect()
        };
        let mut names = Vec::new();
        for name in mine {
            match self.ask(client, &name).await {
                Ok(true) => names.push(name),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%server, %error, "a resource is watched no longer");
                }
            }
        }
        names
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops watching below with the last watcher.
struct Guard {
    all: Watching,
    name: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut table = self.all.table();
        let Some(held) = table.get_mut(&self.name) else { return };
        held.watchers -= 1;
        if held.watchers > 0 {
            return;
        }
        let Some(held) = table.remove(&self.name) else { return };
        drop(table);
        let all = self.all.clone();
        let name = std::mem::take(&mut self.name);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let client = held.at.as_ref().and_then(WeakClient::upgrade);
            // Somebody may watch it again by now.
            if let Some(client) = client.filter(|_| !all.table().contains_key(&name)) {
                let _ = unsubscribe(&client, &held.uri).await;
            }
        });
    }
}

/// The kernel itself asks: who may watch was decided before.
async fn subscribe(client: &Client, uri: &str) -> Result<(), RpcError> {
    if client.server().era == Era::Modern {
        return client.subscribe(uri).await.map_err(plain);
    }
    let call = Call::ask::<ResourcesSubscribe>(&SubscribeParams::new(uri), client.context())?;
    gateway::ungated(client).send(call).await.map(drop)
}

async fn unsubscribe(client: &Client, uri: &str) -> Result<(), RpcError> {
    if client.server().era == Era::Modern {
        return client.unsubscribe(uri).await.map_err(plain);
    }
    let call = Call::ask::<ResourcesUnsubscribe>(&SubscribeParams::new(uri), client.context())?;
    gateway::ungated(client).send(call).await.map(drop)
}

fn plain(error: Error) -> RpcError {
    error.into()
}

impl Watches for Switch {
    fn watch(&self, cx: &Context, uri: &str) -> BoxFuture<'static, Result<Watch, RpcError>> {
        let (switch, cx, uri) = (self.clone(), cx.clone(), uri.to_owned());
        Box::pin(async move {
            let (node, uri) = switch.watched(&cx, &uri).await?;
            let of = node.is_isolated().then(|| cx.principal.clone());
            let client = node.wake_for(&cx.principal).await.map_err(RpcError::from)?;
            switch.watching().begin(node.id(), of, &client, &uri).await
        })
    }
}
