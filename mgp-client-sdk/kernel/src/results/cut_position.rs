//! Chooses the position at which a long text is cut: after an element of a JSON list, after a line, or after a
//! character.

/// The first part of a text, and the position of the rest.
pub(super) struct Cut {
    pub(super) shown: String,
    /// The position where the rest of the text begins.
    pub(super) rest: usize,
    /// `true` if the text is a JSON list and the rest begins at one of its own elements.
    pub(super) is_list: bool,
}

/// Cuts a text to about `max` bytes. If the text is JSON with a list from which at least one element fits, the first
/// part is valid JSON.
pub(super) fn cut(text: &str, max: usize) -> Cut {
    cut_json(text, max).unwrap_or_else(|| {
        let rest = cut_plain(text, max);
        Cut { shown: text[..rest].to_owned(), rest, is_list: false }
    })
}

/// Cuts JSON after an element of a list, and closes the brackets that are open at this position. Cuts the outermost
/// list if possible. Returns `None` if the text is not JSON or no element fits.
pub(super) fn cut_json(text: &str, max: usize) -> Option<Cut> {
    let begin = text.find(|c: char| !c.is_ascii_whitespace())?;
    if !text[begin..].starts_with(['[', '{']) || !is_json(text) {
        return None;
    }
    // Prefer the outermost list. Cut an inner list only if the cuts of outer lists would leave more than half of the
    // space unused.
    let ends = element_ends(text, begin, max);
    let end = ends.iter().copied().flatten().find(|end| *end >= max / 2);
    let end = end.or(ends.iter().copied().flatten().max())?;
    let open = open_brackets(&text[..end]);
    let closers = open.iter().rev().map(|open| if *open == b'[' { ']' } else { '}' });
    let shown: String = text[..end].chars().chain(closers).collect();
    let is_list = open == [b'['];
    Some(Cut { shown, rest: if is_list { next_element(text, end) } else { end }, is_list })
}

/// Returns as many elements of a list as fit, as JSON, beginning with the element at `from`. Also returns the position
/// of the next element.
///
/// Returns `None` if not even the first element fits.
pub(super) fn cut_elements(list: &str, from: usize, max: usize) -> Option<(String, usize)> {
    let rest = &list[from..];
    if rest.len() < max {
        return Some((format!("[{rest}"), list.len()));
    }
    let end = from + element_ends(rest, 0, max).first().copied().flatten()?;
    Some((format!("[{}]", &list[from..end]), next_element(list, end)))
}

/// Returns the position at which a text that is not JSON is cut: at the last end of a line in the second half of `max`
/// bytes, or else of a word there, or else of a character.
pub(super) fn cut_plain(text: &str, max: usize) -> usize {
    if text.len() <= max {
        return text.len();
    }
    // Show at least one character, so that each part makes progress.
    let end = text.floor_char_boundary(max).max(text.ceil_char_boundary(1));
    let near = text.floor_char_boundary(end / 2);
    let last = |ends: &[char]| text[near..end].rfind(ends).map(|at| near + at + 1);
    last(&['\n']).or_else(|| last(&[' ', ',', '\t'])).unwrap_or(end)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn next_element(text: &str, comma: usize) -> usize {
    let rest = &text[comma + 1..];
    text.len() - rest.trim_start().len()
}

/// Returns, for each depth of brackets, the position of the last comma before `max` that separates elements of a list.
///
/// The text must be JSON. If it begins at an element of a list, this list has depth 0.
fn element_ends(text: &str, begin: usize, max: usize) -> Vec<Option<usize>> {
    let mut scan = Scan::default();
    let mut ends: Vec<Option<usize>> = vec![None];
    for (at, byte) in text.bytes().enumerate().skip(begin).take_while(|(at, _)| *at < max) {
        scan.step(byte);
        if byte == b',' && !scan.is_text && scan.open.last() != Some(&b'{') {
            let depth = scan.open.len();
            ends.resize(ends.len().max(depth + 1), None);
            ends[depth] = Some(at);
        }
    }
    ends
}

fn open_brackets(text: &str) -> Vec<u8> {
    let mut scan = Scan::default();
    text.bytes().for_each(|byte| scan.step(byte));
    scan.open
}

/// The state of reading JSON byte by byte: the brackets that are open.
#[derive(Default)]
struct Scan {
    open: Vec<u8>,
    is_text: bool,
    is_escaped: bool,
}

impl Scan {
    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_text => self.is_escaped = true,
            b'"' => self.is_text = !self.is_text,
            _ if self.is_text => {}
            b'[' | b'{' => self.open.push(byte),
            b']' | b'}' => drop(self.open.pop()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn json_is_cut_after_an_element_and_stays_json() {
        for (text, max, shown, rest) in [
            ("[1,2,3,4]", 5, "[1,2]", "3,4]"),
            (r#"[{"a":"x,]"}, {"a":2}, 3]"#, 15, r#"[{"a":"x,]"}]"#, r#"{"a":2}, 3]"#),
            (
                r#"{"n":1,"rows":[[1,2],[3,4],[5,6]],"z":0}"#,
                28,
                r#"{"n":1,"rows":[[1,2],[3,4]]}"#,
                r#",[5,6]],"z":0}"#,
            ),
            (
                r#"{"tags":["a","b"],"items":{"rows":[10,20,30,40]}}"#,
                42,
                r#"{"tags":["a","b"],"items":{"rows":[10,20]}}"#,
                ",30,40]}}",
            ),
        ] {
            let cut = cut_json(text, max).unwrap();
            assert_eq!((cut.shown.as_str(), &text[cut.rest..]), (shown, rest));
        }
        for text in
            ["[2026-01-01] started, [x] is, up", r#"{"a":"bbbbbbbbbbbbbbbb"}"#, "plain, text"]
        {
            assert!(cut_json(text, 12).is_none(), "{text}");
        }
    }

    #[test]
    fn text_is_cut_after_a_line_or_a_word_or_a_character() {
        for (text, max, shown) in [
            ("one\ntwo three\nfour", 12, "one\ntwo "),
            ("one two\nthree four", 12, "one two\n"),
            ("aaaaaaaaaaaa", 5, "aaaaa"),
            ("ääääää", 5, "ää"),
            ("ä", 1, "ä"),
        ] {
            assert_eq!(&text[..cut_plain(text, max)], shown, "{text}");
        }
    }

    proptest! {
        /// A reader gets all elements of a list once and in order, whatever the elements contain.
        #[test]
        fn elements_are_read_to_the_last(
            texts in proptest::collection::vec("[a\"\\\\,\\[\\]{} ä]{0,12}", 2..40),
            max in 8_usize..60,
        ) {
            let list: Vec<Value> = texts.iter().map(|text| serde_json::json!({ "t": [text] })).collect();
            let text = serde_json::to_string(&list).unwrap();
            let mut read: Vec<Value> = Vec::new();
            let mut at = 1;
            while at < text.len() {
                let Some((part, next)) = cut_elements(&text, at, max) else { return Ok(()) };
                prop_assert!(next > at && part.len() <= max + 2);
                read.extend(serde_json::from_str::<Vec<Value>>(&part).unwrap());
                at = next;
            }
            prop_assert_eq!(read, list);
        }
    }
}
