//! What servers list besides tools, kept beyond the life of a kernel: one that was seen before is not started for a list.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::mcp::ServerCapabilities;
use mgp_types::service::ServerId;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, RpcError};
use serde::{Deserialize, Serialize};

use super::shelf::{Kind, Shelf};

/// Where it is kept.
const SPACE: &str = "kernel.lists";

/// How many bytes are kept of a server; one that lists more is asked when it is there.
const BYTES: usize = 512 * 1024;

/// What is kept of a server.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) capabilities: ServerCapabilities,
    pub(super) resources: Option<Vec<Payload>>,
    pub(super) templates: Option<Vec<Payload>>,
    pub(super) prompts: Option<Vec<Payload>>,
}

/// All that is kept, by the ids of servers.
pub(crate) async fn all(store: &Arc<dyn Store>) -> Result<HashMap<String, Payload>, StoreError> {
    let loaded = store.load(SPACE).await?;
    let records = loaded.records.into_iter();
    Ok(records.filter_map(|record| Some((record.key, record.value?))).collect())
}

/// Keeps what is known of a server, unless that is what is kept.
pub(super) async fn keep(store: &Arc<dyn Store>, server: &ServerId, shelf: &Shelf) {
    if !shelf.is_unkept() {
        return;
    }
    let Some(manifest) = shelf.manifest() else { return };
    let kept = Payload::of(&manifest).and_then(|manifest| {
        if manifest.as_str().len() > BYTES {
            return Err(RpcError::internal("it lists more than is kept"));
        }
        Ok(Change::new().put(SPACE, server.as_str(), manifest))
    });
    let change = kept.unwrap_or_else(|error| {
        tracing::debug!(%server, %error, "its lists are known only while the kernel runs");
        Change::new().remove(SPACE, server.as_str())
    });
    if let Err(error) = store.commit(change).await {
        tracing::warn!(%server, %error, "its lists are known only while the kernel runs");
    }
}

/// Forgets a server that is gone.
pub(super) async fn forget(store: &Arc<dyn Store>, server: &ServerId) {
    if let Err(error) = store.commit(Change::new().remove(SPACE, server.as_str())).await {
        tracing::warn!(%server, %error, "its lists are still kept");
    }
}

impl Manifest {
    /// A list, where it was known.
    pub(super) fn list(&self, kind: Kind) -> Option<&[Payload]> {
        match kind {
            Kind::Resources => self.resources.as_deref(),
            Kind::Templates => self.templates.as_deref(),
            Kind::Prompts => self.prompts.as_deref(),
        }
    }
}
