//! Which servers were met as they are configured now: their tools are known, and nothing has to be started for that.
//!
//! Applies to: outbound.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_discovery::{Reach, Server};
use mgp_types::service::ServerId;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Hash, Payload};

const SPACE: &str = "kernel.met";

/// The entries of servers whose tools were learnt, as digests; a cheap handle.
#[derive(Clone)]
pub(crate) struct Met(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    digests: Mutex<BTreeMap<ServerId, String>>,
}

impl Met {
    /// Reads what a store has of them.
    pub(crate) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let records = store.load(SPACE).await?.records.into_iter();
        let read = |value: Payload| value.get::<String>().ok();
        let digests = records
            .filter_map(|record| Some((record.key.as_str().into(), record.value.and_then(read)?)))
            .collect();
        Ok(Self(Arc::new(Inner { store, digests: Mutex::new(digests) })))
    }

    /// Whether a server was met with this very entry, and had so many tools.
    pub(super) fn knows(&self, server: &Server, tools: usize) -> bool {
        self.digests().get(&server.id).is_some_and(|known| *known == digest(server, tools))
    }

    /// Keeps that a server was met; one more start is all it costs if that is not kept.
    pub(super) fn meet(&self, server: &Server, tools: usize) {
        let digest = digest(server, tools);
        if self.digests().insert(server.id.clone(), digest.clone()).as_ref() == Some(&digest) {
            return;
        }
        if let Ok(value) = Payload::of(&digest) {
            self.commit(Change::new().put(SPACE, server.id.as_str(), value));
        }
    }

    /// Forgets a server.
    pub(crate) fn forget(&self, server: &ServerId) {
        if self.digests().remove(server).is_some() {
            self.commit(Change::new().remove(SPACE, server.as_str()));
        }
    }

    fn commit(&self, change: Change) {
        let kept = self.0.store.commit(change);
        tokio::spawn(async move {
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a server will be started again to learn what it has");
            }
        });
    }

    fn digests(&self) -> MutexGuard<'_, BTreeMap<ServerId, String>> {
        self.0.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What makes a server another one: what is started or reached, and what it is offered.
///
/// What stands there may be secret, so only the digest is kept.
fn digest(server: &Server, tools: usize) -> String {
    let mut text = String::new();
    // Quoted, so that no two entries read the same; writing to a string does not fail.
    let _ = match &server.reach {
        Reach::Program { command, args, cwd, env } => {
            write!(text, "program {command:?} {args:?} {cwd:?} {env:?}")
        }
        Reach::Url { url, headers, transport } => {
            write!(text, "url {url:?} {headers:?} {transport:?}")
        }
        _ => write!(text, "within {:?}", env!("CARGO_PKG_VERSION")),
    };
    let offered = server.mgp.as_ref().map(|mgp| (&mgp.extensions, mgp.isolation, &mgp.tags));
    // Said only where it is: whoever says nothing is who they were before it could be.
    if let Some(era) = server.era {
        let _ = write!(text, " {era:?}");
    }
    let _ = write!(text, " {offered:?} {}", server.file.display());
    format!("{} {tools}", Hash::of(text.as_bytes()))
}
