//! Makes words of texts: identifiers split and kept whole, stems, pairs of characters (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

use super::fold::fold_name;
use super::split::{Piece, split};
use super::stem::{Memo, Stems};
use super::stop::is_stop;
use super::words::Words;

/// What a single character of a pair counts, where a pair counts one: it finds words of one character, and particles too.
const SINGLE: f32 = 0.2;

/// The most different words a query asks for; more come from texts that were pasted.
const MOST_WORDS: usize = 64;

/// Makes words of what is asked, the same as [`Indexer`] makes of what is indexed.
#[derive(Clone, Debug)]
pub(crate) struct Analyzer {
    stems: Arc<Stems>,
}

/// Makes words of what is indexed; it remembers words, so that it is for many texts and not for keeping.
#[derive(Debug)]
pub(crate) struct Indexer {
    memo: Memo,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self { stems: Arc::new(Stems::new()) }
    }

    /// The words to ask for: none that say nothing, unless nothing else is left.
    pub(crate) fn query(&self, text: &str) -> Words {
        let words = self.ask(text, is_stop);
        if words.is_empty() { self.ask(text, |_| false) } else { words }
    }

    /// The stem of each word, for comparing single words.
    pub(crate) fn stem(&self, word: &str) -> String {
        self.stems.stem(word).into_owned()
    }

    fn ask(&self, text: &str, is_left_out: fn(&str) -> bool) -> Words {
        let mut words = Words { whole: fold_name(text), ..Words::default() };
        split(text, &mut |piece| {
            let (text, weight) = match piece {
                Piece::Word(word) if is_left_out(word) => return,
                Piece::Word(word) => {
                    if words.raw.len() < MOST_WORDS && !words.raw.iter().any(|raw| raw == word) {
                        words.raw.push(word.to_owned());
                    }
                    (self.stems.stem(word), 1.0)
                }
                Piece::Whole(word) => (self.stems.stem(word), 1.0),
                Piece::Pair(text) | Piece::Single { text, alone: true } => (text.into(), 1.0),
                Piece::Single { text, alone: false } => (text.into(), SINGLE),
            };
            if words.terms.len() < MOST_WORDS || words.terms.iter().any(|term| term.text == text) {
                words.add(&text, weight);
            }
        });
        words
    }
}

impl Indexer {
    pub(crate) fn new() -> Self {
        Self { memo: Memo::new() }
    }

    /// Appends the words of a text, with spaces between them.
    pub(crate) fn index(&mut self, text: &str, out: &mut String) {
        let memo = &mut self.memo;
        split(text, &mut |piece| {
            if !out.is_empty() {
                out.push(' ');
            }
            match piece {
                Piece::Word(word) | Piece::Whole(word) => memo.push(word, out),
                Piece::Pair(text) | Piece::Single { text, .. } => out.push_str(text),
            }
        });
    }

    /// Appends the stem of a word.
    pub(crate) fn push_stem(&mut self, word: &str, out: &mut String) {
        self.memo.push(word, out);
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

    fn asked(text: &str) -> Vec<String> {
        Analyzer::new().query(text).terms.into_iter().map(|term| term.text).collect()
    }

    #[test]
    fn what_is_asked_is_what_is_indexed() {
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
            let found = asked(query).iter().any(|word| indexed.split(' ').any(|w| w == word));
            assert!(found, "{query}: {:?} in {indexed}", asked(query));
        }
    }

    #[test]
    fn words_that_say_nothing_are_asked_only_alone() {
        assert_eq!(asked("can you read the file"), ["read", "file"]);
        assert_eq!(asked("what is this"), ["what", "is", "this"]);
        assert_eq!(asked(" ?! "), Vec::<String>::new());
    }

    #[test]
    fn a_word_said_twice_counts_once() {
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
            // At most each part, the whole, and for dense scripts a single and a pair.
            prop_assert!(indexed.len() <= 16 * text.len().max(1));
            prop_assert!(indexed.split(' ').all(|word| word.len() <= 80));
            prop_assert!(!indexed.contains(char::is_control) && !indexed.contains("  "));
            let words = Analyzer::new().query(&text);
            prop_assert!(words.terms.len() <= MOST_WORDS);
            // Every word that is asked for is one that the text itself is indexed under.
            for term in &words.terms {
                prop_assert!(indexed.split(' ').any(|word| word == term.text), "{:?} {indexed}", term);
            }
        }
    }
}
