//! The types of the rows that the index writes to its file and reads from it.

use std::mem;
use std::sync::Arc;

use mgp_types::mcp::Tool;
use mgp_types::mgp::{ServerState, ToolSecurity};

use crate::catalog::{IndexedTool, ServerEntry, Slot, ToolEntry};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerRow {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) categories: Vec<String>,
}

/// A server with all its tools, as it is written to the file.
#[derive(Debug)]
pub(crate) struct NewServer {
    pub(crate) server: ServerRow,
    pub(crate) tools: Vec<NewTool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The tool is always written.
    Always,
    /// The tool is written unless the file already has it with the same hash.
    IfChanged,
}

#[derive(Debug)]
pub(crate) struct NewTool {
    pub(crate) mode: WriteMode,
    /// The slot of the tool in the index. It is stored so that tools can be read in the order of their slots.
    pub(crate) slot: Slot,
    pub(crate) tool: IndexedTool,
    /// The categories that the user of the index gave the tool; its entry in the index can have derived categories
    /// instead.
    pub(crate) categories: Vec<String>,
    pub(crate) keywords: Vec<String>,
}

/// A new vector of a tool that is already in the file, or in the same batch.
#[derive(Debug)]
pub(crate) struct NewVector {
    pub(crate) tool: IndexedTool,
    pub(crate) model: Arc<str>,
    pub(crate) row: Box<[i8]>,
}

/// Segments of the keyword index, which replace all stored segments. The writing thread serializes them.
pub(crate) struct NewSegments {
    /// The [key](crate::keyword::key) that identifies the rules by which the segments were built. An index with other
    /// rules does not load the segments.
    pub(crate) key: String,
    /// The function that serializes the segments.
    pub(crate) make: Box<dyn Fn() -> Vec<Vec<u8>> + Send + Sync>,
}

mgp_types::opaque_debug!(NewSegments { key });

#[derive(Debug, Default)]
pub(crate) struct LoadedIndex {
    pub(crate) servers: Vec<LoadedServer>,
    /// The stored segments of the keyword index, each with the key of the rules by which it was built.
    pub(crate) words: Vec<(String, Vec<u8>)>,
    /// The number of rows that were skipped because they are damaged.
    pub(crate) unreadable: usize,
}

/// A stored server, with its tools in the order of their slots.
#[derive(Debug, Default)]
pub(crate) struct LoadedServer {
    pub(crate) server: ServerRow,
    pub(crate) tools: Vec<LoadedTool>,
}

/// A stored tool whose hash has not been checked yet.
#[derive(Debug)]
pub(crate) struct LoadedTool {
    /// The slot that the tool had when it was written.
    pub(crate) place: i64,
    pub(crate) definition: String,
    pub(crate) parsed: Option<Tool>,
    /// The metadata that the kernel decided; the server's claims are in the definition.
    pub(crate) security: Option<ToolSecurity>,
    pub(crate) categories: Vec<String>,
    pub(crate) keywords: Vec<String>,
    pub(crate) hash: [u8; 16],
    /// The exact token count; `None` if the tool was not counted.
    pub(crate) tokens: Option<u32>,
    pub(crate) vector: Option<LoadedVector>,
}

#[derive(Debug)]
pub(crate) struct LoadedVector {
    pub(crate) model: Arc<str>,
    /// The hash that the tool had when the vector was computed.
    pub(crate) hash: [u8; 16],
    pub(crate) row: Vec<i8>,
}

impl ServerRow {
    /// Returns the server without its tools, marked as disconnected.
    pub(crate) fn into_entry(self) -> ServerEntry {
        let mut entry = ServerEntry::new(self.id).state(ServerState::Disconnected);
        entry.name = self.name;
        entry.description = self.description;
        entry.categories(self.categories)
    }
}

impl LoadedTool {
    /// Parses the definition; returns whether it is valid.
    pub(crate) fn parse(&mut self) -> bool {
        self.parsed = serde_json::from_str(&self.definition).ok();
        self.parsed.is_some()
    }

    /// Returns the tool in the form in which it was put into the index; `None` if its definition was not valid. Moves
    /// the data out of `self`.
    pub(crate) fn take_entry(&mut self) -> Option<ToolEntry> {
        let tool = self.parsed.take()?;
        let mut entry = ToolEntry::from(tool);
        entry.security = self.security.take();
        entry.categories = mem::take(&mut self.categories);
        entry.keywords = mem::take(&mut self.keywords);
        Some(entry)
    }
}
