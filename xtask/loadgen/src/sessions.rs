//! The mode `sessions`: opens many idle HTTP sessions and measures the server's memory per session.
use crate::{
    Res,
    account::Account,
    http::{Connection, connect, handshake, read_reply, spawn_http, stop},
    message::Requests,
    options::Options,
    report::rounded,
};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;
use std::time::{Duration, Instant};

/// Opens the sessions, keeps them idle for a while, and prints the figures as a line of JSON.
pub(crate) async fn sessions(o: &Options) -> Res<()> {
    let g = Requests::new(o);
    let n = o.number("n", 1000);
    let (child, pids, _) = spawn_http(o).await?;
    {
        let mut c = connect(o, &g.protocol).await?;
        handshake(&mut c, &g).await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let acct = Account::start(&pids, o.has("alone"));
    let r0 = acct.rss_kb();
    let mut keep: Vec<Box<dyn std::any::Any>> = vec![];
    let mut distinct = std::collections::HashSet::new();
    let mut first = None;
    let t = Instant::now();
    let mut c = connect(o, &g.protocol).await?;
    for _ in 0..n {
        c.session = None;
        c.protocol = g.protocol.clone();
        handshake(&mut c, &g).await?;
        if let Some(s) = &c.session {
            distinct.insert(s.clone());
            first.get_or_insert_with(|| s.clone());
        }
        if o.has("get-stream") {
            keep.push(open_stream(o, &c).await?);
        }
    }
    let wall = t.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (cpu, _) = acct.end();
    let i0 = acct.end().0;
    tokio::time::sleep(Duration::from_secs(o.number("idle-s", 5) as u64)).await;
    let idle = acct.end().0 - i0;
    let r1 = acct.rss_kb();
    // Checks that the first session still exists. A server that drops old sessions would seem to need less memory per
    // session, so its figures would be wrong.
    c.session = first;
    let first_lives = c.session.is_some() && answers(&mut c, &g).await?;
    let per = (r1 as f64 - r0 as f64) / n as f64;
    println!(
        "{}",
        json!({"mode": "sessions", "n": n, "distinct_ids": distinct.len(), "first_lives": first_lives, "get_stream": o.has("get-stream"), "rss0_kb": r0, "rss1_kb": r1, "kb_per_session": rounded(per),
        "sessions_per_gib": if per > 0.0 { (1048576.0 / per).round() } else { 0.0 }, "create_per_s": rounded(n as f64 / wall), "cpu_s_per_1k_sessions": rounded(cpu as f64 / 1e9 / n as f64 * 1000.0), "idle_cpu_pct": rounded(idle as f64 / 1e9 / o.number("idle-s", 5) as f64 * 100.0)})
    );
    drop(keep);
    drop(c);
    stop(o, child).await;
    Ok(())
}

/// Opens the event stream (GET) for the session of connection `c`, on a second connection. The returned value keeps the
/// stream open.
async fn open_stream(o: &Options, c: &Connection) -> Res<Box<dyn std::any::Any>> {
    let mut s = connect(o, &c.protocol).await?;
    let mut r = hyper::Request::get(&s.path)
        .header("host", &s.host)
        .header("accept", "text/event-stream")
        .header("mcp-protocol-version", &c.protocol);
    if let Some(i) = &c.session {
        r = r.header("mcp-session-id", i);
    }
    let resp = s.s.send_request(r.body(Full::new(Bytes::new()))?).await?;
    if !resp.status().is_success() {
        return Err(format!("GET stream: HTTP {}", resp.status()).into());
    }
    Ok(Box::new((s, resp)))
}

/// Makes one call in the session of a connection; returns whether it succeeded.
async fn answers(c: &mut Connection, g: &Requests) -> Res<bool> {
    let mut body = Vec::new();
    g.write(1, &mut body);
    let r = c.post(body.into(), &g.method, g.tool(), g.modern, true).await?;
    Ok(r.status().is_success() && read_reply(r, 1).await.is_ok())
}
