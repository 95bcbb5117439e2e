//! Tool search, session cache and context budget for the Model General Protocol.

mod tokens;

pub use tokens::{Exactness, TokenCounter, tokens_at_most};
