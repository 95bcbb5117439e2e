//! Stored segments of the keyword index. With them, opening an index loads its words, and need not split all texts
//! again (MGP §16.4).
//!
//! A segment is stored with the hash of each document's tool, and restored only if each of these tools is unchanged.
//! All other tools are indexed again, so an opened index finds the same tools as a new index.

use std::io::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};
use tantivy::TantivyError;
use tantivy::directory::TerminatingWrite as _;
use tantivy::index::SegmentComponent;

use super::reader::KeywordReader;
use super::segment::{Format, SegmentBody};
use super::segment_builder::BuiltSegment;
use crate::catalog::{Catalog, Slot};
use crate::text::{DOCUMENT_VERSION, TextLimits};

type ToolHash = [u8; 16];

const FILE_COUNT: usize = 6;

const FILES: [SegmentComponent; FILE_COUNT] = [
    SegmentComponent::Terms,
    SegmentComponent::Postings,
    SegmentComponent::Positions,
    SegmentComponent::FieldNorms,
    SegmentComponent::FastFields,
    SegmentComponent::Store,
];

/// The maximum size of all stored segments, in bytes; tools beyond it are indexed again when the index is opened.
const MAX_STORED_BYTES: usize = 128 << 20;

/// The value that replaces the slot of a document that is not yet assigned to a tool.
const NO_SLOT: u32 = u32::MAX;

/// Returns a key for everything that determines the stored words: the version of the analyser, the limits, and the file
/// format. Segments that were stored with another key are not restored.
pub(crate) fn key(limits: TextLimits) -> String {
    let TextLimits { description, parameter, parameters } = limits;
    let format = tantivy::version_string();
    format!("words {DOCUMENT_VERSION}, {description} {parameter} {parameters}, {format}")
}

#[derive(Debug, Default)]
pub(super) struct StoredSegments {
    segments: Vec<StoredSegment>,
    /// The documents of tools, by the hash of the tool; an entry is removed when its tool is restored.
    documents: FxHashMap<ToolHash, StoredDocument>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredDocument {
    segment: usize,
    doc: usize,
}

/// A stored segment whose documents are not yet assigned to slots of the index.
struct StoredSegment {
    built: BuiltSegment,
    hashes: Vec<ToolHash>,
}

impl StoredSegments {
    /// Reads the stored segments; skips segments that are damaged or contain a tool that is not in the index.
    pub(super) fn read(
        format: &Format,
        key: &str,
        all: Vec<Vec<u8>>,
        is_known: &FxHashSet<ToolHash>,
    ) -> Self {
        let mut stored = Self::default();
        for bytes in all {
            let Some((hashes, files)) = split(key, &bytes) else { continue };
            let is_unknown = |hash| !is_known.contains(hash) || stored.documents.contains_key(hash);
            if hashes.iter().any(is_unknown) {
                continue;
            }
            match StoredSegment::open(format, hashes, files) {
                Ok(segment) => stored.add(segment),
                Err(error) => {
                    tracing::debug!(%error, "stored segment damaged; indexing its tools again");
                }
            }
        }
        stored
    }

    fn add(&mut self, segment: StoredSegment) {
        let number = self.segments.len();
        let documents = segment.hashes.iter().enumerate();
        self.documents
            .extend(documents.map(|(doc, hash)| (*hash, StoredDocument { segment: number, doc })));
        self.segments.push(segment);
    }

    /// Removes and returns the stored document of the tool with this hash.
    pub(super) fn take(&mut self, hash: &ToolHash) -> Option<StoredDocument> {
        self.documents.remove(hash)
    }

    /// Assigns a stored document to the slot of its tool, and sets its number within the current change.
    pub(super) fn put(&mut self, at: StoredDocument, slot: Slot, number: u32) {
        if let Some(StoredSegment { built, .. }) = self.segments.get_mut(at.segment) {
            (built.body.slots[at.doc], built.numbers[at.doc]) = (slot, number);
        }
    }

    /// Returns the segments as [`BuiltSegment`]s, so that the writer adds them like segments that it has built.
    pub(super) fn into_built(self) -> impl Iterator<Item = BuiltSegment> {
        self.segments.into_iter().map(|segment| segment.built)
    }
}

impl StoredSegment {
    fn open(
        format: &Format,
        hashes: &[ToolHash],
        files: [&[u8]; FILE_COUNT],
    ) -> tantivy::Result<Self> {
        let segment = format.segment()?;
        for (component, bytes) in FILES.into_iter().zip(files) {
            let mut file = segment.open_write(component)?;
            file.write_all(bytes)?;
            file.terminate()?;
        }
        let documents = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
        let none = vec![NO_SLOT; hashes.len()];
        let body = format.read(segment.with_max_doc(documents), none.clone())?;
        Ok(Self { built: BuiltSegment { body, numbers: none }, hashes: hashes.to_vec() })
    }
}

/// Returns the hashes and files of a stored segment; `None` if it is damaged or was stored with another key.
fn split<'a>(key: &str, bytes: &'a [u8]) -> Option<(&'a [ToolHash], [&'a [u8]; FILE_COUNT])> {
    let (checksum, rest) = bytes.split_at_checked(32)?;
    if checksum != checksum_of(key, rest) {
        return None;
    }
    let (documents, rest) = rest.split_first_chunk()?;
    let documents = u32::from_le_bytes(*documents) as usize;
    let (hashes, mut rest) =
        rest.split_at_checked(documents.checked_mul(size_of::<ToolHash>())?)?;
    let mut files = [&bytes[..0]; FILE_COUNT];
    for file in &mut files {
        let length;
        (length, rest) = rest.split_first_chunk()?;
        (*file, rest) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    Some((hashes.as_chunks().0, files))
}

mgp_types::opaque_debug!(StoredSegment);

impl KeywordReader {
    /// Returns the segments to store. Segments with a deleted document or an estimated number of words are left out.
    pub(crate) fn save(&self, key: &str, catalog: &Catalog) -> Vec<Vec<u8>> {
        let whole =
            self.segments.iter().filter(|segment| segment.live_count() == segment.documents());
        let mut room = MAX_STORED_BYTES;
        let mut stored = Vec::new();
        for segment in whole.filter(|segment| segment.body.is_exact) {
            // Skip a segment that cannot be written or is too large; its tools are indexed again when the index is
            // opened.
            if let Ok(Some(bytes)) = save(key, &segment.body, catalog, room) {
                room -= bytes.len();
                stored.push(bytes);
            }
        }
        stored
    }
}

/// Serialises a segment; returns `None` if it would become larger than `room`, or if the catalogue lacks one of its
/// tools.
fn save(
    key: &str,
    body: &SegmentBody,
    catalog: &Catalog,
    room: usize,
) -> tantivy::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; 32];
    bytes.extend(u32::try_from(body.slots.len()).unwrap_or(u32::MAX).to_le_bytes());
    for slot in &body.slots {
        let Some(tool) = catalog.entry(*slot) else { return Ok(None) };
        bytes.extend(tool.hash);
    }
    for component in FILES {
        let file = body.segment.open_read(component).map_err(TantivyError::from)?;
        let file = file.read_bytes()?;
        if bytes.len() + file.len() + 8 > room {
            return Ok(None);
        }
        bytes.extend((file.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&file);
    }
    let checksum = checksum_of(key, &bytes[32..]);
    bytes[..32].copy_from_slice(&checksum);
    Ok(Some(bytes))
}

fn checksum_of(key: &str, rest: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    hasher.update(rest);
    *hasher.finalize().as_bytes()
}
