//! Tests that no input from a peer makes a decoder panic, and that a number is understood in each way of writing it.

use mgp_types::mcp::{
    Completion, ContentBlock, CreateMessageParams, ListToolsResult, ReadResourceResult, Task, Tool,
};
use mgp_types::mgp::{
    AuditEvent, CallbackRequestParams, CallbackType, Grant, PaceParams, PermissionDecision,
    RequestToolsResult, ResultExtension, StatusResult, StreamProgressParams,
};
use mgp_types::spec::check_example;
use mgp_types::{Nullable, RpcError, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Words that occur in messages, as names or as values. Random input is built from these words, so that decoders accept
/// more than the first member of an input.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "jsonrpc", "2.0", "id", "method", "params", "result", "error", "code", "message", "data",
    "_mgp", "_meta", "type", "text", "resource", "uri", "resultType", "task", "input_required",
    "inputRequests", "elicitation/create", "tools/call", "mgp/permission/response", "grants",
    "decision", "approved", "security", "risk_level", "safe", "name", "inputSchema", "content",
    "timestamp", "",
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

/// Checks that a decoded value can be encoded, and that decoding the encoded value gives an equal value.
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
        again::<ReadResourceResult>(&text)?;
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

#[test]
fn a_whole_number_may_be_written_as_a_float() {
    let ttl = |number: &str| {
        let text = format!(r#"{{"tools":[],"ttlMs":{number}}}"#);
        serde_json::from_str::<ListToolsResult>(&text).ok().map(|result| result.ttl_ms)
    };
    for (number, expected) in [
        ("60000", Some(60_000)),
        ("60000.0", Some(60_000)),
        ("6e4", Some(60_000)),
        ("9007199254740992.0", Some(9_007_199_254_740_992)),
        ("18446744073709551615", Some(u64::MAX)),
        ("null", None),
    ] {
        assert_eq!(ttl(number), Some(expected), "{number}");
    }
    for number in ["-1", "-1.0", "1.5", "\"5\"", "1e300", "true", "[]"] {
        assert_eq!(ttl(number), None, "{number}");
    }
    let value: Value = serde_json::from_str(r#"{"tools":[],"ttlMs":60000.0}"#).unwrap();
    let result: ListToolsResult = serde_json::from_value(value).unwrap();
    assert_eq!(result.ttl_ms, Some(60_000));
}

#[test]
fn required_and_nullable_numbers_may_be_floats_too() {
    let sampling = |number: &str| {
        let text = format!(r#"{{"messages":[],"maxTokens":{number}}}"#);
        serde_json::from_str::<CreateMessageParams>(&text).ok().map(|params| params.max_tokens)
    };
    assert_eq!(sampling("100.0"), Some(100));
    assert_eq!(sampling("null"), None);
    let missing = serde_json::from_str::<CreateMessageParams>(r#"{"messages":[]}"#).unwrap_err();
    assert!(missing.to_string().contains("maxTokens"), "{missing}");
    let task: Task = serde_json::from_str(
        r#"{"taskId":"t","status":"working","createdAt":"x","ttl":null,"ttlMs":5.0,"pollInterval":7.0}"#,
    )
    .unwrap();
    assert_eq!((task.ttl, task.ttl_ms), (Nullable::Null, Nullable::Value(5)));
    assert_eq!((task.poll_interval, task.poll_interval_ms), (Some(7), None));
    let progress: StreamProgressParams =
        serde_json::from_str(r#"{"request_id":1,"progress":0.5,"estimated_remaining_ms":3.0}"#)
            .unwrap();
    assert_eq!(progress.estimated_remaining_ms, Some(3));
    let status: StatusResult = serde_json::from_str(
        r#"{"status":"healthy","uptime_secs":12.5,"tools_total":3.0,"pending_requests":0.0}"#,
    )
    .unwrap();
    assert_eq!((status.tools_total, status.pending_requests), (Some(3), Some(0)));
    let pace = |number: &str| {
        let text = format!(r#"{{"request_id":1,"max_chunks_per_second":{number}}}"#);
        serde_json::from_str::<PaceParams>(&text).ok().map(|pace| pace.max_chunks_per_second)
    };
    assert_eq!([pace("7.0"), pace("7.5"), pace("4294967296")], [Some(7), None, None]);
    let asked = r#"{"callback_id":"c","type":"input","_mgp":{"attempt":2.0,"depth":null}}"#;
    let asked: CallbackRequestParams = serde_json::from_str(asked).unwrap();
    assert_eq!(asked.mgp.map(|mgp| (mgp.attempt, mgp.depth)), Some((Some(2), None)));
}

#[test]
fn the_error_for_a_word_that_is_not_a_text_names_the_expected_type() {
    let error = serde_json::from_str::<CallbackType>("7").unwrap_err();
    assert!(error.to_string().contains("expected a string"), "{error}");
}

#[test]
fn a_time_in_milliseconds_may_have_a_fraction() {
    let limit = |number: &str| {
        let text = format!(r#"{{"callback_id":"c","type":"input","timeout_ms":{number}}}"#);
        serde_json::from_str::<CallbackRequestParams>(&text).ok().map(|asked| asked.timeout_ms)
    };
    for (number, expected) in [("60000", Some(60_000)), ("60000.2", Some(60_001)), ("null", None)] {
        assert_eq!(limit(number), Some(expected), "{number}");
    }
    for number in ["-1", "-0.5", "\"5\"", "1e300"] {
        assert_eq!(limit(number), None, "{number}");
    }
}

#[test]
fn a_float_in_the_extension_of_a_result_does_not_make_it_unreadable() {
    let text = r#"{"streamed":true,"chunks_sent":2.0,"dropped":1.0,"duration_ms":12.0}"#;
    let extension: ResultExtension = serde_json::from_str(text).unwrap();
    assert_eq!((extension.chunks_sent, extension.dropped), (Some(2), Some(1)));
    assert_eq!(extension.duration_ms, Some(12));
    let completion: Completion = serde_json::from_str(r#"{"values":["a"],"total":3.0}"#).unwrap();
    assert_eq!(completion.total, Some(3));
}
