//! Splits texts into the words that are indexed: identifiers as a whole and in parts, stems, and pairs of characters
//! (MGP §16.4).

use std::sync::Arc;

use super::fold::fold_name;
use super::query_words::QueryWords;
use super::split::{Piece, split};
use super::stem::{StemCache, WordStemmer};
use super::stop::is_stop_word;

/// The weight in a query of a single character in a script without spaces; a pair of characters has the weight 1.
/// Single characters find words of one character, but also particles, so their weight is low.
const SINGLE_WEIGHT: f32 = 0.2;

/// The maximum number of distinct words of a query; only pasted documents have more words.
const MAX_TERMS: usize = 64;

/// An analyser that splits queries into words, with the same rules that [`Indexer`] uses for tools.
#[derive(Clone, Debug)]
pub(crate) struct Analyzer {
    stems: Arc<WordStemmer>,
}

/// An analyser that splits tools into words. It caches stems, so create one for each batch of tools, and drop it
/// afterwards.
#[derive(Debug)]
pub(crate) struct Indexer {
    cache: StemCache,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self { stems: Arc::new(WordStemmer::new()) }
    }

    /// Returns the words to look up. Stop words are left out, unless the text contains only stop words.
    pub(crate) fn query(&self, text: &str) -> QueryWords {
        let words = self.split_query(text, is_stop_word);
        if words.is_empty() { self.split_query(text, |_| false) } else { words }
    }

    pub(crate) fn stem(&self, word: &str) -> String {
        self.stems.stem(word).into_owned()
    }

    fn split_query(&self, text: &str, is_left_out: fn(&str) -> bool) -> QueryWords {
        let mut words = QueryWords { whole: fold_name(text), ..QueryWords::default() };
        split(text, &mut |piece| {
            let (text, weight) = match piece {
                Piece::Word(word) if is_left_out(word) => return,
                Piece::Word(word) => {
                    if words.raw.len() < MAX_TERMS && !words.raw.iter().any(|raw| raw == word) {
                        words.raw.push(word.to_owned());
                    }
                    (self.stems.stem(word), 1.0)
                }
                Piece::Whole(word) => (self.stems.stem(word), 1.0),
                Piece::Pair(text) | Piece::Single { text, alone: true } => (text.into(), 1.0),
                Piece::Single { text, alone: false } => (text.into(), SINGLE_WEIGHT),
            };
            if words.terms.len() < MAX_TERMS || words.terms.iter().any(|term| term.text == text) {
                words.add(&text, weight);
            }
        });
        words
    }
}

impl Indexer {
    pub(crate) fn new() -> Self {
        Self { cache: StemCache::new() }
    }

    /// Appends the words of a text, separated by spaces.
    pub(crate) fn index(&mut self, text: &str, out: &mut String) {
        let cache = &mut self.cache;
        split(text, &mut |piece| {
            if !out.is_empty() {
                out.push(' ');
            }
            match piece {
                Piece::Word(word) | Piece::Whole(word) => cache.push(word, out),
                Piece::Pair(text) | Piece::Single { text, .. } => out.push_str(text),
            }
        });
    }

    pub(crate) fn push_stem(&mut self, word: &str, out: &mut String) {
        self.cache.push(word, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(text: &str) -> String {
        let mut out = String::new();
        Indexer::new().index(text, &mut out);
        out
    }

    fn query_terms(text: &str) -> Vec<String> {
        Analyzer::new().query(text).terms.into_iter().map(|term| term.text).collect()
    }

    #[test]
    fn a_query_finds_the_words_of_a_tool() {
        for (tool, query) in [
            ("read_files", "reading a file"),
            ("listPullRequests", "list pull request"),
            ("getDNSRecord", "dns records"),
            ("postgresql_query", "PostgreSQL"),
            ("base64_encode", "base64"),
            ("读取文件的内容", "文件"),
            ("파일을 읽습니다", "파일"),
            ("ファイルを読む", "ファイル"),
            ("Café finder", "cafe"),
        ] {
            let indexed = index(tool);
            let found = query_terms(query).iter().any(|word| indexed.split(' ').any(|w| w == word));
            assert!(found, "{query}: {:?} in {indexed}", query_terms(query));
        }
    }

    #[test]
    fn stop_words_are_looked_up_only_alone() {
        assert_eq!(query_terms("can you read the file"), ["read", "file"]);
        assert_eq!(query_terms("what is this"), ["what", "is", "this"]);
        assert_eq!(query_terms(" ?! "), Vec::<String>::new());
    }

    #[test]
    fn a_repeated_word_counts_once() {
        let words = Analyzer::new().query("file to file");
        assert_eq!(words.terms.len(), 1);
        assert!((words.terms[0].weight - 1.0).abs() < f32::EPSILON);
        assert_eq!(words.raw, ["file"]);
        assert_eq!(words.whole, "filetofile");
    }

    proptest! {
        #[test]
        fn any_text_becomes_clean_words(text in "\\PC{0,200}|[\\x00-\\x7f]{0,200}|[一-龥가-힣ぁ-ヿ_A-z0-9 ]{0,100}") {
            let indexed = index(&text);
            // Each part of the text adds at most one word, one whole identifier and, in scripts without spaces, a
            // character and a pair.
            prop_assert!(indexed.len() <= 16 * text.len().max(1));
            prop_assert!(indexed.split(' ').all(|word| word.len() <= 80));
            prop_assert!(!indexed.contains(char::is_control) && !indexed.contains("  "));
            let words = Analyzer::new().query(&text);
            prop_assert!(words.terms.len() <= MAX_TERMS);
            // If a text is indexed, each word of the same text as a query must be among its indexed words.
            for term in &words.terms {
                prop_assert!(indexed.split(' ').any(|word| word == term.text), "{:?} {indexed}", term);
            }
        }
    }
}
