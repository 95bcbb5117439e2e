//! Roots: the directories a client works in (MCP roots).
//!
//! Applies to: both.

use super::{Meta, ResultType};
use crate::record::record;

record! {
    /// A directory or file.
    pub struct Root {
        /// A `file://` URI.
        req uri: String,
        /// Name for people.
        opt name: Option<String>,
        /// Beside the root.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `roots/list`.
    pub struct ListRootsResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The roots.
        req roots: Vec<Root>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
