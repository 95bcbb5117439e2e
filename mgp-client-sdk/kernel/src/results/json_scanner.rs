//! A scanner that skips the values of JSON without decoding them.

use memchr::memchr;

/// A position in a text that is valid JSON. If the text is not valid, the scanner need not notice it.
///
/// The scanner returns names and strings as the text contains them, with their escapes.
pub(super) struct JsonScanner<'a>(&'a [u8]);

impl<'a> JsonScanner<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// Returns the text that has not been skipped yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Skips exactly this text; returns `None` if it does not follow.
    pub(super) fn literal(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text.as_bytes())?;
        Some(())
    }

    /// Skips an object. Calls `member` with the name of each member; `member` must skip the value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&[u8], &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.token(b'{')?;
        if self.token(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.token(b':')?;
            member(name, self)?;
            if self.token(b',').is_none() {
                return self.token(b'}');
            }
        }
    }

    /// Skips a list. Calls `element` for each element; `element` must skip the element.
    pub(super) fn list(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.token(b'[')?;
        if self.token(b']').is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            if self.token(b',').is_none() {
                return self.token(b']');
            }
        }
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        self.token(b'"')?;
        let text = self.0;
        let mut end = 0;
        loop {
            end += memchr(b'"', text.get(end..)?)?;
            // Count only the backslashes directly before a quote, because long texts have many other escapes.
            let escapes = text[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
            if escapes.is_multiple_of(2) {
                self.0 = &text[end + 1..];
                return Some(&text[..end]);
            }
            end += 1;
        }
    }

    /// Skips a value and returns its first byte.
    pub(super) fn value(&mut self) -> Option<u8> {
        let first = self.peek()?;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => self.nested()?,
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let end = self.0.iter().position(is_end).unwrap_or(self.0.len());
                self.0 = &self.0[end..];
            }
        }
        Some(first)
    }

    /// Skips the object or list that begins here.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.0.first()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.0 = &self.0[1..];
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Skips white space and then this byte; returns `None` if it does not follow.
    fn token(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.0 = &self.0[1..];
        Some(())
    }

    /// Skips white space and returns the next byte without skipping it.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let (first, rest) = self.0.split_first()?;
            if !first.is_ascii_whitespace() {
                return Some(*first);
            }
            self.0 = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names and the first bytes of the values of an object.
    fn members(text: &str) -> Option<Vec<(String, char)>> {
        let mut found = Vec::new();
        JsonScanner::new(text).object(|name, value| {
            found.push((String::from_utf8(name.to_vec()).unwrap(), char::from(value.value()?)));
            Some(())
        })?;
        Some(found)
    }

    #[test]
    fn values_are_skipped_up_to_their_end() {
        let text =
            r#" { "a" : "\"}\\" , "b":-1.5e3,"c":{"x":["}\"]",{}],"y":[]},"d":[ ],"e":null } "#;
        let found = members(text).unwrap();
        let expected = [("a", '"'), ("b", '-'), ("c", '{'), ("d", '['), ("e", 'n')];
        assert_eq!(found, expected.map(|(name, first)| (name.to_owned(), first)));
        assert!(members("{}").unwrap().is_empty());
    }

    #[test]
    fn text_that_is_not_an_object_has_no_members() {
        for text in ["", "[]", "5", "{", r#"{"a"#, r#"{"a":"#, r#"{"a":[}"#, r#"{"a":"\"#, "{5}"] {
            assert_eq!(members(text), None, "{text}");
        }
    }
}
