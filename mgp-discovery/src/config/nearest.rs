//! Finds the known word that is most similar to a misspelt word (MGP §15.2).

/// The maximum length of a compared word. A longer word is probably not a misspelt key, and the cost of a comparison
/// grows with the square of the length.
const MAX_BYTES: usize = 64;

/// Returns the known word that was most likely meant; `None` if no word is similar enough.
///
/// ```
/// use mgp_discovery::nearest;
///
/// assert_eq!(nearest("fiels", ["files", "mail"]), Some("files"));
/// assert_eq!(nearest("clock", ["files", "mail"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_BYTES {
        return None;
    }
    let word = plain(word);
    let (distance, found) = known
        .into_iter()
        .map(|known| (distance(&word, &plain(known)), known))
        .min_by_key(|(distance, _)| *distance)?;
    let longest = word.len().max(found.len());
    (distance <= (longest / 3).max(1)).then_some(found)
}

/// Returns only the letters and digits, in lower case, because users vary case and separators.
fn plain(word: &str) -> Vec<char> {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the edit distance: the number of letters that are added, removed, replaced, or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        assert_eq!(nearest(word, ["command", "args", "env", "transport", "trust_level"]), expected);
    }

    #[test]
    fn typing_errors_find_their_word_and_other_words_do_not() {
        check("comand", Some("command"));
        check("commadn", Some("command"));
        check("trustLevel", Some("trust_level"));
        check("evn", Some("env"));
        check("colour", None);
        assert_eq!(nearest("alice", ["cline"]), None, "two of five letters differ");
        check("", None);
        check(&"command".repeat(20), None);
    }
}
