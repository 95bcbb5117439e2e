//! Tests of binary data that is sent over HTTP as parts of a body (proposal 10): the tool receives the same arguments
//! as if the data were sent in Base64.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::mgp::Extension;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::wire::{Response, response};

#[derive(Deserialize, JsonSchema)]
struct Look {
    image: String,
}

/// Serves a tool that returns its argument unchanged, and returns the address.
async fn serve(with_extension: bool) -> SocketAddr {
    let look = Tool::new("look", "Returns an image", |Args(look): Args<Look>| async { look.image });
    let mut server = Server::new("eyes", "1").tool(look);
    if with_extension {
        server = server.extension(Extension::MultimodalSignatures);
    }
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    address
}

/// A client that sends HTTP requests without a library.
struct Caller {
    to: SocketAddr,
    session: Option<String>,
}

impl Caller {
    async fn new(to: SocketAddr, era: Era) -> Self {
        let mut caller = Self { to, session: None };
        if era == Era::Legacy {
            let client = json!({ "name": "raw", "version": "1" });
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
            let hello =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            let answer = caller.post("application/json", hello.to_string().as_bytes(), &[]).await;
            caller.session = Some(answer.header("mcp-session-id").unwrap().to_owned());
            let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            caller.post("application/json", ready.to_string().as_bytes(), &[]).await;
        }
        caller
    }

    fn call(&self, image: &str) -> Value {
        let mut params = json!({ "name": "look", "arguments": { "image": image } });
        if self.session.is_none() {
            params["_meta"] = mgp_testkit::modern_meta(&json!({}));
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    }

    async fn as_json(&self, image: &[u8]) -> Response {
        let message = self.call(&STANDARD.encode(image)).to_string();
        self.post("application/json", message.as_bytes(), &self.headers()).await
    }

    async fn as_parts(&self, image: &[u8]) -> Response {
        let message = self.call("cid:photo");
        let mut body = format!(
            "--b\r\nContent-Type: application/json\r\n\r\n{message}\r\n\
             --b\r\nContent-Type: image/png\r\nContent-ID: <photo>\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(image);
        body.extend_from_slice(b"\r\n--b--\r\n");
        let kind = "multipart/related; boundary=b; type=\"application/json\"";
        self.post(kind, &body, &self.headers()).await
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        match &self.session {
            Some(session) => {
                vec![("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]
            }
            None => vec![
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "look"),
            ],
        }
    }

    async fn post(&self, kind: &str, body: &[u8], headers: &[(&str, &str)]) -> Response {
        let mut socket = BufReader::new(TcpStream::connect(self.to).await.unwrap());
        let lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let more = lines.concat();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n{more}\r\n",
            self.to,
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body).await.unwrap();
        response(socket).await
    }
}

#[tokio::test]
async fn an_upload_in_parts_equals_base64_byte_for_byte_in_both_eras() {
    let to = serve(true).await;
    // The data contains all byte values, and bytes that look like the end of a part.
    let mut image: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    image.extend_from_slice(b"\r\n--a\r\n\r\n--");
    for era in [Era::Legacy, Era::Modern] {
        let caller = Caller::new(to, era).await;
        for image in [&image[..], b"", b"\xff"] {
            let expected = caller.as_json(image).await.message().await;
            let text = &expected["result"]["content"][0]["text"];
            assert_eq!(text.as_str(), Some(&*STANDARD.encode(image)), "{era:?}");
            let received = caller.as_parts(image).await.message().await;
            assert_eq!(received, expected, "{era:?}");
        }
    }
}

#[tokio::test]
async fn a_server_without_the_extension_takes_no_parts() {
    let caller = Caller::new(serve(false).await, Era::Modern).await;
    assert_eq!(caller.as_json(b"x").await.status, 200);
    assert_eq!(caller.as_parts(b"x").await.status, 415);
}
