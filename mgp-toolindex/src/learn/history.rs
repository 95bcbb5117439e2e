//! The handle of a history: what a kernel tells it and what the ranking asks it.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::ready;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use mgp_types::service::{BoxFuture, Principal};
use mgp_types::store::StoreError;

use super::asks::Asks;
use super::book::{Book, Title};
use super::config::{Erase, HistoryConfig, HistoryStats, Keep, Outcome};
use super::entry::{Owner, Place, Secret, TEXT};
use super::hints::Question;
use super::model::{Model, OF_TOOL};
use super::order::{Again, FEWEST, Order};
#[cfg(feature = "sqlite")]
use super::persist::Kept;
use super::shelf::{Fresh, Shelf};
use crate::embed::{Cost, Embedder};
use crate::text::{Analyzer, Words, cut};

/// How many remembered queries are asked again when a book's model is fitted.
const EXAMPLES: usize = 256;

/// With an embedder that costs time only each of so many of them is asked of the index.
const COSTLY: usize = 4;

/// The least share that is told.
const LEAST: f32 = 1e-3;

/// Remembers which tool was called after which query, and makes later searches better by it.
///
/// It learns nothing unless an index is built with it.
/// By default nothing of it survives the process; with the feature `sqlite`, `History::open` keeps it in a database.
///
/// ```
/// use mgp_toolindex::{Erase, History, Outcome};
/// use mgp_types::service::Principal;
///
/// let history = History::new();
/// let me = Principal::local();
/// history.asked(&me, "session 1", "what will it be like outside", ["weather.forecast", "mail.send"]);
/// history.called(&me, "session 1", "weather.forecast", Outcome::Answered);
/// assert_eq!(history.stats().queries, 1);
///
/// drop(history.erase(Erase::Principal(&me)));
/// assert_eq!(history.stats().queries, 0);
/// ```
#[derive(Clone)]
pub struct History(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) shelf: RwLock<Shelf>,
    asks: Mutex<Asks>,
    analyzer: Analyzer,
    embedder: RwLock<Option<Arc<dyn Embedder>>>,
    /// The index that remembered queries are asked again.
    again: RwLock<Option<Arc<dyn Again>>>,
    pub(super) secret: Secret,
    /// Whether somebody is about to settle without being asked.
    is_settling: AtomicBool,
    /// Held while settling, so that whoever asks for it finds it done.
    settling: Mutex<()>,
    #[cfg(feature = "sqlite")]
    pub(super) kept: Option<Kept>,
}

/// A tool that past calls speak for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// Its id, as [`History::called`] was given it.
    pub(crate) tool: Arc<str>,
    /// How likely it is that it is called now, 0 to 1.
    pub(crate) share: f32,
    /// What that adds to a score between 0 and 1.
    pub(crate) lift: f32,
    /// What speaks for it.
    pub(crate) hints: [f32; OF_TOOL],
}

/// What past calls say after a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// The tools that they speak for, the likeliest first.
    pub(crate) views: Vec<View>,
    /// How that is weighed against the ranking; where it is not known, lifts are added.
    pub(crate) order: Option<Order>,
}

// === impl History ===

impl History {
    /// An empty history with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::with(HistoryConfig::default())
    }

    /// An empty history.
    #[must_use]
    pub fn with(config: HistoryConfig) -> Self {
        // What never leaves the process needs no secret.
        Self::made(Inner::new(Shelf::new(config), Secret([0; 32])))
    }

    pub(super) fn made(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// A query found these tools, which a call may follow.
    ///
    /// It waits for ten minutes, as one of at most eight of its session.
    pub fn asked<T: AsRef<str>>(
        &self,
        who: &Principal,
        session: impl Hash,
        query: &str,
        found: impl IntoIterator<Item = T>,
    ) {
        let query = cut(query.trim(), TEXT);
        if !query.is_empty() {
            self.0.asks().asked(&Owner::of(who), session, query, found);
        }
    }

    /// A tool was called: the newest query of the session that found it is remembered with it.
    ///
    /// A call that failed, and one that no query of the session had found, teach nothing.
    pub fn called(&self, who: &Principal, session: impl Hash, tool: &str, outcome: Outcome) {
        if outcome == Outcome::Failed {
            return;
        }
        let query = self.0.asks().called(&Owner::of(who), session, tool);
        if let Some(query) = query {
            self.record(who, &query, tool);
        }
    }

    /// Remembers that a tool was called after a query.
    pub fn record(&self, who: &Principal, query: &str, tool: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.record_at(who, query, tool, now.map_or(0, |since| since.as_secs()));
        self.attend();
    }

    pub(super) fn record_at(&self, who: &Principal, query: &str, tool: &str, now: u64) {
        let query = cut(query.trim(), TEXT);
        let owner = Owner::of(who);
        let key = self.0.secret.key(&owner, query);
        let is_known = self.0.shelf().knows(key);
        let words = self.0.secret.words(&self.0.analyzer.query(query));
        let embedder = self.0.embedder().filter(|embedder| {
            !is_known && embedder.cost() == Cost::Small && self.keep() != Keep::Words
        });
        let vector = embedder.and_then(|embedder| embedder.embed(query).ok());
        let fresh = Fresh { owner, key, text: Some(query), words, vector, now };
        if !is_known && fresh.words.is_empty() && fresh.vector.is_none() {
            return;
        }
        self.0.shelf_mut().remember(&fresh, tool, 1);
    }

    /// Forgets. What is meant is gone from memory when this returns, and from the database, where there is one, when
    /// the future is ready; it is overwritten there, not only unlinked. Answers how many queries went.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not be written: then something of it may be left there.
    ///
    /// # Cancel safety
    /// The database is told before the future is returned; dropping it leaves open whether it could do it.
    #[must_use = "what went wrong is told here"]
    pub fn erase(&self, what: Erase<'_>) -> BoxFuture<'static, Result<usize, StoreError>> {
        {
            let mut asks = self.0.asks();
            match what {
                Erase::All => asks.forget(|_| true),
                Erase::Tenant(tenant) => asks.forget(|owner| owner.tenant == *tenant),
                Erase::Principal(who) => {
                    let erased = Owner::of(who);
                    asks.forget(|owner| *owner == erased);
                }
                Erase::Tool(tool) => asks.forget_tool(tool),
            }
        }
        #[cfg(feature = "sqlite")]
        if let Some(kept) = &self.0.kept {
            let erased = kept.erase(&self.0.shelf, what);
            self.attend();
            return erased;
        }
        let erased = self.0.shelf_mut().erase(what);
        self.attend();
        Box::pin(ready(Ok(erased)))
    }

    /// How much is remembered.
    #[must_use]
    pub fn stats(&self) -> HistoryStats {
        self.0.shelf().stats()
    }

    /// Does what is done in the background otherwise: makes vectors that are missing and fits what is learned to all
    /// that is remembered by now. It takes some ten milliseconds, and the time of the embedder.
    pub fn settle(&self) {
        let _alone = self.0.settling.lock().unwrap_or_else(PoisonError::into_inner);
        self.embed_missing();
        let titles: Vec<Title> = {
            let mut shelf = self.0.shelf_mut();
            shelf.is_due = false;
            let waiting = shelf.books.iter().filter(|(_, book)| book.news > 0);
            waiting.map(|(title, _)| title.clone()).collect()
        };
        for title in &titles {
            self.fit(title);
        }
    }

    /// Uses this embedder from now on, the one that makes the vectors of queries too.
    pub(crate) fn embed_with(&self, embedder: Option<Arc<dyn Embedder>>) {
        let dimensions = embedder.as_ref().map(|embedder| embedder.dimensions());
        {
            let mut shelf = self.0.shelf_mut();
            let mut known = self.0.embedder.write().unwrap_or_else(PoisonError::into_inner);
            let model =
                |of: &Option<Arc<dyn Embedder>>| of.as_ref().map(|of| of.model().to_owned());
            if model(&known) != model(&embedder) {
                // Vectors of different models have nothing to do with each other.
                shelf.dimensions(None);
            }
            let is_kept = shelf.config.keep != Keep::Words;
            shelf.dimensions(dimensions.filter(|_| is_kept));
            *known = embedder;
        }
        #[cfg(feature = "sqlite")]
        if let Some(kept) = &self.0.kept {
            kept.restore_vectors(&self.0);
        }
        self.attend();
    }

    /// Asks remembered queries again of this index from now on.
    pub(crate) fn ask_again(&self, again: Arc<dyn Again>) {
        *self.0.again.write().unwrap_or_else(PoisonError::into_inner) = Some(again);
    }

    /// What past calls say after a query.
    pub(crate) fn told(&self, who: &Principal, words: &Words, vector: Option<&[f32]>) -> Told {
        let shelf = self.0.shelf();
        let Some(book) = shelf.books.get(&shelf.title(&Owner::of(who))) else {
            return Told::default();
        };
        let words = self.0.secret.words(words);
        let fits = |vector: &&[f32]| {
            shelf.rows.as_ref().is_some_and(|rows| rows.dimensions() == vector.len())
        };
        let vector = vector.filter(fits);
        let seen = shelf.hints(book, Question { words: &words, vector, but: &[] });
        let (shares, none) = book.model.shares(&seen.hints);
        let told = seen.tools.iter().zip(seen.hints.tools).zip(shares);
        let mut views: Vec<View> = told
            .filter(|(_, share)| book.order.is_some() || *share >= LEAST)
            .filter_map(|((tool, hints), share)| {
                let tool = Arc::clone(&shelf.tools.get(*tool)?.id);
                Some(View { tool, share, lift: book.model.lift(share, none), hints })
            })
            .collect();
        views.sort_by(|left, right| {
            right.share.total_cmp(&left.share).then_with(|| left.tool.cmp(&right.tool))
        });
        Told { views, order: book.order }
    }

    fn keep(&self) -> Keep {
        self.0.shelf().config.keep
    }

    /// Has done what is due: on a thread for it where there is a runtime, else here and now.
    pub(super) fn attend(&self) {
        #[cfg(feature = "sqlite")]
        self.write_soon();
        if !self.is_due() || self.0.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let settle = move || {
            let _done = Settled(&this.0.is_settling);
            this.settle();
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(settle)),
            Err(_) => settle(),
        }
    }

    fn is_due(&self) -> bool {
        let shelf = self.0.shelf();
        shelf.is_due || shelf.bare(None).is_some()
    }

    fn embed_missing(&self) {
        let Some(embedder) = self.0.embedder() else { return };
        let mut after = None;
        loop {
            let next = {
                let shelf = self.0.shelf();
                shelf.bare(after).and_then(|place| {
                    let entry = shelf.entries.get(place)?;
                    Some((place, entry.key, entry.text.clone()?))
                })
            };
            let Some((place, key, text)) = next else { return };
            after = Some(place);
            let Ok(vector) = embedder.embed(&text) else { return };
            let mut shelf = self.0.shelf_mut();
            // It may have gone meanwhile, and another one may be there.
            if shelf.entries.get(place).is_some_and(|entry| entry.key == key) {
                shelf.place_vector(place, &vector);
            }
        }
    }

    /// Asks remembered queries again, each without itself, and fits the model to what was called.
    fn fit(&self, title: &Title) {
        let places: Vec<Place> = {
            let mut shelf = self.0.shelf_mut();
            shelf.weigh(title);
            let Some(book) = shelf.books.get_mut(title) else { return };
            book.news = 0;
            let every = book.len().div_ceil(EXAMPLES).max(1);
            book.turns.values().copied().step_by(every).collect()
        };
        // The lock is given back after each, because some ten thousandths of a second are long for who waits.
        let examples: Vec<_> = places
            .iter()
            .filter_map(|place| {
                let shelf = self.0.shelf();
                let book = shelf.books.get(title)?;
                if book.places.contains(*place) { shelf.example(book, *place) } else { None }
            })
            .collect();
        let model = Model::fit(&examples);
        if let Some(book) = self.0.shelf_mut().books.get_mut(title) {
            book.model = model;
        }
        self.fit_order(title, &places);
    }

    /// Has the index asked remembered queries again, and weighs its ranking against past calls by what was called.
    fn fit_order(&self, title: &Title, places: &[Place]) {
        let again = self.0.again.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(again) = again else { return };
        let is_small = self.0.embedder().is_none_or(|embedder| embedder.cost() == Cost::Small);
        let every = if is_small { 1 } else { COSTLY };
        let choices: Vec<_> = places
            .iter()
            .step_by(every)
            .filter_map(|place| {
                let remembered = {
                    let shelf = self.0.shelf();
                    let book = shelf.books.get(title)?;
                    book.places.contains(*place).then(|| shelf.remembered(book, *place))??
                };
                // An index that asks its history must find it unlocked.
                again.ask(&remembered)
            })
            .collect();
        let order = Order::fit(&choices);
        if let Some(book) = self.0.shelf_mut().books.get_mut(title) {
            book.order = order;
            book.is_unasked = choices.is_empty();
        }
    }

    /// The index has other tools now: what could not be asked again before is tried once more.
    pub(crate) fn look_again(&self) {
        {
            let is_waiting = |book: &Book| book.is_unasked && book.len() >= FEWEST;
            if !self.0.shelf().books.values().any(is_waiting) {
                return;
            }
            let mut shelf = self.0.shelf_mut();
            for book in shelf.books.values_mut().filter(|book| is_waiting(book)) {
                book.news = book.news.max(1);
            }
            shelf.is_due = true;
        }
        self.attend();
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what was asked: that is nobody's business who reads logs.
        f.debug_tuple("History").field(&self.stats()).finish()
    }
}

// === impl Inner ===

impl Inner {
    pub(super) fn new(shelf: Shelf, secret: Secret) -> Self {
        Self {
            shelf: RwLock::new(shelf),
            asks: Mutex::default(),
            analyzer: Analyzer::new(),
            embedder: RwLock::new(None),
            again: RwLock::new(None),
            secret,
            is_settling: AtomicBool::new(false),
            settling: Mutex::default(),
            #[cfg(feature = "sqlite")]
            kept: None,
        }
    }

    pub(super) fn shelf(&self) -> RwLockReadGuard<'_, Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shelf_mut(&self) -> RwLockWriteGuard<'_, Shelf> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn embedder(&self) -> Option<Arc<dyn Embedder>> {
        self.embedder.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next one settle, however this one ended.
struct Settled<'a>(&'a AtomicBool);

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
