//! Sets of scopes, and which of them to ask for (MCP authorization, scope selection).
//!
//! Applies to: outbound.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many scopes a set holds; what comes after is dropped.
const MOST: usize = 64;
/// How long a scope may be.
const LONGEST: usize = 256;

/// What a client asks for where it wants a refresh token.
const OFFLINE_ACCESS: &str = "offline_access";

/// Scopes in the order they were named, each once, at most 64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// The scopes of a text, separated by spaces; what cannot be a scope is left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a scope is among them.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether all of the others are among them.
    #[must_use]
    pub fn contains_all(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.contains(scope))
    }

    /// These and the others.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        self.0.iter().chain(&others.0).map(String::as_str).collect()
    }

    /// The scopes in alphabetical order, as one word for one set.
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
            if set.0.len() < MOST && is_scope(scope) && !set.contains(scope) {
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

/// Which scopes to ask for: those the challenge names, else those the resource lists, else none; to them come those asked
/// for before, and `offline_access` where the authorization server lists it.
pub(super) fn select(
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

/// RFC 6749 §3.3: visible ASCII but the quotation mark and the backslash.
fn is_scope(text: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &Scopes, expected: &str) {
        assert_eq!(found.to_string(), expected);
    }

    #[test]
    fn the_challenge_comes_before_the_list_and_nothing_is_lost() {
        let set = Scopes::parse;
        let none = Scopes::default();
        check(&select(Some(&set("a")), Some(&set("a b c")), &none, None), "a");
        check(&select(None, Some(&set("a b c")), &none, None), "a b c");
        check(&select(None, None, &none, None), "");
        check(&select(Some(&set("write")), None, &set("read"), None), "read write");
        check(&select(Some(&set("a")), None, &none, Some(&set("a b"))), "a");
        let offline = set("a offline_access");
        check(&select(Some(&set("a")), None, &none, Some(&offline)), "a offline_access");
    }

    #[test]
    fn what_cannot_be_a_scope_is_left_out() {
        assert_eq!(Scopes::parse("a  b a \"c\" d\\e f\u{e9} g").to_string(), "a b g");
        assert_eq!(Scopes::parse(&"x".repeat(LONGEST + 1)), Scopes::default());
        let many: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(Scopes::parse(&many.join(" ")).0.len(), MOST);
    }

    #[test]
    fn a_set_has_one_key() {
        assert_eq!(Scopes::parse("b a").key(), Scopes::parse("a b").key());
        assert!(Scopes::parse("a b c").contains_all(&Scopes::parse("c a")));
        assert!(!Scopes::parse("a").contains_all(&Scopes::parse("a b")));
    }
}
