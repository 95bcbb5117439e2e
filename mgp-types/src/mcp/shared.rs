//! Members that the messages of several methods share (MCP `PaginatedRequest`, `CacheableResult`).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Meta;
use crate::record::{Object, open_enum, record};

/// The client's answers to the requests of a server, each under the key of its request.
pub type InputResponses = Object;

open_enum! {
    /// The kind of a result (MCP 2026-07-28); an absent kind means `complete`.
    pub enum ResultType {
        /// The final answer.
        Complete = "complete",
        /// The caller must supply input and repeat the request.
        InputRequired = "input_required",
        /// The result will be available later, as a task.
        Task = "task",
    }

    /// The caches that are allowed to store a result (MCP 2026-07-28).
    pub enum CacheScope {
        /// Any cache may store the result and return it to other users.
        Public = "public",
        /// Only the requesting client may store the result.
        Private = "private",
    }
}

record! {
    /// Parameters of every list request.
    pub struct ListParams {
        /// The `nextCursor` of the previous page; absent for the first page.
        opt cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// The member by which a caller asks that its request runs as a task (MCP 2025-11-25, `params.task`).
    pub struct TaskAugmentation {
        /// The time for which to keep the task, in milliseconds.
        opt ttl read whole: Option<u64>,
    }
}

/// The value of `nextCursor` as servers write it: a text, or `null` after the last page. A number, which some servers
/// write, becomes a text, because MCP permits only texts as the cursor of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextCursor(pub Option<String>);

impl<'de> Deserialize<'de> for NextCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self(None)),
            Value::String(cursor) => Ok(Self(Some(cursor))),
            Value::Number(cursor) => Ok(Self(Some(cursor.to_string()))),
            _ => Err(D::Error::custom("expected a text or a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mcp::ListToolsResult;

    #[test]
    fn a_cursor_that_is_a_number_becomes_a_text() {
        for (cursor, read) in
            [("7", Some("7")), ("-1", Some("-1")), (r#""a""#, Some("a")), ("null", None)]
        {
            let text = format!(r#"{{"tools":[],"nextCursor":{cursor}}}"#);
            let page: ListToolsResult = serde_json::from_str(&text).unwrap();
            assert_eq!(page.next_cursor.as_deref(), read, "{cursor}");
        }
        for cursor in ["true", "{}", "[1]"] {
            let text = format!(r#"{{"tools":[],"nextCursor":{cursor}}}"#);
            assert!(serde_json::from_str::<ListToolsResult>(&text).is_err(), "{cursor}");
        }
    }
}
