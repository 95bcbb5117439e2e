//! The words of a text, the same for what is indexed and for what is asked (MGP §16.4).
//!
//! Applies to: both.

mod analyzer;
mod document;
mod fold;
mod parts;
mod schema;
mod split;
mod stem;
mod stop;
mod words;

pub(crate) use analyzer::{Analyzer, Indexer};
#[cfg(feature = "sqlite")]
pub(crate) use document::VERSION;
pub(crate) use document::{Document, INPUT, OUTPUT, kind_words};
pub(crate) use fold::fold_name;
pub(crate) use parts::{Bounds, Parts, cut};
pub(crate) use schema::compact;
pub(crate) use split::words_of;
pub(crate) use stop::is_stop;
pub(crate) use words::{Place, Term, Words};
