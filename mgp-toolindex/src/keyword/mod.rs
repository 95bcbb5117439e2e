//! The keyword index: which words occur in which tool, and how much they say (MGP §16.4).
//!
//! Applies to: both.

mod asked;
mod fuzzy;
mod gathered;
mod making;
mod merge;
mod nearby;
mod part;
mod reader;
#[cfg(feature = "sqlite")]
mod saved;
#[cfg(test)]
mod tests;
mod top;
mod writer;

#[cfg(test)]
use making::Make;
pub(crate) use merge::{Merge, Merged};
pub(crate) use reader::KeywordReader;
#[cfg(feature = "sqlite")]
pub(crate) use saved::key;
pub(crate) use writer::{Keywords, Step};
