//! The keyword index: which words occur in which tool, and how much they say (MGP §16.4).
//!
//! Applies to: both.

mod asked;
mod fuzzy;
mod reader;
#[cfg(test)]
mod tests;
mod top;
mod writer;

pub(crate) use reader::KeywordReader;
pub(crate) use writer::{Keywords, Merge};
