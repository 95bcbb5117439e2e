//! JSON in which integers may be written as `5.0`. JSON Schema regards such a number as an integer, and clients that
//! keep all numbers as floats send it.

use serde::de::DeserializeOwned;

/// Decodes a JSON text. Only a text that does not fit as it is needs the time for a second attempt.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match without_zero_fractions(text) {
        // Return the error of this attempt: that of the first one may be about a number that is permitted.
        Some(changed) => serde_json::from_str(&changed),
        None => Err(error),
    })
}

/// Returns a JSON text without the fractions of numbers that consist of zeros; `None` if it has no such number.
pub(crate) fn without_zero_fractions(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut changed, mut copied) = (String::new(), 0);
    let (mut at, mut is_string) = (0, false);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => is_string = !is_string,
            b'\\' if is_string => at += 1,
            b'.' if !is_string => {
                let end = at + bytes[at..].iter().take_while(|digit| **digit == b'0').count();
                let goes_on = bytes.get(end).is_some_and(|next| b"123456789eE".contains(next));
                if end > at && !goes_on {
                    changed.push_str(&text[copied..at - 1]);
                    copied = end;
                }
            }
            _ => {}
        }
    }
    (copied > 0).then(|| changed + &text[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(without_zero_fractions(text).as_deref(), expected);
    }

    #[test]
    fn only_fractions_of_zeros_are_removed() {
        check(r#"{"a":5.0,"b":[-1.00,2]}"#, Some(r#"{"a":5,"b":[-1,2]}"#));
        check(r#"{"a":5.0e1,"b":1.50,"c":1.05,"d":7}"#, None);
        check(r#"{"a \" 1.0":"2.0 \\","b":3.0}"#, Some(r#"{"a \" 1.0":"2.0 \\","b":3}"#));
    }

    #[test]
    fn no_number_is_rounded_to_an_integer() {
        assert_eq!(read::<u64>("18446744073709551615.0").unwrap(), u64::MAX);
        assert_eq!(read::<i64>("9007199254740993.0").unwrap(), 9_007_199_254_740_993);
        for text in ["5.5", "-0.0", "1e400", "18446744073709551616.0", "1e19", "\"5.0\""] {
            assert!(read::<u64>(text).is_err(), "{text}");
        }
        assert!(read::<i64>("9223372036854775808.0").is_err());
    }

    #[test]
    fn an_error_is_not_about_a_permitted_number() {
        let error = read::<(u8, bool)>("[5.0,6.0]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: integer `6`, expected a boolean"), "{error}");
    }
}
