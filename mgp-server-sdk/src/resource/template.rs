//! URI templates (RFC 6570, level 1, and `{+name}` of level 2), matched against URIs.

use std::collections::BTreeMap;

use crate::error::BuildError;

/// A URI template, against which URIs are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The literal text before the first variable.
    head: String,
    /// The variables, each with the literal text that follows it.
    rest: Vec<(Variable, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    reach: Reach,
}

/// The characters that a variable matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The variable matches any character except `/`, `?` and `#`, which may only occur in percent-encoded form.
    Segment,
    /// The variable, written as `{+name}`, matches any character.
    Anything,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, BuildError> {
        let wrong = |why| BuildError::InvalidTemplate { template: text.to_owned(), why };
        let mut pieces = text.split('{');
        let head = pieces.next().unwrap_or_default().to_owned();
        let mut rest: Vec<(Variable, String)> = Vec::new();
        for piece in pieces {
            let (name, behind) =
                piece.split_once('}').ok_or_else(|| wrong("has a `{` without `}`"))?;
            let (name, reach) = match name.strip_prefix('+') {
                Some(name) => (name, Reach::Anything),
                None => (name, Reach::Segment),
            };
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
            if name.is_empty() || !name.bytes().all(is_word) {
                return Err(wrong("has an expression other than `{name}` and `{+name}`"));
            }
            if rest.last().is_some_and(|(_, between)| between.is_empty()) {
                return Err(wrong("has two variables with nothing between them"));
            }
            if rest.iter().any(|(known, _)| known.name == name) {
                return Err(wrong("has a variable twice"));
            }
            rest.push((Variable { name: name.to_owned(), reach }, behind.to_owned()));
        }
        if rest.is_empty() {
            return Err(wrong("has no variable"));
        }
        if head.contains('}') || rest.iter().any(|(_, behind)| behind.contains('}')) {
            return Err(wrong("has a `}` without `{`"));
        }
        Ok(Self { head, rest })
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.rest.iter().map(|(variable, _)| variable.name.as_str())
    }

    /// Returns the decoded values of the variables in a URI, or `None` if the URI does not match.
    pub(crate) fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut left = uri.strip_prefix(self.head.as_str())?;
        let mut found = BTreeMap::new();
        for (place, (variable, behind)) in self.rest.iter().enumerate() {
            let end = if place + 1 == self.rest.len() {
                // The last variable is as long as possible, even if the literal text after it also
                // occurs earlier in the URI.
                left.len().checked_sub(behind.len()).filter(|&end| left.is_char_boundary(end))?
            } else {
                // A variable matches at least one character, so the search for the literal text after it begins at the
                // second character.
                let first = left.chars().next()?.len_utf8();
                first + left[first..].find(behind.as_str())?
            };
            let (value, tail) = left.split_at(end);
            left = tail.strip_prefix(behind.as_str())?;
            let fits = match variable.reach {
                Reach::Segment => !value.contains(['/', '?', '#']),
                Reach::Anything => true,
            };
            if value.is_empty() || !fits {
                return None;
            }
            found.insert(variable.name.clone(), unescaped(value)?);
        }
        left.is_empty().then_some(found)
    }
}

/// Decodes `%XX`; returns `None` if an escape is incomplete or the bytes are not UTF-8.
fn unescaped(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(left.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let found = Template::parse(template).unwrap().matches(uri);
        let expected = expected.map(|variables| {
            variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        });
        assert_eq!(found, expected, "{template} {uri}");
    }

    #[test]
    fn uris_give_their_variables() {
        let t = "test://template/{id}/data";
        check(t, "test://template/123/data", Some(&[("id", "123")]));
        check(t, "test://template/a%20b%2Fc/data", Some(&[("id", "a b/c")]));
        check(t, "test://template/%C3%A9/data", Some(&[("id", "é")]));
        check(t, "test://template/é/data", Some(&[("id", "é")]));
        for uri in [
            "test://template//data",
            "test://template/1/2/data",
            "test://template/1?x/data",
            "test://template/1/data/",
            "test://template/1/dat",
            "test://template/%zz/data",
            "test://template/%4/data",
            "test://template/%ff/data",
            "test://template/",
            "",
        ] {
            check(t, uri, None);
        }
        check("x:{a}-{b}", "x:1-2-3", Some(&[("a", "1"), ("b", "2-3")]));
        check("x:{a}.txt", "x:a.txt.txt", Some(&[("a", "a.txt")]));
        check("x:{a}-{b}", "x:--b", Some(&[("a", "-"), ("b", "b")]));
        check("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")]));
        check("{a}/x", "é/x", Some(&[("a", "é")]));
        check("{a}/é", "bé", None);
    }

    #[test]
    fn an_invalid_template_is_refused_with_the_reason() {
        for (template, why) in [
            ("x:{a", "without `}`"),
            ("x:a}", "no variable"),
            ("x:{a}}", "`}` without"),
            ("x:{?a}", "other than"),
            ("x:{a*}", "other than"),
            ("x:{}", "other than"),
            ("x:{a}{b}", "nothing between"),
            ("x:{a}/{a}", "twice"),
            ("x:a", "no variable"),
        ] {
            let error = Template::parse(template).unwrap_err();
            assert!(error.to_string().contains(why), "{template}: {error}");
        }
    }
}
