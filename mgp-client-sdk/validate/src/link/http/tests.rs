//! Tests of event streams, and of connections to servers at a URL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use super::*;

/// Returns the data of all events in a stream that arrives in these parts.
fn read(parts: &[&[u8]]) -> Vec<String> {
    let mut events = EventBuffer::default();
    let mut all = Vec::new();
    for part in parts {
        events.push(part);
        while let Some(event) = events.next() {
            all.push(data_of(&event));
        }
    }
    all
}

#[test]
fn events_do_not_depend_on_the_parts_in_which_they_arrive() {
    let text =
        "event: message\r\ndata: {\"a\":\"ü 文\"}\r\n\r\n: ping\n\ndata:1\ndata: 2\n\r\ndata: 3";
    let stream = text.as_bytes();
    let expected = ["{\"a\":\"ü 文\"}", "", "1\n2"];
    assert_eq!(read(&stream.chunks(1).collect::<Vec<_>>()), expected);
    for at in 0..=stream.len() {
        let (first, second) = stream.split_at(at);
        assert_eq!(read(&[first, second]), expected, "{at}");
    }
}

/// Starts a server that sends the returned response to the head and the body of each request; returns its URL.
fn serve(respond: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let respond = Arc::new(respond);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let respond = Arc::clone(&respond);
            thread::spawn(move || {
                let (head, body) = read_request(&stream);
                let _ = stream.write_all(respond(&head, &body).as_bytes());
            });
        }
    });
    url
}

/// Reads a request; returns its head in lower case, and its body.
fn read_request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        line.make_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, serde_json::from_slice(&body).unwrap_or_default())
}

fn response(status: u16, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}")
}

fn events(text: &str) -> String {
    response(200, "text/event-stream", text)
}

fn result(id: &Value, result: &Value) -> String {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    response(200, "application/json", &answer.to_string())
}

async fn send(link: &Link, message: Value) {
    link.output.as_ref().unwrap().send(Sent::Message(message)).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_ends_before_its_answer_is_continued() {
    let url = serve(|head, _| {
        if head.contains("last-event-id: 7") {
            events("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
        } else {
            events("id: 7\nretry: 10\ndata:\n\n")
        }
    });
    for limit in [None, Some(Duration::from_secs(10))] {
        let mut link = open(&url, &[], limit).unwrap();
        send(&link, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
        let received = link.input.recv().await;
        let Some(Received::Message(message)) = received else { panic!("{received:?}") };
        assert_eq!(message["id"], 1);
    }
}

#[tokio::test]
async fn the_reason_why_a_server_is_not_reached_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let limit = Some(Duration::from_secs(10));
    let mut link = open(&format!("http://{closed}/mcp"), &[], limit).unwrap();
    send(&link, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
    let received = link.input.recv().await;
    let Some(Received::End(reason)) = received else { panic!("{received:?}") };
    assert!(reason.to_lowercase().contains("refused"), "{reason}");
}

#[tokio::test]
async fn a_relay_reports_each_request_that_stays_without_an_answer() {
    // The stream of the first request ends early, and the connection of the second request closes without a response.
    let url = serve(|_, body| if body["id"] == 1 { events(": end\n\n") } else { String::new() });
    let mut link = open(&url, &[], None).unwrap();
    for id in [1, 2] {
        send(&link, json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        let received = link.input.recv().await;
        let Some(Received::Unanswered(of, _)) = received else { panic!("{received:?}") };
        assert_eq!(of, id);
    }
}

#[tokio::test]
async fn a_relay_reports_no_request_whose_stream_breaks_after_the_answer() {
    let url = serve(|_, body| {
        let answer = json!({ "jsonrpc": "2.0", "id": body["id"], "result": {} });
        // The body is shorter than its declared length, so the stream breaks after the answer.
        events(&format!("data: {answer}\n\n")).replacen(
            "connection: close",
            "content-length: 999\r\nconnection: close",
            1,
        )
    });
    let mut link = open(&url, &[], None).unwrap();
    send(&link, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
    link.output = None;
    let mut received = Vec::new();
    while let Some(item) = link.input.recv().await {
        received.push(item);
    }
    assert!(matches!(&received[..], [Received::Message(_)]), "{received:?}");
}

#[tokio::test]
async fn a_relay_keeps_the_order_and_reads_the_stream_of_the_session() {
    let handled = Arc::new(Mutex::new(Vec::new()));
    let server = Arc::clone(&handled);
    let url = serve(move |head, body| {
        if head.starts_with("get") {
            return events("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n");
        }
        let id = body.get("id");
        if id.is_none() {
            // A relay that did not wait for this notification would send the next message in this time.
            thread::sleep(Duration::from_millis(200));
        }
        server.lock().push(body["method"].clone());
        id.map_or_else(|| response(202, "text/plain", ""), |id| result(id, &json!({})))
    });
    let mut link = open(&url, &[], None).unwrap();
    send(&link, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    send(&link, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
    let (mut is_notified, mut is_answered) = (false, false);
    while !(is_notified && is_answered) {
        let received = link.input.recv().await.unwrap();
        let Received::Message(message) = received else { continue };
        is_notified |= message["method"] == "notifications/message";
        is_answered |= message["id"] == 1;
    }
    assert_eq!(*handled.lock(), ["notifications/initialized", "ping"]);
}

#[tokio::test]
async fn a_modern_call_repeats_the_arguments_that_its_tool_wants_in_headers() {
    let url = serve(|head, body| {
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let schema = json!({ "type": "object", "properties": { "region": region } });
        let all = if body["method"] == "tools/list" {
            json!({ "tools": [{ "name": "sales", "inputSchema": schema }] })
        } else {
            json!({ "has_header": head.contains("mcp-param-region: eu") })
        };
        result(&body["id"], &all)
    });
    let mut link = open(&url, &[], Some(Duration::from_secs(10))).unwrap();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    let call = json!({ "name": "sales", "arguments": { "region": "eu" }, "_meta": meta });
    let mut last = Value::Null;
    for (id, method, params) in
        [(1, "tools/list", json!({ "_meta": meta })), (2, "tools/call", call)]
    {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        send(&link, message).await;
        let received = link.input.recv().await;
        let Some(Received::Message(message)) = received else { panic!("{received:?}") };
        last = message;
    }
    assert_eq!(last["result"]["has_header"], true, "{last}");
}

#[tokio::test]
async fn a_name_that_no_header_can_have_is_sent_in_base64() {
    let url = serve(|head, body| {
        // The head is in lower case.
        let is_named = head.contains("mcp-name: =?base64?d8o2cnrlcg==?=");
        result(&body["id"], &json!({ "is_named": is_named }))
    });
    let mut link = open(&url, &[], Some(Duration::from_secs(10))).unwrap();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    let params = json!({ "name": "wörter", "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    send(&link, call).await;
    let received = link.input.recv().await;
    let Some(Received::Message(message)) = received else { panic!("{received:?}") };
    assert_eq!(message["result"]["is_named"], true, "{message}");
}

#[tokio::test]
async fn the_end_of_a_connection_ends_the_session_at_the_server() {
    let (ended, ends) = std::sync::mpsc::channel();
    let url = serve(move |head, body| {
        if head.starts_with("delete") {
            ended.send(head.to_owned()).unwrap();
        }
        let session = "mcp-session-id: s7\r\nconnection: close";
        result(&body["id"], &json!({})).replacen("connection: close", session, 1)
    });
    let headers = [("authorization".to_owned(), "k".to_owned())];
    for is_opened in [true, false] {
        let mut link = open(&url, &headers, Some(Duration::from_secs(10))).unwrap();
        if is_opened {
            send(&link, json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" })).await;
            let received = link.input.recv().await;
            assert!(matches!(received, Some(Received::Message(_))), "{received:?}");
        }
        link.close().await;
        let head = ends.try_recv().unwrap_or_default();
        let is_ended = head.contains("mcp-session-id: s7") && head.contains("authorization: k");
        assert_eq!(is_ended, is_opened, "{head}");
    }
}
