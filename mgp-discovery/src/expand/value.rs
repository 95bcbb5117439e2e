//! A text that was filled in, and whether it may be shown (MGP §15.2).
//!
//! Applies to: both.

use std::fmt;

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
    secret: bool,
}

impl Expanded {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), secret: false }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn push_secret(&mut self, text: &str) {
        self.text.push_str(text);
        self.secret = true;
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        self.secret |= other.secret;
    }

    /// Keeps a text from being shown that only looks like a secret.
    pub(super) fn hide(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The text itself, for the one who needs it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether something in it came from a variable, a file or a command, or it looks like a secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret
    }
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret { f.write_str("‹secret›") } else { fmt::Debug::fmt(&self.text, f) }
    }
}
