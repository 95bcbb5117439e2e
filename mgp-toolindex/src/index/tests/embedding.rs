//! Tests of vectors that are computed in the background.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::{tool, *};
use crate::embed::{Cost, EmbedError, Embedder};

/// An embedder whose vectors count the words of a text, and which records all texts.
pub(super) struct Fake {
    model: &'static str,
    cost: Cost,
    asked: Mutex<Vec<String>>,
    /// The number of further texts that the embedder accepts before it blocks.
    free: Mutex<usize>,
    freed: Condvar,
    /// The number of texts after which the model is unavailable.
    breaks_at: AtomicUsize,
}

impl Fake {
    pub(super) fn new(model: &'static str, cost: Cost) -> Arc<Self> {
        Arc::new(Self {
            model,
            cost,
            asked: Mutex::default(),
            free: Mutex::new(usize::MAX),
            freed: Condvar::new(),
            breaks_at: AtomicUsize::new(usize::MAX),
        })
    }

    fn blocked(model: &'static str) -> Arc<Self> {
        let fake = Self::new(model, Cost::Large);
        *fake.free.lock().unwrap() = 0;
        fake
    }

    fn allow(&self, texts: usize) {
        *self.free.lock().unwrap() = texts;
        self.freed.notify_all();
    }

    /// Returns and clears the recorded texts.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model)
    }
}

impl Embedder for Fake {
    fn model(&self) -> &str {
        self.model
    }

    fn dimensions(&self) -> usize {
        48
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.asked.lock().unwrap().push(text.to_owned());
        let mut free = self.freed.wait_while(self.free.lock().unwrap(), |free| *free == 0).unwrap();
        *free = free.saturating_sub(usize::from(*free != usize::MAX));
        drop(free);
        let (model, reason) = (self.model.to_owned(), "gone".to_owned());
        if self.asked.lock().unwrap().len() > self.breaks_at.load(Ordering::Relaxed) {
            return Err(EmbedError::Unavailable { model, reason });
        }
        if text.contains("unspeakable") {
            return Err(EmbedError::Failed { model, reason });
        }
        let mut vector = vec![0.0; 48];
        for word in text.to_lowercase().split(|letter: char| !letter.is_alphanumeric()) {
            let place =
                word.bytes().fold(7_usize, |hash, byte| hash * 31 % 1009 + usize::from(byte));
            vector[place % 48] += 1.0;
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in &mut vector {
            *value /= length.max(1.0);
        }
        Ok(vector)
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}

fn index(fake: &Arc<Fake>) -> ToolIndex {
    ToolIndex::builder().embedder(Arc::clone(fake) as Arc<dyn Embedder>).build()
}

fn server(id: &str, tools: usize) -> ServerEntry {
    let tools = (0..tools).map(|at| tool(&format!("{id}_{at}"), &format!("Does {id} number {at}")));
    ServerEntry::new(id).tools(tools)
}

#[tokio::test]
async fn a_put_does_not_wait_for_vectors() {
    let fake = Fake::blocked("slow");
    let index = index(&fake);
    index.put(files()).unwrap();
    index.put(mail()).unwrap();
    assert_eq!((index.stats().embedded, index.stats().embedding), (0, 4));
    let now = index.shared.snapshot();
    assert_eq!(now.vectors.as_ref().unwrap().len(), 0, "nothing was waited for");

    fake.allow(usize::MAX);
    index.embedded().await.unwrap();
    assert_eq!((index.stats().embedded, index.stats().embedding), (4, 0));
    let now = index.shared.snapshot();
    assert_eq!(now.servers.as_ref().unwrap().len(), 2, "servers have one too");
    let slot = now.catalog.find("mail", "send_mail").unwrap();
    let asked = fake.embed("Sends a letter to somebody").unwrap();
    let best = now.vectors.as_ref().unwrap().top(&[&asked], 1, None);
    assert_eq!(best[0][0].0, slot);
}

#[tokio::test]
async fn the_most_recently_changed_server_is_embedded_first() {
    let fake = Fake::blocked("slow");
    let index = index(&fake);
    index.put(server("first", 1)).unwrap();
    // Wait until the thread embeds the first tool; it finds the other tools afterwards.
    while fake.asked.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    for id in ["second", "third", "fourth"] {
        index.put(server(id, 2)).unwrap();
    }
    index.put(server("second", 3)).unwrap();
    index.remove("third").unwrap();
    fake.allow(usize::MAX);
    index.embedded().await.unwrap();
    let order: Vec<_> = fake
        .take()
        .iter()
        .filter_map(|text| {
            ["first", "second", "third", "fourth"].into_iter().find(|id| text.contains(id))
        })
        .collect();
    let mut servers = order;
    servers.dedup();
    assert_eq!(
        servers,
        ["first", "second", "fourth", "first"],
        "the last one is the server itself"
    );
    assert_eq!((index.stats().embedded, index.stats().embedding), (6, 0));
}

#[tokio::test]
async fn a_tool_that_changed_keeps_its_old_vector_until_it_has_a_new_one() {
    let fake = Fake::new("slow", Cost::Large);
    let index = index(&fake);
    index.put(mail()).unwrap();
    index.embedded().await.unwrap();
    let slot = index.shared.snapshot().catalog.find("mail", "send_mail").unwrap();
    let row = || index.shared.snapshot().vectors.as_ref().unwrap().row(slot).unwrap().to_vec();
    let old = row();

    fake.allow(0);
    let changed = tool("send_mail", "Throws a bottle into the sea");
    index.put(ServerEntry::new("mail").name("Mail").tool(changed)).unwrap();
    assert_eq!(row(), old);
    assert_eq!(index.stats().embedding, 1);
    fake.allow(usize::MAX);
    index.embedded().await.unwrap();
    assert_ne!(row(), old);

    index.remove("mail").unwrap();
    assert!(index.shared.snapshot().vectors.as_ref().unwrap().row(slot).is_none());
}

#[tokio::test]
async fn a_tool_that_cannot_be_embedded_blocks_no_other() {
    let fake = Fake::new("slow", Cost::Large);
    let index = index(&fake);
    index.put(ServerEntry::new("odd").tool(tool("odd", "unspeakable"))).unwrap();
    index.put(files()).unwrap();
    index.embedded().await.unwrap();
    let stats = index.stats();
    assert_eq!((stats.embedded, stats.embedding, stats.not_embedded), (3, 0, 1));
    assert_eq!(search(&index, "unspeakable")[0], "odd.odd");
    index.put(ServerEntry::new("odd").tool(tool("odd", "speakable"))).unwrap();
    index.embedded().await.unwrap();
    assert_eq!((index.stats().embedded, index.stats().not_embedded), (4, 0));
    index.put(ServerEntry::new("odd").tool(tool("odd", "unspeakable"))).unwrap();
    index.embedded().await.unwrap();
    index.remove("odd").unwrap();
    assert_eq!((index.stats().embedded, index.stats().not_embedded), (3, 0));
}

#[tokio::test]
async fn a_server_whose_new_description_cannot_be_embedded_loses_its_old_vector() {
    for cost in [Cost::Small, Cost::Large] {
        let index = index(&Fake::new("fake", cost));
        index.put(mail()).unwrap();
        index.embedded().await.unwrap();
        let number = index.shared.snapshot().catalog.server_number("mail").unwrap();
        let has_vector = || {
            index.shared.snapshot().servers.as_ref().is_some_and(|all| all.row(number).is_some())
        };
        assert!(has_vector(), "{cost:?}");
        index.put(mail().description("unspeakable")).unwrap();
        index.embedded().await.unwrap();
        assert!(!has_vector(), "{cost:?}");
    }
}

#[test]
fn each_change_of_texts_or_vectors_has_a_higher_version() {
    let index = index(&Fake::new("fast", Cost::Small));
    index.put(files()).unwrap();
    let version = || index.shared.snapshot().content_version;
    let before = version();
    index.set_state("files", ServerState::Error);
    assert_eq!(version(), before);
    let slot = index.shared.snapshot().catalog.find("files", "read_file").unwrap();
    // A zero vector has no direction, so setting it removes the tool's vector, which is a change as well.
    for vector in [[1.0; 48], [0.0; 48]] {
        let before = version();
        index.shared.set_vectors(|next| next.vectors.as_mut().unwrap().set(slot, &vector));
        assert!(version() > before, "{vector:?}");
    }
    let before = version();
    index.remove("files").unwrap();
    assert!(version() > before);
}

/// An embedder that panics, as an embedder from outside this crate might do.
#[derive(Debug)]
struct Rash;

impl Embedder for Rash {
    fn model(&self) -> &'static str {
        "rash"
    }

    fn dimensions(&self) -> usize {
        48
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(vec![text.parse().unwrap(); 48])
    }

    fn cost(&self) -> Cost {
        Cost::Large
    }
}

#[tokio::test]
async fn a_panic_of_the_embedder_is_reported() {
    let index = ToolIndex::builder().embedder(Arc::new(Rash)).build();
    index.put(files()).unwrap();
    let error = index.embedded().await.unwrap_err();
    assert_eq!(error.to_string(), "the model `rash` failed: the embedder panicked");
    assert_eq!(index.stats().embedding, 3);
    index.put(mail()).unwrap();
    assert!(index.embedded().await.is_err());
}

#[tokio::test]
async fn an_unavailable_model_is_reported_and_retried_after_the_next_change() {
    let fake = Fake::new("slow", Cost::Large);
    fake.breaks_at.store(0, Ordering::Relaxed);
    let index = index(&fake);
    index.put(files()).unwrap();
    let error = index.embedded().await.unwrap_err();
    assert!(matches!(error, EmbedError::Unavailable { .. }), "{error}");
    assert_eq!(search(&index, "reads the contents")[0], "files.read_file");
    let fallback = index.search(&Query::new("read"), &AllTools).unwrap().fallback.unwrap();
    assert_eq!(fallback.reason.to_string(), "fewer than half of the tools have a vector yet");
    assert_eq!(index.stats().embedding, 3);

    fake.breaks_at.store(usize::MAX, Ordering::Relaxed);
    index.put(mail()).unwrap();
    index.embedded().await.unwrap();
    assert_eq!((index.stats().embedded, index.stats().embedding), (4, 0));
}

#[tokio::test]
async fn an_index_that_is_dropped_embeds_no_more() {
    let fake = Fake::blocked("slow");
    let index = index(&fake);
    index.put(server("many", 500)).unwrap();
    let mut progress = index.shared.embedding.progress();
    while fake.asked.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(index);
    fake.allow(usize::MAX);
    while progress.changed().await.is_ok() {}
    while Arc::strong_count(&fake) > 1 {
        tokio::task::yield_now().await;
    }
    assert!(fake.take().len() < 40);
}

#[test]
fn an_index_is_shared_by_threads_while_vectors_are_made() {
    let fake = Fake::new("slow", Cost::Large);
    let index = index(&fake);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..10 {
                    index.put(server(&format!("s{thread}"), 1 + round % 7)).unwrap();
                    search(index, "does number");
                    if round % 3 == 0 {
                        index.remove(&format!("s{}", (thread + 1) % 4)).unwrap();
                    }
                }
            });
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(index.embedded()).unwrap();
    let stats = index.stats();
    assert_eq!((stats.embedded, stats.embedding), (stats.tools, 0));
}
