//! Normalization of numbers in canonical JSON, without rounding: `1`, `1.0` and `10e-1` become the same text.
//!
//! Canonical JSON keeps numbers as they were written, because a confirmation applies only to the exact arguments that
//! the person confirmed. In definitions, the way in which a number is written must not matter: a server that serializes
//! the same definition with another library has not changed it.

/// The limit for the absolute value of an exponent: a number with this exponent or a larger one is not normalized.
const EXPONENT_MAX: i64 = 1_000_000;

/// Returns a JSON text with every number in its normalized form.
pub(super) fn exact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with('"') {
            string_end(rest)
        } else {
            rest.find([',', ']', '}', ' ']).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(end);
        match spelled(token).filter(|_| !token.starts_with('"')) {
            Some(number) => out.push_str(&number),
            None => out.push_str(token),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the position after the JSON string with which the text begins.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the normalized form of a number: its digits without leading and trailing zeros, and a power of ten. Returns
/// `None` if the text is not a number or the exponent is too large.
fn spelled(number: &str) -> Option<String> {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent: i64 = exponent.parse().ok().filter(|e: &i64| e.abs() < EXPONENT_MAX)?;
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = exponent + dropped - i64::try_from(fraction.len()).ok()?;
    Some(if power == 0 { format!("{sign}{kept}") } else { format!("{sign}{kept}e{power}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        assert_eq!(exact(json), expected);
    }

    #[test]
    fn one_number_has_one_spelling() {
        check("[1,1.0,10e-1,0.1E1]", "[1,1,1,1]");
        check("[-0,0.0,0e5]", "[0,0,0]");
        check(r#"{"a":-12.50,"b":300}"#, r#"{"a":-125e-1,"b":3e2}"#);
        check("[9007199254740993,9007199254740992]", "[9007199254740993,9007199254740992]");
    }

    #[test]
    fn strings_stay_as_they_are() {
        check(r#"{"1.0":"a\"1.0, \\","x":"1.0"}"#, r#"{"1.0":"a\"1.0, \\","x":"1.0"}"#);
        check("true", "true");
    }
}
