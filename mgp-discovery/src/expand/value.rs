//! A text that was filled in, and whether it may be shown (MGP §15.2).
//!
//! Applies to: both.

use std::fmt;
use std::ops::Range;

/// A text after `${…}` was filled in; what came from outside of the file is never shown.
///
/// ```
/// use mgp_discovery::{Expander, Origin, Template};
///
/// let expander = Expander::new(|name| (name == "TOKEN").then(|| "s3cret".into()));
/// let template = Template::parse("Bearer ${TOKEN}").unwrap();
/// let value = expander.fill(&template, Origin::User, "/etc".as_ref()).unwrap();
/// assert_eq!(value.as_str(), "Bearer s3cret");
/// assert_eq!(format!("{value:?}"), "‹secret›");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    text: String,
    /// Where in it the secrets stand.
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

    /// Keeps a part of the text from being shown that only looks like a secret.
    pub(super) fn hide(&mut self, part: &str) {
        let places = self.text.match_indices(part);
        self.secrets.extend(places.map(|(at, part)| at..at + part.len()));
    }

    /// The text itself, for the one who needs it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether something in it came from a variable, a file or a command, or it looks like a secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// What came from a variable, a file or a command, and what looks like a secret.
    ///
    /// ```
    /// use mgp_discovery::{Expander, Origin, Template};
    ///
    /// let expander = Expander::new(|_| Some("s3cret".into()));
    /// let template = Template::parse("Bearer ${TOKEN}").unwrap();
    /// let value = expander.fill(&template, Origin::User, "/etc".as_ref()).unwrap();
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
