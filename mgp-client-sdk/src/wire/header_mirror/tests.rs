//! Tests of the headers of tool calls: the headers follow the tool's schema, also after it changes, and tools with
//! invalid annotations are not listed.

use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_types::mcp::{ListToolsResult, Revision};
use mgp_types::method::ToolsCall;
use mgp_types::service::{PeerInfo, Stack, mock};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

const VALID: &str = r#"{"name":"valid","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
const INVALID: &str = r#"{"name":"invalid","inputSchema":{"type":"object","properties":{"score":{"type":"number","x-mcp-header":"Score"}}}}"#;

/// Returns a server with two pages of tools. It counts the requests for lists, and records the headers of the calls.
fn server(lists: &Arc<AtomicUsize>, calls: &Arc<Mutex<Vec<String>>>) -> Stack {
    let (lists, calls) = (Arc::clone(lists), Arc::clone(calls));
    Stack::from_fn(move |call: Call| {
        let answer = if call.is::<ToolsCall>() {
            let headers = call.cx().extensions.get::<HeaderParams>();
            let headers = headers.map(|all| {
                all.iter().fold(String::new(), |text, (name, value)| text + name + ": " + value)
            });
            calls.lock().push(headers.unwrap_or_else(|| "none".to_owned()));
            r#"{"resultType":"complete","content":[]}"#.to_owned()
        } else {
            lists.fetch_add(1, Ordering::Relaxed);
            if call.params().may_contain_member("\"cursor\"") {
                format!(r#"{{"resultType":"complete","tools":[{VALID}]}}"#)
            } else {
                format!(
                    r#"{{"resultType":"complete","tools":[{INVALID}],"nextCursor":"2","ttlMs":5}}"#
                )
            }
        };
        async move { Ok(Reply::raw(Payload::from_trusted(answer))) }
    })
}

fn client(layer: &HeaderMirrorLayer, server: Stack, revision: Revision) -> mock::Client {
    let mut client = mock::client(Stack::new(layer.layer(server)));
    client.cx.callee = Arc::new(PeerInfo::new(revision));
    client
}

const CALL: &str = r#"{"name":"valid","arguments":{"region":" padded "}}"#;

#[tokio::test]
async fn a_call_carries_headers_and_fetches_the_list_once() {
    let (lists, calls) = (Arc::default(), Arc::default());
    let mut modern =
        client(&HeaderMirrorLayer::new(9, MINUTE), server(&lists, &calls), Revision::MODERN);
    for _ in 0..2 {
        modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    }
    modern.request(ToolsCall::METHOD, r#"{"name":"other"}"#).await.unwrap();
    let coded = "Region: =?base64?IHBhZGRlZCA=?=";
    assert_eq!(*calls.lock(), [coded, coded, "none"]);
    assert_eq!(lists.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn tools_that_cannot_be_called_are_not_listed() {
    let (lists, calls) = (Arc::default(), Arc::default());
    let mut modern =
        client(&HeaderMirrorLayer::new(9, MINUTE), server(&lists, &calls), Revision::MODERN);
    let list: ListToolsResult =
        modern.request(ToolsList::METHOD, "{}").await.unwrap().get().unwrap();
    assert_eq!(
        (list.tools.len(), list.next_cursor.as_deref(), list.ttl_ms),
        (0, Some("2"), Some(5))
    );
    let list: ListToolsResult =
        modern.request(ToolsList::METHOD, r#"{"cursor":"2"}"#).await.unwrap().get().unwrap();
    assert_eq!(list.tools[0].name, "valid");
    modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!(lists.load(Ordering::Relaxed), 2);
}

/// Regression test: after a request for only the last page, the list counted as complete.
#[tokio::test]
async fn the_last_page_alone_is_not_the_list() {
    let (lists, calls) = (Arc::default(), Arc::default());
    let mut modern =
        client(&HeaderMirrorLayer::new(9, MINUTE), server(&lists, &calls), Revision::MODERN);
    modern.request(ToolsList::METHOD, r#"{"cursor":"2"}"#).await.unwrap();
    modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!(lists.load(Ordering::Relaxed), 3, "the call fetches the list");
    modern.request(ToolsList::METHOD, r#"{"cursor":"2"}"#).await.unwrap();
    modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!(lists.load(Ordering::Relaxed), 4, "the list stays complete");
}

#[tokio::test]
async fn a_tool_that_cannot_be_read_costs_no_other_tool_its_headers() {
    let calls: Arc<Mutex<Vec<bool>>> = Arc::default();
    let called = Arc::clone(&calls);
    let server = Stack::from_fn(move |call: Call| {
        let answer = if call.is::<ToolsCall>() {
            called.lock().push(call.cx().extensions.get::<HeaderParams>().is_some());
            "{}".to_owned()
        } else {
            format!(r#"{{"tools":[{{"name":"no schema"}},{VALID},{INVALID}],"ttlMs":5}}"#)
        };
        async move { Ok(Reply::raw(Payload::from_trusted(answer))) }
    });
    let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
    modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!(*calls.lock(), [true]);
    let list = modern.request(ToolsList::METHOD, "{}").await.unwrap();
    let kept = format!(r#"{{"tools":[{{"name":"no schema"}},{VALID}],"ttlMs":5}}"#);
    assert_eq!(list.as_str(), kept);
}

#[tokio::test]
async fn in_the_legacy_era_calls_pass_unchanged() {
    let (lists, calls) = (Arc::default(), Arc::default());
    let server = server(&lists, &calls);
    let mut client = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::LATEST_LEGACY);
    client.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!(*calls.lock(), ["none"]);
    let list: ListToolsResult =
        client.request(ToolsList::METHOD, "{}").await.unwrap().get().unwrap();
    assert_eq!(list.tools.len(), 1);
}

#[tokio::test]
async fn headers_of_another_hop_are_dropped() {
    let (lists, calls) = (Arc::default(), Arc::default());
    let mut modern =
        client(&HeaderMirrorLayer::new(9, MINUTE), server(&lists, &calls), Revision::MODERN);
    let mut headers = HeaderParams::new();
    headers.push("Tenant", "a");
    modern.cx.extensions.insert(headers);
    modern.request(ToolsCall::METHOD, r#"{"name":"other"}"#).await.unwrap();
    assert_eq!(*calls.lock(), [""]);
}

#[tokio::test]
async fn a_schema_that_changed_is_fetched_once_more() {
    // Only the second list contains the annotation, so no headers are sent before that list was read.
    for changes in [true, false] {
        let lists = Arc::new(AtomicUsize::new(0));
        let made = Arc::new(AtomicUsize::new(0));
        let (listed, called) = (Arc::clone(&lists), Arc::clone(&made));
        let server = Stack::from_fn(move |call: Call| {
            let answer = if call.is::<ToolsCall>() {
                called.fetch_add(1, Ordering::Relaxed);
                match call.cx().extensions.get::<HeaderParams>() {
                    Some(_) => Ok(r#"{"content":[]}"#.to_owned()),
                    None => Err(RpcError::new(ErrorCode::HEADER_MISMATCH, "missing")
                        .because(HttpFailure::StatusWithError(400))),
                }
            } else if listed.fetch_add(1, Ordering::Relaxed) == 1 && changes {
                Ok(format!(r#"{{"tools":[{VALID}]}}"#))
            } else {
                Ok(r#"{"tools":[]}"#.to_owned())
            };
            async move { answer.map(|text| Reply::raw(Payload::from_trusted(text))) }
        });
        let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
        let outcome = modern.request(ToolsCall::METHOD, CALL).await;
        assert_eq!(outcome.is_ok(), changes);
        assert_eq!((lists.load(Ordering::Relaxed), made.load(Ordering::Relaxed)), (2, 2));
    }
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_repeated() {
    for fault in
        [Some(HttpFailure::StatusWithError(200)), Some(HttpFailure::StatusWithError(500)), None]
    {
        let made = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&made);
        let server = Stack::from_fn(move |call: Call| {
            let answer = if call.is::<ToolsCall>() {
                called.fetch_add(1, Ordering::Relaxed);
                let error = RpcError::new(ErrorCode::HEADER_MISMATCH, "too late");
                Err(match fault {
                    Some(fault) => error.because(fault),
                    None => error,
                })
            } else {
                Ok(Reply::raw(Payload::from_trusted(r#"{"tools":[]}"#)))
            };
            async move { answer }
        });
        let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
        modern.request(ToolsCall::METHOD, CALL).await.unwrap_err();
        assert_eq!(made.load(Ordering::Relaxed), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_list_that_fails_costs_the_headers_and_no_call() {
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = Arc::clone(&lists);
    let server = Stack::from_fn(move |call: Call| {
        let ok = call.is::<ToolsCall>();
        listed.fetch_add(usize::from(!ok), Ordering::Relaxed);
        async move { if ok { Ok(Reply::empty()) } else { Err(RpcError::internal("no list")) } }
    });
    let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
    for _ in 0..2 {
        modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    }
    assert_eq!(lists.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_not_requested_with_every_call() {
    let (lists, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (listed, called) = (Arc::clone(&lists), Arc::clone(&calls));
    let server = Stack::from_fn(move |call: Call| {
        let is_call = call.is::<ToolsCall>();
        let answer = if is_call {
            called.fetch_add(1, Ordering::Relaxed);
            match call.cx().extensions.get::<HeaderParams>() {
                Some(_) => Ok(Reply::empty()),
                None => Err(RpcError::new(ErrorCode::HEADER_MISMATCH, "missing")
                    .because(HttpFailure::StatusWithError(400))),
            }
        } else if listed.fetch_add(1, Ordering::Relaxed) == 0 {
            Err(RpcError::internal("no list"))
        } else {
            Ok(Reply::raw(Payload::from_trusted(format!(r#"{{"tools":[{VALID}]}}"#))))
        };
        async move { answer }
    });
    let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
    for _ in 0..3 {
        let error = modern.request(ToolsCall::METHOD, CALL).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::HEADER_MISMATCH);
    }
    assert_eq!((lists.load(Ordering::Relaxed), calls.load(Ordering::Relaxed)), (1, 3));
    tokio::time::advance(REFETCH_INTERVAL).await;
    modern.request(ToolsCall::METHOD, CALL).await.unwrap();
    assert_eq!((lists.load(Ordering::Relaxed), calls.load(Ordering::Relaxed)), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn a_list_with_too_many_pages_is_not_read_with_every_call() {
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = Arc::clone(&lists);
    let server = Stack::from_fn(move |call: Call| {
        let answer = if call.is::<ToolsCall>() {
            Err(RpcError::new(ErrorCode::HEADER_MISMATCH, "missing")
                .because(HttpFailure::StatusWithError(400)))
        } else {
            let page = listed.fetch_add(1, Ordering::Relaxed);
            Ok(Reply::raw(Payload::from_trusted(format!(
                r#"{{"tools":[],"nextCursor":"{page}"}}"#
            ))))
        };
        async move { answer }
    });
    let mut modern = client(&HeaderMirrorLayer::new(3, MINUTE), server, Revision::MODERN);
    for _ in 0..5 {
        modern.request(ToolsCall::METHOD, CALL).await.unwrap_err();
    }
    assert_eq!(lists.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_list_again_only_if_it_has_more_time() {
    let server = Stack::from_fn(|call: Call| async move {
        if call.is::<ToolsList>() {
            std::future::pending::<()>().await;
        }
        Ok(Reply::empty())
    });
    let mut modern = client(&HeaderMirrorLayer::new(9, MINUTE), server, Revision::MODERN);
    let start = Instant::now();
    for (limit, waited) in [(5, 5), (5, 5), (2, 5), (8, 13)] {
        let limit = Duration::from_secs(limit);
        modern.cx.extensions.insert(TimeLimits { timeout: limit, max: limit });
        modern.request(ToolsCall::METHOD, CALL).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), waited);
    }
}
