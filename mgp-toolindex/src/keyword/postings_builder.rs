//! Builds the postings of some documents in memory, i.e. for each word the documents that contain it (MGP §16.4).
//!
//! This builder grows with its content, whereas the builder of tantivy allocates megabytes before the first word.

use std::collections::HashMap;
use std::io;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::FieldSerializer;

/// The estimated memory for a word, without its letters and postings, in bytes.
const WORD_BYTES: usize = 80;

const POSTING_BYTES: usize = size_of::<Posting>();

/// The number of postings in a chunk. Postings are stored in chunks, because a growing list would move in memory and
/// leave a gap of its old size.
const CHUNK_LEN: usize = 4096;

/// The words of one field of all documents that were added.
#[derive(Default)]
pub(super) struct PostingsBuilder {
    terms: HashMap<Box<str>, u32, ahash::RandomState>,
    lists: Vec<WordPostings>,
    posts: PostingChunks,
    /// The number of words of each document, rounded and encoded in a byte.
    lengths: Vec<u8>,
    /// The number of words in all documents.
    total: u64,
    /// The number of bytes of all distinct words.
    letters: usize,
}

/// The postings of a word, as a linked list in [`PostingChunks`].
struct WordPostings {
    first: u32,
    last: u32,
    documents: u32,
}

#[derive(Default)]
struct PostingChunks {
    chunks: Vec<Vec<Posting>>,
    len: usize,
}

/// A document that contains a word, and the number of times that the word occurs in it.
struct Posting {
    doc: u32,
    times: u32,
    /// The index of the word's next posting, or `u32::MAX` at the end.
    next: u32,
}

impl PostingsBuilder {
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
        let post = Posting { doc, times: 1, next: u32::MAX };
        let Some(list) = self.terms.get(word) else {
            let number = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
            self.letters += word.len();
            self.terms.insert(word.into(), number);
            self.lists.push(WordPostings { first: at, last: at, documents: 1 });
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

    pub(super) fn lengths(&self) -> &[u8] {
        &self.lengths
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        POSTING_BYTES * self.posts.len + WORD_BYTES * self.lists.len() + self.letters
    }

    /// Writes all words in order, each with its documents.
    pub(super) fn write(&self, field: &mut FieldSerializer<'_>) -> io::Result<()> {
        let mut words: Vec<(&str, &WordPostings)> =
            self.terms.iter().map(|(word, list)| (&**word, &self.lists[*list as usize])).collect();
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

impl PostingChunks {
    fn get(&self, at: u32) -> Option<&Posting> {
        let at = at as usize;
        self.chunks.get(at / CHUNK_LEN)?.get(at % CHUNK_LEN)
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut Posting> {
        let at = at as usize;
        self.chunks.get_mut(at / CHUNK_LEN)?.get_mut(at % CHUNK_LEN)
    }

    fn push(&mut self, post: Posting) {
        if self.len.is_multiple_of(CHUNK_LEN) {
            // The first chunk grows with its content. Allocate later chunks with their full size, because the list is
            // then likely to grow further.
            let room = if self.len == 0 { 0 } else { CHUNK_LEN };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(post);
            self.len += 1;
        }
    }
}
