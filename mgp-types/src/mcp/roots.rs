//! Roots: the directories a client works in (MCP roots).

use super::{Meta, ResultType};
use crate::record::record;

record! {
    /// A directory or file.
    pub struct Root {
        /// The `file://` URI of the directory or file.
        req uri: String,
        /// The display name of the directory or file.
        opt name: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `roots/list`.
    pub struct ListRootsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The roots.
        req roots read nullable: Vec<Root>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
