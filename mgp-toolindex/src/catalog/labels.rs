//! Lists of short words that many tools share: categories and keywords (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

use super::pool::Pool;

/// A list of words, the same object wherever the list is the same.
pub(crate) type Labels = Arc<LabelList>;

/// A list of words.
#[derive(Debug)]
pub(crate) struct LabelList {
    /// Names the list; 0 is the empty one.
    pub(crate) number: u32,
    pub(crate) words: Box<[Arc<str>]>,
}

/// Makes lists.
#[derive(Debug)]
pub(crate) struct LabelMaker {
    words: Pool<str>,
    lists: Pool<LabelList>,
    empty: Labels,
    last: u32,
}

impl LabelMaker {
    pub(crate) fn new() -> Self {
        Self {
            words: Pool::default(),
            lists: Pool::default(),
            empty: Arc::new(LabelList { number: 0, words: Box::default() }),
            last: 0,
        }
    }

    /// The list of these words.
    pub(crate) fn list(&mut self, words: &[impl AsRef<str>]) -> Labels {
        if words.is_empty() {
            return Arc::clone(&self.empty);
        }
        let key: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        // No word has a control character in it.
        self.lists.get(&key.join("\n"), || {
            let words = key.iter().map(|word| self.words.get(word, || (*word).into()));
            // Numbers come around after four billion different lists; a list that old is long gone.
            self.last = self.last.wrapping_add(1).max(1);
            Arc::new(LabelList { number: self.last, words: words.collect() })
        })
    }
}
