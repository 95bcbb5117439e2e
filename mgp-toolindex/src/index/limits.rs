//! Limits of an index (MGP §16.4).

use crate::text::TextLimits;

/// Limits of an index; a tool that exceeds one is refused with a reason and affects no other tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexLimits {
    /// Characters of a tool's name (256).
    pub name: usize,
    /// Bytes of a definition (1 MiB).
    pub definition: usize,
    /// The nesting of a definition (120: most programs read no deeper).
    pub depth: usize,
    /// Bytes of a description that are searchable (8 KiB); the rest is stored, but not searched.
    pub description: usize,
    /// Bytes of each text of a parameter that are searchable (512).
    pub parameter: usize,
    /// Parameters that are searchable (128).
    pub parameters: usize,
    /// Tools of one server (100,000).
    pub tools_of_server: usize,
    /// Tools in all (4,000,000).
    pub tools: usize,
    /// Bytes of all definitions (8 GiB).
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
