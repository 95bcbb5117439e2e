//! The variants of JavaScript that the validator can parse.

/// A variant of the language, which determines the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    JavaScript,
    #[cfg(feature = "typescript")]
    TypeScript,
    #[cfg(feature = "typescript")]
    Tsx,
}

impl Dialect {
    /// Returns whether the grammar has type annotations.
    pub(super) fn has_types(self) -> bool {
        self != Self::JavaScript
    }

    /// Returns whether the grammar has JSX elements.
    pub(super) fn has_markup(self) -> bool {
        match self {
            Self::JavaScript => true,
            #[cfg(feature = "typescript")]
            Self::TypeScript => false,
            #[cfg(feature = "typescript")]
            Self::Tsx => true,
        }
    }
}
