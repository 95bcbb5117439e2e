//! Remembers the servers whose tools the kernel knows for their current configuration, so that a list request need not
//! start them. Also remembers the servers that did not answer, so that no list request waits for them again.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Arc;

use mgp_discovery::{AuthConfig, GovernanceConfig, ServerConfig, TargetConfig};
use mgp_types::service::ServerId;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError, Sha256Hash};

pub(super) const SPACE: &str = "kernel.met";

/// The word that replaces the number of tools in the record of a server that did not answer in time.
const SILENT: &str = "silent";

/// For each server whose tools are known or that did not answer, a digest of its configuration at that time. This
/// handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct KnownServers(Arc<Digests>);

struct Digests {
    store: Arc<dyn Store>,
    by_server: Mutex<BTreeMap<ServerId, String>>,
}

impl KnownServers {
    pub(crate) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let records = store.load(SPACE).await?.records.into_iter();
        let read = |value: Payload| value.get::<String>().ok();
        let digests = records
            .filter_map(|record| Some((record.key.as_str().into(), record.value.and_then(read)?)))
            .collect();
        Ok(Self(Arc::new(Digests { store, by_server: Mutex::new(digests) })))
    }

    /// Returns whether a server with exactly this configuration has listed this number of tools before.
    pub(super) fn contains(&self, server: &ServerConfig, tools: usize) -> bool {
        let digests = self.0.by_server.lock();
        digests.get(&server.id).is_some_and(|known| *known == digest(server, tools))
    }

    /// Returns whether a server with exactly this configuration did not answer in time, and has listed no tools since.
    pub(super) fn is_silent(&self, server: &ServerConfig) -> bool {
        let digests = self.0.by_server.lock();
        digests.get(&server.id).is_some_and(|known| *known == digest(server, SILENT))
    }

    /// Records that the kernel knows this number of tools of a server. If the record cannot be stored, the next kernel
    /// has to start the server once.
    pub(super) fn insert(&self, server: &ServerConfig, tools: usize) {
        self.put(server, tools);
    }

    /// Records that a server did not answer in time.
    pub(super) fn insert_silent(&self, server: &ServerConfig) {
        self.put(server, SILENT);
    }

    fn put(&self, server: &ServerConfig, tools: impl Display) {
        let digest = digest(server, tools);
        // Send the change to the store while the table is locked, so that the store receives all changes in order.
        let mut digests = self.0.by_server.lock();
        let previous = digests.insert(server.id.clone(), digest.clone());
        if previous.as_ref() == Some(&digest) {
            return;
        }
        if let Ok(change) = record(&server.id, &digest) {
            self.commit(change);
        }
    }

    pub(super) fn remove(&self, server: &ServerId) {
        let mut digests = self.0.by_server.lock();
        if digests.remove(server).is_some() {
            self.commit(Change::new().remove(SPACE, server.as_str()));
        }
    }

    fn commit(&self, change: Change) {
        let committed = self.0.store.commit(change);
        tokio::spawn(async move {
            if let Err(error) = committed.await {
                tracing::warn!(%error, "known servers not stored; the next kernel starts one again");
            }
        });
    }
}

/// Returns the change that stores that the kernel knows this number of tools of a server.
pub(super) fn change_of(server: &ServerConfig, tools: usize) -> Result<Change, RpcError> {
    record(&server.id, &digest(server, tools))
}

fn record(server: &ServerId, digest: &str) -> Result<Change, RpcError> {
    Ok(Change::new().put(SPACE, server.as_str(), Payload::of(digest)?))
}

/// Returns a digest of everything that determines a server's tools in the index: e.g. its command or URL, the
/// extensions that the kernel offers to it, and the settings that determine the risk of its tools. Appends `tools` to
/// the digest: the number of tools, or [`SILENT`].
///
/// Return only a digest, because the configuration can contain secrets and the result is stored.
fn digest(server: &ServerConfig, tools: impl Display) -> String {
    let mut text = String::new();
    // Quote the fields, so that different configurations never lead to the same text. Writing to a string cannot fail.
    let _ = match &server.target {
        TargetConfig::Program { command, args, cwd, env } => {
            write!(text, "program {command:?} {args:?} {cwd:?} {env:?} {:?}", server.pass_env)
        }
        TargetConfig::Url { url, headers, transport, auth } => {
            let auth = (**auth != AuthConfig::default()).then_some(auth);
            // Add `auth` only if it is set, so that the digests of older kernels, which did not know this key, remain
            // valid.
            let auth = auth.map(|auth| format!(" {auth:?}")).unwrap_or_default();
            write!(text, "url {url:?} {headers:?} {transport:?}{auth}")
        }
        _ => write!(text, "within {:?}", env!("CARGO_PKG_VERSION")),
    };
    let offered = server.mgp.as_ref().map(|mgp| (&mgp.extensions, mgp.isolation, &mgp.tags));
    // Add `era` only if it is set, so that the digests of older kernels, which did not know this key, remain valid.
    if let Some(era) = server.era {
        let _ = write!(text, " {era:?}");
    }
    if let Some(mgp) = &server.mgp {
        add_assessment(&mut text, mgp);
    }
    let _ = write!(text, " {offered:?} {}", server.file.display());
    format!("{} {tools}", Sha256Hash::digest(text.as_bytes()))
}

/// Adds the settings that determine the risk and the permissions of tools, because the index contains both.
///
/// Add each setting only if it is set, so that the digests of older kernels, which did not know the setting, remain
/// valid.
fn add_assessment(text: &mut String, mgp: &GovernanceConfig) {
    let default = GovernanceConfig::default();
    if mgp.risk != default.risk {
        let _ = write!(text, " risk {:?}", mgp.risk);
    }
    if mgp.trust_level != default.trust_level {
        let _ = write!(text, " trust {:?}", mgp.trust_level);
    }
    if mgp.permissions_required != default.permissions_required {
        let _ = write!(text, " needs {:?}", mgp.permissions_required);
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;
    use mgp_types::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn the_next_kernel_does_not_wait_again_for_a_server_that_did_not_answer() {
        let server = |command: &str| {
            let text = format!("[[servers]]\nid = 'hung'\ncommand = '{command}'\n");
            Config::parse("mgp.toml", &text).unwrap().config.servers.remove(0)
        };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let load = || KnownServers::load(Arc::clone(&store));
        load().await.unwrap().insert_silent(&server("sleep"));
        mgp_testkit::until("it is stored", async || {
            load().await.unwrap().is_silent(&server("sleep"))
        })
        .await;
        let known = load().await.unwrap();
        assert!(!known.is_silent(&server("other")) && !known.contains(&server("sleep"), 0));
        known.insert(&server("sleep"), 3);
        assert!(!known.is_silent(&server("sleep")) && known.contains(&server("sleep"), 3));
    }
    #[tokio::test]
    async fn a_server_whose_tools_are_assessed_by_other_settings_is_not_known() {
        let server = |keys: &str| {
            let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n[servers.mgp]\n{keys}\n");
            Config::parse("mgp.toml", &text).unwrap().config.servers.remove(0)
        };
        let known = KnownServers::load(Arc::new(MemoryStore::new())).await.unwrap();
        let plain = server("");
        known.insert(&plain, 3);
        for same in ["trust_level = 'standard'", "risk = {}", "default_policy = 'opt-out'"] {
            assert!(known.contains(&server(same), 3), "{same}");
        }
        for other in [
            "risk = { read = 'safe' }",
            "risk = { read = 'dangerous' }",
            "trust_level = 'trusted'",
            "permissions_required = ['camera']",
        ] {
            let other_server = server(other);
            assert!(!known.contains(&other_server, 3), "{other}");
            known.insert(&other_server, 3);
            assert!(known.contains(&other_server, 3) && !known.contains(&plain, 3), "{other}");
            known.insert(&plain, 3);
        }
    }
}
