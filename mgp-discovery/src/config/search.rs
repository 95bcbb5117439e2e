//! `[kernel.search]`: the settings that improve the search for tools (MGP §16).

use super::table_reader::Reader;

/// The table `[kernel.search]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchConfig {
    /// If set, the tools that agents call after a search improve their later searches.
    pub learning: bool,
    /// The agents whose calls improve the ranking of an agent's searches.
    pub learn_from: LearnFrom,
    /// The parts of a query that are stored in the history.
    pub stored_queries: StoredQueries,
    /// The folder of a sentence encoder; `None` if no encoder is used.
    pub encoder: Option<String>,
    /// The onnxruntime library of the encoder; `None` for the one in the folder that
    /// [`encoder`](Self::encoder) names.
    pub encoder_library: Option<String>,
}

/// The agents whose calls improve the ranking of an agent's searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LearnFrom {
    /// Only the agent's own calls.
    #[default]
    Agent,
    /// The calls of all agents of the same user.
    User,
    /// The calls of all users of the tenant. Calls of other users count only for tools that at least two of these users
    /// called.
    Tenant,
}

/// The parts of a query that are stored in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredQueries {
    /// The text, its embedding vector, and hashes of its words.
    #[default]
    Text,
    /// The embedding vector, and hashes of the words.
    Vector,
    /// Only hashes of the words.
    Words,
}

/// Reads `[kernel.search]`.
pub(super) fn search(reader: &mut Reader<'_, '_, '_>) -> SearchConfig {
    SearchConfig {
        learning: reader.switch("learning").unwrap_or_default(),
        learn_from: match reader.text("learn_from").as_deref() {
            Some("user") => LearnFrom::User,
            Some("tenant") => LearnFrom::Tenant,
            _ => LearnFrom::Agent,
        },
        stored_queries: match reader.text("stored_queries").as_deref() {
            Some("vector") => StoredQueries::Vector,
            Some("words") => StoredQueries::Words,
            _ => StoredQueries::Text,
        },
        encoder: reader.text("encoder"),
        encoder_library: reader.text("encoder_library"),
    }
}
