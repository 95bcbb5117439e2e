//! A segment of the keyword index: documents that were indexed together, and a bitmap of those that are not deleted
//! (MGP §16.4).

use std::sync::Arc;

use tantivy::columnar::{MergeRowOrder, StackMergeOrder, merge_columnar};
use tantivy::directory::{OwnedBytes, RamDirectory, TerminatingWrite as _};
use tantivy::fastfield::AliveBitSet;
use tantivy::fieldnorm::FieldNormsSerializer;
use tantivy::index::{InvertedIndexReader, Segment, SegmentComponent, SegmentReader};
use tantivy::indexer::merge_filtered_segments;
use tantivy::postings::{InvertedIndexSerializer, TermInfo};
use tantivy::schema::{self, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::StoreWriter;
use tantivy::{DocSet, Index, IndexSettings, TERMINATED, TantivyError};

use super::postings_builder::PostingsBuilder;
use crate::catalog::{Bitmap, Slot};
use crate::text::{Document, Field};

/// The schema and settings of all segments of an index.
#[derive(Clone)]
pub(super) struct Format {
    schema: Schema,
    settings: IndexSettings,
    text: schema::Field,
    name: schema::Field,
    kinds: schema::Field,
}

/// A segment, and which of its documents are not deleted; cheap to clone.
#[derive(Clone)]
pub(super) struct IndexSegment {
    /// The number of the segment in each [`DocumentAddress`](super::reader::DocumentAddress) of its documents; numbers
    /// begin with one.
    pub(super) number: u32,
    pub(super) body: Arc<SegmentBody>,
    /// The documents that are not deleted; `None` if none is deleted.
    live: Option<Arc<Bitmap>>,
    /// The number of documents that are not deleted.
    live_count: u32,
}

/// The postings and slots of a segment, without the bitmap of its live documents.
pub(super) struct SegmentBody {
    pub(super) segment: Segment,
    pub(super) text: FieldIndex,
    pub(super) name: FieldIndex,
    pub(super) kinds: Arc<InvertedIndexReader>,
    /// The slot of each document's tool.
    pub(super) slots: Box<[Slot]>,
    /// `true` if the total number of words is exact. It is only an estimate after a merge that removed documents.
    pub(super) is_exact: bool,
}

/// The postings of a field, and the lengths of its texts.
pub(super) struct FieldIndex {
    pub(super) index: Arc<InvertedIndexReader>,
    /// The number of words of each document, rounded and encoded in a byte.
    pub(super) lengths: Box<[u8]>,
}

/// The documents of a segment that is being built.
#[derive(Default)]
pub(super) struct SegmentBatch {
    text: PostingsBuilder,
    name: PostingsBuilder,
    kinds: PostingsBuilder,
    slots: Vec<Slot>,
}

impl Format {
    pub(super) fn new() -> Self {
        let mut fields = Schema::builder();
        let words = |record| {
            // Use no tokenizer, because the words are already separated by spaces.
            let indexing = TextFieldIndexing::default().set_index_option(record);
            TextOptions::default().set_indexing_options(indexing)
        };
        let text = fields.add_text_field("text", words(IndexRecordOption::WithFreqs));
        let name = fields.add_text_field("name", words(IndexRecordOption::WithFreqs));
        let kinds = TextFieldIndexing::default()
            .set_index_option(IndexRecordOption::Basic)
            .set_fieldnorms(false);
        let kinds = TextOptions::default().set_indexing_options(kinds);
        let kinds = fields.add_text_field("kinds", kinds);
        // Start no compression thread of tantivy, because no text is stored that it could compress.
        let settings =
            IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
        Self { schema: fields.build(), settings, text, name, kinds }
    }

    pub(super) fn segment(&self) -> tantivy::Result<Segment> {
        let index = Index::builder().schema(self.schema.clone()).settings(self.settings.clone());
        Ok(index.create_in_ram()?.new_segment())
    }

    pub(super) fn write(&self, batch: SegmentBatch) -> tantivy::Result<SegmentBody> {
        let segment = self.segment()?;
        let mut words = InvertedIndexSerializer::open(&segment)?;
        let all = [(self.text, &batch.text), (self.name, &batch.name), (self.kinds, &batch.kinds)];
        for (field, postings) in all {
            let mut serializer = words.new_field(field, postings.total(), None)?;
            postings.write(&mut serializer)?;
            serializer.close()?;
        }
        words.close()?;
        let lengths = segment.open_write(SegmentComponent::FieldNorms)?;
        let mut lengths = FieldNormsSerializer::from_write(lengths)?;
        lengths.serialize_field(self.text, batch.text.lengths())?;
        lengths.serialize_field(self.name, batch.name.lengths())?;
        lengths.close()?;
        self.write_empty_files(&segment, batch.slots.len())?;
        let documents = u32::try_from(batch.slots.len()).unwrap_or(u32::MAX);
        self.read(segment.with_max_doc(documents), batch.slots)
    }

    /// Writes the mandatory files for values and stored texts, which are empty here.
    fn write_empty_files(&self, segment: &Segment, documents: usize) -> tantivy::Result<()> {
        let mut columns = segment.open_write(SegmentComponent::FastFields)?;
        let none = MergeRowOrder::Stack(StackMergeOrder::stack(&[]));
        merge_columnar(&[], &[], none, &mut columns)?;
        columns.terminate()?;
        let store = segment.open_write(SegmentComponent::Store)?;
        let IndexSettings { docstore_compression, docstore_blocksize, .. } = self.settings;
        let mut store = StoreWriter::new(store, docstore_compression, docstore_blocksize, false)?;
        for _ in 0..documents {
            store.store_bytes(&[])?;
        }
        Ok(store.close()?)
    }

    /// Merges segments without their deleted documents; returns `None` if no document is left.
    pub(super) fn merge(&self, segments: &[IndexSegment]) -> tantivy::Result<Option<SegmentBody>> {
        let slots: Vec<Slot> =
            segments.iter().flat_map(IndexSegment::live).map(|(_, slot)| slot).collect();
        if slots.is_empty() {
            return Ok(None);
        }
        let parts: Vec<_> = segments.iter().map(|segment| segment.body.segment.clone()).collect();
        let live = segments.iter().map(IndexSegment::live_bitmap).collect();
        let settings = self.settings.clone();
        let index = merge_filtered_segments(&parts, settings, live, RamDirectory::create())?;
        let mut merged = index.searchable_segments()?;
        match merged.pop() {
            Some(segment) if merged.is_empty() => {
                let is_exact =
                    segments.iter().all(|segment| segment.live.is_none() && segment.body.is_exact);
                Ok(Some(SegmentBody { is_exact, ..self.read(segment, slots)? }))
            }
            _ => Err(TantivyError::InternalError("a merge has one segment".to_owned())),
        }
    }

    /// Opens a segment that was written earlier; `slots` has the slot of each document's tool.
    pub(super) fn read(&self, segment: Segment, slots: Vec<Slot>) -> tantivy::Result<SegmentBody> {
        let reader = SegmentReader::open(&segment)?;
        if reader.max_doc() as usize != slots.len() {
            return Err(TantivyError::InternalError("each document is a tool".to_owned()));
        }
        let lists = |field| {
            let lengths = reader.get_fieldnorms_reader(field)?;
            let lengths = (0..reader.max_doc()).map(|doc| lengths.fieldnorm_id(doc)).collect();
            Ok::<_, TantivyError>(FieldIndex { index: reader.inverted_index(field)?, lengths })
        };
        let (text, name) = (lists(self.text)?, lists(self.name)?);
        let kinds = reader.inverted_index(self.kinds)?;
        Ok(SegmentBody { segment, text, name, kinds, slots: slots.into(), is_exact: true })
    }
}

impl SegmentBatch {
    pub(super) fn add(&mut self, slot: Slot, document: &Document) {
        self.text.add(&document.text);
        self.name.add(&document.name);
        self.kinds.add(&document.kinds);
        self.slots.push(slot);
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.bytes() + self.name.bytes() + self.kinds.bytes()
    }
}

impl IndexSegment {
    pub(super) fn new(number: u32, body: SegmentBody) -> Self {
        let live_count = u32::try_from(body.slots.len()).unwrap_or(u32::MAX);
        Self { number, body: Arc::new(body), live: None, live_count }
    }

    /// Returns the number of documents, including deleted documents.
    pub(super) fn documents(&self) -> u32 {
        u32::try_from(self.body.slots.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn live_count(&self) -> u32 {
        self.live_count
    }

    pub(super) fn remove(&mut self, doc: u32) {
        let all = self.documents();
        let live = self.live.get_or_insert_with(|| Arc::new((0..all).collect()));
        if live.contains(doc) {
            Arc::make_mut(live).clear(doc);
            self.live_count -= 1;
        }
    }

    #[inline]
    pub(super) fn is_live(&self, doc: u32) -> bool {
        self.live.as_ref().is_none_or(|live| live.contains(doc))
    }

    /// Returns whether a word occurs in a tool of `within`. `index` is the index of a field, and `info` the location of
    /// the word's postings in it.
    pub(super) fn has_word(
        &self,
        index: &InvertedIndexReader,
        info: &TermInfo,
        within: Option<&Bitmap>,
    ) -> tantivy::Result<bool> {
        let mut postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        let mut doc = postings.doc();
        while doc != TERMINATED {
            let slot = self.body.slots[doc as usize];
            if self.is_live(doc) && within.is_none_or(|within| within.contains(slot)) {
                return Ok(true);
            }
            doc = postings.advance();
        }
        Ok(false)
    }

    /// Returns the number of tools of `within` that have a word. `index` is the index of a field, and `info` the
    /// location of the word's postings in it.
    pub(super) fn count(
        &self,
        index: &InvertedIndexReader,
        info: &TermInfo,
        within: &Bitmap,
    ) -> tantivy::Result<u64> {
        let mut list = index.read_block_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        let mut count = 0;
        while !list.docs().is_empty() {
            let shows = |doc: &&u32| {
                self.is_live(**doc) && within.contains(self.body.slots[**doc as usize])
            };
            count += list.docs().iter().filter(shows).count() as u64;
            list.advance();
        }
        Ok(count)
    }

    /// Returns the documents that are not deleted, and their tools.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, Slot)> + '_ {
        (0..).zip(self.body.slots.iter().copied()).filter(|(doc, _)| self.is_live(*doc))
    }

    /// Returns the documents that are not deleted, as a bitmap in the format of tantivy; `None` means all documents.
    fn live_bitmap(&self) -> Option<AliveBitSet> {
        let live = self.live.as_ref()?;
        let mut bytes = self.documents().to_le_bytes().to_vec();
        live.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        Some(AliveBitSet::open(OwnedBytes::new(bytes)))
    }
}

impl SegmentBody {
    #[inline]
    pub(super) fn index(&self, field: Field) -> &FieldIndex {
        match field {
            Field::Text => &self.text,
            Field::Name => &self.name,
        }
    }
}
