//! Rewords a query before its words are looked up (MGP §16.5).

use std::borrow::Cow;

use super::creation;
use super::exclusion::Exclusion;
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
