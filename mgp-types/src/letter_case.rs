//! Comparison of member names that ignores the case of letters.

use std::cmp::Ordering;

/// Returns whether a name differs from a known name only in the case of its letters.
///
/// Many peers in Go and C# ignore the case of names. Such a peer would use the value of this member in place of the
/// known member's value, although peers that the message passed before have checked only the known member.
///
/// ```
/// use mgp_types::differs_only_in_case;
///
/// assert!(differs_only_in_case("InputSchema", "inputSchema"));
/// assert!(!differs_only_in_case("inputSchema", "inputSchema"));
/// ```
#[must_use]
#[inline]
pub fn differs_only_in_case(name: &str, known: &str) -> bool {
    debug_assert!(known.is_ascii(), "the names of the protocols are ASCII");
    // Each member of each call is compared with several names, so a cheap comparison of lengths comes first. A shorter
    // name cannot match, because no letter folds to more ASCII letters than it has bytes.
    let is_folded = || !name.is_ascii() && folded(name).eq(folded(known));
    let is_same = match name.len().cmp(&known.len()) {
        Ordering::Less => false,
        Ordering::Equal => name.eq_ignore_ascii_case(known) || is_folded(),
        Ordering::Greater => is_folded(),
    };
    is_same && name != known
}

/// Returns the letters of a name in lower case. They are first converted to upper case, because this turns `ſ` into
/// `S`.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_the_case_of_their_letters() {
        for name in ["Arguments", "ARGUMENTS", "argumentſ"] {
            assert!(differs_only_in_case(name, "arguments"), "{name}");
        }
        for name in ["arguments", "argument", "arguments2", ""] {
            assert!(!differs_only_in_case(name, "arguments"), "{name}");
        }
        assert!(differs_only_in_case("\u{212a}ey", "key"), "the sign of kelvin");
        assert!(
            differs_only_in_case("addre\u{df}", "address")
                && differs_only_in_case("o\u{fb03}ce", "office")
        );
    }
}
