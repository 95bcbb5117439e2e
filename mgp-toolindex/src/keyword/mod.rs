//! The keyword index: the words of each tool, and the weights of words (MGP §16.4).

mod fuzzy;
mod merge;
mod postings_builder;
mod query_terms;
mod reader;
mod segment;
mod segment_builder;
#[cfg(feature = "sqlite")]
mod stored_segments;
#[cfg(test)]
mod tests;
mod top;
mod typo_automaton;
mod writer;

pub(crate) use fuzzy::{is_misspelling, letter_changes};
pub(crate) use merge::{Merge, Merged};
pub(crate) use reader::{KeywordReader, TextFigures};
#[cfg(test)]
use segment_builder::MakeDocument;
#[cfg(feature = "sqlite")]
pub(crate) use stored_segments::key;
pub(crate) use writer::{KeywordWriter, Step};
