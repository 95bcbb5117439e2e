//! How much an index takes (MGP §16.4).
//!
//! Applies to: inbound.

use crate::text::Bounds;

/// How much an index takes; a tool beyond it is refused with a reason, and no other tool suffers from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexLimits {
    /// Characters of a tool's name (256).
    pub name: usize,
    /// Bytes of a definition (1 MiB).
    pub definition: usize,
    /// How deep a definition may be nested (120: most programs read no deeper).
    pub depth: usize,
    /// Bytes of a description that are searched; more is kept, not searched (8 KiB).
    pub description: usize,
    /// Bytes of what is said of one parameter that are searched (512).
    pub parameter: usize,
    /// Parameters that are searched (128).
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
    /// How much of a tool is searched.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            description: self.description,
            parameter: self.parameter,
            parameters: self.parameters,
        }
    }
}
