//! Reads and checks the definition of a tool (MGP §16.4).

use std::borrow::Cow;

use bytestring::ByteString;

use super::limits::IndexLimits;
use super::put_report::ToolRefusal;
use crate::catalog::{Server, ToolEntry};
use crate::text::compact;

/// A tool's definition that was checked and accepted.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) json: ByteString,
    pub(super) hash: [u8; 16],
}

impl Definition {
    /// Checks a tool and serialises its definition. If `kept`, the stored text of the definition, is given, uses this
    /// text instead; the hash in the result shows whether it still belongs to the tool.
    pub(super) fn of(
        given: &ToolEntry,
        kept: Option<String>,
        server: &Server,
        limits: &IndexLimits,
    ) -> Result<Self, ToolRefusal> {
        let name = &given.tool.name;
        if name.is_empty() {
            return Err(ToolRefusal::NoName);
        }
        // Count the characters only if there are more bytes than allowed characters, because a text never has more
        // characters than bytes.
        if name.len() > limits.name {
            let length = name.chars().count();
            if length > limits.name {
                return Err(ToolRefusal::LongName { length, most: limits.name });
            }
        }
        let json = match kept {
            Some(kept) => kept,
            None => serde_json::to_string(&given.tool)
                .map_err(|error| ToolRefusal::InvalidJson(error.to_string()))?,
        };
        let (compacted, depth) = compact(&json);
        if depth > limits.depth {
            return Err(ToolRefusal::Deep { depth, most: limits.depth });
        }
        let json = match compacted {
            Cow::Borrowed(_) => json,
            Cow::Owned(compacted) => compacted,
        };
        if json.len() > limits.definition {
            return Err(ToolRefusal::LongDefinition { bytes: json.len(), most: limits.definition });
        }
        let hash = hash(&json, given, server);
        // Use a boxed text, because it has no unused capacity.
        Ok(Self { json: ByteString::from(json.into_boxed_str()), hash })
    }
}

/// Returns a hash of everything that the index stores about a tool.
fn hash(json: &str, given: &ToolEntry, server: &Server) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    // Hash the length of each text before the text, so that different lists of texts never produce the same bytes.
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(json);
    let security = given.security.as_ref().map(serde_json::to_string);
    add(&security.and_then(Result::ok).unwrap_or_default());
    for list in [&given.categories, &given.keywords] {
        add("");
        for word in list {
            add(word);
        }
    }
    add(&server.id);
    add(server.name.as_deref().unwrap_or_default());
    add(server.description.as_deref().unwrap_or_default());
    for word in &server.categories.words {
        add(word);
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}
