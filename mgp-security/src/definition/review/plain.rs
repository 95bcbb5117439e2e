//! Text in one spelling: capitals, disguises and other ways to write the same letters are undone.
//!
//! Applies to: both.

use unicode_normalization::UnicodeNormalization;

use super::script;

/// One spelling of each letter: compatibility forms, entities and disguises are undone, capitals made small.
pub(super) fn plain_text(text: &str) -> String {
    let text = without_entities(text);
    let shown = text.nfkc().filter(|c| !super::characters::is_suspect(*c) || *c == '\r');
    let folded: String = shown.collect::<String>().to_lowercase();
    if folded.is_ascii() {
        return folded.replace(['\t', '\r'], " ");
    }
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

/// Characters that are written as numbers or names of HTML.
fn without_entities(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = rest.find(';').filter(|end| *end <= 10).map(|end| &rest[1..end]);
        if let Some(c) = entity.and_then(character) {
            out.push(c);
            rest = &rest[rest.find(';').map_or(1, |end| end + 1)..];
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
