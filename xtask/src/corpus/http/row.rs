//! One HTTP test case (row) of the corpus: the request, and the statuses and error codes that are accepted as a reply.

use super::super::row::BOUNDED;
use crate::{
    exchange::Status,
    run::{Context, Outcome},
};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    #[serde(default)]
    pub(super) transport: String,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) request: Request,
    /// A map of words that change the request or how it is sent, see [`super::plan`].
    #[serde(default, rename = "gen")]
    pub(super) generator: Value,
    #[serde(default)]
    pub(super) expect: Expect,
}

/// The request of a row, in which placeholders are not yet filled.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Map<String, Value>,
    pub(super) extra_headers_raw: Vec<String>,
    pub(super) body: String,
    pub(super) bytes_b64: Option<String>,
    pub(super) body_b64: Option<String>,
}

/// The accepted replies; absent members are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Expect {
    /// The accepted status, or a list of them: numbers and `"closed"`.
    pub(super) status: Value,
    /// The accepted JSON-RPC error code, or a list of them.
    pub(super) code: Value,
    max_rss_growth_bytes: Option<u64>,
    bounded_memory: bool,
}

impl Row {
    /// Parses a line of the corpus; if the row is for another transport, only the id and the transport are read.
    pub(super) fn read(line: &str) -> Outcome<Self> {
        let mut value: Value = serde_json::from_str(line).context("a row of the corpus")?;
        if value["transport"] != "http" {
            value = serde_json::json!({"id": value["id"], "transport": value["transport"]});
        }
        let id = value["id"].to_string();
        // Moves `bytes_b64` into the request, because some rows have it outside of the request and others in it.
        if let (Some(bytes), Some(request)) =
            (value.get("bytes_b64").cloned(), value.get_mut("request"))
        {
            request["bytes_b64"] = bytes;
        }
        serde_json::from_value(value).context(id)
    }

    /// Returns whether the request has the header `X-Test-Mode`, which asks the server to authenticate the caller.
    pub(super) fn wants_auth(&self) -> bool {
        self.request.headers.keys().any(|name| name.eq_ignore_ascii_case("x-test-mode"))
    }
}

impl Expect {
    /// Checks whether the status and the error code of a reply are accepted.
    pub(super) fn judge(&self, status: Status, code: Option<i64>) -> Result<(), String> {
        let right = one_or_many(&self.status);
        let status = status.value();
        if !right.is_empty() && !right.contains(&&status) {
            return Err(format!("status {status}, expected {}", self.status));
        }
        let right = one_or_many(&self.code);
        if !right.is_empty() && !right.contains(&&Value::from(code)) {
            let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            return Err(format!("code {code}, expected {}", self.code));
        }
        Ok(())
    }

    /// Returns the maximum growth of the server's memory, if the row limits it.
    pub(super) fn growth(&self) -> Option<u64> {
        self.max_rss_growth_bytes.or_else(|| self.bounded_memory.then_some(BOUNDED))
    }
}

fn one_or_many(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(many) => many.iter().collect(),
        one => vec![one],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expect: &str, status: Status, code: Option<i64>, ok: bool) {
        let expect: Expect = serde_json::from_str(expect).unwrap();
        assert_eq!(expect.judge(status, code).is_ok(), ok);
    }

    #[test]
    fn status_and_code_are_judged() {
        check(r#"{"status":400,"code":-32700}"#, Status::Of(400), Some(-32700), true);
        check(r#"{"status":400,"code":-32700}"#, Status::Of(400), None, false);
        check(r#"{"status":400,"code":[-1,-2]}"#, Status::Of(400), Some(-2), true);
        check(r#"{"status":[408,"closed"]}"#, Status::Closed, None, true);
        check(r#"{"status":[408,"closed"]}"#, Status::Silent, None, false);
        check(r#"{"status":200}"#, Status::Of(404), None, false);
        check("{}", Status::Of(500), None, true);
    }
}
