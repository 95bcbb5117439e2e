//! A cache of the resources, templates, prompts and skills that a server last listed.
//!
//! The lists stay in the cache when the server's process ends, so that a client can list them without a start of the
//! server.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, Error, SupervisedClient};
use mgp_types::Payload;
use mgp_types::mcp::{Era, ServerCapabilities, SkillsCapability, key};
use mgp_types::method::{PromptsList, Request, ResourcesList, ResourcesTemplatesList, SkillsList};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::ServerId;
use mgp_types::sync::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::era_choice::{KnownEras, NegotiatedExtensions, SessionKind, SessionNeeds};
use super::first_sync::LIST_TIMEOUT;
use super::list_reading::{entry_key, read_list};
use super::refresh_queue::ListGroup;

/// The time for which a list counts as fresh if its server does not announce changes.
const FRESH_TTL: Duration = Duration::from_secs(2);

/// The minimum duration of a read after which its list counts as slow, so that clients no longer wait for this list. If
/// a shorter read is abandoned, the client merely cancelled its request.
const SLOW_READ: Duration = Duration::from_millis(1_500);

/// The pause after a server did not answer the read of a list. During the pause, no client waits for any of its lists.
const UNANSWERED_TTL: Duration = Duration::from_secs(30);

/// The kind of a list, other than the list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ListKind {
    Resources,
    Templates,
    Prompts,
    Skills,
}

#[derive(Default)]
pub(crate) struct ListCache {
    lists: Mutex<Lists>,
    eras: Arc<KnownEras>,
    negotiated: Arc<NegotiatedExtensions>,
    /// For each list, a lock that a task holds while it reads the list for a client. Other tasks that need the list
    /// wait for the lock, and then use the result.
    reading: [tokio::sync::Mutex<()>; 4],
}

#[derive(Default)]
struct Lists {
    capabilities: Option<Arc<ServerCapabilities>>,
    by_kind: [Option<Arc<CachedList>>; 4],
    /// The number of reads that have begun.
    begun: u64,
    /// For each list, the number of the read that returned it.
    read: [u64; 4],
    /// For each list, the beginning of a read that is in progress.
    begun_at: [Option<Instant>; 4],
    /// For each list, whether the last read was slow or the server did not answer it.
    is_slow: [bool; 4],
    /// The digest of the lists and capabilities that were last stored.
    stored: Option<u64>,
    /// The time when the last unanswered read of a list for a client was abandoned; `None` if a list was read since.
    unanswered_at: Option<Instant>,
}

impl Lists {
    /// Returns the number of a read that begins now.
    fn next_read(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }
}

/// A read of a list in progress. Its end records whether the list is slow.
struct ListRead<'a> {
    lists: &'a ListCache,
    kind: ListKind,
    begun: Instant,
    has_ended: bool,
}

impl<'a> ListRead<'a> {
    fn begin(lists: &'a ListCache, kind: ListKind) -> Self {
        let begun = Instant::now();
        lists.lock().begun_at[kind as usize].get_or_insert(begun);
        Self { lists, kind, begun, has_ended: false }
    }
}

impl Drop for ListRead<'_> {
    fn drop(&mut self) {
        let (mut lists, at) = (self.lists.lock(), self.kind as usize);
        if lists.begun_at[at] == Some(self.begun) {
            lists.begun_at[at] = None;
        }
        let is_slow = self.begun.elapsed() >= SLOW_READ;
        if self.has_ended || is_slow {
            lists.is_slow[at] = is_slow;
        }
    }
}

/// A running read of a list for a client. If it is dropped unfinished after [`SLOW_READ`] or more, it records that the
/// server did not answer.
struct ClientRead<'a> {
    lists: &'a ListCache,
    begun: Instant,
    has_ended: bool,
}

impl Drop for ClientRead<'_> {
    fn drop(&mut self) {
        if !self.has_ended && self.begun.elapsed() >= SLOW_READ {
            self.lists.lock().unanswered_at = Some(Instant::now());
        }
    }
}

/// A cached list, in the order in which the server listed the entries.
#[derive(Default)]
pub(crate) struct CachedList {
    entries: Vec<ListEntry>,
    by_key: HashMap<Arc<str>, usize>,
    read_at: Option<Instant>,
    digest: u64,
}

/// An entry of a list, in the JSON that the server sent.
#[derive(Clone)]
pub(crate) struct ListEntry {
    /// The value that identifies the entry: its URI, URI template or name.
    pub(crate) key: Arc<str>,
    pub(crate) text: Payload,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredLists {
    capabilities: ServerCapabilities,
    resources: Option<Vec<Payload>>,
    templates: Option<Vec<Payload>>,
    prompts: Option<Vec<Payload>>,
    #[serde(default)]
    skills: Option<Vec<Payload>>,
    /// `true` if the server needs one session for each era of its callers.
    #[serde(default)]
    session_per_era: Option<bool>,
    /// The names of the extensions that the server negotiated.
    #[serde(default)]
    extensions: Vec<String>,
    /// `true` if the program fails at the request that detects its era.
    #[serde(default)]
    fails_at_probe: bool,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Resources, Self::Templates, Self::Prompts, Self::Skills];

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Resources => ResourcesList::METHOD,
            Self::Templates => ResourcesTemplatesList::METHOD,
            Self::Prompts => PromptsList::METHOD,
            Self::Skills => SkillsList::METHOD,
        }
    }

    /// Returns the group of lists with which the kernel reads this list.
    pub(crate) fn group(self) -> ListGroup {
        match self {
            Self::Resources | Self::Templates | Self::Skills => ListGroup::Resources,
            Self::Prompts => ListGroup::Prompts,
        }
    }

    pub(super) fn is_offered(self, capabilities: &ServerCapabilities) -> bool {
        match self {
            Self::Resources | Self::Templates => capabilities.resources.is_some(),
            Self::Prompts => capabilities.prompts.is_some(),
            Self::Skills => skills(capabilities).is_some(),
        }
    }

    fn is_announced(self, capabilities: &ServerCapabilities) -> bool {
        let list_changed = match self {
            Self::Resources | Self::Templates => {
                capabilities.resources.as_ref().and_then(|resources| resources.list_changed)
            }
            Self::Prompts => capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            // Servers cannot announce changed skills, because the skills extension defines no notification of changes.
            Self::Skills => None,
        };
        list_changed == Some(true)
    }
}

impl CachedList {
    pub(crate) fn entries(&self) -> &[ListEntry] {
        &self.entries
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns a digest of the entries. It differs for different entries.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn push(&mut self, entry: ListEntry) {
        // If several entries have the same key, keep only the first, because clients could not address the others.
        if !self.by_key.contains_key(&entry.key) {
            self.by_key.insert(Arc::clone(&entry.key), self.entries.len());
            self.entries.push(entry);
        }
    }

    pub(super) fn finish(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        for entry in &self.entries {
            entry.text.as_str().hash(&mut hasher);
        }
        self.digest = hasher.finish();
        self.read_at = Some(Instant::now());
        self
    }
}

impl ListCache {
    /// Returns the capabilities that the server declared when it last connected.
    pub(crate) fn capabilities(&self) -> Option<Arc<ServerCapabilities>> {
        self.lock().capabilities.clone()
    }

    /// Returns a list as it was last read; an empty list if it was never read.
    pub(crate) fn list(&self, kind: ListKind) -> Arc<CachedList> {
        self.lock().by_kind[kind as usize].clone().unwrap_or_default()
    }

    /// Returns whether the server offers a list that was never read; `false` if its capabilities are unknown. Ignores
    /// skills, because servers list them only in modern sessions.
    pub(super) fn lacks_any(&self) -> bool {
        let lists = self.lock();
        let Some(capabilities) = &lists.capabilities else { return false };
        let mut counted = ListKind::ALL.into_iter().filter(|kind| *kind != ListKind::Skills);
        counted.any(|kind| kind.is_offered(capabilities) && lists.by_kind[kind as usize].is_none())
    }

    /// Returns what is known about the protocol eras that the server supports.
    pub(super) fn eras(&self) -> &Arc<KnownEras> {
        &self.eras
    }

    pub(super) fn negotiated(&self) -> &Arc<NegotiatedExtensions> {
        &self.negotiated
    }

    /// Stores the capabilities that a server has just declared. If a legacy session declares no extensions, keeps the
    /// known ones, because a legacy session cannot declare skills.
    pub(super) fn set_capabilities(&self, capabilities: &ServerCapabilities, era: Era) {
        let mut lists = self.lock();
        let mut capabilities = capabilities.clone();
        let known = lists.capabilities.as_ref().and_then(|known| known.extensions.clone());
        if era == Era::Legacy
            && let Some(known) = known
        {
            capabilities.extensions.get_or_insert(known);
        }
        lists.capabilities = Some(Arc::new(capabilities.clone()));
        let capabilities = &capabilities;
        for kind in ListKind::ALL.into_iter().filter(|kind| !kind.is_offered(capabilities)) {
            // Keep a known list until it is read again, so that the kernel notices that its entries are gone.
            lists.by_kind[kind as usize].get_or_insert_default();
        }
    }

    /// Restores the lists that an earlier kernel stored. Ignores invalid data.
    pub(super) fn restore(&self, stored: &Payload) {
        let Ok(stored) = stored.get::<StoredLists>() else { return };
        self.set_capabilities(&stored.capabilities, Era::Modern);
        if let Some(is_per_era) = stored.session_per_era {
            let one = SessionNeeds::One;
            self.eras.set(if is_per_era { SessionNeeds::OnePerEra } else { one });
        }
        self.eras.restore_probe_failure(stored.fails_at_probe);
        self.negotiated.set(SessionKind::Main, ExtensionSet::from_names(&stored.extensions));
        let StoredLists { resources, templates, prompts, skills, .. } = stored;
        let texts = [resources, templates, prompts, skills];
        for (kind, texts) in ListKind::ALL.into_iter().zip(texts) {
            let Some(texts) = texts else { continue };
            let mut list = CachedList::default();
            for text in texts {
                if let Some(key) = entry_key(kind, &text) {
                    let text = Payload::from_trusted(text.as_str().to_owned());
                    list.push(ListEntry { key, text });
                }
            }
            let mut list = list.finish();
            list.read_at = None;
            self.set(kind, list);
        }
    }

    /// Replaces a list.
    pub(super) fn set(&self, kind: ListKind, list: CachedList) {
        self.lock().by_kind[kind as usize] = Some(Arc::new(list));
    }

    /// Returns the lists and capabilities if they have changed since the last call of this method, so that they must be
    /// stored.
    pub(super) fn take_unstored(&self) -> Option<StoredLists> {
        let mut lists = self.lock();
        let mut hasher = DefaultHasher::new();
        for list in &lists.by_kind {
            list.as_ref().map(|list| list.digest).hash(&mut hasher);
        }
        let capabilities = lists.capabilities.as_deref().and_then(|known| Payload::of(known).ok());
        capabilities.as_ref().map(Payload::as_str).hash(&mut hasher);
        let extensions = self.negotiated.all();
        let fails_at_probe = self.eras.stores_probe_failure();
        (self.eras.stored_needs(), extensions, fails_at_probe).hash(&mut hasher);
        let now = Some(hasher.finish());
        if std::mem::replace(&mut lists.stored, now) == now {
            return None;
        }
        let texts = |kind: ListKind| {
            let list = lists.by_kind[kind as usize].as_ref()?;
            Some(list.entries.iter().map(|entry| entry.text.clone()).collect())
        };
        Some(StoredLists {
            capabilities: ServerCapabilities::clone(lists.capabilities.as_deref()?),
            resources: texts(ListKind::Resources),
            templates: texts(ListKind::Templates),
            prompts: texts(ListKind::Prompts),
            skills: texts(ListKind::Skills),
            session_per_era: self.eras.stored_needs(),
            extensions: extensions.iter().map(Extension::as_str).map(str::to_owned).collect(),
            fails_at_probe,
        })
    }

    /// Reads a list again for a client, for a limited time. Does nothing if the list is fresh, or if the server is not
    /// connected or has recently not answered such a read. Returns whether the list changed; `None` if the list is
    /// slow or was not returned in time, so that the kernel must read it in the background.
    pub(super) async fn refresh(
        &self,
        kind: ListKind,
        server: &ServerId,
        client: &SupervisedClient,
    ) -> Option<bool> {
        if !self.is_stale(kind) || client.client().is_err() {
            return Some(false);
        }
        let (is_slow, begun_at) = {
            let lists = self.lock();
            (lists.is_slow[kind as usize], lists.begun_at[kind as usize])
        };
        if begun_at.is_some_and(|at| at.elapsed() >= SLOW_READ) {
            // If the read in progress changes the list, its task notifies the clients.
            return Some(false);
        }
        if is_slow {
            return None;
        }
        timeout(LIST_TIMEOUT, self.read_for_client(kind, server, client)).await.ok()
    }

    /// Reads a list as [`refresh`](Self::refresh) does, after the other clients that read it.
    async fn read_for_client(
        &self,
        kind: ListKind,
        server: &ServerId,
        client: &SupervisedClient,
    ) -> bool {
        let _turn = self.reading[kind as usize].lock().await;
        if !self.is_stale(kind) {
            return false;
        }
        let mut reading = ClientRead { lists: self, begun: Instant::now(), has_ended: false };
        let read = self.reread(kind, server, client).await;
        reading.has_ended = true;
        read.unwrap_or_else(|error| {
            tracing::debug!(%server, method = kind.method(), %error, "list not read");
            false
        })
    }

    /// Reads a list again; returns whether it changed. If the read fails, the list stays unchanged.
    pub(super) async fn reread(
        &self,
        kind: ListKind,
        server: &ServerId,
        client: &SupervisedClient,
    ) -> Result<bool, Error> {
        let is_legacy = |client: Client| client.server().era == Era::Legacy;
        if kind == ListKind::Skills && client.client().is_ok_and(is_legacy) {
            return Ok(false);
        }
        let number = self.lock().next_read();
        let mut reading = ListRead::begin(self, kind);
        let read = read_list(kind, server, client).await;
        reading.has_ended = true;
        drop(reading);
        let list = read?;
        let (digest, is_empty) = (list.digest, list.entries.is_empty());
        let mut lists = self.lock();
        lists.unanswered_at = None;
        // A read that began later may have ended first; its list is newer.
        if lists.read[kind as usize] > number {
            return Ok(false);
        }
        lists.read[kind as usize] = number;
        Ok(match lists.by_kind[kind as usize].replace(Arc::new(list)) {
            Some(before) => before.digest != digest && !(before.entries.is_empty() && is_empty),
            None => !is_empty,
        })
    }

    /// Returns whether the list must be read for a client, because it was never read or may have changed without a
    /// notification. Returns `false` if the server does not offer the list, or recently did not answer.
    fn is_stale(&self, kind: ListKind) -> bool {
        let lists = self.lock();
        if lists.unanswered_at.is_some_and(|at| at.elapsed() < UNANSWERED_TTL) {
            return false;
        }
        let Some(capabilities) = &lists.capabilities else { return true };
        if !kind.is_offered(capabilities) {
            return false;
        }
        match &lists.by_kind[kind as usize] {
            None => true,
            Some(_) if kind.is_announced(capabilities) => false,
            Some(list) => list.read_at.is_none_or(|read_at| read_at.elapsed() > FRESH_TTL),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock()
    }
}

/// Returns the settings of the skills extension, if a server declared it.
pub(crate) fn skills(capabilities: &ServerCapabilities) -> Option<SkillsCapability> {
    capabilities.extensions.as_ref()?.get(key::SKILLS_EXTENSION)?.get().ok()
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::Revision;
    use mgp_types::service::PeerInfo;

    use super::super::tests::silent_client;
    use super::*;

    #[test]
    fn the_extensions_that_a_server_negotiated_are_stored_with_its_lists() {
        let negotiated = ExtensionSet::EMPTY.with(Extension::DataReferences);
        let lists = ListCache::default();
        lists.set_capabilities(&ServerCapabilities::new(), Era::Modern);
        assert!(lists.take_unstored().is_some());
        lists.negotiated().set(SessionKind::Main, negotiated);
        let stored = Payload::of(&lists.take_unstored().unwrap()).unwrap();
        let restored = ListCache::default();
        restored.restore(&stored);
        assert_eq!(restored.negotiated().all(), negotiated);
        // The extensions that the server negotiates in its next connection replace the restored ones, separately for
        // each kind of session.
        let other = ExtensionSet::EMPTY.with(Extension::SessionState);
        restored.negotiated().set(SessionKind::Legacy, other);
        restored.negotiated().set(SessionKind::Main, ExtensionSet::EMPTY);
        assert_eq!(restored.negotiated().all(), other);
    }

    #[test]
    fn that_a_program_fails_at_the_probe_is_stored_while_it_has_an_early_revision() {
        let lists = ListCache::default();
        lists.set_capabilities(&ServerCapabilities::new(), Era::Legacy);
        lists.eras().fails_at_probe().set(true);
        let revisions = [(Revision::V2025_03_26, true), (Revision::V2025_06_18, false)];
        for (revision, expected) in revisions {
            lists.eras().observe(&PeerInfo::new(revision));
            let stored = Payload::of(&lists.take_unstored().unwrap()).unwrap();
            let restored = ListCache::default();
            restored.restore(&stored);
            assert_eq!(restored.eras().fails_at_probe().get(), expected);
        }
    }

    #[test]
    fn a_capability_that_a_server_has_only_now_is_stored_although_its_lists_are_the_same() {
        let (lists, mut capabilities) = (ListCache::default(), ServerCapabilities::new());
        lists.set_capabilities(&capabilities, Era::Modern);
        assert!(lists.take_unstored().is_some() && lists.take_unstored().is_none());
        capabilities.completions = Some(mgp_types::Object::new());
        lists.set_capabilities(&capabilities, Era::Modern);
        assert!(lists.take_unstored().unwrap().capabilities.completions.is_some());
    }

    /// A list that was never read must count as missing, so that the next kernel reads it. Otherwise, if a kernel stops
    /// before it has read all lists of a server, the next kernel would show only the lists that were read.
    #[test]
    fn a_list_that_was_not_read_before_the_kernel_stopped_is_missed() {
        let restored = |lists: &str| {
            let cache = ListCache::default();
            let text = format!(r#"{{"capabilities":{{"resources":{{}}}}{lists}}}"#);
            cache.restore(&Payload::from_trusted(text));
            cache.lacks_any()
        };
        assert!(restored(""));
        assert!(restored(r#","resources":[]"#), "the templates were not read");
        assert!(!restored(r#","resources":[],"templates":[]"#));
        assert!(!ListCache::default().lacks_any(), "nothing is known of the server");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_does_not_delay_every_list() {
        let (client, lists, id) = (silent_client().await, ListCache::default(), "silent".into());
        let refresh = async |kind: ListKind| {
            let begun = Instant::now();
            let refreshed = lists.refresh(kind, &id, &client).await;
            (refreshed, begun.elapsed())
        };
        let (refreshed, waited) = refresh(ListKind::Resources).await;
        assert!(refreshed.is_none() && waited < Duration::from_secs(3), "{waited:?}");
        let at_once = |refreshed| (refreshed, Duration::ZERO);
        assert_eq!(refresh(ListKind::Templates).await, at_once(Some(false)));
        tokio::time::advance(UNANSWERED_TTL).await;
        // It is read in the background.
        assert_eq!(refresh(ListKind::Resources).await, at_once(None));
        assert_eq!(refresh(ListKind::Templates).await.0, None);
    }
}
