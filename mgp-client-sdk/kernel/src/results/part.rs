//! The part of a result that is sent to a model, and the part that is left out.

use mgp_types::mcp::{ContentBlock, TextContent};

use super::cut_position::{cut, cut_elements, cut_plain};

/// The maximum sizes of the parts of a result that is sent to a model, in bytes: of its texts, its structured content,
/// and its images and other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) text: usize,
    pub(super) structured: usize,
    pub(super) data: usize,
}

/// A block of which the caller has seen nothing yet, or only the beginning.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    block: ContentBlock,
    len: usize,
    /// `true` if the block is the rest of a list, which is read element by element.
    is_list: bool,
}

/// The kind of a block, which determines the limit that applies to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Data,
}

/// The position in the rest of a result up to which the caller has read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) block: usize,
    pub(super) offset: usize,
    /// `true` if an element of a list was too long, so that the caller reads the rest of this block by lines.
    pub(super) is_plain: bool,
}

/// The first part of a result, and the rest of the result.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) shown: Vec<ContentBlock>,
    pub(super) rest: Vec<Rest>,
}

impl Limits {
    /// Deducts the sizes of blocks that were shown to the caller.
    pub(super) fn charge(&mut self, shown: &[ContentBlock]) {
        for block in shown {
            let (kind, len) = measure(block);
            let room = if kind == Kind::Text { &mut self.text } else { &mut self.data };
            *room = room.saturating_sub(len);
        }
    }
}

impl Rest {
    pub(super) fn new(block: ContentBlock) -> Self {
        let len = measure(&block).1;
        Self { block, len, is_list: false }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the text of the block; `None` if the block cannot be read in parts.
    fn text(&self) -> Option<&str> {
        match &self.block {
            ContentBlock::Text(content) => Some(&content.text),
            ContentBlock::Resource(embedded) => embedded.resource.text.as_deref(),
            _ => None,
        }
    }
}

/// Splits a result into the blocks that fit, with the beginning of the first text that does not fit, and the rest.
pub(super) fn first_part(content: Vec<ContentBlock>, limits: &Limits) -> Part {
    let (mut text_room, mut data_room) = (limits.text, limits.data);
    let mut part = Part::default();
    for block in content {
        let (kind, len) = measure(&block);
        let room = if kind == Kind::Text { &mut text_room } else { &mut data_room };
        if len <= *room {
            *room -= len;
            part.shown.push(block);
            continue;
        }
        let mut rest = Rest::new(block);
        if kind == Kind::Text {
            let room = std::mem::take(room);
            if room > 0
                && let Some(text) = rest.text()
            {
                let cut = cut(text, room);
                let left = &text[cut.rest..];
                let left = if cut.is_list { format!("[{left}") } else { left.to_owned() };
                let shown = with_text(&rest.block, cut.shown);
                rest = Rest::new(with_text(&rest.block, left));
                rest.is_list = cut.is_list;
                part.shown.push(shown);
            }
        }
        part.rest.push(rest);
    }
    part
}

/// Returns the part of a rest that begins at a position, and the position after the part; `None` at the end.
pub(super) fn next_part(
    rest: &[Rest],
    from: Position,
    limits: &Limits,
) -> (Vec<ContentBlock>, Option<Position>) {
    let (mut text_room, mut data_room) = (limits.text, limits.data);
    let mut shown = Vec::new();
    let mut at = from;
    while let Some(one) = rest.get(at.block) {
        let (kind, len) = measure(&one.block);
        let room = if kind == Kind::Text { &mut text_room } else { &mut data_room };
        let Some(text) = one.text() else {
            // A block that does not fit begins the next part; if it exceeds the limit by itself, it is a part alone.
            if len > *room && !shown.is_empty() {
                break;
            }
            *room = room.saturating_sub(len);
            shown.push(one.block.clone());
            at = Position { block: at.block + 1, ..Position::default() };
            continue;
        };
        if *room == 0 {
            break;
        }
        let (part, end, is_plain) = next_text(one, text, at, *room);
        *room = room.saturating_sub(part.len());
        shown.push(with_text(&one.block, part));
        if end < text.len() {
            return (shown, Some(Position { block: at.block, offset: end, is_plain }));
        }
        at = Position { block: at.block + 1, ..Position::default() };
    }
    (shown, (at.block < rest.len()).then_some(at))
}

/// Returns the next part of a text, the position of its end, and whether the text is read by lines from there on.
fn next_text(one: &Rest, text: &str, at: Position, room: usize) -> (String, usize, bool) {
    // A caller could have invented the position, so move it to the beginning of a character.
    let from = text.floor_char_boundary(at.offset);
    if one.is_list
        && !at.is_plain
        && let Some((part, end)) = cut_elements(text, from.max(1), room)
    {
        return (part, end, false);
    }
    let end = from + cut_plain(&text[from..], room);
    (text[from..end].to_owned(), end, one.is_list)
}

/// Returns the number of bytes that remain after a position: in texts, and in other blocks.
pub(super) fn count_left(rest: &[Rest], from: Position) -> (usize, usize) {
    let left = rest.iter().skip(from.block).fold((0, 0), |(text, data), one| {
        if one.text().is_some() { (text + one.len, data) } else { (text, data + one.len) }
    });
    (left.0.saturating_sub(from.offset), left.1)
}

/// Returns the kind of a block, which determines its limit, and its size in bytes.
fn measure(block: &ContentBlock) -> (Kind, usize) {
    match block {
        ContentBlock::Text(content) => (Kind::Text, content.text.len()),
        ContentBlock::Image(content) => (Kind::Data, content.data.len()),
        ContentBlock::Audio(content) => (Kind::Data, content.data.len()),
        ContentBlock::Resource(embedded) => {
            match (&embedded.resource.text, &embedded.resource.blob) {
                (Some(text), _) => (Kind::Text, text.len()),
                (None, blob) => (Kind::Data, blob.as_ref().map_or(0, String::len)),
            }
        }
        other => (Kind::Text, serde_json::to_vec(other).map_or(0, |json| json.len())),
    }
}

/// Returns a block with another text.
fn with_text(block: &ContentBlock, text: String) -> ContentBlock {
    match block {
        ContentBlock::Text(content) => {
            let (annotations, meta) = (content.annotations.clone(), content.meta.clone());
            let mut content = TextContent::new(text);
            (content.annotations, content.meta) = (annotations, meta);
            ContentBlock::Text(content)
        }
        ContentBlock::Resource(embedded) => {
            let mut embedded = embedded.clone();
            embedded.resource.text = Some(text);
            ContentBlock::Resource(embedded)
        }
        other => other.clone(),
    }
}
