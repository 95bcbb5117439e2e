//! Sets of scopes, and the choice of scopes to request (MCP authorization, scope selection).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of scopes in a set; further scopes are dropped.
const MAX_SCOPES: usize = 64;
const MAX_SCOPE_BYTES: usize = 256;

const OFFLINE_ACCESS: &str = "offline_access";

/// A set of at most 64 scopes, in the order they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Parses scopes separated by spaces; invalid scopes are dropped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains a scope.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Returns whether this set contains all scopes of the other set.
    #[must_use]
    pub fn contains_all(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.contains(scope))
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        self.0.iter().chain(&others.0).map(String::as_str).collect()
    }

    /// Returns the scopes in alphabetical order, so that equal sets have the same text.
    pub(super) fn key(&self) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.join(" ")
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut set = Self::default();
        for scope in scopes {
            if set.0.len() < MAX_SCOPES && is_scope(scope) && !set.contains(scope) {
                set.0.push(scope.to_owned());
            }
        }
        set
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Selects the scopes to request: the scopes in the challenge, else the scopes that the resource lists, else none. Adds
/// scopes that were requested earlier, and `offline_access` if the authorization server lists it.
pub(super) fn select_scopes(
    challenged: Option<&Scopes>,
    listed: Option<&Scopes>,
    before: &Scopes,
    offered: Option<&Scopes>,
) -> Scopes {
    let wanted = challenged.or(listed).cloned().unwrap_or_default();
    let mut wanted = before.union(&wanted);
    if offered.is_some_and(|offered| offered.contains(OFFLINE_ACCESS)) {
        wanted = wanted.union(&Scopes::parse(OFFLINE_ACCESS));
    }
    wanted
}

/// Returns whether a text is a scope (RFC 6749 §3.3): visible ASCII except the quotation mark and the backslash.
fn is_scope(text: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.len() <= MAX_SCOPE_BYTES && text.bytes().all(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_scope_is_left_out() {
        assert_eq!(Scopes::parse("a  b a \"c\" d\\e f\u{e9} g").to_string(), "a b g");
        assert_eq!(Scopes::parse(&"x".repeat(MAX_SCOPE_BYTES + 1)), Scopes::default());
        let many: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(Scopes::parse(&many.join(" ")).0.len(), MAX_SCOPES);
    }

    #[test]
    fn a_set_has_one_key() {
        assert_eq!(Scopes::parse("b a").key(), Scopes::parse("a b").key());
        assert!(Scopes::parse("a b c").contains_all(&Scopes::parse("c a")));
        assert!(!Scopes::parse("a").contains_all(&Scopes::parse("a b")));
    }
}
