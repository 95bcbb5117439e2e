//! What is written into the file, and what is read from it.
//!
//! Applies to: both.

use std::sync::Arc;
use std::{fmt, mem};

use mgp_types::mcp::Tool;
use mgp_types::mgp::{ServerState, ToolSecurity};

use crate::catalog::{Listed, ServerEntry, Slot, ToolEntry};

/// A server without its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerRow {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) categories: Vec<String>,
}

/// A server with all of its tools, to be written.
#[derive(Debug)]
pub(crate) struct NewServer {
    pub(crate) server: ServerRow,
    pub(crate) tools: Vec<NewTool>,
}

/// Whether a tool is other than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It is written whatever the file has.
    New,
    /// It is written unless the file has its hash.
    Old,
}

/// A tool to be written.
#[derive(Debug)]
pub(crate) struct NewTool {
    pub(crate) news: News,
    /// Tools are read back in the order of their slots.
    pub(crate) slot: Slot,
    pub(crate) tool: Listed,
    /// The categories it was given; those it is listed with may be derived.
    pub(crate) categories: Vec<String>,
    /// The keywords it was given.
    pub(crate) keywords: Vec<String>,
}

/// A vector of a tool that was put in before, or with it.
#[derive(Debug)]
pub(crate) struct NewVector {
    pub(crate) tool: Listed,
    pub(crate) model: Arc<str>,
    pub(crate) row: Box<[i8]>,
}

/// Parts of the keyword index to be written, in place of those that are there; they are made when they are written.
pub(crate) struct NewWords {
    /// What they are made by.
    pub(crate) key: String,
    pub(crate) make: Box<dyn Fn() -> Vec<Vec<u8>> + Send + Sync>,
}

impl fmt::Debug for NewWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewWords").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) servers: Vec<OldServer>,
    /// Parts of the keyword index, each with what it was made by.
    pub(crate) words: Vec<(String, Vec<u8>)>,
    /// How many rows could not be read.
    pub(crate) unreadable: usize,
}

/// A server that was read, with its tools in the order of their slots.
#[derive(Debug, Default)]
pub(crate) struct OldServer {
    pub(crate) server: ServerRow,
    pub(crate) tools: Vec<OldTool>,
}

/// A tool that was read; whether its hash is right is not known yet.
#[derive(Debug)]
pub(crate) struct OldTool {
    /// The slot it had.
    pub(crate) place: i64,
    pub(crate) definition: String,
    /// The same as a tool, once it was read.
    pub(crate) parsed: Option<Tool>,
    /// Only what was decided here; what its server claims is in the definition.
    pub(crate) security: Option<ToolSecurity>,
    pub(crate) categories: Vec<String>,
    pub(crate) keywords: Vec<String>,
    pub(crate) hash: [u8; 16],
    /// Only where they were counted.
    pub(crate) tokens: Option<u32>,
    pub(crate) vector: Option<OldVector>,
}

/// A vector that was read.
#[derive(Debug)]
pub(crate) struct OldVector {
    pub(crate) model: Arc<str>,
    /// The tool as it was when the vector was made.
    pub(crate) hash: [u8; 16],
    pub(crate) row: Vec<i8>,
}

impl ServerRow {
    /// The server without its tools, as it was put in; nobody has connected to it yet.
    pub(crate) fn into_entry(self) -> ServerEntry {
        let mut entry = ServerEntry::new(self.id).state(ServerState::Disconnected);
        entry.name = self.name;
        entry.description = self.description;
        entry.categories(self.categories)
    }
}

impl OldTool {
    /// Reads the definition; says whether it is one.
    pub(crate) fn parse(&mut self) -> bool {
        self.parsed = serde_json::from_str(&self.definition).ok();
        self.parsed.is_some()
    }

    /// The tool as it was put in, if its definition was read; moves what it can.
    pub(crate) fn take_entry(&mut self) -> Option<ToolEntry> {
        let tool = self.parsed.take()?;
        let mut entry = ToolEntry::from(tool);
        entry.security = self.security.take();
        entry.categories = mem::take(&mut self.categories);
        entry.keywords = mem::take(&mut self.keywords);
        Some(entry)
    }
}
