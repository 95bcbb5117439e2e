//! The words of some documents, gathered by word (MGP §16.4).
//!
//! Tantivy gathers them in megabytes that it takes before the first word, however few there are; these lists take what
//! they have.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::io;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::FieldSerializer;

/// What a word takes beside its letters and documents, in bytes.
const WORD: usize = 80;

/// What a document takes in the list of a word, in bytes.
const POST: usize = size_of::<Post>();

/// How many posts lie together. One long list would grow by moving, and leave a hole as large behind.
const TOGETHER: usize = 4096;

/// The words of one field of some documents.
#[derive(Default)]
pub(super) struct Gathered {
    known: HashMap<Box<str>, u32, ahash::RandomState>,
    lists: Vec<List>,
    posts: Posts,
    /// For each document the byte that stands for its length.
    lengths: Vec<u8>,
    /// How many words all documents have.
    total: u64,
    /// How many letters the words have.
    letters: usize,
}

/// The documents of a word, chained through the posts.
struct List {
    first: u32,
    last: u32,
    documents: u32,
}

/// Documents that have a word, by number.
#[derive(Default)]
struct Posts {
    chunks: Vec<Vec<Post>>,
    len: usize,
}

/// A document that has a word.
struct Post {
    doc: u32,
    times: u32,
    /// The next one of the word, if there is one.
    next: u32,
}

impl Gathered {
    /// Adds the words of the next document.
    pub(super) fn add(&mut self, text: &str) {
        let doc = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let mut words = 0;
        for word in text.split_ascii_whitespace() {
            words += 1;
            self.add_word(doc, word);
        }
        self.total += u64::from(words);
        self.lengths.push(FieldNormReader::fieldnorm_to_id(words));
    }

    fn add_word(&mut self, doc: u32, word: &str) {
        let at = u32::try_from(self.posts.len).unwrap_or(u32::MAX);
        let post = Post { doc, times: 1, next: u32::MAX };
        let Some(list) = self.known.get(word) else {
            let number = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
            self.letters += word.len();
            self.known.insert(word.into(), number);
            self.lists.push(List { first: at, last: at, documents: 1 });
            return self.posts.push(post);
        };
        let list = &mut self.lists[*list as usize];
        let Some(last) = self.posts.get_mut(list.last) else { return };
        if last.doc == doc {
            last.times += 1;
        } else {
            last.next = at;
            list.last = at;
            list.documents += 1;
            self.posts.push(post);
        }
    }

    /// For each document the byte that stands for its length.
    pub(super) fn lengths(&self) -> &[u8] {
        &self.lengths
    }

    /// How many words all documents have.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How much memory it takes, about.
    pub(super) fn bytes(&self) -> usize {
        POST * self.posts.len + WORD * self.lists.len() + self.letters
    }

    /// Writes all words in their order, each with its documents.
    pub(super) fn write(&self, field: &mut FieldSerializer<'_>) -> io::Result<()> {
        let mut words: Vec<(&str, &List)> =
            self.known.iter().map(|(word, list)| (&**word, &self.lists[*list as usize])).collect();
        words.sort_unstable_by_key(|(word, _)| *word);
        for (word, list) in words {
            field.new_term(word.as_bytes(), list.documents, true)?;
            let mut next = Some(list.first);
            while let Some(post) = next.and_then(|at| self.posts.get(at)) {
                field.write_doc(post.doc, post.times, &[]);
                next = (post.next != u32::MAX).then_some(post.next);
            }
            field.close_term()?;
        }
        Ok(())
    }
}

impl Posts {
    fn get(&self, at: u32) -> Option<&Post> {
        let at = at as usize;
        self.chunks.get(at / TOGETHER)?.get(at % TOGETHER)
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut Post> {
        let at = at as usize;
        self.chunks.get_mut(at / TOGETHER)?.get_mut(at % TOGETHER)
    }

    fn push(&mut self, post: Post) {
        if self.len.is_multiple_of(TOGETHER) {
            // The first grows with what there is; after it there is much.
            let room = if self.len == 0 { 0 } else { TOGETHER };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(post);
            self.len += 1;
        }
    }
}
