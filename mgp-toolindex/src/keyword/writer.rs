//! Changes the keyword index: one commit for each change, and few segments (MGP §16.4).
//!
//! Applies to: inbound.

use rustc_hash::FxHashMap;
use tantivy::index::{SegmentId, SegmentMeta};
use tantivy::indexer::{
    IndexWriterOptions, LogMergePolicy, MergePolicy, NoMergePolicy, UserOperation,
};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{TextAnalyzer, WhitespaceTokenizer};
use tantivy::{
    FutureResult, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, TantivyDocument,
    Term,
};

use super::reader::{KeywordReader, SegmentSlots, Standing};
use crate::catalog::{Chunks, Slot};
use crate::error::IndexError;
use crate::text::Document;

/// What the tokenizer is called.
const WORDS: &str = "words";

/// What the writer may hold before it writes a segment, in bytes; the least that it takes.
const HEAP: usize = 15_000_000;

/// Up to so many documents those that are gone are forgotten at once; it takes a millisecond or two.
const FEW: u32 = 200;

/// The fields of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// All words.
    pub(crate) text: Field,
    /// The words of the name.
    pub(crate) name: Field,
    /// Types of input and output.
    pub(crate) kinds: Field,
    /// Its number.
    pub(crate) slot: Field,
}

/// The writing side.
pub(crate) struct Keywords {
    writer: IndexWriter,
    reader: IndexReader,
    fields: Fields,
    policy: LogMergePolicy,
    /// Which tool each document of a segment is; segments never change but for documents that go.
    segments: FxHashMap<SegmentId, SegmentSlots>,
    /// Where each tool is.
    standing: Chunks<Standing>,
    /// The last number that was given to a segment.
    last: u32,
    /// Tools whose documents go with the next commit.
    gone: Vec<Slot>,
    /// Whether something was handed over and not committed.
    is_dirty: bool,
}

/// A step of a change.
#[derive(Debug)]
pub(crate) enum Step {
    /// The document of a tool goes.
    Gone(Slot),
    /// One comes; the one before must be gone.
    New(Slot, Document),
}

/// Segments that are being made one.
pub(crate) struct Merge(FutureResult<Option<SegmentMeta>>);

impl Keywords {
    /// Makes an empty index.
    pub(crate) fn new() -> Result<Self, IndexError> {
        let (schema, fields) = schema();
        let settings =
            IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
        let index = Index::builder().schema(schema).settings(settings).create_in_ram()?;
        // The text comes as words with spaces between them.
        let words = TextAnalyzer::builder(WhitespaceTokenizer::default()).build();
        index.tokenizers().register(WORDS, words);
        // One thread writes, so that a commit makes one segment; one merges.
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(HEAP)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        let writer: IndexWriter = index.writer_with_options(options)?;
        // Segments are merged when we say so, because somebody has to look at the result.
        writer.set_merge_policy(Box::new(NoMergePolicy));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self {
            writer,
            reader,
            fields,
            policy: policy(),
            segments: FxHashMap::default(),
            standing: Chunks::default(),
            last: 0,
            gone: Vec::new(),
            is_dirty: false,
        })
    }

    /// Hands steps over, in their order. Nobody sees them before [`Self::commit`].
    pub(crate) fn write(&mut self, steps: Vec<Step>) -> Result<(), IndexError> {
        let Fields { text, name, kinds, slot: number } = self.fields;
        self.is_dirty = true;
        let mut operations = Vec::with_capacity(steps.len());
        for step in steps {
            operations.push(match step {
                Step::Gone(slot) => {
                    self.gone.push(slot);
                    UserOperation::Delete(Term::from_field_u64(number, slot.into()))
                }
                Step::New(slot, document) => {
                    let mut fields = TantivyDocument::new();
                    fields.add_u64(number, slot.into());
                    fields.add_text(text, &document.text);
                    fields.add_text(name, &document.name);
                    fields.add_text(kinds, &document.kinds);
                    UserOperation::Add(fields)
                }
            });
        }
        self.writer.run(operations)?;
        Ok(())
    }

    /// Commits what was handed over, once; the reader that is returned sees all of it.
    pub(crate) fn commit(&mut self) -> Result<KeywordReader, IndexError> {
        self.writer.commit()?;
        self.is_dirty = false;
        self.merge_few();
        let gone = std::mem::take(&mut self.gone);
        self.reload(&gone)
    }

    /// Takes back what was handed over and not committed; it must not come with the next commit.
    pub(crate) fn roll_back(&mut self) {
        if !self.is_dirty {
            return;
        }
        self.is_dirty = false;
        self.gone.clear();
        match self.writer.rollback() {
            // Underneath it is another writer now.
            Ok(_) => self.writer.set_merge_policy(Box::new(NoMergePolicy)),
            Err(error) => tracing::error!(%error, "the keyword index could not take a change back"),
        }
    }

    /// Begins to merge segments, if there are too many of one size or too many documents in one that are gone.
    ///
    /// [`Self::refresh`] has to be called once it is done.
    pub(crate) fn merge(&mut self) -> Result<Option<Merge>, IndexError> {
        let all = self.writer.index().searchable_segment_metas()?;
        let due = self.policy.compute_merge_candidates(&all).into_iter().next_back();
        Ok(due.map(|due| Merge(self.writer.merge(&due.0))))
    }

    /// The reader after segments were merged.
    pub(crate) fn refresh(&mut self) -> Result<KeywordReader, IndexError> {
        self.reload(&[])
    }

    /// Forgets at once what is gone from a small index, where it would be felt: equal catalogues give equal scores.
    fn merge_few(&mut self) {
        let Ok(all) = self.writer.index().searchable_segment_metas() else { return };
        let documents: u32 = all.iter().map(SegmentMeta::max_doc).sum();
        if documents > FEW || !all.iter().any(SegmentMeta::has_deletes) {
            return;
        }
        let ids: Vec<SegmentId> = all.iter().map(SegmentMeta::id).collect();
        // Some may be in the hands of a merge from when there were more; then these serve as they are.
        if let Err(error) = self.writer.merge(&ids).wait() {
            tracing::debug!(%error, "segments were not merged");
        }
    }

    fn reload(&mut self, gone: &[Slot]) -> Result<KeywordReader, IndexError> {
        self.reader.reload()?;
        let searcher = self.reader.searcher();
        for slot in gone {
            self.standing.set(*slot, Standing::NOWHERE, 0);
        }
        let mut segments = FxHashMap::default();
        let mut all = Vec::new();
        for segment in searcher.segment_readers() {
            let id = segment.segment_id();
            let known = match self.segments.remove(&id) {
                Some(known) => known,
                None => self.look_at(segment)?,
            };
            all.push(known.clone());
            segments.insert(id, known);
        }
        self.segments = segments;
        KeywordReader::new(searcher, self.fields, all, self.standing.clone())
    }

    /// Reads which tools are in a segment that is new.
    fn look_at(&mut self, segment: &tantivy::SegmentReader) -> Result<SegmentSlots, IndexError> {
        self.last += 1;
        let column = segment.fast_fields().u64(SLOT)?;
        let alive = segment.alive_bitset();
        let mut slots = Vec::with_capacity(segment.max_doc() as usize);
        for doc in 0..segment.max_doc() {
            let slot = column.first(doc).and_then(|slot| Slot::try_from(slot).ok());
            slots.push(slot.unwrap_or(Slot::MAX));
            if let Some(slot) = slot.filter(|_| alive.is_none_or(|alive| alive.is_alive(doc))) {
                self.standing.set(slot, Standing { segment: self.last, doc }, 0);
            }
        }
        Ok(SegmentSlots { number: self.last, slots: slots.into() })
    }
}

impl std::fmt::Debug for Keywords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keywords").field("segments", &self.segments.len()).finish_non_exhaustive()
    }
}

impl Merge {
    /// Waits until it is done.
    pub(crate) fn wait(self) -> Result<(), IndexError> {
        self.0.wait()?;
        Ok(())
    }
}

/// The name of the number's field.
const SLOT: &str = "slot";

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = |record| {
        let indexing = TextFieldIndexing::default().set_tokenizer(WORDS).set_index_option(record);
        TextOptions::default().set_indexing_options(indexing)
    };
    let text = schema.add_text_field("text", words(IndexRecordOption::WithFreqs));
    let name = schema.add_text_field("name", words(IndexRecordOption::WithFreqs));
    let kinds = TextFieldIndexing::default()
        .set_tokenizer(WORDS)
        .set_index_option(IndexRecordOption::Basic)
        .set_fieldnorms(false);
    let kinds = schema.add_text_field("kinds", TextOptions::default().set_indexing_options(kinds));
    let slot = schema.add_u64_field(SLOT, FAST | INDEXED);
    (schema.build(), Fields { text, name, kinds, slot })
}

/// Four segments of about one size are made one, and one of which a quarter is gone is written anew.
///
/// So there are about three of each size, sizes four apart: some ten segments for a hundred thousand tools.
fn policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(4);
    policy.set_min_layer_size(2_000);
    policy.set_level_log_size(2.0);
    policy.set_del_docs_ratio_before_merge(0.25);
    policy
}
