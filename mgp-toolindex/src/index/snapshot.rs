//! The index at one moment: searches read one snapshot while a change prepares the next (MGP §16.4).

use crate::catalog::Catalog;
use crate::keyword::KeywordReader;
use crate::vector::VectorTable;

/// The index at one moment; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The number of changes so far.
    pub(crate) generation: u64,
    /// The number of changes of texts or vectors so far.
    pub(crate) content_version: u64,
    pub(crate) catalog: Catalog,
    /// The keyword index; `None` before the first change.
    pub(crate) keywords: Option<KeywordReader>,
    /// Vectors of tools, by slot.
    pub(crate) vectors: Option<VectorTable>,
    /// The vectors of the servers, by server number.
    pub(crate) servers: Option<VectorTable>,
}
