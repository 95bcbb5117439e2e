//! Recognises arithmetic such as "what is 17 times 23", which has no word in common with a calculator (MGP §16.5).

/// The arithmetic operations. Each has two lists: the words and signs between its two numbers, and the words that are
/// added to a query, so that it finds calculators and tools for only this operation.
#[rustfmt::skip]
const OPERATIONS: &[(&[&str], &[&str])] = &[
    (&["+", "plus", "add"], &["calculate", "calculator", "math", "expression", "sum", "add"]),
    (&["-", "minus", "subtract"], &["calculate", "calculator", "math", "expression", "subtract"]),
    (
        &["*", "×", "x", "times", "multiply", "multiplied"],
        &["calculate", "calculator", "math", "expression", "multiply"],
    ),
    (
        &["/", "÷", "divide", "divided", "over"],
        &["calculate", "calculator", "math", "expression", "divide"],
    ),
    (&["^", "power"], &["calculate", "calculator", "math", "expression", "power"]),
    (&["modulo", "mod"], &["calculate", "calculator", "math", "expression", "modulo"]),
    (&["%", "percent"], &["calculate", "calculator", "math", "expression", "percentage"]),
];

/// The signs of operations that can join two numbers without spaces. `-` and `/` are not in the list, because `1-2` and
/// `1/2` might be a date, a range or a part of a path.
const JOINING_SIGNS: [char; 5] = ['*', '+', '×', '÷', '^'];

/// The words that can follow an operation: `divided by`, `percent of`, `to the power of`.
const FILLERS: &[&str] = &["by", "of", "to", "the", "with", "from"];

/// The maximum number of words that are read from a text.
const MAX_WORDS: usize = 64;

/// Returns words that find calculators, if a text contains arithmetic; otherwise returns no words.
pub(crate) fn calculator(text: &str) -> &'static [&'static str] {
    let mut has_number = false;
    let mut operation = None;
    for word in text.split_whitespace().take(MAX_WORDS) {
        let word = word.trim_matches(['?', '!', ',', '.', ':', ';', '=', '(', ')', '"', '\'']);
        if let Some(words) = joined_sum(word) {
            return words;
        }
        let percent = word.strip_suffix('%').filter(|_| word.len() > 1);
        if is_number(percent.unwrap_or(word)) {
            if let (true, Some(words)) = (has_number, operation) {
                return words;
            }
            (has_number, operation) = (true, percent.and_then(|_| words_for("%")));
        } else if let Some(words) = words_for(&word.to_lowercase()) {
            operation = has_number.then_some(words);
        } else if !FILLERS.contains(&word) {
            (has_number, operation) = (false, None);
        }
    }
    &[]
}

/// Returns the words that are added to a query with this word or sign between two numbers; `None` if it is not an
/// operation.
fn words_for(sign: &str) -> Option<&'static [&'static str]> {
    let operation = OPERATIONS.iter().find(|(signs, _)| signs.contains(&sign));
    operation.map(|(_, words)| *words)
}

/// Returns the words for the first operation of arithmetic without spaces, e.g. `17*23`, `3×4` or `2^10`; `None` for
/// any other word.
fn joined_sum(word: &str) -> Option<&'static [&'static str]> {
    let sign = word.matches(JOINING_SIGNS).next()?;
    word.split(JOINING_SIGNS).all(is_number).then(|| words_for(sign))?
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(!calculator(text).is_empty(), expected, "{text}");
    }

    #[test]
    fn sums_are_recognised() {
        check("what is 17 times 23", true);
        check("17*23?", true);
        check("how much is 15% of 80", true);
        check("1,024 divided by 3.5", true);
        check("2 to the power of 10", true);
        check("12 / 4", true);
    }

    #[test]
    fn the_words_name_the_operation() {
        for (text, expected) in [
            ("17 + 25", "sum"),
            ("17+25", "add"),
            ("1,024 divided by 3.5", "divide"),
            ("3×4", "multiply"),
            ("what is 15% of 80", "percentage"),
        ] {
            assert!(calculator(text).contains(&expected), "{text}");
        }
        assert!(!calculator("17 times 23").contains(&"add"));
    }

    #[test]
    fn other_numbers_are_not_sums() {
        check("meet on 2026-11-23 at 10", false);
        check("open 1/2/report.txt", false);
        check("5 times a day", false);
        check("the 3 last of 10", false);
        check("C++ 17", false);
        check("", false);
    }
}
