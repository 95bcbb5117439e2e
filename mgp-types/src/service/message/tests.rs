//! Tests that messages of many programs are parsed, that invalid messages are refused, and that messages are written as
//! read.

use super::*;
use crate::service::hop::HopMembers;
use crate::service::reply::Reply;

#[track_caller]
fn parse(text: &str) -> Message {
    Message::parse(text.into()).unwrap()
}

#[track_caller]
fn refused(text: &str, code: i32, id: impl Into<Option<i64>>) {
    let bad = Message::parse(text.into()).unwrap_err();
    assert_eq!(bad.error.map(|error| error.code().0), Some(code), "{text}");
    assert_eq!(bad.id, id.into().map(Id::Number), "{text}");
}

#[track_caller]
fn silent(text: &str) {
    assert!(Message::parse(text.into()).unwrap_err().error.is_none(), "{text}");
}

/// Parses params as those of a tool call, and returns the params that this side would send on to the next server.
#[track_caller]
fn forwarded(params: &str) -> String {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let Message::Request { mut params, .. } = parse(&line) else { panic!("a request") };
    params.remove_hop_members();
    let mut out = Vec::new();
    params.write(&mut out, &HopMembers::default());
    String::from_utf8(out).unwrap()
}

#[test]
fn an_id_with_half_a_surrogate_pair_is_refused() {
    for id in [r"\ud800", r"\udc00\ud800", r"a\uDFFFb"] {
        refused(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#), -32600, None);
        silent(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#));
    }
    let Message::Request { id, .. } =
        parse(r#"{"jsonrpc":"2.0","id":"\ufffd","method":"ping","params":{"a":1}}"#)
    else {
        panic!("a request")
    };
    assert_eq!(id, Id::from("\u{fffd}"));
    let cut =
        parse(r#"{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"ping","params":{"a":"\ud83d"}}"#);
    assert!(matches!(cut, Message::Request { .. }));
}

#[test]
fn splits_a_tool_call_into_target_body_and_meta() {
    let line = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"e\u0063ho","arguments":{"a":[1, 2]},"_meta":{"progressToken":"t"},"_mgp":{"stream":true},"x":1}}"#;
    let Message::Request { id, method, params } = parse(line) else { panic!("a request") };
    assert_eq!((id, method.as_str()), (Id::Number(7), "tools/call"));
    assert_eq!(params.target().unwrap().as_str(), "echo");
    assert_eq!(params.arguments(), Some(r#"{"a":[1, 2]}"#));
    assert_eq!(params.progress_token(), Some(Id::from("t")));
    assert!(params.wants_stream());
}

#[test]
fn forwarding_drops_the_hop_and_keeps_the_body() {
    assert_eq!(
        forwarded(r#"{"name":"echo","arguments":{},"_meta":{"a":1}}"#),
        r#"{"name":"echo","arguments":{}}"#
    );
    assert_eq!(
        forwarded(r#"{"x": 1 , "_meta":{},"y":2,"name":"echo", "z":[ ]}"#),
        r#"{"name":"echo","x": 1,"y":2,"z":[ ]}"#
    );
    assert_eq!(forwarded(r#"{"name":"echo","\u0061b":1}"#), r#"{"name":"echo","ab":1}"#);
    assert_eq!(
        forwarded(r#"{"a":1,"\u0061b":1,"name":"echo"}"#),
        r#"{"name":"echo","a":1,"\u0061b":1}"#
    );
}

/// Regression test: the parser removed too many quotes from such a name, and then removed characters at the ends of the
/// line.
#[test]
fn a_member_name_that_ends_with_a_quote_stays_whole() {
    assert_eq!(forwarded(r#"{"a\"":1}"#), r#"{"a\"":1}"#);
    assert_eq!(forwarded(r#"{"\"":1,"name":"echo"}"#), r#"{"name":"echo","\"":1}"#);
}

#[test]
fn arguments_that_stand_twice_are_refused() {
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{"b":1}}}"#;
    refused(line, -32600, 1);
    let first = r#"{"params":{"arguments":{},"argument\u0073":{}},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#;
    refused(first, -32600, 1);
}

/// Guards against an earlier fault: gates checked one member, but servers that ignore the case of names used the other
/// member.
#[test]
fn members_that_differ_from_checked_ones_only_in_case_are_refused() {
    let line = |method: &str, members: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{members}}}}}"#)
    };
    for members in [
        r#""name":"a","arguments":{},"Arguments":{"b":1}"#,
        r#""name":"a","arguments":{},"argument\u017f":{"b":1}"#,
        r#""name":"a","NAM\u0045":"b","arguments":{}"#,
        r#""name":"a","_Meta":{}"#,
        r#""name":"a","requeststate":"b""#,
    ] {
        for method in ["tools/call", "prompts/get"] {
            refused(&line(method, members), -32600, 1);
        }
    }
    refused(&line("resources/read", r#""uri":"a:b","URI":"a:c""#), -32600, 1);
    let first =
        r#"{"params":{"name":"a","Name":"b"},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#;
    refused(first, -32600, 1);
    for (method, members) in [
        ("tools/call", r#""name":"a","names":"b","arguments":{"A":1,"a":2,"Name":3}"#),
        ("resources/read", r#""uri":"a:b","Name":"c""#),
        ("other/method", r#""name":"a","Name":"b""#),
    ] {
        assert!(matches!(parse(&line(method, members)), Message::Request { .. }), "{members}");
    }
}

#[test]
fn arguments_that_are_null_are_absent() {
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1,"arguments":null,"name":"a","y":2}}"#;
    let Message::Request { params, .. } = parse(line) else { panic!("a request") };
    assert_eq!(params.arguments(), None);
    assert_eq!(forwarded(r#"{"x":1,"arguments":null,"y":2}"#), r#"{"x":1,"y":2}"#);
    assert_eq!(forwarded(r#"{"name":"echo","arguments":null}"#), r#"{"name":"echo"}"#);
    assert_eq!(forwarded(r#"{"arguments":{"a":null}}"#), r#"{"arguments":{"a":null}}"#);
}

/// PHP writes an empty object as `[]`: e.g. the official SDK writes arguments in this way, and Laravel the params of
/// notifications.
#[test]
fn an_empty_list_in_place_of_params_or_arguments_is_an_empty_object() {
    for params in ["[]", "[ ]"] {
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#),
            format!(r#"{{"params":{params},"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#),
        ] {
            let Message::Request { params, .. } = parse(&line) else { panic!("{line}") };
            assert!(params.get::<crate::mcp::ListParams>().unwrap().cursor.is_none(), "{line}");
            let mut out = Vec::new();
            params.write(&mut out, &HopMembers::default());
            assert_eq!(String::from_utf8(out).unwrap(), "{}", "{line}");
        }
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{params}}}"#);
        assert!(matches!(parse(&line), Message::Notification { .. }), "{line}");
        let call = format!(r#"{{"name":"echo","arguments":{params},"x":1}}"#);
        assert_eq!(forwarded(&call), r#"{"name":"echo","x":1}"#);
    }
    refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32600, 1);
    assert_eq!(
        forwarded(r#"{"name":"echo","arguments":[1]}"#),
        r#"{"name":"echo","arguments":[1]}"#
    );
}

/// JSON-RPC forbids `null` as params, so a request of a client that has it is refused. A notification is accepted,
/// because it has no answer that could report the error. A request of a server is accepted, because some servers write
/// `null`.
#[test]
fn null_params_are_absent_in_notifications_and_in_requests_of_servers() {
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#,
        r#"{"params": null,"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ] {
        let Message::Notification { params, .. } = parse(line) else { panic!("{line}") };
        assert!(params.is_none(), "{line}");
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list","params":null}"#,
        r#"{"params":null,"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
    ] {
        refused(line, -32600, 1);
        let read = Message::parse_server_line(line.into()).unwrap();
        let Message::Request { params, .. } = read else { panic!("{line}") };
        assert!(params.is_none(), "{line}");
    }
    for params in ["[7]", "7", "true", "\"x\""] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#);
        assert!(Message::parse_server_line(line.into()).is_err(), "{params}");
    }
}

/// Without the limits, a line of 16 MiB could contain eight million messages, or millions of names with escapes that
/// must be copied.
#[test]
fn the_size_of_batches_and_escapes_is_bounded() {
    let many = |count: usize, one: &str| vec![one; count].join(",");
    refused(&format!("[{}]", many(129, "1")), -32600, None);
    assert!(
        matches!(parse(&format!("[{}]", many(128, "1"))), Message::Batch(items) if items.len() == 128)
    );
    // `_mgp` does not belong to the body. So each of the members with escapes would begin a new run of body members,
    // and is counted.
    let escaped = |count| {
        let members = many(count, r#""\u0061":1,"_mgp":{}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{{members}}}}}"#)
    };
    refused(&escaped(257), -32600, 1);
    assert!(matches!(parse(&escaped(256)), Message::Request { .. }));
}

#[test]
fn params_before_the_method_are_split_too() {
    let line = r#"{"params":{"name":"echo","arguments":{"a":1}},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#;
    let Message::Request { params, .. } = parse(line) else { panic!("a request") };
    assert_eq!(params.target().unwrap().as_str(), "echo");
    assert_eq!(params.arguments(), Some(r#"{"a":1}"#));
}

#[test]
fn bad_messages_are_answered_under_the_id_they_gave() {
    refused("[", -32700, None);
    refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#, -32700, None);
    refused("null", -32600, None);
    refused("[]", -32600, None);
    refused(r#"{"id":1,"method":"ping"}"#, -32600, 1);
    refused(r#"{"jsonrpc":"2.0","id":1,"method":1}"#, -32600, 1);
    refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, -32600, 1);
    refused(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, None);
    refused(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, None);
    refused(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600, 2);
    refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, -32600, 1);
}

#[test]
fn a_broken_response_is_never_answered() {
    // Both `result` and `error` are present. Neither is used, and the call that waits for the response ends with a new
    // error.
    assert!(matches!(
        parse(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#),
        Message::Response { id: Some(_), outcome: Err(_) }
    ));
    for rest in
        [r#""result":{"x":NaN}}"#, r#""result":{"x":"#, r#""error":{]}"#, r#""result":{}}{}"#]
    {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,{rest}"#);
        let Message::Response { id: Some(Id::Number(7)), outcome: Err(error) } = parse(&line)
        else {
            panic!("{line}")
        };
        assert!(error.to_string().contains("the peer's answer cannot be read"), "{error}");
    }
    // Parsing fails before the id is reached. Therefore the line is refused as a whole, and the call that waits for it
    // does not end.
    refused(r#"{"jsonrpc":"2.0","result":{"x":NaN},"id":7}"#, -32700, None);
    refused(r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":NaN}"#, -32700, None);
    silent(r#"{"jsonrpc":"2.0","id":[1],"result":{}}"#);
    assert!(matches!(
        parse(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#),
        Message::Response { id: None, outcome: Err(_) }
    ));
}

/// Guards against an earlier fault: the call that waited for such an answer ended only by its time limit.
#[test]
fn an_answer_of_a_server_without_a_result_is_an_error() {
    let line = r#"{"jsonrpc":"2.0","id":7}"#;
    let read = Message::parse_server_line(line.into()).unwrap();
    let Message::Response { id: Some(Id::Number(7)), outcome: Err(error) } = read else {
        panic!("an error")
    };
    assert_eq!(error.message(), "the peer answered with neither a result nor an error");
    refused(line, -32600, 7);
    for line in [r#"{"id":7}"#, r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","id":7,"params":{}}"#] {
        assert!(Message::parse_server_line(line.into()).is_err(), "{line}");
    }
}

/// Servers in languages whose numbers are floats repeat the id `1` as `1.0`, and the answer must still reach its call.
#[test]
fn an_id_that_is_a_whole_float_is_an_integer() {
    assert!(matches!(
        parse(r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#),
        Message::Response { id: Some(Id::Number(1)), outcome: Ok(_) }
    ));
    assert!(matches!(
        parse(r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#),
        Message::Request { id: Id::Number(1), .. }
    ));
}

/// Many JSON-RPC libraries write both members, with `null` for the member that does not apply (JSON-RPC 1.0), which
/// must be ignored.
#[test]
fn a_response_whose_other_member_is_null_is_read() {
    for rest in [r#""result":{"a":1},"error":null}"#, r#""error":null,"result":{"a":1}}"#] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,{rest}"#);
        let Message::Response { id: Some(Id::Number(7)), outcome: Ok(result) } = parse(&line)
        else {
            panic!("{line}")
        };
        assert_eq!(result.as_str(), r#"{"a":1}"#);
    }
    let line =
        r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":-32601,"message":"unknown"}}"#;
    let Message::Response { outcome: Err(error), .. } = parse(line) else { panic!("an error") };
    assert_eq!((error.code().0, error.message()), (-32601, "unknown"));
    // Programs that write all members in each message also write the members of requests into a response, which must be
    // ignored.
    for method in ["null", "\"\""] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":{method},"params":null,"result":{{}},"error":null}}"#
        );
        assert!(matches!(parse(&line), Message::Response { outcome: Ok(_), .. }), "{line}");
    }
    let line = r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":null,"error":null}"#;
    assert!(matches!(parse(line), Message::Request { .. }));
    // A response with only `result: null` stays a successful response.
    assert!(matches!(
        parse(r#"{"jsonrpc":"2.0","id":7,"result":null}"#),
        Message::Response { outcome: Ok(_), .. }
    ));
}

#[test]
fn an_error_without_a_code_keeps_its_text() {
    for (error, text) in [
        (r#""disk full""#, "disk full"),
        (r#"{"message":"disk full"}"#, "disk full"),
        (r#"{"code":"EIO","message":"disk full"}"#, "disk full"),
        ("7", "the peer answered with a malformed error"),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#);
        let Message::Response { outcome: Err(error), .. } = parse(&line) else { panic!("{line}") };
        assert_eq!((error.code().0, error.message()), (-32603, text));
    }
}

#[test]
fn an_answer_is_spliced_from_the_body_and_what_was_added() {
    let mut reply = Reply::raw(Payload::from_trusted(r#"{"content":[],"_meta":{"a":1}}"#));
    let body = reply.as_body_mut().unwrap();
    body.insert("_mgp", Payload::from_trusted(r#"{"streamed":true}"#));
    body.insert_meta("b", Payload::from_trusted("2"));
    let mut out = Vec::new();
    write_answer(&mut out, Some(&Id::Number(-12)), &Ok(reply));
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":-12,"result":{"#), "{text}");
    for part in [r#""_meta":{"a":1,"b":2}"#, r#""_mgp":{"streamed":true}"#, r#""content":[]"#] {
        assert!(text.contains(part), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        let _ = Message::parse(text.into());
    }

    #[test]
    fn any_mangled_message_is_read_without_panic(cut in 0usize..200, byte in 0u8..128) {
        let good = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"e\u0063ho","arguments":{"a":[1, 2]},"_meta":{"progressToken":"t"},"x":1}}"#;
        let mut bytes = good.as_bytes().to_vec();
        let at = cut % bytes.len();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = Message::parse(text.into());
        }
    }
}

#[test]
fn a_text_is_written_as_json_whatever_is_in_it() {
    let all: String = (0..=0x2ff).filter_map(char::from_u32).collect();
    for text in ["", "plain", "a\"b", "a\\b", "a\nb", "\u{0}", "\u{7f}", "日本語", "\u{2028}", &all]
    {
        let mut out = Vec::new();
        super::super::write::write_text(&mut out, text);
        assert_eq!(out, serde_json::to_vec(text).unwrap(), "{text:?}");
    }
}
