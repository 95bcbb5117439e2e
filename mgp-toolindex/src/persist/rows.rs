//! What is written into the file, and what is read from it.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_types::mgp::ToolSecurity;

use crate::catalog::{Decided, Listed, Slot};

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
    /// The model that made the rows of the tools.
    pub(crate) model: Option<Arc<str>>,
}

/// A tool to be written; one with the hash that the file has is left as it is there.
#[derive(Debug)]
pub(crate) struct NewTool {
    /// Tools are read back in the order of their slots.
    pub(crate) slot: Slot,
    pub(crate) tool: Listed,
    /// Its vector, if it was made anew.
    pub(crate) row: Option<Box<[i8]>>,
}

/// A vector that was made after its tool was put in.
#[derive(Debug)]
pub(crate) struct NewVector {
    pub(crate) tool: Listed,
    pub(crate) model: Arc<str>,
    pub(crate) row: Box<[i8]>,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) servers: Vec<OldServer>,
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
    pub(crate) place: i64,
    pub(crate) name: String,
    pub(crate) definition: String,
    pub(crate) security: Option<ToolSecurity>,
    pub(crate) decided: Decided,
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
