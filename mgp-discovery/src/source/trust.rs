//! Which configurations of projects were approved (MGP §15.2).
//!
//! Applies to: both.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType};
use mgp_types::service::{AuditSink, Authority, Principal};
use mgp_types::store::{Change, Store};
use mgp_types::{Object, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Review;
use super::review::sha256;
use crate::error::Error;

const SPACE: &str = "trust";
/// More projects than anybody has; an approval more is refused.
const MOST: usize = 4096;

/// The approvals of projects' configurations, in a store.
///
/// One file has one approval: of its exact content, and of the user's servers it was shown to replace.
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
    /// Where what is decided is recorded.
    audit: Option<Arc<dyn AuditSink>>,
}

/// An approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The file, by where it really is.
    pub file: PathBuf,
    /// The SHA-256 of the content that was approved.
    pub sha256: String,
    /// Which of the user's own servers it may replace.
    pub overrides: BTreeSet<String>,
    /// Who approved it.
    pub approved_by: String,
    /// When.
    pub approved_at: Timestamp,
}

impl Trust {
    /// With approvals in a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, audit: None }
    }

    /// The same approvals, with what is decided about them on a record: what cannot be recorded is not decided.
    ///
    /// Where the record takes events from this very store, a decision and its event are one commit.
    #[must_use]
    pub fn recorded(mut self, audit: Arc<dyn AuditSink>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Approves exactly what was looked at.
    ///
    /// # Errors
    /// [`Error::NotOperator`] for everybody else; [`Error::Store`]; [`Error::TooManyApprovals`]; [`Error::Unaudited`].
    pub async fn approve(&self, review: &Review, by: &Principal) -> Result<Approval, Error> {
        operator(by)?;
        let key = key(&review.file);
        let there = self.store.load(SPACE).await?;
        if there.records.len() >= MOST && there.records.iter().all(|record| record.key != key) {
            return Err(Error::TooManyApprovals(MOST));
        }
        let overriding = review.servers.iter().filter(|server| server.overrides);
        let approval = Approval {
            file: review.file.clone(),
            sha256: review.sha256.clone(),
            overrides: overriding.map(|server| server.id.to_string()).collect(),
            approved_by: format!("{by:?}"),
            approved_at: Timestamp::now(),
        };
        let text = serde_json::to_string(&approval).map_err(|_| Error::NotText {
            // Only a path that is no text can be refused here.
            path: review.file.clone(),
        })?;
        let change = Change::new().put(SPACE, key, Payload::from_trusted(text));
        self.commit(change, told("project_approved", by, &approval)).await?;
        Ok(approval)
    }

    /// Takes the approval of a file back; it does nothing from the next look on.
    ///
    /// # Errors
    /// [`Error::NotOperator`] for everybody else; [`Error::Store`]; [`Error::Unaudited`].
    pub async fn revoke(&self, file: &Path, by: &Principal) -> Result<(), Error> {
        operator(by)?;
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let Some(approval) = self.list().await?.into_iter().find(|one| one.file == file) else {
            // What cannot be read approves nothing, and goes without a word.
            self.store.commit(Change::new().remove(SPACE, key(&file))).await?;
            return Ok(());
        };
        let change = Change::new().remove(SPACE, key(&file));
        self.commit(change, told("project_revoked", by, &approval)).await
    }

    async fn commit(&self, mut change: Change, event: AuditEvent) -> Result<(), Error> {
        if let Some(audit) = &self.audit {
            match audit.outbox(&*self.store) {
                Some(log) => change = change.event(log, event),
                None => audit.record(event).await?,
            }
        }
        self.store.commit(change).await?;
        Ok(())
    }

    /// All approvals, by file.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn list(&self) -> Result<Vec<Approval>, Error> {
        let records = self.store.load(SPACE).await?.records;
        // What cannot be read approves nothing.
        let read = |text: Payload| serde_json::from_str(text.as_str()).ok();
        let mut all: Vec<Approval> =
            records.into_iter().filter_map(|record| record.value.and_then(read)).collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(all)
    }

    /// The approval of a content, if it has one.
    pub(super) async fn of(&self, file: &Path, text: &str) -> Result<Option<Approval>, Error> {
        let sha256 = sha256(text);
        let all = self.list().await?;
        Ok(all.into_iter().find(|approval| approval.file == file && approval.sha256 == sha256))
    }

    /// Moves whenever an approval may have changed.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.store.revision()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

fn operator(by: &Principal) -> Result<(), Error> {
    if by.authority() == Authority::Operator { Ok(()) } else { Err(Error::NotOperator) }
}

/// The event that tells of a decision: which file, with which content.
fn told(what: &str, by: &Principal, approval: &Approval) -> AuditEvent {
    let event_type = EventType::Other(format!("dev.cloto.{what}").into());
    let by = Actor::from(by);
    let mut event = AuditEvent::new(Timestamp::now(), event_type, by, AuditResult::Success);
    let details = event.details.get_or_insert_with(Object::new);
    // Texts and lists of them can always be written.
    let _ = details.encode("file", &*approval.file.to_string_lossy());
    let _ = details.encode("sha256", &approval.sha256);
    if !approval.overrides.is_empty() {
        let _ = details.encode("replaces", &approval.overrides);
    }
    event
}

/// Paths are any bytes and any length; keys are neither.
fn key(file: &Path) -> String {
    sha256(&file.to_string_lossy())
}
