//! Reading a log that this process does not write.

use std::path::Path;

use mgp_types::store::StoreError;

use super::error::LogError;
use super::head::Head;
use super::query::{AuditPage, AuditQuery, LogReader};
use super::segments::LogPlace;

/// The files of a log up to a head, for readers; they do not block the writer.
///
/// Records after the head are not returned.
#[derive(Clone, Debug)]
pub struct LogFiles(LogReader);

impl LogFiles {
    /// Opens the files of a log; without a head no record is returned.
    ///
    /// # Errors
    /// [`LogError::Name`].
    pub fn new(dir: &Path, name: &str, head: Option<&Head>) -> Result<Self, LogError> {
        let last = head.map_or(0, |head| head.seq);
        Ok(Self(LogReader::at_rest(LogPlace::new(dir, name)?, last)))
    }

    /// Returns matching events; each call reads a bounded part of the log.
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
