//! Parts of the keyword index as they are kept: opening an index reads its words instead of making them (MGP §16.4).
//!
//! A part is kept with the hash of the tool of each document, and comes back only if each of them is there as it was.
//! What else there is gets its words anew, so that an index that is opened finds what one finds that was just made.
//!
//! Applies to: inbound.

use std::fmt;
use std::io::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};
use tantivy::TantivyError;
use tantivy::directory::TerminatingWrite as _;
use tantivy::index::SegmentComponent;

use super::making::Made;
use super::part::{Body, Format};
use super::reader::KeywordReader;
use crate::catalog::{Catalog, Slot};
use crate::text::{Bounds, VERSION};

/// The hash of a tool.
type Hash = [u8; 16];

/// How many files a part has.
const MANY: usize = 6;

/// The files of a part.
const FILES: [SegmentComponent; MANY] = [
    SegmentComponent::Terms,
    SegmentComponent::Postings,
    SegmentComponent::Positions,
    SegmentComponent::FieldNorms,
    SegmentComponent::FastFields,
    SegmentComponent::Store,
];

/// How many bytes all parts have at most; words there is no room for are made anew.
const LARGEST: usize = 128 << 20;

/// No document.
const NOWHERE: u32 = u32::MAX;

/// What parts are made by: with another analyser, other bounds or another format they are worth nothing.
pub(crate) fn key(bounds: Bounds) -> String {
    let Bounds { description, parameter, parameters } = bounds;
    let format = tantivy::version_string();
    format!("words {VERSION}, {description} {parameter} {parameters}, {format}")
}

/// Parts that were kept, on their way back.
#[derive(Debug, Default)]
pub(super) struct SavedParts {
    parts: Vec<Saved>,
    /// The document of each tool, until somebody takes it.
    places: FxHashMap<Hash, SavedPlace>,
}

/// A document of a part that was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedPlace {
    part: usize,
    doc: usize,
}

/// A part that was kept; its documents have no tools yet.
struct Saved {
    made: Made,
    hashes: Vec<Hash>,
}

// === impl SavedParts ===

impl SavedParts {
    /// The parts that are whole and of which no tool is missing.
    pub(super) fn read(
        format: &Format,
        key: &str,
        all: Vec<Vec<u8>>,
        is_there: &FxHashSet<Hash>,
    ) -> Self {
        let mut saved = Self::default();
        for bytes in all {
            let Some((hashes, files)) = split(key, &bytes) else { continue };
            let is_other = |hash| !is_there.contains(hash) || saved.places.contains_key(hash);
            if hashes.iter().any(is_other) {
                continue;
            }
            match Saved::open(format, hashes, files) {
                Ok(part) => saved.add(part),
                Err(error) => tracing::debug!(%error, "words that were kept are made anew"),
            }
        }
        saved
    }

    fn add(&mut self, part: Saved) {
        let number = self.parts.len();
        let places = part.hashes.iter().enumerate();
        let places = places.map(|(doc, hash)| (*hash, SavedPlace { part: number, doc }));
        self.places.extend(places);
        self.parts.push(part);
    }

    /// The document of a tool, once.
    pub(super) fn take(&mut self, hash: &Hash) -> Option<SavedPlace> {
        self.places.remove(hash)
    }

    /// Notes the tool of a document, and its number within the change.
    pub(super) fn put(&mut self, at: SavedPlace, slot: Slot, number: u32) {
        if let Some(Saved { made, .. }) = self.parts.get_mut(at.part) {
            (made.body.slots[at.doc], made.numbers[at.doc]) = (slot, number);
        }
    }

    /// The parts, as if they had just been made.
    pub(super) fn into_made(self) -> impl Iterator<Item = Made> {
        self.parts.into_iter().map(|part| part.made)
    }
}

// === impl Saved ===

impl Saved {
    fn open(format: &Format, hashes: &[Hash], files: [&[u8]; MANY]) -> tantivy::Result<Self> {
        let segment = format.segment()?;
        for (component, bytes) in FILES.into_iter().zip(files) {
            let mut file = segment.open_write(component)?;
            file.write_all(bytes)?;
            file.terminate()?;
        }
        let documents = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
        let none = vec![NOWHERE; hashes.len()];
        let body = format.read(segment.with_max_doc(documents), none.clone())?;
        Ok(Self { made: Made { body, numbers: none }, hashes: hashes.to_vec() })
    }
}

/// The hashes and the files of a part that was kept; nothing if it is not what was written.
fn split<'a>(key: &str, bytes: &'a [u8]) -> Option<(&'a [Hash], [&'a [u8]; MANY])> {
    let (checksum, rest) = bytes.split_at_checked(32)?;
    if checksum != checksum_of(key, rest) {
        return None;
    }
    let (documents, rest) = rest.split_first_chunk()?;
    let documents = u32::from_le_bytes(*documents) as usize;
    let (hashes, mut rest) = rest.split_at_checked(documents.checked_mul(size_of::<Hash>())?)?;
    let mut files = [&bytes[..0]; MANY];
    for file in &mut files {
        let length;
        (length, rest) = rest.split_first_chunk()?;
        (*file, rest) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    Some((hashes.as_chunks().0, files))
}

impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("documents", &self.hashes.len()).finish_non_exhaustive()
    }
}

// === impl KeywordReader ===

impl KeywordReader {
    /// The parts as they are to be kept; without those that something was ever taken out of.
    pub(crate) fn save(&self, key: &str, catalog: &Catalog) -> Vec<Vec<u8>> {
        let whole = self.parts.iter().filter(|part| part.left() == part.documents());
        let mut room = LARGEST;
        let mut saved = Vec::new();
        for part in whole.filter(|part| part.body.is_exact) {
            // What is not kept is made anew.
            if let Ok(Some(bytes)) = save(key, &part.body, catalog, room) {
                room -= bytes.len();
                saved.push(bytes);
            }
        }
        saved
    }
}

/// A part as it is kept; nothing if there is no room for it.
fn save(
    key: &str,
    body: &Body,
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
