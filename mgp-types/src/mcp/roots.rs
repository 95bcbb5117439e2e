//! Roots: the directories a client works in (MCP roots).

use super::{Meta, ResultType};
use crate::record::record;

record! {
    /// A directory or file.
    pub struct Root {
        /// A `file://` URI.
        req uri: String,
        /// The display name.
        opt name: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `roots/list`.
    pub struct ListRootsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The roots.
        req roots: Vec<Root>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
