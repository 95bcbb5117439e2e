//! Changes the keyword index: one commit for each change, and few parts (MGP §16.4).
//!
//! Applies to: inbound.

use rustc_hash::FxHashMap;
#[cfg(feature = "sqlite")]
use rustc_hash::FxHashSet;

use super::making::{Job, Make, Making};
use super::merge::{Merge, Merged, due};
use super::part::{Body, Format, Part};
use super::reader::{KeywordReader, Standing};
#[cfg(feature = "sqlite")]
use super::saved::{SavedParts, SavedPlace};
use crate::catalog::{Chunks, Slot};
use crate::error::IndexError;

/// Up to so many documents those that are gone are forgotten at once; it takes a millisecond or two.
const FEW: u32 = 200;

/// The writing side. Between changes it has nothing but what the readers have.
pub(crate) struct Keywords {
    format: Format,
    parts: Vec<Part>,
    /// Where each tool is.
    standing: Chunks<Standing>,
    /// The last number that was given to a part.
    last: u32,
    /// What the change under way makes.
    making: Making,
    /// What it does with each tool: the number of its document, or nothing if the tool goes.
    latest: FxHashMap<Slot, Option<u32>>,
    /// How many documents it has.
    documents: u32,
    /// Parts that it brings back.
    #[cfg(feature = "sqlite")]
    saved: SavedParts,
}

/// A step of a change.
pub(crate) enum Step {
    /// The document of a tool goes.
    Gone(Slot),
    /// One comes; the one before must be gone.
    New(Slot, Make),
    /// One comes back that was kept.
    #[cfg(feature = "sqlite")]
    Back(Slot, SavedPlace),
}

impl Keywords {
    /// Makes an empty index.
    pub(crate) fn new() -> Self {
        Self {
            format: Format::new(),
            parts: Vec::new(),
            standing: Chunks::default(),
            last: 0,
            making: Making::Nothing,
            latest: FxHashMap::default(),
            documents: 0,
            #[cfg(feature = "sqlite")]
            saved: SavedParts::default(),
        }
    }

    /// Parts to bring back with the change under way; those that are not whole, or miss a tool, are left out.
    #[cfg(feature = "sqlite")]
    pub(crate) fn bring(&mut self, key: &str, parts: Vec<Vec<u8>>, is_there: &FxHashSet<[u8; 16]>) {
        self.saved = SavedParts::read(&self.format, key, parts, is_there);
    }

    /// The document of a tool among those to bring back, once.
    #[cfg(feature = "sqlite")]
    pub(crate) fn take_saved(&mut self, hash: &[u8; 16]) -> Option<SavedPlace> {
        self.saved.take(hash)
    }

    /// Hands steps over, in their order. Nobody sees them before [`Self::commit`].
    pub(crate) fn write(&mut self, steps: Vec<Step>) -> Result<(), IndexError> {
        let mut jobs: Vec<Job> = Vec::with_capacity(steps.len());
        for step in steps {
            match step {
                Step::Gone(slot) => {
                    self.latest.insert(slot, None);
                }
                Step::New(slot, make) => {
                    self.latest.insert(slot, Some(self.documents));
                    jobs.push((self.documents, slot, make));
                    self.documents += 1;
                }
                #[cfg(feature = "sqlite")]
                Step::Back(slot, at) => {
                    self.latest.insert(slot, Some(self.documents));
                    self.saved.put(at, slot, self.documents);
                    self.documents += 1;
                }
            }
        }
        if jobs.is_empty() { Ok(()) } else { self.making.add(&self.format, jobs) }
    }

    /// Commits what was handed over, once; the reader that is returned sees all of it.
    pub(crate) fn commit(&mut self) -> Result<KeywordReader, IndexError> {
        let made = std::mem::take(&mut self.making).finish()?;
        #[cfg(feature = "sqlite")]
        let made = std::mem::take(&mut self.saved).into_made().chain(made);
        self.documents = 0;
        let latest = std::mem::take(&mut self.latest);
        for slot in latest.keys() {
            self.take_out(*slot);
        }
        for made in made {
            let is_latest =
                |(number, slot): (&u32, &Slot)| latest.get(slot) == Some(&Some(*number));
            let is_latest: Vec<bool> =
                made.numbers.iter().zip(&made.body.slots).map(is_latest).collect();
            let part = self.number(made.body);
            self.put_in(part, |doc| is_latest[doc]);
        }
        self.drop_empty();
        self.merge_few();
        Ok(self.reader())
    }

    /// Takes back what was handed over and not committed; it must not come with the next commit.
    pub(crate) fn roll_back(&mut self) {
        self.making = Making::Nothing;
        self.latest = FxHashMap::default();
        self.documents = 0;
        #[cfg(feature = "sqlite")]
        {
            self.saved = SavedParts::default();
        }
    }

    /// The parts that are to be made one, if there are too many of one size or too much of one is gone.
    ///
    /// What became of them is for [`Self::refresh`]. Until then this says the same again.
    pub(crate) fn merge(&self) -> Option<Merge> {
        let parts = due(&self.parts);
        (!parts.is_empty()).then(|| Merge { format: self.format.clone(), parts })
    }

    /// The reader after parts were made one.
    pub(crate) fn refresh(&mut self, merged: Merged) -> KeywordReader {
        self.replace(merged);
        self.reader()
    }

    /// Forgets at once what is gone from a small index, where it would be felt: equal catalogues give equal scores.
    /// Its parts are made one here too: a thread would leave more memory behind than they have.
    fn merge_few(&mut self) {
        let documents: u32 = self.parts.iter().map(Part::documents).sum();
        let is_whole = self.parts.iter().all(|part| part.left() == part.documents());
        if documents > FEW || is_whole && due(&self.parts).is_empty() {
            return;
        }
        let all = Merge { format: self.format.clone(), parts: self.parts.clone() };
        match all.run() {
            Ok(merged) => self.replace(merged),
            // These serve as they are.
            Err(error) => tracing::debug!(%error, "parts were not merged"),
        }
    }

    fn replace(&mut self, merged: Merged) {
        let Merged { parts, body } = merged;
        // What changed since they were looked at is gone from the new one too.
        let before = parts.iter().flat_map(|part| {
            part.alive().map(|(doc, slot)| (slot, Standing { part: part.number, doc }))
        });
        let is_same: Vec<bool> =
            before.map(|(slot, there)| self.standing.get(slot) == Some(&there)).collect();
        self.parts.retain(|known| parts.iter().all(|part| part.number != known.number));
        if let Some(body) = body {
            let part = self.number(body);
            self.put_in(part, |doc| is_same[doc]);
        }
        self.drop_empty();
    }

    fn number(&mut self, body: Body) -> Part {
        self.last += 1;
        Part::new(self.last, body)
    }

    /// Notes where the tools of a new part are; other documents of it are gone from the start.
    fn put_in(&mut self, mut part: Part, counts: impl Fn(usize) -> bool) {
        for doc in 0..part.documents() {
            if counts(doc as usize) {
                let slot = part.body.slots[doc as usize];
                self.standing.set(slot, Standing { part: part.number, doc }, 0);
            } else {
                part.remove(doc);
            }
        }
        self.parts.push(part);
    }

    fn take_out(&mut self, slot: Slot) {
        let Some(there) = self.standing.get(slot).copied() else { return };
        if let Some(part) = self.parts.iter_mut().find(|part| part.number == there.part) {
            part.remove(there.doc);
            self.standing.set(slot, Standing::NOWHERE, 0);
        }
    }

    fn drop_empty(&mut self) {
        self.parts.retain(|part| part.left() > 0);
    }

    fn reader(&self) -> KeywordReader {
        KeywordReader::new(self.parts.clone(), self.standing.clone())
    }
}

impl std::fmt::Debug for Keywords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keywords")
            .field("parts", &self.parts.len())
            .field("making", &self.making)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(slot) => f.debug_tuple("Gone").field(slot).finish(),
            Self::New(slot, _) => f.debug_tuple("New").field(slot).finish_non_exhaustive(),
            #[cfg(feature = "sqlite")]
            Self::Back(slot, at) => f.debug_tuple("Back").field(slot).field(at).finish(),
        }
    }
}
