//! An expanded text that hides its secrets (MGP §15.2).

use std::fmt;
use std::ops::Range;

/// A text after expansion of `${…}`; its `Debug` output never shows values from outside the file.
///
/// ```
/// use mgp_discovery::{Expander, Origin, Template};
///
/// let expander = Expander::new(|name| (name == "TOKEN").then(|| "s3cret".into()));
/// let template = Template::parse("Bearer ${TOKEN}").unwrap();
/// let value = expander.expand(&template, Origin::User, "/etc".as_ref()).unwrap();
/// assert_eq!(value.as_str(), "Bearer s3cret");
/// assert_eq!(format!("{value:?}"), "‹secret›");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    text: String,
    secrets: Vec<Range<usize>>,
}

impl Expanded {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), secrets: Vec::new() }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn push_secret(&mut self, text: &str) {
        self.secrets.push(self.text.len()..self.text.len() + text.len());
        self.text.push_str(text);
    }

    pub(super) fn append(&mut self, other: &Self) {
        let from = self.text.len();
        self.secrets.extend(other.secrets.iter().map(|at| from + at.start..from + at.end));
        self.text.push_str(&other.text);
    }

    /// Marks every occurrence of `part` in the text as secret.
    pub(super) fn hide(&mut self, part: &str) {
        let places = self.text.match_indices(part);
        self.secrets.extend(places.map(|(at, part)| at..at + part.len()));
    }

    /// Returns the text itself, secrets included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a part of the text came from outside the configuration file, or looks like a secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Returns the parts that came from outside the configuration file, or look like secrets.
    ///
    /// ```
    /// use mgp_discovery::{Expander, Origin, Template};
    ///
    /// let expander = Expander::new(|_| Some("s3cret".into()));
    /// let template = Template::parse("Bearer ${TOKEN}").unwrap();
    /// let value = expander.expand(&template, Origin::User, "/etc".as_ref()).unwrap();
    /// assert!(value.secrets().eq(["s3cret"]));
    /// ```
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|at| &self.text[at.clone()])
    }
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_secret() { f.write_str("‹secret›") } else { fmt::Debug::fmt(&self.text, f) }
    }
}
