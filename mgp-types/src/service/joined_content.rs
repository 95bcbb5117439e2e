//! The content of a streamed result, joined from its chunks (MGP §12.5).

use std::borrow::Cow;

use serde::Deserialize;

use crate::mcp::ContentBlock;
use crate::wire::Payload;

/// Content blocks in which consecutive plain text blocks are joined to one block.
///
/// ```
/// use mgp_types::Payload;
/// use mgp_types::mcp::ContentBlock;
/// use mgp_types::service::JoinedContent;
///
/// let block = |text: &str| Payload::of(&ContentBlock::text(text)).unwrap();
/// let streamed = JoinedContent::from_iter([block("to "), block("be")]);
/// assert_eq!(streamed.to_blocks(), [block("to be")]);
/// let whole = JoinedContent::from_iter([block("to be or not")]);
/// assert_eq!(streamed.rest_of(&whole).unwrap(), [block(" or not")]);
/// assert!(whole.rest_of(&streamed).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinedContent(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// A content block that is not joined with its neighbours: it is not a text, or a text block with further members.
    Block(Payload),
}

/// The form of a text block without further members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainText<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl JoinedContent {
    /// Appends a content block; a plain text is joined to the text before it.
    pub fn push(&mut self, block: &Payload) {
        if let Some(text) = ContentBlock::plain_text(block) {
            return self.push_text(&text);
        }
        match serde_json::from_str::<PlainText<'_>>(block.as_str()) {
            Ok(plain) if plain.kind == "text" => self.push_text(&plain.text),
            _ => self.0.push(Part::Block(block.clone())),
        }
    }

    /// Appends a plain text, which is joined to the text before it.
    pub fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push(Part::Text(text.to_owned())),
        }
    }

    /// Returns whether the content is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the content as content blocks.
    #[must_use]
    pub fn to_blocks(&self) -> Vec<Payload> {
        self.0.iter().map(Part::to_block).collect()
    }

    /// Returns the blocks that follow this content in `whole`; `None` if `whole` does not begin with this content.
    #[must_use]
    pub fn rest_of(&self, whole: &Self) -> Option<Vec<Payload>> {
        let Some((last, before)) = self.0.split_last() else { return Some(whole.to_blocks()) };
        let (same, after) = whole.0.split_at_checked(before.len())?;
        let (next, after) = after.split_first()?;
        if same != before {
            return None;
        }
        let mut rest = Vec::new();
        match (last, next) {
            (Part::Text(own), Part::Text(next)) => {
                let text = next.strip_prefix(own.as_str())?;
                rest.extend((!text.is_empty()).then(|| text_block(text)));
            }
            (own, next) if own == next => {}
            _ => return None,
        }
        rest.extend(after.iter().map(Part::to_block));
        Some(rest)
    }

    /// Returns whether both contents consist of a single text, and the two texts differ at most in white space at their
    /// start or end.
    #[must_use]
    pub fn is_same_text(&self, other: &Self) -> bool {
        matches!(
            (self.0.as_slice(), other.0.as_slice()),
            ([Part::Text(one)], [Part::Text(two)]) if one.trim() == two.trim()
        )
    }
}

impl FromIterator<Payload> for JoinedContent {
    fn from_iter<I: IntoIterator<Item = Payload>>(blocks: I) -> Self {
        let mut joined = Self::default();
        blocks.into_iter().for_each(|block| joined.push(&block));
        joined
    }
}

impl Part {
    fn to_block(&self) -> Payload {
        match self {
            Self::Text(text) => text_block(text),
            Self::Block(block) => block.clone(),
        }
    }
}

fn text_block(text: &str) -> Payload {
    // Encoding a text block cannot fail; the empty object is only a fallback.
    Payload::of(&ContentBlock::text(text)).unwrap_or_else(|_| Payload::empty_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_not_plain_text_keep_their_place() {
        let image = Payload::from_trusted(r#"{"type":"image","data":"","mimeType":"image/png"}"#);
        let marked = Payload::from_trusted(r#"{"type":"text","text":"m","annotations":{}}"#);
        let blocks = [text_block("a"), text_block("\n\"b"), image, text_block("c"), marked];
        let joined = JoinedContent::from_iter(blocks.clone());
        let [_, _, image, c, marked] = blocks;
        let whole = [text_block("a\n\"b"), image.clone(), c, marked.clone()];
        assert_eq!(joined.to_blocks(), whole);
        let longer = JoinedContent::from_iter([text_block("a\n\"b"), image.clone()]);
        assert_eq!(longer.rest_of(&joined).unwrap(), [text_block("c"), marked]);
        for other in [text_block("b"), image] {
            assert!(JoinedContent::from_iter([other]).rest_of(&joined).is_none());
        }
    }
}
