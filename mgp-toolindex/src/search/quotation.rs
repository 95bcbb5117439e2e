//! Removes long quoted texts from a query: they are values for the tool, e.g. a message to send (MGP §16.5).

use std::borrow::Cow;

use super::word::words;

/// Marks that open a quoted text, each with the marks that can close it.
const MARKS: &[(char, &[char])] = &[
    ('"', &['"']),
    ('\'', &['\'']),
    ('“', &['”']),
    ('„', &['“', '”']),
    ('‘', &['’']),
    ('«', &['»']),
];

/// The minimum number of words of a quoted text that is removed; a shorter text is often a name or a kind of thing.
const MIN_QUOTED_WORDS: usize = 3;

/// The minimum number of content words outside the quoted texts. With fewer words, the quoted texts are kept, because
/// the query asks for them.
const MIN_OTHER_WORDS: usize = 3;

/// Returns a query without its long quoted texts.
pub(super) fn without_quotations(text: &str) -> Cow<'_, str> {
    let (mut rest, mut copied, mut from) = (String::new(), 0, 0);
    while let Some((start, end)) = next_quotation(text, from) {
        from = end;
        // Keep a quotation at the beginning, because it is mostly a query that is quoted as a whole.
        if start > 0 && text[start..end].split_whitespace().count() >= MIN_QUOTED_WORDS {
            rest.push_str(&text[copied..start]);
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    rest.push_str(&text[copied..]);
    let content = words(&rest).filter(|word| !word.is_stop_word()).count();
    if content < MIN_OTHER_WORDS { Cow::Borrowed(text) } else { Cow::Owned(rest) }
}

/// Returns the start and the end of the first quoted text that begins at `from` or later, including its marks.
fn next_quotation(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut before = text[..from].chars().next_back();
    let mut unclosed: Vec<char> = Vec::new();
    for (at, mark) in text[from..].char_indices() {
        let may_open =
            before.is_none_or(|before| before.is_whitespace() || "([:,".contains(before));
        before = Some(mark);
        let opened = MARKS.iter().find(|(open, _)| may_open && *open == mark);
        let Some((_, closing)) = opened.filter(|_| !unclosed.contains(&mark)) else { continue };
        let start = from + at;
        if let Some(end) = end_of_quotation(text, start + mark.len_utf8(), closing) {
            return Some((start, end));
        }
        // Ignore later marks of this kind, because they are not closed either.
        unclosed.push(mark);
    }
    None
}

/// Returns the end of the quoted text that begins at `start`, after its closing mark. An apostrophe inside a word
/// closes nothing.
fn end_of_quotation(text: &str, start: usize, closing: &[char]) -> Option<usize> {
    let mut before = ' ';
    let mut chars = text[start..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_inner = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if closing.contains(&c) && !before.is_whitespace() && !is_inner {
            return Some(start + at + c.len_utf8());
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_quotations(text), expected, "{text}");
    }

    #[test]
    fn a_long_quoted_text_is_removed() {
        check(
            "send the message 'the price is $5' to my colleague",
            "send the message  to my colleague",
        );
        check("post a tweet: \"I'm on my way\", please now", "post a tweet: , please now");
        check("create the task “buy milk and eggs” for Anne", "create the task  for Anne");
        check("schicke die Nachricht „bin gleich da“ an Anne", "schicke die Nachricht  an Anne");
        check(
            "save 'I don't know' and 'you do not know' in notes today",
            "save  and  in notes today",
        );
    }

    #[test]
    fn a_name_and_a_request_in_quotation_marks_stay() {
        for text in [
            "open the file 'annual report' in the editor",
            "tool to 'send a message to somebody'",
            "\"read a file, then send it to my brother\" with the tools of the office",
            "the dogs' bowl and the cats' food of my neighbours' house",
            "don't forget to water the neighbours' plants",
            "search for 5'11\" tall people in the gym",
            "an open mark 'has no end in this query",
            "",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn many_open_marks_are_read_in_a_short_time() {
        check(&" 'a".repeat(1_000), &" 'a".repeat(1_000));
    }
}
