//! Sends single HTTP requests as text, and reads the answers.

use std::fmt::Write as _;
use std::net::SocketAddr;

use mgp_testkit::http_exchange;
use serde_json::Value;

/// The body of a `tools/call` request in the modern era, from a client that offers the extensions of MGP.
pub(crate) const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"now","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"dev.cloto/mgp":{"version":"0.3.0","extensions":["streaming"]}}}}}}"#;

/// The headers of the request whose body is [`CALL`].
pub(crate) const HEADERS: [(&str, &str); 5] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2026-07-28"),
    ("Mcp-Method", "tools/call"),
    ("Mcp-Name", "now"),
];

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Opens a new connection, sends a request with these headers over it, and returns the response.
pub(crate) async fn post(to: SocketAddr, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = "POST /mcp HTTP/1.1".to_owned();
    for (name, value) in headers {
        write!(request, "\r\n{name}: {value}").unwrap();
    }
    let answer = http_exchange(to, &request, body).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")),
    }
}
