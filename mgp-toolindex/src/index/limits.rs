//! Limits of an index (MGP §16.4).

use crate::text::TextLimits;

/// The limits of an index, with their defaults in brackets. A tool that exceeds a maximum is refused with a reason, and
/// affects no other tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexLimits {
    /// The maximum number of characters in a tool's name (256).
    pub name: usize,
    /// The maximum number of bytes in a definition (1 MiB).
    pub definition: usize,
    /// The maximum nesting depth of a definition (120); many programs cannot read JSON that is nested more deeply.
    pub depth: usize,
    /// The number of searchable bytes of a description (8 KiB); the remaining bytes are stored, but not searched.
    pub description: usize,
    /// The number of searchable bytes of each text of a parameter (512).
    pub parameter: usize,
    /// The number of searchable parameters of a tool (128); the remaining parameters are stored, but not searched.
    pub parameters: usize,
    /// The maximum number of tools of one server (100,000).
    pub tools_of_server: usize,
    /// The maximum number of tools in the index (4,000,000).
    pub tools: usize,
    /// The maximum total size of all definitions, in bytes (8 GiB).
    pub bytes: u64,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            name: 256,
            definition: 1 << 20,
            depth: 120,
            description: 8 << 10,
            parameter: 512,
            parameters: 128,
            tools_of_server: 100_000,
            tools: 4_000_000,
            bytes: 8 << 30,
        }
    }
}

impl IndexLimits {
    pub(super) fn bounds(&self) -> TextLimits {
        TextLimits {
            description: self.description,
            parameter: self.parameter,
            parameters: self.parameters,
        }
    }
}
