//! Preserves the line ends of a configuration file when a program edits it.

/// Returns the edited text `after`, with CRLF at all line ends if most lines of the previous text `before` end with
/// CRLF.
///
/// This is necessary because libraries that edit TOML write only LF, while many files on Windows have CRLF.
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
