//! The words of a query (MGP §16.4).

/// The field in which a word is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Field {
    /// All texts of a tool, including its name.
    #[default]
    Text,
    /// Only the name of a tool.
    Name,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// The word as it is indexed.
    pub(crate) text: String,
    /// The weight of the word in the score: 1, or less e.g. for a related word or a single character. A repeated word
    /// does not get a higher weight.
    pub(crate) weight: f32,
    pub(crate) place: Field,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueryWords {
    /// The words to look up, without duplicates.
    pub(crate) terms: Vec<Term>,
    /// The words in lower case before stemming, without duplicates; used to find misspelled words.
    pub(crate) raw: Vec<String>,
    /// The letters and digits of the whole query, for the comparison with names that may have typing errors; empty if
    /// the query is too long for a name.
    pub(crate) whole: String,
}

impl QueryWords {
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Adds a word; if the query already has the word, the higher weight applies.
    pub(crate) fn add(&mut self, text: &str, weight: f32) {
        match self.terms.iter_mut().find(|term| term.text == text && term.place == Field::Text) {
            Some(term) => term.weight = term.weight.max(weight),
            None => self.terms.push(Term { text: text.to_owned(), weight, place: Field::Text }),
        }
    }

    /// Returns the index of a word in `terms`; adds the word with weight 1 if `terms` does not have it.
    pub(crate) fn place(&mut self, text: &str) -> usize {
        let known = self.terms.iter().position(|term| term.text == text);
        known.unwrap_or_else(|| {
            self.terms.push(Term { text: text.to_owned(), weight: 1.0, place: Field::Text });
            self.terms.len() - 1
        })
    }
}
