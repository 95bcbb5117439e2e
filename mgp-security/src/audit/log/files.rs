//! Reading a log at rest, or one that another process writes.
//!
//! Applies to: both.

use std::path::Path;

use mgp_types::store::StoreError;

use super::error::LogError;
use super::head::Head;
use super::query::{AuditPage, AuditQuery, Reader};
use super::segments::Place;

/// The files of a log up to a head, for whoever reads and keeps nobody from writing.
///
/// What comes after the head is not seen.
#[derive(Clone, Debug)]
pub struct LogFiles(Reader);

impl LogFiles {
    /// The files of a log; without a head there is nothing in them.
    ///
    /// # Errors
    /// [`LogError::Name`].
    pub fn new(dir: &Path, name: &str, head: Option<&Head>) -> Result<Self, LogError> {
        let kept = head.map_or(0, |head| head.seq);
        Ok(Self(Reader::at_rest(Place::new(dir, name)?, kept)))
    }

    /// Finds events; each call looks at a bounded part of the log.
    ///
    /// # Errors
    /// [`StoreError`] when the log cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn query(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        self.0.run(move |reader| reader.query(&query)).await
    }
}
