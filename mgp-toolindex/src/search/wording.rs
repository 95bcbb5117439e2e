//! Rewords a query before its words are looked up (MGP §16.5).

use std::borrow::Cow;

use super::creation;
use super::exclusion::Exclusion;
use super::named;
use super::negation::Negation;
use super::quotation::without_quotations;
use super::spelling;
use super::view::Search;
use crate::error::IndexError;
use crate::lexicon::{Translation, translate};

/// The wording of a query in a search: without long quotations, excluded servers and negated verbs.
#[derive(Debug)]
pub(super) struct Wording<'a> {
    /// The query in its own language, with typing errors corrected.
    pub(super) text: Cow<'a, str>,
    /// The query in the words that tools use, i.e. translated to English, or with the usual verb for creating a thing.
    /// `None` if these are the words of the query already.
    pub(super) translation: Option<Translation>,
    /// The servers that the query excludes.
    pub(super) exclusion: Option<Exclusion>,
    /// The verbs that the query negates.
    pub(super) negation: Option<Negation>,
}

impl<'a> Wording<'a> {
    pub(super) fn of(search: &Search<'_>, query: &'a str) -> Result<Self, IndexError> {
        let mut text = without_quotations(query);
        let exclusion = Exclusion::cut(search, &mut text);
        let mut translation = translate(&text, &|word| search.has_word(word));
        if let Some(translated) = &translation
            && is_misread(search, &text, translated)?
        {
            translation = None;
        }
        if translation.is_none() {
            if let Some(corrected) = spelling::correct(search, &text)? {
                text = Cow::Owned(corrected);
            }
            translation = creation::in_usual_words(&text);
        }
        let negation = Negation::cut(&mut text, translation.as_mut(), search.view.analyzer);
        Ok(Self { text, translation, exclusion, negation })
    }

    /// Returns the text whose words and meaning are looked up.
    pub(super) fn searched(&self) -> &str {
        self.translation.as_ref().map_or(&*self.text, |translation| &*translation.text)
    }
}

/// Returns whether a translation misreads a query that names tools or a server: `brave` is also a French word.
///
/// The words of such a query are in the name of a tool, or are the id of a server. If these tools also have the
/// translated words, e.g. because they are described in the language of the query, the translation finds them, too.
fn is_misread(
    search: &Search<'_>,
    text: &str,
    translation: &Translation,
) -> Result<bool, IndexError> {
    if !text.is_ascii() {
        return Ok(false);
    }
    let view = search.view;
    let named = match named::with_all_words(search, &view.analyzer.query(text))? {
        Some(tools) => tools,
        None => named::tools_of_server(search, text).into_iter().collect(),
    };
    if named.count() == 0 {
        return Ok(false);
    }
    let lesser = translation.lesser.iter().map(|(word, _)| view.analyzer.stem(word));
    let lesser: Vec<String> = lesser.collect();
    let mut terms = view.analyzer.query(&translation.text).terms.into_iter();
    Ok(terms.any(|term| {
        !lesser.contains(&term.text) && !view.keywords.has_word(&term.text, Some(&named))
    }))
}
