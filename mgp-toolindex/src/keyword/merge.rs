//! Merges segments, to keep their number small (MGP §16.4).
//!
//! Segments of about the same size form a class. The segments of a class are merged when there are four of them, or
//! when more than a quarter of the documents of one of them are deleted. So each class has at most three segments after
//! a merge, each about four times as large as a segment of the next smaller class. A hundred thousand tools need about
//! ten segments.

use super::segment::{Format, IndexSegment, SegmentBody};
use crate::error::IndexError;

/// The number of segments of a size class at which they are merged.
const MERGE_FACTOR: usize = 4;

/// The number of documents below which all segments are in the same class.
const MIN_CLASS_SIZE: u32 = 2_000;

/// The maximum ratio between the sizes of the largest and the smallest segment of a class.
const CLASS_RATIO: u32 = 4;

/// The inverse of the maximum share of deleted documents: with 4, a segment is merged if more than a quarter of its
/// documents are deleted.
const MAX_DELETED_RATIO: u32 = 4;

pub(crate) struct Merge {
    pub(super) format: Format,
    pub(super) segments: Vec<IndexSegment>,
}

pub(crate) struct Merged {
    /// The segments that were merged, as they were before the merge.
    pub(super) segments: Vec<IndexSegment>,
    /// The merged segment; `None` if no document is left.
    pub(super) body: Option<SegmentBody>,
}

impl Merge {
    /// Merges the segments. This takes about a second per 100,000 tools, and can run on any thread.
    pub(crate) fn run(self) -> Result<Merged, IndexError> {
        let body = self.format.merge(&self.segments)?;
        Ok(Merged { segments: self.segments, body })
    }
}

/// Returns the segments to merge next: all segments of the smallest size class that needs a merge, or no segments if no
/// class needs a merge.
pub(super) fn segments_to_merge(segments: &[IndexSegment]) -> Vec<IndexSegment> {
    let mut sorted: Vec<&IndexSegment> = segments.iter().collect();
    sorted.sort_by_key(|segment| std::cmp::Reverse(segment.documents()));
    let mut levels: Vec<(u32, Vec<&IndexSegment>)> = Vec::new();
    for segment in sorted {
        let size = segment.live_count().max(MIN_CLASS_SIZE);
        match levels.last_mut() {
            Some((largest, level)) if size.saturating_mul(CLASS_RATIO) >= *largest => {
                level.push(segment);
            }
            _ => levels.push((size, vec![segment])),
        }
    }
    let is_due = |level: &Vec<&IndexSegment>| {
        let mostly = |segment: &&IndexSegment| {
            u64::from(segment.documents() - segment.live_count()) * u64::from(MAX_DELETED_RATIO)
                > u64::from(segment.documents())
        };
        level.len() >= MERGE_FACTOR || level.iter().any(mostly)
    };
    let due = levels.into_iter().map(|(_, level)| level).rfind(is_due);
    due.unwrap_or_default().into_iter().cloned().collect()
}
