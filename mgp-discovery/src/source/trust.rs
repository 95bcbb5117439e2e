//! The approvals of projects' configuration files (MGP §15.2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType};
use mgp_types::service::{AuditSink, Authority, Principal};
use mgp_types::store::{Change, Store};
use mgp_types::{Object, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::ProjectReview;
use super::review::sha256;
use crate::error::DiscoveryError;

const SPACE: &str = "trust";
/// The maximum number of stored approvals; further approvals are refused. Approvals at the same time can exceed it.
const MAX_APPROVALS: usize = 4096;

/// The approvals of projects' configuration files, kept in a store.
///
/// Each file has at most one approval. It covers the exact content of the file, the content of the code files that its
/// servers run, and the ids of the user's servers that the project's servers replace according to the review.
///
/// ```
/// use std::sync::Arc;
/// use mgp_discovery::{Sources, Trust};
/// use mgp_types::service::Principal;
/// use mgp_types::store::MemoryStore;
///
/// # let folder = std::env::temp_dir().join(format!("mgp-trust-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// std::fs::write(folder.join("mgp.toml"), "servers = [{ id = 'a', command = 'a' }]").unwrap();
/// let trust = Trust::new(Arc::new(MemoryStore::new()));
/// let sources = Sources::new(&folder, folder.join("home"));
/// assert!(sources.load(&trust).await.unwrap().config.servers.is_empty());
///
/// let review = sources.review().unwrap().unwrap();
/// assert_eq!(review.servers[0].to_string(), "a runs a");
/// trust.approve(&review, &Principal::local().operator()).await.unwrap();
/// assert_eq!(sources.load(&trust).await.unwrap().config.servers.len(), 1);
/// # });
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Clone)]
pub struct Trust {
    store: Arc<dyn Store>,
    /// The audit sink that records approvals and revocations, if it is set.
    audit: Option<Arc<dyn AuditSink>>,
}

/// An approval of a project's configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustApproval {
    /// The real path of the project's configuration file.
    pub file: PathBuf,
    /// The SHA-256 of the content that was approved.
    pub sha256: String,
    /// The files with code that the project's servers run, with their SHA-256.
    #[serde(default)]
    pub files: BTreeMap<PathBuf, String>,
    /// The ids of the user's own servers that the file may replace.
    pub overrides: BTreeSet<String>,
    /// The operator who approved the file.
    pub approved_by: String,
    /// The time when the operator approved the file.
    pub approved_at: Timestamp,
}

impl Trust {
    /// Creates an instance that keeps the approvals in a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, audit: None }
    }

    /// Sets the audit sink that records approvals and revocations. A decision that cannot be recorded is not made.
    ///
    /// If the sink writes its events to the same store, the store commits a decision and its event together.
    #[must_use]
    pub fn recorded(mut self, audit: Arc<dyn AuditSink>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Approves exactly the reviewed content.
    ///
    /// # Errors
    /// [`DiscoveryError::NotOperator`] for other callers; [`DiscoveryError::Store`];
    /// [`DiscoveryError::TooManyApprovals`]; [`DiscoveryError::NotText`] if a path is not UTF-8;
    /// [`DiscoveryError::Unaudited`].
    pub async fn approve(
        &self,
        review: &ProjectReview,
        by: &Principal,
    ) -> Result<TrustApproval, DiscoveryError> {
        operator(by)?;
        let key = key(&review.file);
        let there = self.store.load(SPACE).await?;
        if there.records.len() >= MAX_APPROVALS
            && there.records.iter().all(|record| record.key != key)
        {
            return Err(DiscoveryError::TooManyApprovals(MAX_APPROVALS));
        }
        let overriding = review.servers.iter().filter(|server| server.overrides);
        let approval = TrustApproval {
            file: review.file.clone(),
            sha256: review.sha256.clone(),
            files: review.servers.iter().flat_map(|server| server.files.clone()).collect(),
            overrides: overriding.map(|server| server.id.to_string()).collect(),
            approved_by: format!("{by:?}"),
            approved_at: Timestamp::now(),
        };
        let text = serde_json::to_string(&approval).map_err(|_| DiscoveryError::NotText {
            // Encoding the approval fails only if a path is not UTF-8.
            path: review.file.clone(),
        })?;
        let change = Change::new().put(SPACE, key, Payload::from_trusted(text));
        self.commit(change, event("project_approved", by, &approval)).await?;
        Ok(approval)
    }

    /// Revokes the approval of a file; the next load no longer uses the file.
    ///
    /// # Errors
    /// [`DiscoveryError::NotOperator`] for other callers; [`DiscoveryError::Store`]; [`DiscoveryError::Unaudited`].
    pub async fn revoke(&self, file: &Path, by: &Principal) -> Result<(), DiscoveryError> {
        operator(by)?;
        let file = dunce::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let Some(approval) = self.list().await?.into_iter().find(|one| one.file == file) else {
            // An unreadable record approves nothing, so it is removed without an event.
            self.store.commit(Change::new().remove(SPACE, key(&file))).await?;
            return Ok(());
        };
        let change = Change::new().remove(SPACE, key(&file));
        self.commit(change, event("project_revoked", by, &approval)).await
    }

    async fn commit(&self, mut change: Change, event: AuditEvent) -> Result<(), DiscoveryError> {
        if let Some(audit) = &self.audit {
            match audit.outbox(&*self.store) {
                Some(log) => change = change.event(log, event),
                None => audit.record(event).await?,
            }
        }
        self.store.commit(change).await?;
        Ok(())
    }

    /// Returns all approvals, sorted by file.
    ///
    /// # Errors
    /// [`DiscoveryError::Store`].
    pub async fn list(&self) -> Result<Vec<TrustApproval>, DiscoveryError> {
        let records = self.store.load(SPACE).await?.records;
        // Skip unreadable records, which approve nothing.
        let read = |text: Payload| serde_json::from_str(text.as_str()).ok();
        let mut all: Vec<TrustApproval> =
            records.into_iter().filter_map(|record| record.value.and_then(read)).collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(all)
    }

    /// Returns the approval of a file with this content, if any.
    pub(super) async fn of(
        &self,
        file: &Path,
        text: &str,
    ) -> Result<Option<TrustApproval>, DiscoveryError> {
        let sha256 = sha256(text);
        let all = self.list().await?;
        Ok(all.into_iter().find(|approval| approval.file == file && approval.sha256 == sha256))
    }

    /// Returns a counter that changes whenever an approval might have changed.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.store.revision()
    }
}

mgp_types::opaque_debug!(Trust);

fn operator(by: &Principal) -> Result<(), DiscoveryError> {
    if by.authority() == Authority::Operator { Ok(()) } else { Err(DiscoveryError::NotOperator) }
}

/// Creates the audit event of a decision, with the file and its content hash.
fn event(what: &str, by: &Principal, approval: &TrustApproval) -> AuditEvent {
    let event_type = EventType::Other(format!("dev.cloto.{what}").into());
    let by = Actor::from(by);
    let mut event = AuditEvent::new(Timestamp::now(), event_type, by, AuditResult::Success);
    let details = event.details.get_or_insert_with(Object::new);
    // Ignore the results, because the approval itself was encoded before.
    let _ = details.encode("file", &*approval.file.to_string_lossy());
    let _ = details.encode("sha256", &approval.sha256);
    if !approval.files.is_empty() {
        let _ = details.encode("files", &approval.files);
    }
    if !approval.overrides.is_empty() {
        let _ = details.encode("replaces", &approval.overrides);
    }
    event
}

/// Returns the store key of a file. It is a hash, because a path can contain any bytes and have any length, but a key
/// cannot.
fn key(file: &Path) -> String {
    sha256(&file.to_string_lossy())
}
