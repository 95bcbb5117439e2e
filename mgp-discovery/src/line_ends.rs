//! The line ends of a configuration file that a program edits.

/// Returns the edited text of a file with the line ends of its previous text: CRLF if most of its lines end with it.
///
/// Editors of TOML write LF only, and on Windows many files have CRLF.
///
/// ```
/// use mgp_discovery::keep_line_ends;
///
/// assert_eq!(keep_line_ends("a = 1\r\n", "a = 2\nb = 3\n".to_owned()), "a = 2\r\nb = 3\r\n");
/// assert_eq!(keep_line_ends("a = 1\n", "a = 2\n".to_owned()), "a = 2\n");
/// ```
#[must_use]
pub fn keep_line_ends(before: &str, after: String) -> String {
    let (all, with_return) = (before.matches('\n').count(), before.matches("\r\n").count());
    if with_return * 2 <= all {
        return after;
    }
    after.replace("\r\n", "\n").replace('\n', "\r\n")
}
