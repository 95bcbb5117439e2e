//! `bare-stdio MODE`: the echo tool over stdio without an MCP framework, as the lower bound for the benchmarks.
//!
//! - `sync`: blocking reads and writes; the replies to one read are sent in one write.
//! - `tokio`: the same with `tokio::io::{stdin, stdout}`, which use a thread pool.
//! - `pipes`: the same with non-blocking pipes of tokio.
//! - `pipes-value`: as `pipes`, but with `serde_json::Value` and one write per reply.
mod message;

use message::{Call, CallRes, Req, Resp, Text};
use std::io::{Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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
fn handle_value(line: &[u8], out: &mut Vec<u8>) {
    if line.iter().all(|b| b.is_ascii_whitespace()) {
        return;
    }
    let r: serde_json::Value = serde_json::from_slice(line).expect("json");
    let Some(id) = r.get("id") else { return };
    let res = match r["method"].as_str().unwrap() {
        "tools/call" => {
            serde_json::json!({"content":[{"type":"text","text": r["params"]["arguments"]["message"].clone()}],"isError":false})
        }
        "initialize" => init_result(),
        _ => serde_json::json!({}),
    };
    serde_json::to_writer(
        &mut *out,
        &serde_json::json!({"jsonrpc":"2.0","id":id.clone(),"result":res}),
    )
    .unwrap();
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

async fn run(mut i: impl AsyncRead + Unpin, mut o: impl AsyncWrite + Unpin, value: bool) {
    let mut fr = Framer::new();
    let mut out = Vec::with_capacity(1 << 17);
    loop {
        let n = i.read_buf(&mut fr.buf).await.unwrap();
        if n == 0 {
            return;
        }
        if value {
            let mut lines: Vec<Vec<u8>> = vec![];
            fr.drain(|l| lines.push(l.to_vec()));
            for l in lines {
                out.clear();
                handle_value(&l, &mut out);
                if !out.is_empty() {
                    o.write_all(&out).await.unwrap();
                    o.flush().await.unwrap();
                }
            }
            out.clear();
        } else {
            fr.drain(|l| handle(l, &mut out));
            if !out.is_empty() {
                o.write_all(&out).await.unwrap();
                o.flush().await.unwrap();
                out.clear();
            }
        }
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = a.get(1).map(|s| s.as_str()).unwrap_or("pipes");
    if m == "sync" {
        let (mut i, mut o) = (
            std::io::stdin().lock(),
            std::fs::File::from(unsafe {
                <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(1)
            }),
        );
        let mut fr = Framer::new();
        let mut out = Vec::with_capacity(1 << 17);
        let mut tmp = vec![0u8; 1 << 16];
        loop {
            let n = i.read(&mut tmp).unwrap();
            if n == 0 {
                return;
            }
            fr.buf.extend_from_slice(&tmp[..n]);
            fr.drain(|l| handle(l, &mut out));
            if !out.is_empty() {
                o.write_all(&out).unwrap();
                out.clear();
            }
        }
    }
    let cur = !a.windows(2).any(|w| w[0] == "--rt" && w[1] == "multi");
    let rt = if cur {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()
    }
    .unwrap();
    let m = m.to_string();
    rt.block_on(async move {
        if m == "tokio" {
            run(tokio::io::stdin(), tokio::io::stdout(), false).await;
            return;
        }
        use tokio::net::unix::pipe;
        let i = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").unwrap();
        let o = pipe::OpenOptions::new().open_sender("/proc/self/fd/1").unwrap();
        let h = tokio::spawn(run(i, o, m == "pipes-value"));
        h.await.unwrap();
    });
}
