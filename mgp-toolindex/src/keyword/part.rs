//! A part of the keyword index: documents that were indexed together; of one that goes only that is noted (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

use tantivy::columnar::{MergeRowOrder, StackMergeOrder, merge_columnar};
use tantivy::directory::{OwnedBytes, RamDirectory, TerminatingWrite as _};
use tantivy::fastfield::AliveBitSet;
use tantivy::fieldnorm::FieldNormsSerializer;
use tantivy::index::{InvertedIndexReader, Segment, SegmentComponent, SegmentReader};
use tantivy::indexer::merge_filtered_segments;
use tantivy::postings::InvertedIndexSerializer;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::StoreWriter;
use tantivy::{Index, IndexSettings, TantivyError};

use super::gathered::Gathered;
use crate::catalog::{Bitmap, Slot};
use crate::text::{Document, Place};

/// How parts are laid out; one for all of an index.
#[derive(Clone)]
pub(super) struct Format {
    schema: Schema,
    settings: IndexSettings,
    /// All words.
    text: Field,
    /// The words of the name.
    name: Field,
    /// Types of input and output.
    kinds: Field,
}

/// A part with what has changed since it was made; cheap to clone.
#[derive(Clone)]
pub(super) struct Part {
    /// Names it in [`Standing`](super::reader::Standing); counted from one.
    pub(super) number: u32,
    pub(super) body: Arc<Body>,
    /// The documents that are not gone, once one is.
    alive: Option<Arc<Bitmap>>,
    /// How many are not gone.
    left: u32,
}

/// What of a part never changes.
pub(super) struct Body {
    pub(super) segment: Segment,
    pub(super) text: Lists,
    pub(super) name: Lists,
    pub(super) kinds: Arc<InvertedIndexReader>,
    /// The tool of each document.
    pub(super) slots: Box<[Slot]>,
    /// Whether it counts its words as if it had just been made; where something was merged away they are estimated.
    pub(super) is_exact: bool,
}

/// Where the words of a field are listed, and how long its texts are.
pub(super) struct Lists {
    pub(super) index: Arc<InvertedIndexReader>,
    /// For each document the byte that stands for its length.
    pub(super) lengths: Box<[u8]>,
}

/// A part that is being made.
#[derive(Default)]
pub(super) struct Open {
    text: Gathered,
    name: Gathered,
    kinds: Gathered,
    slots: Vec<Slot>,
}

// === impl Format ===

impl Format {
    pub(super) fn new() -> Self {
        let mut schema = Schema::builder();
        let words = |record| {
            // The words come one by one; nothing cuts texts.
            let indexing = TextFieldIndexing::default().set_index_option(record);
            TextOptions::default().set_indexing_options(indexing)
        };
        let text = schema.add_text_field("text", words(IndexRecordOption::WithFreqs));
        let name = schema.add_text_field("name", words(IndexRecordOption::WithFreqs));
        let kinds = TextFieldIndexing::default()
            .set_index_option(IndexRecordOption::Basic)
            .set_fieldnorms(false);
        let kinds = TextOptions::default().set_indexing_options(kinds);
        let kinds = schema.add_text_field("kinds", kinds);
        // Nothing is stored, so there is nothing to compress on a thread of its own.
        let settings =
            IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
        Self { schema: schema.build(), settings, text, name, kinds }
    }

    /// A place for a new part.
    pub(super) fn segment(&self) -> tantivy::Result<Segment> {
        let index = Index::builder().schema(self.schema.clone()).settings(self.settings.clone());
        Ok(index.create_in_ram()?.new_segment())
    }

    /// Ends a part that is being made.
    pub(super) fn close(&self, open: Open) -> tantivy::Result<Body> {
        let segment = self.segment()?;
        let mut words = InvertedIndexSerializer::open(&segment)?;
        let all = [(self.text, &open.text), (self.name, &open.name), (self.kinds, &open.kinds)];
        for (field, gathered) in all {
            let mut list = words.new_field(field, gathered.total(), None)?;
            gathered.write(&mut list)?;
            list.close()?;
        }
        words.close()?;
        let lengths = segment.open_write(SegmentComponent::FieldNorms)?;
        let mut lengths = FieldNormsSerializer::from_write(lengths)?;
        lengths.serialize_field(self.text, open.text.lengths())?;
        lengths.serialize_field(self.name, open.name.lengths())?;
        lengths.close()?;
        self.write_nothing(&segment, open.slots.len())?;
        let documents = u32::try_from(open.slots.len()).unwrap_or(u32::MAX);
        self.read(segment.with_max_doc(documents), open.slots)
    }

    /// Writes what else a segment has: values and texts of documents, of which ours have none.
    fn write_nothing(&self, segment: &Segment, documents: usize) -> tantivy::Result<()> {
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

    /// Makes one of several parts, without what is gone from them; nothing if nothing is left.
    pub(super) fn merge(&self, parts: &[Part]) -> tantivy::Result<Option<Body>> {
        let slots: Vec<Slot> = parts.iter().flat_map(Part::alive).map(|(_, slot)| slot).collect();
        if slots.is_empty() {
            return Ok(None);
        }
        let segments: Vec<_> = parts.iter().map(|part| part.body.segment.clone()).collect();
        let alive = parts.iter().map(Part::alive_set).collect();
        let settings = self.settings.clone();
        let index = merge_filtered_segments(&segments, settings, alive, RamDirectory::create())?;
        let mut segments = index.searchable_segments()?;
        match segments.pop() {
            Some(segment) if segments.is_empty() => {
                let is_exact = parts.iter().all(|part| part.alive.is_none() && part.body.is_exact);
                Ok(Some(Body { is_exact, ..self.read(segment, slots)? }))
            }
            _ => Err(TantivyError::InternalError("a part is one segment".to_owned())),
        }
    }

    /// Reads a part that was written.
    pub(super) fn read(&self, segment: Segment, slots: Vec<Slot>) -> tantivy::Result<Body> {
        let reader = SegmentReader::open(&segment)?;
        if reader.max_doc() as usize != slots.len() {
            return Err(TantivyError::InternalError("each document is a tool".to_owned()));
        }
        let lists = |field| {
            let lengths = reader.get_fieldnorms_reader(field)?;
            let lengths = (0..reader.max_doc()).map(|doc| lengths.fieldnorm_id(doc)).collect();
            Ok::<_, TantivyError>(Lists { index: reader.inverted_index(field)?, lengths })
        };
        let (text, name) = (lists(self.text)?, lists(self.name)?);
        let kinds = reader.inverted_index(self.kinds)?;
        Ok(Body { segment, text, name, kinds, slots: slots.into(), is_exact: true })
    }
}

// === impl Open ===

impl Open {
    /// Adds the document of a tool.
    pub(super) fn add(&mut self, slot: Slot, document: &Document) {
        self.text.add(&document.text);
        self.name.add(&document.name);
        self.kinds.add(&document.kinds);
        self.slots.push(slot);
    }

    /// How much memory it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.text.bytes() + self.name.bytes() + self.kinds.bytes()
    }
}

// === impl Part ===

impl Part {
    /// A part of which nothing is gone.
    pub(super) fn new(number: u32, body: Body) -> Self {
        let left = u32::try_from(body.slots.len()).unwrap_or(u32::MAX);
        Self { number, body: Arc::new(body), alive: None, left }
    }

    /// How many documents it has, those that are gone included.
    pub(super) fn documents(&self) -> u32 {
        u32::try_from(self.body.slots.len()).unwrap_or(u32::MAX)
    }

    /// How many of them are not gone.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Notes that a document is gone.
    pub(super) fn remove(&mut self, doc: u32) {
        let all = self.documents();
        let alive = self.alive.get_or_insert_with(|| Arc::new((0..all).collect()));
        if alive.contains(doc) {
            Arc::make_mut(alive).clear(doc);
            self.left -= 1;
        }
    }

    #[inline]
    pub(super) fn is_alive(&self, doc: u32) -> bool {
        self.alive.as_ref().is_none_or(|alive| alive.contains(doc))
    }

    /// The documents that are not gone, and their tools.
    pub(super) fn alive(&self) -> impl Iterator<Item = (u32, Slot)> + '_ {
        (0..).zip(self.body.slots.iter().copied()).filter(|(doc, _)| self.is_alive(*doc))
    }

    /// The same for whoever merges.
    fn alive_set(&self) -> Option<AliveBitSet> {
        let alive = self.alive.as_ref()?;
        let mut bytes = self.documents().to_le_bytes().to_vec();
        alive.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        Some(AliveBitSet::open(OwnedBytes::new(bytes)))
    }
}

// === impl Body ===

impl Body {
    #[inline]
    pub(super) fn lists(&self, place: Place) -> &Lists {
        match place {
            Place::Text => &self.text,
            Place::Name => &self.name,
        }
    }
}
