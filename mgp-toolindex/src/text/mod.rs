//! Splits texts into words, by the same rules for tools and queries (MGP §16.4).

mod analyzer;
mod document;
mod fold;
mod query_words;
mod schema;
mod split;
mod stem;
mod stop;
mod tool_text;

pub(crate) use analyzer::{Analyzer, Indexer};
#[cfg(feature = "sqlite")]
pub(crate) use document::DOCUMENT_VERSION;
pub(crate) use document::{Document, INPUT_PREFIX, OUTPUT_PREFIX, kind_words};
pub(crate) use fold::{fold_name, without_invisible};
pub(crate) use query_words::{Field, QueryWords, Term};
pub(crate) use schema::compact;
pub(crate) use split::{words_and_abbreviations_of, words_of};
pub(crate) use stop::is_stop_word;
pub(crate) use tool_text::{TextLimits, ToolText, truncate};
