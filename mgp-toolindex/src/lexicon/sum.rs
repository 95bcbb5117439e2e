//! Recognises arithmetic such as "what is 17 times 23", which has no word in common with a calculator (MGP §16.5).

/// The words that are added to a query with arithmetic, so that it finds tools that calculate.
const CALCULATOR: &[&str] = &["calculate", "calculator", "math", "expression"];

/// The words that can occur between two numbers of an arithmetic expression.
#[rustfmt::skip]
const OPERATIONS: &[&str] = &[
    "+", "-", "*", "/", "×", "÷", "^", "x", "plus", "minus", "times", "multiply", "multiplied",
    "divide", "divided", "over", "modulo", "mod", "percent", "%", "power", "add", "subtract",
];

/// The words that can follow an operation: `divided by`, `percent of`, `to the power of`.
const FILLERS: &[&str] = &["by", "of", "to", "the", "with", "from"];

/// The maximum number of words that are read from a text.
const MAX_WORDS: usize = 64;

/// If a text contains arithmetic, returns the words by which tools that calculate are found.
pub(crate) fn calculator(text: &str) -> &'static [&'static str] {
    let mut has_number = false;
    let mut has_operation = false;
    for word in text.split_whitespace().take(MAX_WORDS) {
        let word = word.trim_matches(['?', '!', ',', '.', ':', ';', '=', '(', ')', '"', '\'']);
        if is_sum(word) {
            return CALCULATOR;
        }
        let percent = word.strip_suffix('%').filter(|_| word.len() > 1);
        if is_number(percent.unwrap_or(word)) {
            if has_number && has_operation {
                return CALCULATOR;
            }
            (has_number, has_operation) = (true, percent.is_some());
        } else if OPERATIONS.contains(&&*word.to_lowercase()) {
            has_operation = has_number;
        } else if !FILLERS.contains(&word) {
            (has_number, has_operation) = (false, false);
        }
    }
    &[]
}

/// Returns whether a word is arithmetic without spaces: `17*23`, `3×4`, `2^10`.
///
/// Returns `false` for `1-2` and `1/2`, which might be a date, a range or a part of a path.
fn is_sum(word: &str) -> bool {
    let mut numbers = word.split(['*', '+', '×', '÷', '^']);
    numbers.clone().count() > 1 && numbers.all(is_number)
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
    fn other_numbers_are_not_sums() {
        check("meet on 2026-11-23 at 10", false);
        check("open 1/2/report.txt", false);
        check("5 times a day", false);
        check("the 3 last of 10", false);
        check("C++ 17", false);
        check("", false);
    }
}
