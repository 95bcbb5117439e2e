//! Words that are one token each (MGP §16.8).

/// The words in sorted order, each followed by a line feed.
///
/// Each word is one token, both alone and after a space. After any other character that can begin a piece of text, the
/// character and the word need at most two tokens together. A test checks this; with `UPDATE_GOLDEN=1`, it writes the
/// file again.
const WORDS: &str = include_str!("words.txt");

/// Returns whether a word is in the list. Searches the sorted text directly, so that no set of the words is needed in
/// memory.
pub(super) fn is_one_token(word: &str) -> bool {
    let bytes = WORDS.as_bytes();
    let (mut low, mut high) = (0, bytes.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = bytes[low..middle]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(low, |at| low + at + 1);
        let end = bytes[middle..high]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(high, |at| middle + at);
        match bytes[start..end].cmp(word.as_bytes()) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_list_is_found_and_no_other() {
        let mut count = 0;
        for word in WORDS.lines() {
            assert!(is_one_token(word), "{word}");
            assert!(!is_one_token(&format!("{word}q~")), "{word}");
            count += 1;
        }
        assert!(count > 3000, "{count}");
        for other in ["", "a", "\n", "zzzz", "aaaa", "the\n", "é"] {
            assert!(!is_one_token(other), "{other}");
        }
    }

    #[cfg(feature = "tokens")]
    #[test]
    fn each_word_is_one_token() {
        let encoder = tiktoken_rs::o200k_base().unwrap();
        let count = |text: &str| encoder.encode_ordinary(text).len();
        let is_good = |word: &str| {
            word.len() > 2
                && word.len() < 17
                && word.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
                && word.as_bytes()[0].is_ascii_alphabetic()
                && count(word) == 1
                && (b' '..0x7f).map(char::from).filter(|first| !first.is_ascii_alphanumeric()).all(
                    |first| count(&format!("{first}{word}")) <= if first == ' ' { 1 } else { 2 },
                )
        };
        // Take the tokens with the lowest numbers, because they occurred most often in the training texts of the
        // encoding.
        let mut words: Vec<String> = (0..25_000)
            .filter_map(|token| String::from_utf8(encoder.decode_bytes(&[token]).ok()?).ok())
            .filter_map(|text| {
                text.strip_prefix(' ').filter(|word| is_good(word)).map(str::to_owned)
            })
            .collect();
        words.sort_unstable();
        let text = words.join("\n") + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tokens/words.txt");
            std::fs::write(path, &text).unwrap();
        } else {
            assert!(text == WORDS, "the list is stale; run this test with UPDATE_GOLDEN=1");
        }
    }
}
