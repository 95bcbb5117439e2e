//! The places where a person answers a question.

use serde::{Deserialize, Serialize};

/// The place where a person answered a question. It is only displayed; no decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AnswerPlace {
    /// A page in a browser.
    Page,
    /// A command, or a question in a terminal.
    Terminal,
    /// A form of the host that made the call.
    Host,
}

impl AnswerPlace {
    /// Returns the name of the place.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Terminal => "terminal",
            Self::Host => "host",
        }
    }

    /// Returns the place with this name; `None` if there is no such place.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Page, Self::Terminal, Self::Host].into_iter().find(|place| place.as_str() == word)
    }
}
