//! Normalization of text before the search for phrases: replaces capitals, look-alike letters and other forms of
//! letters by plain lower-case letters.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::script;

/// The maximum length of an HTML entity in bytes, including `&` and `;`.
const ENTITY_MAX: usize = 11;

/// Combining strokes, which are drawn through a letter but do not change it for a reader.
const STROKES: std::ops::RangeInclusive<char> = '\u{334}'..='\u{338}';

/// Returns the normalized text: compatibility forms, HTML entities and look-alike letters are replaced, and
/// capitals made lower-case.
pub(super) fn plain_text(text: &str) -> String {
    let text = without_entities(text);
    let is_read = |c: &char| !super::characters::is_suspect(*c) || *c == '\r';
    let shown = text.nfkc().filter(|c| is_read(c) && !STROKES.contains(c));
    let mut folded: String = shown.collect::<String>().to_lowercase();
    if folded.is_ascii() {
        return folded.replace(['\t', '\r'], " ");
    }
    // A mark that forms no letter with the Latin letter before it only decorates the letter.
    let mut is_latin = false;
    folded.retain(|c| {
        let is_mark = is_combining_mark(c);
        is_latin = if is_mark { is_latin } else { c.is_ascii_alphabetic() };
        !(is_mark && is_latin)
    });
    let mut out = String::with_capacity(folded.len());
    for word in folded.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let bare = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if script::is_disguised(bare) {
            out.extend(
                word.chars().map(|c| script::look_alike(c).filter(|_| !c.is_ascii()).unwrap_or(c)),
            );
        } else {
            out.push_str(word);
        }
    }
    out.replace(|c: char| c != '\n' && c.is_whitespace(), " ")
}

/// Returns the text with numeric and named HTML entities decoded.
pub(super) fn without_entities(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The search is bounded by the longest entity; otherwise many `&` would take quadratic time.
        let end = rest.bytes().take(ENTITY_MAX).position(|byte| byte == b';');
        if let Some((c, end)) = end.and_then(|end| Some((character(&rest[1..end])?, end))) {
            out.push(c);
            rest = &rest[end + 1..];
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out.into()
}

fn character(entity: &str) -> Option<char> {
    let code = match entity.strip_prefix('#') {
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        },
        None => {
            return Some(match entity {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "nbsp" => ' ',
                _ => return None,
            });
        }
    };
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_undone() {
        assert_eq!(
            plain_text("&lt;b&gt; &#105;&#x0000074; &amp &nothing; &"),
            "<b> it &amp &nothing; &"
        );
    }

    #[test]
    fn a_text_of_nothing_but_marks_of_entities_is_read_in_no_time() {
        // Tests that the time is not quadratic: if every `&` caused a search to the end of the text, this test would
        // take minutes.
        let marks = "&".repeat(1_000_000);
        assert_eq!(plain_text(&marks), marks);
    }
}
