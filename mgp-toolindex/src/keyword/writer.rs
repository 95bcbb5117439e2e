//! The writer of the keyword index. It commits once per change, and keeps the number of segments small (MGP §16.4).

use rustc_hash::FxHashMap;
#[cfg(feature = "sqlite")]
use rustc_hash::FxHashSet;

use super::merge::{Merge, Merged, segments_to_merge};
use super::reader::{DocumentAddress, KeywordReader};
use super::segment::{Format, IndexSegment, SegmentBody};
use super::segment_builder::{Building, DocumentJob, MakeDocument};
#[cfg(feature = "sqlite")]
use super::stored_segments::{StoredDocument, StoredSegments};
use crate::catalog::{ChunkedList, Slot};
use crate::error::IndexError;

/// The maximum number of documents of an index that each commit merges completely; this takes a millisecond or two.
const MAX_DOCUMENTS_MERGED_AT_ONCE: u32 = 200;

/// The writer of the keyword index. Between two changes, it contains only data that readers share.
pub(crate) struct KeywordWriter {
    format: Format,
    segments: Vec<IndexSegment>,
    addresses: ChunkedList<DocumentAddress>,
    /// The number of the newest segment.
    last: u32,
    /// The builder of the new segments of the current change.
    building: Building,
    /// For each tool in the current change, the number of its newest document; `None` if the change removes the tool.
    latest: FxHashMap<Slot, Option<u32>>,
    /// The number of documents in the current change so far, which is also the number of its next document.
    documents: u32,
    /// The stored segments that the current change restores.
    #[cfg(feature = "sqlite")]
    stored: StoredSegments,
}

pub(crate) enum Step {
    /// Removes the document of a tool.
    Remove(Slot),
    /// Adds the document of a tool. If the tool already has a document, an earlier step must remove it.
    Add(Slot, MakeDocument),
    #[cfg(feature = "sqlite")]
    Restore(Slot, StoredDocument),
}

impl KeywordWriter {
    pub(crate) fn new() -> Self {
        Self {
            format: Format::new(),
            segments: Vec::new(),
            addresses: ChunkedList::default(),
            last: 0,
            building: Building::Idle,
            latest: FxHashMap::default(),
            documents: 0,
            #[cfg(feature = "sqlite")]
            stored: StoredSegments::default(),
        }
    }

    /// Loads stored segments for the current change; skips segments that are damaged or have an unknown tool.
    #[cfg(feature = "sqlite")]
    pub(crate) fn restore(
        &mut self,
        key: &str,
        segments: Vec<Vec<u8>>,
        is_known: &FxHashSet<[u8; 16]>,
    ) {
        self.stored = StoredSegments::read(&self.format, key, segments, is_known);
    }

    /// Removes and returns the stored document of a tool.
    #[cfg(feature = "sqlite")]
    pub(crate) fn take_stored(&mut self, hash: &[u8; 16]) -> Option<StoredDocument> {
        self.stored.take(hash)
    }

    /// Applies steps in order. Readers see them after [`Self::commit`].
    pub(crate) fn write(&mut self, steps: Vec<Step>) -> Result<(), IndexError> {
        let mut jobs: Vec<DocumentJob> = Vec::with_capacity(steps.len());
        for step in steps {
            match step {
                Step::Remove(slot) => {
                    self.latest.insert(slot, None);
                }
                Step::Add(slot, make) => {
                    self.latest.insert(slot, Some(self.documents));
                    jobs.push((self.documents, slot, make));
                    self.documents += 1;
                }
                #[cfg(feature = "sqlite")]
                Step::Restore(slot, at) => {
                    self.latest.insert(slot, Some(self.documents));
                    self.stored.put(at, slot, self.documents);
                    self.documents += 1;
                }
            }
        }
        if jobs.is_empty() { Ok(()) } else { self.building.add(&self.format, jobs) }
    }

    /// Commits the current change, and returns a reader that sees the complete change.
    pub(crate) fn commit(&mut self) -> Result<KeywordReader, IndexError> {
        let built = std::mem::take(&mut self.building).finish()?;
        #[cfg(feature = "sqlite")]
        let built = std::mem::take(&mut self.stored).into_built().chain(built);
        self.documents = 0;
        let latest = std::mem::take(&mut self.latest);
        for slot in latest.keys() {
            self.remove(*slot);
        }
        for built in built {
            let is_latest =
                |(number, slot): (&u32, &Slot)| latest.get(slot) == Some(&Some(*number));
            let is_latest: Vec<bool> =
                built.numbers.iter().zip(&built.body.slots).map(is_latest).collect();
            let segment = self.number(built.body);
            self.insert(segment, |doc| is_latest[doc]);
        }
        self.drop_empty();
        self.merge_if_small();
        Ok(self.reader())
    }

    /// Discards the steps of the current change.
    pub(crate) fn roll_back(&mut self) {
        self.building = Building::Idle;
        self.latest = FxHashMap::default();
        self.documents = 0;
        #[cfg(feature = "sqlite")]
        {
            self.stored = StoredSegments::default();
        }
    }

    /// Returns the segments to merge, if there are too many segments of one size, or a segment has too many deleted
    /// documents.
    ///
    /// Pass the result of the merge to [`Self::refresh`]. Until then, this method returns the same segments.
    pub(crate) fn merge(&self) -> Option<Merge> {
        let segments = segments_to_merge(&self.segments);
        (!segments.is_empty()).then(|| Merge { format: self.format.clone(), segments })
    }

    /// Replaces segments by the segment that was merged from them, and returns a new reader.
    pub(crate) fn refresh(&mut self, merged: Merged) -> KeywordReader {
        self.replace(merged);
        self.reader()
    }

    /// Merges all segments of a small index immediately. Deleted documents affect scores until they are merged, and
    /// equal small catalogues should give equal scores. A background thread would need more memory than these segments.
    fn merge_if_small(&mut self) {
        let documents: u32 = self.segments.iter().map(IndexSegment::documents).sum();
        let is_clean =
            self.segments.iter().all(|segment| segment.live_count() == segment.documents());
        if documents > MAX_DOCUMENTS_MERGED_AT_ONCE
            || is_clean && segments_to_merge(&self.segments).is_empty()
        {
            return;
        }
        let all = Merge { format: self.format.clone(), segments: self.segments.clone() };
        match all.run() {
            Ok(merged) => self.replace(merged),
            // Only log the failure, because the unmerged segments still work.
            Err(error) => tracing::debug!(%error, "segment merge failed"),
        }
    }

    fn replace(&mut self, merged: Merged) {
        let Merged { segments, body } = merged;
        // Documents that were deleted during the merge must be deleted in the merged segment too.
        let before = segments.iter().flat_map(|segment| {
            segment
                .live()
                .map(|(doc, slot)| (slot, DocumentAddress { segment: segment.number, doc }))
        });
        let is_same: Vec<bool> =
            before.map(|(slot, address)| self.addresses.get(slot) == Some(&address)).collect();
        self.segments.retain(|old| segments.iter().all(|segment| segment.number != old.number));
        if let Some(body) = body {
            let segment = self.number(body);
            self.insert(segment, |doc| is_same[doc]);
        }
        self.drop_empty();
    }

    fn number(&mut self, body: SegmentBody) -> IndexSegment {
        self.last += 1;
        IndexSegment::new(self.last, body)
    }

    /// Adds a segment, and deletes the documents for which `counts` returns `false`, because they were replaced or
    /// removed while the segment was built.
    fn insert(&mut self, mut segment: IndexSegment, counts: impl Fn(usize) -> bool) {
        for doc in 0..segment.documents() {
            if counts(doc as usize) {
                let slot = segment.body.slots[doc as usize];
                self.addresses.set(slot, DocumentAddress { segment: segment.number, doc }, 0);
            } else {
                segment.remove(doc);
            }
        }
        self.segments.push(segment);
    }

    fn remove(&mut self, slot: Slot) {
        let Some(address) = self.addresses.get(slot).copied() else { return };
        if let Some(segment) =
            self.segments.iter_mut().find(|segment| segment.number == address.segment)
        {
            segment.remove(address.doc);
            self.addresses.set(slot, DocumentAddress::NONE, 0);
        }
    }

    fn drop_empty(&mut self) {
        self.segments.retain(|segment| segment.live_count() > 0);
    }

    fn reader(&self) -> KeywordReader {
        KeywordReader::new(self.segments.clone(), self.addresses.clone())
    }
}

mgp_types::opaque_debug!(KeywordWriter);
mgp_types::opaque_debug!(Step);
