//! Shared lists of short words, used for categories and keywords (MGP §16.4).

use std::sync::Arc;

use super::interner::Interner;

/// An interned list: equal lists are one shared object.
pub(crate) type Labels = Arc<LabelList>;

#[derive(Debug)]
pub(crate) struct LabelList {
    /// The number that identifies the list; the empty list has 0.
    pub(crate) number: u32,
    pub(crate) words: Box<[Arc<str>]>,
}

#[derive(Debug)]
pub(crate) struct LabelInterner {
    words: Interner<str>,
    lists: Interner<LabelList>,
    empty: Labels,
    last: u32,
}

impl LabelInterner {
    pub(crate) fn new() -> Self {
        Self {
            words: Interner::default(),
            lists: Interner::default(),
            empty: Arc::new(LabelList { number: 0, words: Box::default() }),
            last: 0,
        }
    }

    /// Returns the shared list with these words.
    pub(crate) fn list(&mut self, words: &[impl AsRef<str>]) -> Labels {
        if words.is_empty() {
            return Arc::clone(&self.empty);
        }
        let key: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        // A line feed is a safe separator, because no word contains a control character.
        self.lists.get(&key.join("\n"), || {
            let words = key.iter().map(|word| self.words.get(word, || (*word).into()));
            // The number wraps around after four billion different lists; by then, the earlier list with the same
            // number has been dropped long ago.
            self.last = self.last.wrapping_add(1).max(1);
            Arc::new(LabelList { number: self.last, words: words.collect() })
        })
    }
}
