//! Corrects the misspelled words of a query (MGP §16.5).
//!
//! `lexicon/translate.rs` finds the misspelled words, and `keyword/fuzzy.rs` chooses the words that are meant. Without
//! the features `lexicon` and `static-table`, no word is corrected.

use super::named;
use super::view::Search;
use crate::error::IndexError;
use crate::lexicon::{has_english, misspelled};

/// The maximum number of misspelled words of a query that are corrected.
const MAX_TRIED_WORDS: usize = 4;

/// Replaces the misspelled words of an English query by words in the names of the tools that the search can find.
///
/// Returns `None` if no word can be corrected, or if the query as a whole is similar to the name of a tool.
pub(super) fn correct(search: &Search<'_>, text: &str) -> Result<Option<String>, IndexError> {
    let view = search.view;
    let words = misspelled(text, &|word| search.has_word(word));
    if words.is_empty() || !named::find(search, text, &view.analyzer.query(text))?.is_empty() {
        return Ok(None);
    }
    let (mut corrected, mut copied) = (String::new(), 0);
    for range in words.into_iter().take(MAX_TRIED_WORDS) {
        let word = text[range.clone()].to_lowercase();
        if let Some(meant) = view.keywords.correction(&word, search.within, &has_english)? {
            corrected.push_str(&text[copied..range.start]);
            corrected.push_str(&meant);
            copied = range.end;
        }
    }
    if copied == 0 {
        return Ok(None);
    }
    corrected.push_str(&text[copied..]);
    Ok(Some(corrected))
}
