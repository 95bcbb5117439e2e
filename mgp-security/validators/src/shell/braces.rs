//! Brace expansion: the words that some shells make of words such as `{a,b}`.

use super::lex::{MAX_COMMAND, Word};

/// The maximum number of words that the braces of one command may result in. A command with more is refused.
const MAX_WORDS: usize = 256;

/// Returns the words that a shell with brace expansion passes to the command; `None` if no word has braces with
/// alternatives. In a word that a shell changes, a quoted brace or comma counts like an unquoted one.
///
/// # Errors
/// A description of the problem if the braces result in too many or too long words.
pub(super) fn expanded(words: &[Word]) -> Result<Option<Vec<Word>>, String> {
    let has_braces = |word: &Word| word.expands && alternatives(&word.text).is_some();
    if !words.iter().any(has_braces) {
        return Ok(None);
    }
    let (mut all, mut count, mut length) = (Vec::with_capacity(words.len()), 0, 0);
    for word in words {
        if !has_braces(word) {
            all.push(word.clone());
            continue;
        }
        let mut open = vec![word.text.clone()];
        while let Some(text) = open.pop() {
            let Some((start, end, commas)) = alternatives(&text) else {
                // A shell removes an empty word without quotes.
                if !text.is_empty() || word.quoted {
                    let (unset, variables) = (None, Vec::new());
                    all.push(Word { text, unset, variables, ..word.clone() });
                }
                continue;
            };
            count += commas.len();
            length += text.len() * (commas.len().min(MAX_WORDS) + 1);
            if count > MAX_WORDS || length > MAX_COMMAND {
                return Err("braces result in too many words".to_owned());
            }
            let mut last = end;
            for from in commas.into_iter().rev().chain([start]) {
                let (before, one, after) =
                    (&text[..start], &text[from + 1..last], &text[end + 1..]);
                open.push([before, one, after].concat());
                last = from;
            }
        }
    }
    Ok(Some(all))
}

/// Returns the positions of the first braces with alternatives, and of the commas between the alternatives.
fn alternatives(text: &str) -> Option<(usize, usize, Vec<usize>)> {
    if !text.contains('{') {
        return None;
    }
    // For a shell, the `}` after `a` in `{a},b}` is part of an alternative.
    first_braces(text, false).or_else(|| first_braces(text, true))
}

/// Returns what [`alternatives`] returns. If `skips` is set, a `}` before the first comma does not end the braces.
fn first_braces(text: &str, skips: bool) -> Option<(usize, usize, Vec<usize>)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut first: Option<(usize, usize, Vec<usize>)> = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push((at, Vec::new())),
            b',' => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            b'}' => {
                let has_commas = open.last().is_some_and(|(_, commas)| !commas.is_empty());
                if let Some((start, commas)) = open.pop_if(|_| has_commas || !skips)
                    && has_commas
                    && first.as_ref().is_none_or(|(other, ..)| start < *other)
                {
                    first = Some((start, at, commas));
                }
            }
            _ => {}
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_result_in_the_words_of_a_shell() {
        for (text, expected) in [
            ("{a,-rf}", "a -rf"),
            ("x{,.bak}", "x x.bak"),
            ("a{b,{c,d}e}f", "abf acef adef"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("{,x}", "x"),
            ("{a},b}", "a} b"),
            ("{{a,b}", "{a {b"),
            ("{{a},-rf}", "{a} -rf"),
            ("{a,}b,c}", "ab,c} b,c}"),
        ] {
            let word = Word { text: text.to_owned(), expands: true, ..Word::default() };
            let words = expanded(&[word]).unwrap().unwrap();
            let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            assert_eq!(texts.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn braces_that_result_in_too_many_words_are_refused() {
        for text in
            ["{a,b}".repeat(20), "{a,".repeat(10_000) + &"}".repeat(10_000), ",".repeat(60_000)]
        {
            let word = Word { text: format!("{{{text},}}"), expands: true, ..Word::default() };
            assert!(expanded(&[word]).is_err(), "{text:.20}");
        }
        let word = Word { text: "{".repeat(60_000), expands: true, ..Word::default() };
        assert!(expanded(&[word]).unwrap().is_none());
    }
}
