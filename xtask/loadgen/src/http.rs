//! The mode `http`: sends calls to a server over streamable HTTP, on `--depth` keep-alive connections.
use crate::{
    Res,
    account::Account,
    message::{INITIALIZED, Message, Requests},
    options::Options,
    report::{Figures, report},
    stdio::{end, spawn},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::process::Child;

/// One keep-alive connection to the server, and the MCP session that is opened on it.
pub(crate) struct Connection {
    pub(crate) s: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) session: Option<String>,
    pub(crate) protocol: String,
}

/// Splits an `http://` URL into the host with its port, and the path.
pub(crate) fn split(url: &str) -> (String, String) {
    let u = url.strip_prefix("http://").expect("http:// url");
    match u.split_once('/') {
        Some((h, p)) => (h.into(), format!("/{p}")),
        None => (u.into(), "/".into()),
    }
}

/// Connects to the server at `--url`, without an MCP session.
pub(crate) async fn connect(o: &Options, protocol: &str) -> Res<Connection> {
    let (host, path) = split(&o.text("url", ""));
    let s = tokio::net::TcpStream::connect(&host).await?;
    s.set_nodelay(true)?;
    let (s, c) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(1 << 20)
        .handshake(hyper_util::rt::TokioIo::new(s))
        .await?;
    tokio::spawn(async move {
        let _ = c.await;
    });
    Ok(Connection { s, host, path, session: None, protocol: protocol.into() })
}

impl Connection {
    /// Posts one message with the HTTP headers that the protocol revision requires. `modern` means the revision
    /// 2026-07-28. `inited` is `false` only for the first request of a session.
    pub(crate) async fn post(
        &mut self,
        body: Bytes,
        method: &str,
        name: Option<&str>,
        modern: bool,
        inited: bool,
    ) -> Res<hyper::Response<hyper::body::Incoming>> {
        let mut r = hyper::Request::post(&self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(s) = &self.session {
            r = r.header("mcp-session-id", s);
        }
        if inited || modern {
            r = r.header("mcp-protocol-version", &self.protocol);
        }
        if modern {
            r = r.header("mcp-method", method);
            if let Some(n) = name {
                r = r.header("mcp-name", n);
            }
        }
        self.s.ready().await?;
        Ok(self.s.send_request(r.body(Full::new(body))?).await?)
    }
}

/// Reads the whole HTTP response to request `id`, either JSON or an SSE stream. Returns the bytes of the JSON-RPC
/// reply, whether it came over SSE, and its time of arrival.
pub(crate) async fn read_reply(
    r: hyper::Response<hyper::body::Incoming>,
    id: u64,
) -> Res<(Vec<u8>, bool, Instant)> {
    let st = r.status();
    let sse = r
        .headers()
        .get("content-type")
        .map(|c| c.as_bytes().starts_with(b"text/event-stream"))
        .unwrap_or(false);
    let mut b = r.into_body();
    let mut acc: Vec<u8> = vec![];
    let mut hit: Option<(Vec<u8>, Instant)> = None;
    let mut pos = 0;
    while let Some(f) = b.frame().await {
        let f = f?;
        if let Some(d) = f.data_ref() {
            acc.extend_from_slice(d);
        }
        if sse && hit.is_none() {
            while let Some(p) = memchr::memchr(b'\n', &acc[pos..]) {
                let line = &acc[pos..pos + p];
                pos += p + 1;
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if let Some(d) = line.strip_prefix(b"data:") {
                    let d = d.strip_prefix(b" ").unwrap_or(d);
                    if d.is_empty() {
                        continue;
                    }
                    if let Ok(m) = serde_json::from_slice::<Message>(d) {
                        if m.id == Some(id) && m.method.is_none() {
                            hit = Some((d.to_vec(), Instant::now()));
                            break;
                        }
                    }
                }
            }
        }
    }
    if sse {
        let (d, t) = hit.ok_or_else(|| {
            format!(
                "SSE ended without reply to {id}: {}",
                String::from_utf8_lossy(&acc[..acc.len().min(300)])
            )
        })?;
        Ok((d, true, t))
    } else if !st.is_success() {
        Err(format!("HTTP {st}: {}", String::from_utf8_lossy(&acc[..acc.len().min(300)])).into())
    } else {
        Ok((acc, false, Instant::now()))
    }
}

/// Opens a session with `initialize`; sends `server/discover` instead for the revision 2026-07-28.
pub(crate) async fn handshake(c: &mut Connection, g: &Requests) -> Res<()> {
    let m = if g.modern { "server/discover" } else { "initialize" };
    let r = c.post(g.init(0).into(), m, None, g.modern, false).await?;
    let sid = r.headers().get("mcp-session-id").map(|v| v.to_str().unwrap().to_string());
    let (b, _, _) = read_reply(r, 0).await?;
    let v: Value = serde_json::from_slice(&b)?;
    if v.get("error").is_some() {
        return Err(format!("{m} error {v}").into());
    }
    if let Some(p) = v["result"]["protocolVersion"].as_str() {
        c.protocol = p.into();
    }
    c.session = sid;
    if !g.modern {
        let r = c
            .post(
                Bytes::from_static(INITIALIZED.as_bytes()),
                "notifications/initialized",
                None,
                false,
                true,
            )
            .await?;
        if !r.status().is_success() {
            return Err(format!("initialized: HTTP {}", r.status()).into());
        }
        let _ = r.into_body().collect().await?;
    }
    Ok(())
}

/// Starts the server, and waits until it listens. Returns the server, the ids of the processes to measure, and the time
/// of the start.
pub(crate) async fn spawn_http(o: &Options) -> Res<(Child, Vec<i32>, Instant)> {
    let t0 = Instant::now();
    let (host, _) = split(&o.text("url", ""));
    if tokio::net::TcpStream::connect(&host).await.is_ok() {
        return Err(format!("{host} already in use").into());
    }
    let child = spawn(o, Stdio::null(), Stdio::null())?;
    let pids = vec![child.id().unwrap() as i32];
    while tokio::net::TcpStream::connect(&host).await.is_err() {
        if t0.elapsed() > Duration::from_secs(o.number("startup-timeout", 60) as u64) {
            return Err("server did not listen".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok((child, pids, t0))
}

/// Opens the connections, makes the warm-up calls and the measured calls, and prints the report.
pub(crate) async fn http(o: &Options) -> Res<()> {
    let g = Arc::new(Requests::new(o));
    let (n, depth) = (o.number("n", 10_000), o.number("depth", 1));
    let warm = o.number("warmup", (n / 10).min(2000));
    let (child, pids, t0) = spawn_http(o).await?;
    let mut conns = vec![];
    let mut start_ms = 0.0;
    for i in 0..depth {
        let mut c = connect(o, &g.protocol).await?;
        handshake(&mut c, &g).await?;
        if i == 0 {
            start_ms = t0.elapsed().as_secs_f64() * 1e3;
        }
        conns.push(c);
    }
    let session = conns[0].session.is_some();
    let warmed = phase(&mut conns, &g, warm).await?;
    let acct = Account::start(&pids, o.has("alone"));
    let t = Instant::now();
    let mut st = phase(&mut conns, &g, n).await?;
    let wall = t.elapsed().as_secs_f64();
    if warmed.errors > 0 {
        st.add(warmed);
    }
    report(o, &g, depth, st, wall, &acct, start_ms, json!({"session_header": session}));
    // Closes the connections first, because some servers wait for open connections before they exit.
    drop(conns);
    stop(o, child).await;
    Ok(())
}

/// Makes `todo` calls, divided among all connections, and returns their figures.
async fn phase(conns: &mut Vec<Connection>, g: &Arc<Requests>, todo: usize) -> Res<Figures> {
    let mut sum = Figures::default();
    if todo == 0 {
        return Ok(sum);
    }
    let ctr = Arc::new(AtomicUsize::new(0));
    let calls = conns.drain(..).map(|c| tokio::spawn(call(c, g.clone(), ctr.clone(), todo)));
    let calls: Vec<_> = calls.collect();
    for handle in calls {
        let (c, figures) = handle.await?;
        conns.push(c);
        sum.add(figures);
    }
    Ok(sum)
}

/// Makes calls on one connection. Stops when all connections together have made `todo` calls, or when more than 20
/// calls on this connection have failed.
async fn call(
    mut c: Connection,
    g: Arc<Requests>,
    ctr: Arc<AtomicUsize>,
    todo: usize,
) -> (Connection, Figures) {
    let mut st = Figures::default();
    let mut out = Vec::new();
    loop {
        let i = ctr.fetch_add(1, Ordering::Relaxed);
        if i >= todo {
            return (c, st);
        }
        let id = (i + 1) as u64;
        out.clear();
        g.write(id, &mut out);
        let body = Bytes::copy_from_slice(&out);
        let t = Instant::now();
        let r = async {
            let r = c.post(body, &g.method, g.tool(), g.modern, true).await?;
            read_reply(r, id).await
        }
        .await;
        match r {
            Ok((b, sse, at)) => {
                st.latencies.push(at.duration_since(t).as_nanos().min(u32::MAX as u128) as u32);
                st.sse += u64::from(sse);
                st.bytes += b.len() as u64;
                judge(&mut st, &g, id, &b);
            }
            Err(e) => {
                st.errors += 1;
                st.first_error.get_or_insert(e.to_string());
                if st.errors > 20 {
                    return (c, st);
                }
            }
        }
    }
}

/// Checks the reply to request `id`, and counts it as a failure if it is an error or belongs to another request.
fn judge(st: &mut Figures, g: &Requests, id: u64, b: &[u8]) {
    match serde_json::from_slice::<Message>(b) {
        Ok(Message { id: Some(found), result: Some(r), .. }) if found == id => {
            let r = r.get();
            if !g.ok(id, r.as_bytes()) || (id == 1 && r.contains("\"isError\":true")) {
                st.bad += 1;
                st.first_error.get_or_insert(r.to_string());
            }
        }
        _ => {
            st.errors += 1;
            st.first_error.get_or_insert(String::from_utf8_lossy(&b[..b.len().min(300)]).into());
        }
    }
}

/// Stops the server with SIGTERM, and kills it if it has not exited after `--exit-grace` seconds.
pub(crate) async fn stop(o: &Options, mut child: Child) {
    if let Some(p) = child.id() {
        // SAFETY: the process is a child that we started and have not waited for, so its id is still valid.
        unsafe {
            libc::kill(p as i32, libc::SIGTERM);
        }
    }
    end(o, &mut child, 5).await;
}
