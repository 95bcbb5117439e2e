//! `bare-stdio`: the echo tool over stdio without an MCP framework, as the lower bound for the benchmarks. It uses the
//! non-blocking pipes of tokio. It replies with one write to all requests of one read.
mod message;

use message::{Call, CallRes, Req, Resp, Text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

fn init_result() -> serde_json::Value {
    serde_json::json!({"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"0"}})
}
fn handle(line: &[u8], out: &mut Vec<u8>) {
    if line.iter().all(|b| b.is_ascii_whitespace()) {
        return;
    }
    let r: Req = serde_json::from_slice(line).expect("json");
    let Some(id) = r.id else { return };
    match r.method.as_ref() {
        "tools/call" => {
            let c: Call = serde_json::from_str(r.params.unwrap().get()).expect("params");
            assert!(c.name == "echo");
            serde_json::to_writer(
                &mut *out,
                &Resp {
                    jsonrpc: "2.0",
                    id,
                    result: CallRes {
                        content: [Text { r#type: "text", text: &c.arguments.message }],
                        is_error: false,
                    },
                },
            )
            .unwrap();
        }
        "initialize" => {
            serde_json::to_writer(&mut *out, &Resp { jsonrpc: "2.0", id, result: init_result() })
                .unwrap()
        }
        _ => serde_json::to_writer(
            &mut *out,
            &Resp { jsonrpc: "2.0", id, result: serde_json::json!({}) },
        )
        .unwrap(),
    }
    out.push(b'\n');
}

struct Framer {
    buf: Vec<u8>,
    scanned: usize,
    start: usize,
}
impl Framer {
    fn new() -> Self {
        Self { buf: Vec::with_capacity(1 << 17), scanned: 0, start: 0 }
    }
    fn drain(&mut self, mut f: impl FnMut(&[u8])) {
        while let Some(p) = self.buf[self.scanned..].iter().position(|&b| b == b'\n') {
            let end = self.scanned + p;
            f(&self.buf[self.start..end]);
            self.start = end + 1;
            self.scanned = end + 1;
        }
        self.scanned = self.buf.len();
        if self.start > 0 {
            self.buf.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut i = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").unwrap();
    let mut o = pipe::OpenOptions::new().open_sender("/proc/self/fd/1").unwrap();
    let mut fr = Framer::new();
    let mut out = Vec::with_capacity(1 << 17);
    while i.read_buf(&mut fr.buf).await.unwrap() > 0 {
        fr.drain(|l| handle(l, &mut out));
        if !out.is_empty() {
            o.write_all(&out).await.unwrap();
            o.flush().await.unwrap();
            out.clear();
        }
    }
}
