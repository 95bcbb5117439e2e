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

use super::fleet::Node;
use super::switch::Switch;
use crate::client::Client;
use crate::error::Error;

/// How many resources are watched below.
const WATCHED: usize = 65_536;

/// What is watched below, and how many watch it.
#[derive(Clone, Default)]
pub(super) struct Watching(Arc<Mutex<HashMap<String, Held>>>);

/// A resource of an instance that is watched.
struct Held {
    watchers: usize,
    node: std::sync::Weak<Node>,
    of: Option<Principal>,
    uri: String,
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
        node: &Arc<Node>,
        of: Option<Principal>,
        client: &Client,
        uri: &str,
    ) -> Result<Watch, RpcError> {
        let name = name(node.id(), of.as_ref(), uri);
        let is_first = {
            let mut table = self.table();
            if table.len() >= WATCHED && !table.contains_key(&name) {
                let message = "too many resources are watched; stop watching some first";
                return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
            }
            let node = Arc::downgrade(node);
            let held = table.entry(name.clone()).or_insert_with(|| Held {
                watchers: 0,
                node,
                of,
                uri: uri.to_owned(),
            });
            held.watchers += 1;
            held.watchers == 1
        };
        let watch = Watch::new(name.clone()).guard(Guard { all: self.clone(), name });
        if is_first {
            // A guard that is dropped for a failure takes it back.
            subscribe(client, uri).await?;
        }
        Ok(watch)
    }

    /// Whether anything of a server is watched.
    pub(super) fn has(&self, node: &Arc<Node>) -> bool {
        let node = Arc::downgrade(node);
        self.table().values().any(|held| held.node.ptr_eq(&node))
    }

    /// Asks a server that has come back for all that is watched there; gives the names.
    pub(super) async fn again(&self, node: &Arc<Node>) -> Vec<String> {
        let mine: Vec<_> = self
            .table()
            .iter()
            .filter(|(_, held)| held.node.ptr_eq(&Arc::downgrade(node)) && held.of.is_none())
            .map(|(name, held)| (name.clone(), held.uri.clone()))
            .collect();
        let mut names = Vec::new();
        for (name, uri) in mine {
            let Ok(client) = node.client().client() else { break };
            match subscribe(&client, &uri).await {
                Ok(()) => names.push(name),
                Err(error) => {
                    tracing::warn!(server = %node.id(), %error, "a resource is watched no longer");
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
            let Some(node) = held.node.upgrade() else { return };
            let client = match &held.of {
                None => node.client().client().ok(),
                Some(of) => node.present(of),
            };
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
    client.ungated().send(call).await.map(drop)
}

async fn unsubscribe(client: &Client, uri: &str) -> Result<(), RpcError> {
    if client.server().era == Era::Modern {
        return client.unsubscribe(uri).await.map_err(plain);
    }
    let call = Call::ask::<ResourcesUnsubscribe>(&SubscribeParams::new(uri), client.context())?;
    client.ungated().send(call).await.map(drop)
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
            switch.watching().begin(&node, of, &client, &uri).await
        })
    }
}
