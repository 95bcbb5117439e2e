//! `floor-stdio`: the echo tool over stdio with the least possible work, as a lower bound for the benchmarks. It finds
//! lines with memchr, and parses each request once.
//!
//! - `floor-stdio raw` copies `message` as JSON text, without decoding it, and writes the reply by hand.
//! - `floor-stdio typed` decodes `message` to a string and encodes it again, as a tool with typed arguments must.
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    io::{Read, Write},
};
#[derive(Deserialize)]
struct Req<'a, P> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<P>,
}
#[derive(Deserialize)]
struct Any<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}
#[derive(Deserialize)]
struct AnyT<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<ArgT<'a>>,
}
#[derive(Deserialize)]
struct ArgT<'a> {
    #[serde(borrow)]
    message: &'a str,
}
#[derive(Deserialize)]
struct Arg<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}
fn other(id: &str, method: &str, out: &mut Vec<u8>) {
    let res = if method == "initialize" {
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"0"}}"#
    } else {
        "{}"
    };
    write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{res}}}"#).unwrap();
}
fn raw(line: &[u8], out: &mut Vec<u8>) {
    let r: Req<Any> = serde_json::from_slice(line).unwrap();
    let Some(id) = r.id else { return };
    if r.method == "tools/call" {
        let p = r.params.unwrap();
        assert!(p.name.as_deref() == Some("echo"));
        let a: Arg = serde_json::from_str(p.arguments.unwrap().get()).unwrap();
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.get().as_bytes());
        out.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
        out.extend_from_slice(a.message.get().as_bytes());
        out.extend_from_slice(br#"}],"isError":false}}"#);
    } else {
        other(id.get(), &r.method, out)
    }
    out.push(b'\n');
}
fn typed(line: &[u8], out: &mut Vec<u8>) {
    let r: Req<AnyT> = serde_json::from_slice(line).unwrap_or_else(|_| {
        let r: Req<serde::de::IgnoredAny> = serde_json::from_slice(line).unwrap();
        Req { id: r.id, method: r.method, params: None }
    });
    let Some(id) = r.id else { return };
    if r.method == "tools/call" {
        let p = r.params.unwrap();
        assert!(p.name.as_deref() == Some("echo"));
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.get().as_bytes());
        out.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
        serde_json::to_writer(&mut *out, p.arguments.unwrap().message).unwrap();
        out.extend_from_slice(br#"}],"isError":false}}"#);
    } else {
        other(id.get(), &r.method, out)
    }
    out.push(b'\n');
}
fn main() {
    let f = if std::env::args().nth(1).as_deref() == Some("typed") { typed } else { raw };
    use std::os::fd::FromRawFd;
    let mut i = unsafe { std::fs::File::from_raw_fd(0) };
    let mut o = unsafe { std::fs::File::from_raw_fd(1) };
    let mut buf = vec![0u8; 1 << 20];
    let (mut s, mut sc, mut e) = (0usize, 0usize, 0usize);
    let mut out: Vec<u8> = Vec::with_capacity(1 << 20);
    loop {
        if s == e {
            s = 0;
            sc = 0;
            e = 0;
        } else if buf.len() - e < 1 << 16 {
            if s > 0 {
                buf.copy_within(s..e, 0);
                e -= s;
                sc -= s;
                s = 0;
            } else {
                let l = buf.len();
                buf.resize(l * 2, 0);
            }
        }
        let n = i.read(&mut buf[e..]).unwrap();
        if n == 0 {
            return;
        }
        e += n;
        while let Some(p) = memchr::memchr(b'\n', &buf[sc..e]) {
            f(&buf[s..sc + p], &mut out);
            sc += p + 1;
            s = sc;
        }
        sc = e;
        if !out.is_empty() {
            o.write_all(&out).unwrap();
            out.clear();
        }
    }
}
