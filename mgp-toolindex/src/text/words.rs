//! The words a query asks for (MGP §16.4).
//!
//! Applies to: inbound.

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In all that is known of a tool.
    #[default]
    Text,
    /// In its name only.
    Name,
}

/// A word to look for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// The word as the index has it.
    pub(crate) text: String,
    /// How much it counts: one, or less for a part of a word. Saying it twice does not make it count twice.
    pub(crate) weight: f32,
    /// Where it is looked for.
    pub(crate) place: Place,
}

/// The words of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    /// What is looked for, each once.
    pub(crate) terms: Vec<Term>,
    /// The words in lower case as they were said, each once; for words with typing errors.
    pub(crate) raw: Vec<String>,
    /// The whole query with nothing but its letters and digits, if it may be a name; for names with typing errors.
    pub(crate) whole: String,
}

impl Words {
    /// Whether there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Looks for a word; one that is looked for already counts what it counts most.
    pub(crate) fn add(&mut self, text: &str, weight: f32) {
        match self.terms.iter_mut().find(|term| term.text == text && term.place == Place::Text) {
            Some(term) => term.weight = term.weight.max(weight),
            None => self.terms.push(Term { text: text.to_owned(), weight, place: Place::Text }),
        }
    }
}
