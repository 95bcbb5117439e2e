//! Preserves the line ends of a configuration file when a program edits it.

/// The byte order mark, with which some programs on Windows begin a file.
const MARK: char = '\u{feff}';

/// Returns the line end that most lines of a text have, CRLF or LF.
#[must_use]
pub fn line_end(text: &str) -> &'static str {
    let (all, with_return) = (text.matches('\n').count(), text.matches("\r\n").count());
    if with_return * 2 > all { "\r\n" } else { "\n" }
}

/// Returns the edited text `after` with the line ends and the byte order mark of the previous text `before`.
///
/// The lines before and after the edit keep their line ends; the edited lines get the [`line_end`] of `before`. This is
/// necessary because libraries that edit TOML write only LF, and no byte order mark.
///
/// ```
/// use mgp_discovery::keep_line_ends;
///
/// assert_eq!(keep_line_ends("a = 1\r\n", "a = 2\nb = 3\n"), "a = 2\r\nb = 3\r\n");
/// assert_eq!(keep_line_ends("a = 1\n", "a = 2\n"), "a = 2\n");
/// ```
#[must_use]
pub fn keep_line_ends(before: &str, after: &str) -> String {
    let end = line_end(before);
    let old: Vec<&str> = before.trim_start_matches(MARK).split_inclusive('\n').collect();
    let new: Vec<&str> = after.trim_start_matches(MARK).split_inclusive('\n').collect();
    let plain = |text: &str| text.replace("\r\n", "\n");
    let is_same = |(old, new): &(&&str, &&str)| plain(old) == plain(new);
    let above = old.iter().zip(&new).take_while(is_same).count();
    let pairs_below = old[above..].iter().rev().zip(new[above..].iter().rev());
    let below = pairs_below.take_while(is_same).count();
    let edited = plain(&new[above..new.len() - below].concat()).replace('\n', end);
    let mark = if before.starts_with(MARK) { MARK.to_string() } else { String::new() };
    mark + &old[..above].concat() + &edited + &old[old.len() - below..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(keep_line_ends(before, after), expected);
    }

    #[test]
    fn lines_beside_an_edit_keep_their_ends() {
        check("a\r\nb\nc\r\nd", "a\nb\nx\nc\nd", "a\r\nb\nx\r\nc\r\nd");
        check("a\nb\r\nc\n", "a\nb\nc\nx\n", "a\nb\r\nc\nx\n");
        check("a\nb\r\nc\n", "b\nc\n", "b\r\nc\n");
        check("a\r\na\n", "a\n", "a\r\n");
        check("a", "a\nb\n", "a\nb\n");
        check("", "a\n", "a\n");
    }

    #[test]
    fn a_byte_order_mark_stays() {
        check("\u{feff}a\r\n", "a\nb\n", "\u{feff}a\r\nb\r\n");
        check("\u{feff}a\n", "b\n", "\u{feff}b\n");
        check("\u{feff}", "a\n", "\u{feff}a\n");
    }
}
