//! The index at one moment: searches read it while the next one is made (MGP §16.4).

use crate::catalog::Catalog;
use crate::keyword::KeywordReader;
use crate::vector::VectorTable;

/// The index at one moment; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The number of changes.
    pub(crate) generation: u64,
    pub(crate) catalog: Catalog,
    /// `None` before the first change.
    pub(crate) keywords: Option<KeywordReader>,
    /// Vectors of tools, by slot.
    pub(crate) vectors: Option<VectorTable>,
    /// Vectors of servers, by their number.
    pub(crate) servers: Option<VectorTable>,
}
