//! No input from a peer makes a decoder panic.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use mgp_types::mcp::{ContentBlock, ReadResourceResult, RequestOutcome, Tool};
use mgp_types::mgp::{
    AuditEvent, CallbackRequestParams, Grant, PermissionDecision, RequestToolsResult,
};
use mgp_types::spec::check_example;
use mgp_types::{RpcError, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Words that occur in messages, so that random input is accepted beyond the first member that a decoder reads.
const WORDS: &[&str] = &[
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "data",
    "_mgp",
    "_meta",
    "type",
    "text",
    "resource",
    "uri",
    "resultType",
    "task",
    "input_required",
    "inputRequests",
    "elicitation/create",
    "tools/call",
    "mgp/permission/response",
    "grants",
    "decision",
    "approved",
    "security",
    "risk_level",
    "safe",
    "name",
    "inputSchema",
    "content",
    "timestamp",
    "",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Checks that a decoded value can be encoded, and that decoding the result gives the same value.
fn again<T>(text: &str) -> Result<(), TestCaseError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    if let Ok(first) = serde_json::from_str::<T>(text) {
        let text = serde_json::to_string(&first).unwrap();
        prop_assert_eq!(first, serde_json::from_str::<T>(&text).unwrap());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_json_is_decoded_or_refused(value in value()) {
        let text = value.to_string();
        again::<ContentBlock>(&text)?;
        again::<RequestOutcome<ReadResourceResult>>(&text)?;
        again::<Tool>(&text)?;
        again::<Grant>(&text)?;
        again::<PermissionDecision>(&text)?;
        again::<AuditEvent>(&text)?;
        again::<CallbackRequestParams>(&text)?;
        again::<RequestToolsResult>(&text)?;
        again::<RpcError>(&text)?;
        let _ = check_example("message.json", &text);
    }

    #[test]
    fn any_text_is_a_timestamp_or_none(text in any::<String>()) {
        let _ = Timestamp::from(text.as_str()).to_system_time();
    }

    #[test]
    fn anything_like_a_time_is_one_or_none(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{0,12}[Zz+-]?[0-9:]{0,6}") {
        let _ = Timestamp::from(text.as_str()).to_system_time();
    }
}
