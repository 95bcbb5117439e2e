//! What a server lists besides tools, as it was last known: resources, templates, prompts.
//!
//! It outlives the server's process, so that a list starts nothing.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgp_types::mcp::{ListParams, ServerCapabilities};
use mgp_types::method::{PromptsList, Request, ResourcesList, ResourcesTemplatesList};
use mgp_types::service::{Call, Method, Params};
use mgp_types::{ErrorCode, Payload};
use serde::Deserialize;
use tokio::time::Instant;

use super::manifest::Manifest;
use super::node::Node;
use crate::hops;
use mgp_client_sdk::{Error, gateway};

/// How many entries of a list are kept; the rest is not listed.
const ENTRIES: usize = 10_000;

/// How many bytes of a list are kept; the rest is not listed.
const BYTES: usize = 4 * 1024 * 1024;

/// How many pages of a list are read.
const PAGES: usize = 200;

/// How long a list counts as fresh whose server does not tell that it changes.
const FRESH: Duration = Duration::from_secs(2);

/// A list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Resources,
    Templates,
    Prompts,
}

/// The lists of one server.
#[derive(Default)]
pub(crate) struct Shelf {
    kept: Mutex<Kept>,
    /// One asks, the others wait for what it hears.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    capabilities: Option<Arc<ServerCapabilities>>,
    lists: [Option<Arc<List>>; 3],
    /// What was kept last.
    written: Option<u64>,
}

/// One list, in the order of its server.
#[derive(Default)]
pub(crate) struct List {
    entries: Vec<Entry>,
    by_key: HashMap<Arc<str>, usize>,
    read: Option<Instant>,
    hash: u64,
}

/// One entry of a list, as its server wrote it.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Its URI, template or name.
    pub(crate) key: Arc<str>,
    pub(crate) text: Payload,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Resources, Self::Templates, Self::Prompts];

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Resources => ResourcesList::METHOD,
            Self::Templates => ResourcesTemplatesList::METHOD,
            Self::Prompts => PromptsList::METHOD,
        }
    }

    fn is_offered(self, capabilities: &ServerCapabilities) -> bool {
        match self {
            Self::Resources | Self::Templates => capabilities.resources.is_some(),
            Self::Prompts => capabilities.prompts.is_some(),
        }
    }

    /// Whether a server says when this list changes.
    fn is_told(self, capabilities: &ServerCapabilities) -> bool {
        let told = match self {
            Self::Resources | Self::Templates => {
                capabilities.resources.as_ref().and_then(|resources| resources.list_changed)
            }
            Self::Prompts => capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed),
        };
        told == Some(true)
    }
}

impl List {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// A number that is another one once the list is.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    fn push(&mut self, entry: Entry) {
        // Of two entries of one key only the first can be meant.
        if !self.by_key.contains_key(&entry.key) {
            self.by_key.insert(Arc::clone(&entry.key), self.entries.len());
            self.entries.push(entry);
        }
    }

    fn finished(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        for entry in &self.entries {
            entry.text.as_str().hash(&mut hasher);
        }
        self.hash = hasher.finish();
        self.read = Some(Instant::now());
        self
    }
}

impl Shelf {
    /// What the server said it can do when it was last there.
    pub(crate) fn capabilities(&self) -> Option<Arc<ServerCapabilities>> {
        self.kept().capabilities.clone()
    }

    /// A list as it was last known; empty where it never was.
    pub(crate) fn list(&self, kind: Kind) -> Arc<List> {
        self.kept().lists[kind as usize].clone().unwrap_or_default()
    }

    /// Notes what a server that has just connected can do.
    pub(crate) fn offers(&self, capabilities: &ServerCapabilities) {
        let mut kept = self.kept();
        kept.capabilities = Some(Arc::new(capabilities.clone()));
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_offered(capabilities)) {
            kept.lists[kind as usize] = Some(Arc::default());
        }
    }

    /// Takes what was kept of a server when it was last there; nonsense is nothing.
    pub(crate) fn restore(&self, kept: &Payload) {
        let Ok(manifest) = kept.get::<Manifest>() else { return };
        self.offers(&manifest.capabilities);
        for kind in Kind::ALL {
            let Some(texts) = manifest.list(kind) else { continue };
            let mut list = List::default();
            for text in texts {
                if let Some(key) = key(kind, text) {
                    list.push(Entry { key, text: Payload::from_trusted(text.as_str().to_owned()) });
                }
            }
            let mut list = list.finished();
            list.read = None;
            self.kept().lists[kind as usize] = Some(Arc::new(list));
        }
    }

    /// Whether something else is known than when this was last asked.
    pub(super) fn is_unkept(&self) -> bool {
        let mut kept = self.kept();
        let mut hasher = DefaultHasher::new();
        for list in &kept.lists {
            list.as_ref().map(|list| list.hash).hash(&mut hasher);
        }
        let now = Some(hasher.finish());
        std::mem::replace(&mut kept.written, now) != now
    }

    /// What is kept of the server; none before it was there.
    pub(super) fn manifest(&self) -> Option<Manifest> {
        let capabilities = ServerCapabilities::clone(&*self.capabilities()?);
        let texts = |kind: Kind| {
            let list = self.kept().lists[kind as usize].clone()?;
            Some(list.entries.iter().map(|entry| entry.text.clone()).collect())
        };
        Some(Manifest {
            capabilities,
            resources: texts(Kind::Resources),
            templates: texts(Kind::Templates),
            prompts: texts(Kind::Prompts),
        })
    }

    /// Whether a list may have changed without a word, as far as its server is there to be asked.
    fn is_stale(&self, kind: Kind) -> bool {
        let kept = self.kept();
        let Some(capabilities) = &kept.capabilities else { return true };
        if !kind.is_offered(capabilities) {
            return false;
        }
        match &kept.lists[kind as usize] {
            None => true,
            Some(_) if kind.is_told(capabilities) => false,
            Some(list) => list.read.is_none_or(|read| read.elapsed() > FRESH),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Asks the server what it lists, unless it said that already or is not there; `true` when that is another list than
    /// before.
    pub(crate) async fn refresh(&self, kind: Kind) -> bool {
        if !self.shelf().is_stale(kind) || self.client().client().is_err() {
            return false;
        }
        let _turn = self.shelf().asking.lock().await;
        if !self.shelf().is_stale(kind) {
            return false;
        }
        self.reread(kind).await
    }

    /// Asks the server what it lists; `true` when that is another list than before.
    pub(crate) async fn reread(&self, kind: Kind) -> bool {
        let list = match self.read(kind).await {
            Ok(list) => list,
            Err(why) => {
                tracing::debug!(server = %self.id(), method = kind.method(), %why, "not listed");
                return false;
            }
        };
        let mut kept = self.shelf().kept();
        let before = kept.lists[kind as usize].replace(Arc::new(list));
        let hash = |list: &Option<Arc<List>>| list.as_ref().map_or(0, |list| list.hash());
        // Nothing before, and nothing now, is no change.
        let was_empty = before.as_ref().is_none_or(|list| list.entries.is_empty());
        let now = &kept.lists[kind as usize];
        let is_empty = now.as_ref().is_none_or(|list| list.entries.is_empty());
        !(was_empty && is_empty) && hash(&before) != hash(now)
    }

    async fn read(&self, kind: Kind) -> Result<List, Error> {
        let client = self.client().client()?;
        let (mut list, mut params, mut bytes) = (List::default(), ListParams::new(), 0_usize);
        if !kind.is_offered(client.capabilities()) {
            return Ok(list.finished());
        }
        for _ in 0..PAGES {
            let asked = Params::of(kind.method(), &params)?;
            let method = Method::from_static(kind.method());
            let mut call = Call::request(method, asked, client.context());
            hops::mark(&mut call, client.server());
            let page = match gateway::ungated_supervised(self.client()).send(call).await {
                Ok(reply) => reply.get::<Page>()?,
                // Resources without templates are nothing unusual.
                Err(error) if error.code() == ErrorCode::METHOD_NOT_FOUND => break,
                Err(error) => return Err(error.into()),
            };
            let entries = page.entries(kind);
            for text in entries.filter_map(|text| hops::entry_behind(kind, text, client.server())) {
                bytes = bytes.saturating_add(text.as_str().len());
                if bytes > BYTES || list.entries.len() >= ENTRIES {
                    tracing::warn!(
                        server = %self.id(), method = kind.method(), ENTRIES, BYTES,
                        "the list is longer than what is kept; the rest is not listed",
                    );
                    return Ok(list.finished());
                }
                if let Some(key) = key(kind, &text) {
                    list.push(Entry { key, text });
                }
            }
            match page.next {
                Some(cursor) => params.cursor = Some(cursor),
                None => break,
            }
        }
        Ok(list.finished())
    }
}

/// One page of any of the lists.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    resources: Vec<Payload>,
    #[serde(default, rename = "resourceTemplates")]
    templates: Vec<Payload>,
    #[serde(default)]
    prompts: Vec<Payload>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
}

impl Page {
    fn entries(&self, kind: Kind) -> impl Iterator<Item = Payload> {
        let entries = match kind {
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
            Kind::Prompts => &self.prompts,
        };
        // A page is shared text; what is kept must not keep all of it.
        entries.iter().map(|entry| Payload::from_trusted(entry.as_str().to_owned()))
    }
}

/// What an entry is found by; none where it has no such member.
fn key(kind: Kind, text: &Payload) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Keyed {
        uri: Option<String>,
        #[serde(rename = "uriTemplate")]
        template: Option<String>,
        name: Option<String>,
    }
    let keyed: Keyed = text.get().ok()?;
    let key = match kind {
        Kind::Resources => keyed.uri,
        Kind::Templates => keyed.template,
        Kind::Prompts => keyed.name,
    };
    key.filter(|key| !key.is_empty()).map(Into::into)
}
