//! Keeps the lists of servers in the kernel's state, so that the next kernel can use them without starting the servers.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_toolindex::ToolIndex;
use mgp_types::service::ServerId;
use mgp_types::store::{Change, Db, Store, StoreError};
use mgp_types::{Payload, RpcError};

use super::known_servers;
use super::list_cache::ListCache;
use crate::error::KernelError;

const SPACE: &str = "kernel.lists";

/// The maximum size of a server's stored lists in bytes. Larger lists are not stored; the next kernel reads them when
/// it has connected the server.
const MAX_BYTES: usize = 512 * 1024;

/// Loads all stored lists, keyed by server id.
pub(crate) async fn load(store: &Arc<dyn Store>) -> Result<HashMap<String, Payload>, StoreError> {
    let records = store.load(SPACE).await?.records.into_iter();
    Ok(records.filter_map(|record| Some((record.key, record.value?))).collect())
}

pub(super) async fn save(store: &Arc<dyn Store>, server: &ServerId, lists: &ListCache) {
    let Some(change) = change_of(server, lists) else { return };
    if let Err(error) = store.commit(change).await {
        tracing::warn!(%server, %error, "lists not stored");
    }
}

/// Returns the change that stores the lists of a server; `None` if they have not changed since the last call. If the
/// lists are too large, the change removes the stored ones.
pub(super) fn change_of(server: &ServerId, lists: &ListCache) -> Option<Change> {
    let lists = lists.take_unstored()?;
    let change = Payload::of(&lists).and_then(|lists| {
        if lists.as_str().len() > MAX_BYTES {
            return Err(RpcError::internal(format!("the lists are longer than {MAX_BYTES} bytes")));
        }
        Ok(Change::new().put(SPACE, server.as_str(), lists))
    });
    Some(change.unwrap_or_else(|error| {
        tracing::debug!(%server, %error, "lists not stored");
        Change::new().remove(SPACE, server.as_str())
    }))
}

pub(super) async fn remove(store: &Arc<dyn Store>, server: &ServerId) {
    if let Err(error) = store.commit(Change::new().remove(SPACE, server.as_str())).await {
        tracing::warn!(%server, %error, "stored lists not removed");
    }
}

/// Removes the stored tools and lists of a server from a state folder. Otherwise a later server with the same id would
/// inherit them. No kernel may be running in this folder.
///
/// # Errors
/// [`KernelError::Index`] or [`KernelError::Store`] if the state cannot be read or written.
///
/// # Cancel safety
/// If the future is dropped, some of the data may remain.
pub async fn forget_stored_lists(db: &Db, server: &ServerId) -> Result<(), KernelError> {
    let index = ToolIndex::builder().without_embedder().open(db.clone()).await?;
    index.remove(server.as_str())?;
    index.flush().await?;
    let id = server.as_str();
    db.commit(Change::new().remove(SPACE, id).remove(known_servers::SPACE, id)).await?;
    Ok(())
}
