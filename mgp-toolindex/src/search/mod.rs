//! Search: queries, results, and the ranking (MGP §16.4, §16.5).

mod action;
mod browse;
mod category;
mod clause;
mod clause_scores;
mod creation;
mod evidence;
mod exclusion;
mod filter;
mod named;
mod negation;
mod parsed_query;
mod past_calls;
mod plan;
mod query;
mod quotation;
mod rank;
mod reason;
mod search_result;
mod spelling;
#[cfg(test)]
mod tests;
mod view;
mod weight;
mod word;
mod wording;

pub use filter::Filter;
pub(crate) use query::MAX_QUERY_BYTES;
pub use query::{Explain, Query};
pub(crate) use rank::rank;
pub use search_result::{Fallback, FallbackReason, Hit, Reason, SearchResult};
pub(crate) use view::{Figures, View};
pub(crate) use weight::lower_scores;
