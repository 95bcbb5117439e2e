//! The part of a result that a model receives, and the rest of the result.

use std::io;

use mgp_types::mcp::{ContentBlock, TextContent};
use serde::Serialize;

use super::cut_position::{cut, cut_elements, cut_plain};

/// The maximum sizes, in bytes, of what a model receives at a time: of texts, of structured content, and of images and
/// other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) text: usize,
    pub(super) structured: usize,
    pub(super) data: usize,
}

/// The number of bytes of a block's other members (all but its text or data) that do not count.
const FREE_BYTES: usize = 256;

/// The maximum size of a block's other members, in bytes. A block with longer ones becomes a text block with its JSON.
const MAX_OTHER_BYTES: usize = 16 << 10;

/// The maximum number of blocks that a model receives at a time.
const MAX_BLOCKS: usize = 1000;

/// A block that the caller has not received yet, or of which it has received only the beginning.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    block: ContentBlock,
    len: usize,
    /// `true` if the text of the block is the rest of a list, which the caller reads by whole elements.
    is_list: bool,
}

/// The kind of a block, which determines the limit that applies to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Data,
}

/// The position at which a caller reads on in the rest of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) block: usize,
    pub(super) offset: usize,
    /// `true` after an element of a list that is too long for one part. The rest of the block is then cut at lines
    /// instead of elements.
    pub(super) is_plain: bool,
}

/// The first part of a result, which the caller receives, and the rest of the result.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) shown: Vec<ContentBlock>,
    pub(super) rest: Vec<Rest>,
}

impl Limits {
    /// Subtracts from the limits the sizes of blocks that the caller has received.
    pub(super) fn charge(&mut self, shown: &[ContentBlock]) {
        for block in shown {
            let size = measure(block);
            let room = if size.kind == Kind::Text { &mut self.text } else { &mut self.data };
            *room = room.saturating_sub(size.counted());
        }
    }
}

impl Rest {
    pub(super) fn new(block: ContentBlock) -> Self {
        let len = measure(&block).len;
        Self { block, len, is_list: false }
    }

    /// Returns the size of the block in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + measure(&self.block).counted()
    }

    /// Returns the text of the block; `None` if the block cannot be read in parts.
    fn text(&self) -> Option<&str> {
        text_of(&self.block)
    }
}

/// Returns the text of a content block; `None` if the block cannot be read in parts.
fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(content) => Some(&content.text),
        ContentBlock::Resource(embedded) => embedded.resource.text.as_deref(),
        _ => None,
    }
}

/// Splits a result: into the blocks that fit, including the beginning of the first text that does not fit, and into the
/// rest.
pub(super) fn first_part(content: Vec<ContentBlock>, limits: &Limits) -> Part {
    let (mut text_room, mut data_room) = (limits.text, limits.data);
    let mut part = Part::default();
    for block in content.into_iter().map(readable) {
        let size = measure(&block);
        let room = if size.kind == Kind::Text { &mut text_room } else { &mut data_room };
        let has_place = part.shown.len() < MAX_BLOCKS;
        if has_place && size.counted() <= *room {
            *room -= size.counted();
            part.shown.push(block);
            continue;
        }
        let mut rest = Rest::new(block);
        if has_place && size.kind == Kind::Text {
            let room = std::mem::take(room).saturating_sub(size.other);
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

/// Returns the part of the rest that begins at a position, and the position after this part. At the end of the rest,
/// returns no position.
pub(super) fn next_part(
    rest: &[Rest],
    from: Position,
    limits: &Limits,
) -> (Vec<ContentBlock>, Option<Position>) {
    let (mut text_room, mut data_room) = (limits.text, limits.data);
    let mut shown = Vec::new();
    let mut at = from;
    while let Some(one) = rest.get(at.block).filter(|_| shown.len() < MAX_BLOCKS) {
        let size = measure(&one.block);
        let room = if size.kind == Kind::Text { &mut text_room } else { &mut data_room };
        let Some(text) = one.text() else {
            // End the part before a block that does not fit. If a block exceeds the limit by itself, it forms a part
            // alone.
            if size.counted() > *room && !shown.is_empty() {
                break;
            }
            *room = room.saturating_sub(size.counted());
            shown.push(one.block.clone());
            at = Position { block: at.block + 1, ..Position::default() };
            continue;
        };
        if *room == 0 {
            break;
        }
        let (part, end, is_plain) = next_text(one, text, at, *room);
        *room = room.saturating_sub(part.len() + size.other);
        shown.push(with_text(&one.block, part));
        if end < text.len() {
            return (shown, Some(Position { block: at.block, offset: end, is_plain }));
        }
        at = Position { block: at.block + 1, ..Position::default() };
    }
    (shown, (at.block < rest.len()).then_some(at))
}

/// Returns the next part of a text, the position of its end, and whether to cut at lines from there on.
fn next_text(one: &Rest, text: &str, at: Position, room: usize) -> (String, usize, bool) {
    // Move the position to the beginning of a character, because a caller can send any position.
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

/// Returns the number of bytes after a position: in texts, and in other blocks.
pub(super) fn count_left(rest: &[Rest], from: Position) -> (usize, usize) {
    let left = rest.iter().skip(from.block).fold((0, 0), |(text, data), one| {
        if one.text().is_some() { (text + one.len, data) } else { (text, data + one.len) }
    });
    (left.0.saturating_sub(from.offset), left.1)
}

/// Returns the number of bytes in blocks: in texts, and in other blocks.
pub(super) fn count(blocks: &[ContentBlock]) -> (usize, usize) {
    blocks.iter().fold((0, 0), |(text, data), block| {
        let len = measure(block).len;
        if text_of(block).is_some() { (text + len, data) } else { (text, data + len) }
    })
}

/// The size of a block, in bytes.
#[derive(Clone, Copy)]
struct Size {
    /// The kind of the block, which determines its limit.
    kind: Kind,
    len: usize,
    /// The number of bytes of the block's other members (all but its text or data) that count towards the limit.
    other: usize,
}

impl Size {
    /// Returns the number of bytes that count towards the limit of the block's kind.
    fn counted(self) -> usize {
        self.len.saturating_add(self.other)
    }
}

fn measure(block: &ContentBlock) -> Size {
    let (kind, len) = match block {
        ContentBlock::Text(content) => (Kind::Text, content.text.len()),
        ContentBlock::Image(content) => (Kind::Data, content.data.len()),
        ContentBlock::Audio(content) => (Kind::Data, content.data.len()),
        ContentBlock::Resource(embedded) => {
            match (&embedded.resource.text, &embedded.resource.blob) {
                (Some(text), _) => (Kind::Text, text.len()),
                (None, blob) => (Kind::Data, blob.as_ref().map_or(0, String::len)),
            }
        }
        other => (Kind::Text, json_len(other)),
    };
    Size { kind, len, other: other_len(block).saturating_sub(FREE_BYTES) }
}

/// Returns the size of the members of a block other than its text or data; 0 for a block that is measured as a whole.
fn other_len(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(one) => json_len(&(&one.annotations, &one.meta, &one.extra)),
        ContentBlock::Image(one) => {
            json_len(&(&one.mime_type, &one.annotations, &one.meta, &one.extra))
        }
        ContentBlock::Audio(one) => {
            json_len(&(&one.mime_type, &one.annotations, &one.meta, &one.extra))
        }
        ContentBlock::Resource(one) => {
            let resource = &one.resource;
            let blob = resource.text.as_ref().and(resource.blob.as_ref());
            json_len(&(&resource.uri, &resource.mime_type, blob, &resource.meta, &resource.extra))
                + json_len(&(&one.annotations, &one.meta, &one.extra))
        }
        _ => 0,
    }
}

pub(super) fn json_len(value: &impl Serialize) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // Ignore an error, because a value that cannot be written as JSON is not sent either.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Returns a block in a form that can be read in parts. A block with long members other than its text or data becomes a
/// text block with its JSON; any other block stays unchanged.
fn readable(block: ContentBlock) -> ContentBlock {
    let other = match &block {
        ContentBlock::Text(_)
        | ContentBlock::Image(_)
        | ContentBlock::Audio(_)
        | ContentBlock::Resource(_) => other_len(&block),
        other => json_len(other),
    };
    if other <= MAX_OTHER_BYTES {
        return block;
    }
    serde_json::to_string(&block).map_or(block, ContentBlock::text)
}

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LIMITS: Limits = Limits { text: 64 << 10, structured: 256 << 10, data: 4 << 20 };

    fn split(content: &Value) -> Part {
        first_part(serde_json::from_str(&content.to_string()).unwrap(), &LIMITS)
    }

    #[test]
    fn long_members_and_many_blocks_count_towards_the_limits() {
        let long = "x".repeat(1_000_000);
        for block in [
            json!({ "type": "text", "text": "a", "_meta": { "z": long } }),
            json!({ "type": "text", "text": "a", "unknown": long }),
            json!({ "type": "image", "data": "AAAA", "mimeType": long }),
            json!({ "type": "resource", "resource": { "uri": long, "text": "a" } }),
            json!({ "type": "resource_link", "uri": "x://y", "name": "n", "description": long }),
            json!({ "type": "unknown", "blob": long }),
        ] {
            let part = split(&json!([block]));
            let shown = json_len(&part.shown);
            assert!(shown > 0 && shown < LIMITS.text + 1024, "{shown} {}", block["type"]);
            let mut all = part.shown[0].as_text().unwrap().to_owned();
            let mut at = Some(Position::default());
            while let Some(from) = at {
                let (shown, next) = next_part(&part.rest, from, &LIMITS);
                assert!(json_len(&shown) < 2 * LIMITS.text);
                all.extend(shown.iter().filter_map(ContentBlock::as_text));
                at = next;
            }
            assert_eq!(serde_json::from_str::<Value>(&all).unwrap(), block);
        }
        let many = split(&json!(vec![json!({ "type": "text", "text": "" }); 3_500]));
        assert_eq!((many.shown.len(), many.rest.len()), (MAX_BLOCKS, 2_500));
        let (shown, next) = next_part(&many.rest, Position::default(), &LIMITS);
        assert_eq!((shown.len(), next.unwrap().block), (MAX_BLOCKS, MAX_BLOCKS));
        assert!(many.rest.iter().map(Rest::bytes).sum::<usize>() >= 2_500 * size_of::<Rest>());
    }

    #[test]
    fn ordinary_members_are_not_counted() {
        let data = "A".repeat(LIMITS.data);
        let image = json!({ "type": "image", "data": data, "mimeType": "image/png" });
        let text = json!({
            "type": "text", "text": "x".repeat(LIMITS.text),
            "annotations": { "audience": ["user"], "priority": 0.5 },
        });
        let part = split(&json!([image, text]));
        assert_eq!((part.shown.len(), part.rest.len()), (2, 0));
    }
}
