//! A change of one server, as the index passes it to the database.

use std::mem;

use crate::catalog::{Slot, ToolEntry};
use crate::persist::{ServerRow, WriteMode};

/// One change to write to the database.
#[derive(Debug)]
pub(super) enum ServerChange {
    /// A server was added or replaced, with these tools.
    Put(ServerRow, Vec<PutTool>),
    /// The server with this id was removed.
    Remove(String),
}

/// The data of an added or replaced tool that its entry in the index does not contain.
#[derive(Debug)]
pub(super) struct PutTool {
    pub(super) slot: Slot,
    pub(super) mode: WriteMode,
    pub(super) categories: Vec<String>,
    pub(super) keywords: Vec<String>,
}

impl PutTool {
    pub(super) fn take(slot: Slot, mode: WriteMode, tool: &mut ToolEntry) -> Self {
        let categories = mem::take(&mut tool.categories);
        Self { slot, mode, categories, keywords: mem::take(&mut tool.keywords) }
    }
}
