//! URI templates (RFC 6570, level 1, and `{+name}` of level 2), matched against URIs.

use std::collections::BTreeMap;

use mgp_types::percent_decode;

use crate::error::BuildError;
use crate::uri::push_escaped;

/// The maximum number of bytes of a URI that are searched again after a variable's value turned out to be wrong. The
/// limit bounds the time of matching hostile URIs.
const MAX_SEARCHED: usize = 1 << 20;

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

    /// Returns the URI with these values of the variables; `None` if a variable has no value.
    pub(crate) fn expand(&self, values: &BTreeMap<&str, &str>) -> Option<String> {
        let mut uri = self.head.clone();
        for (variable, behind) in &self.rest {
            let value = values.get(variable.name.as_str())?;
            push_escaped(&mut uri, value, |byte| variable.reach.is_literal(byte));
            uri.push_str(behind);
        }
        Some(uri)
    }

    /// Returns the decoded values of the variables in a URI, or `None` if the URI does not match.
    pub(crate) fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let left = uri.strip_prefix(self.head.as_str())?;
        let mut budget = MAX_SEARCHED;
        let values = values(&self.rest, left, &mut budget)?;
        let variables = self.rest.iter().rev().zip(values);
        variables
            .map(|((variable, _), value)| Some((variable.name.clone(), percent_decode(value)?)))
            .collect()
    }
}

impl Reach {
    /// Returns whether a value contains this byte without an escape (RFC 6570, 3.2.2 and 3.2.3).
    fn is_literal(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || (self == Self::Anything && b":/?#[]@!$&'()*+,;=".contains(&byte))
    }
}

impl Variable {
    fn fits(&self, value: &str) -> bool {
        let is_allowed = match self.reach {
            Reach::Segment => !value.contains(['/', '?', '#']),
            Reach::Anything => true,
        };
        is_allowed && !value.is_empty()
    }
}

/// Matches a text with variables, each followed by its literal text. Returns the values of the variables, the last one
/// first; `None` if the text does not match. Each variable except the last one is as short as the text after it
/// permits. `budget` is the number of bytes that may still be searched again.
fn values<'a>(
    rest: &[(Variable, String)],
    text: &'a str,
    budget: &mut usize,
) -> Option<Vec<&'a str>> {
    let ((variable, behind), others) = rest.split_first()?;
    if others.is_empty() {
        // The last variable is as long as possible: its literal text is that at the end of the URI, even if the same
        // text also occurs earlier.
        let value = text.strip_suffix(behind.as_str())?;
        return variable.fits(value).then(|| vec![value]);
    }
    // A variable matches at least one character, so the literal text after it is searched from the second character on.
    let mut from = text.chars().next()?.len_utf8();
    loop {
        let end = from + text[from..].find(behind.as_str())?;
        let value = &text[..end];
        if !variable.fits(value) {
            return None;
        }
        if let Some(mut found) = values(others, &text[end + behind.len()..], budget) {
            found.push(value);
            return Some(found);
        }
        if variable.reach == Reach::Segment {
            return None;
        }
        *budget = budget.checked_sub(text.len())?;
        from = end + text[end..].chars().next()?.len_utf8();
    }
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
        let files = "repo://{+dir}/{name}";
        check(files, "repo://a/c.txt", Some(&[("dir", "a"), ("name", "c.txt")]));
        check(files, "repo://a/é/b%2F/c.txt", Some(&[("dir", "a/é/b/"), ("name", "c.txt")]));
        check(files, "repo://a/b/", None);
        check("x:{+a}/{+b}/{c}.md", "x:1/2/3/4.md", Some(&[("a", "1"), ("b", "2/3"), ("c", "4")]));
        check("{a}/x", "é/x", Some(&[("a", "é")]));
        check("{a}/é", "bé", None);
    }

    #[test]
    fn values_give_the_uri_from_which_they_are_read() {
        for (template, expected) in
            [("x:{a}/y", "x:a%20b%2F%C3%A9%25/y"), ("x:{+a}", "x:a%20b/%C3%A9%25")]
        {
            let template = Template::parse(template).unwrap();
            let uri = template.expand(&BTreeMap::from([("a", "a b/é%")])).unwrap();
            assert_eq!(uri, expected);
            assert_eq!(template.matches(&uri).unwrap()["a"], "a b/é%");
            assert_eq!(template.expand(&BTreeMap::new()), None);
        }
    }

    #[test]
    fn a_uri_that_fits_no_way_is_not_searched_without_end() {
        let slashes = "/".repeat(100_000);
        check("x:{+a}/{+b}/{+c}/{d}", &format!("x:{slashes}?"), None);
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
