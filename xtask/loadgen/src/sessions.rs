//! Opens many idle sessions and measures the memory of each.
use crate::{
    Res,
    account::Acct,
    http::{connect, handshake, spawn_http, stop},
    message::Gen,
    options::Opt,
    report::r2,
};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;
use std::time::{Duration, Instant};

pub(crate) async fn sessions(o: &Opt) -> Res<()> {
    let g = Gen::new(o);
    let n = o.n("n", 1000);
    let (child, pids, _) = spawn_http(o).await?;
    {
        let mut c = connect(o, &g.proto).await?;
        handshake(&mut c, &g).await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let acct = Acct::start(&pids);
    let r0 = acct.rss_kb();
    let mut keep: Vec<Box<dyn std::any::Any>> = vec![];
    let mut distinct = std::collections::HashSet::new();
    let t = Instant::now();
    let mut c = connect(o, &g.proto).await?;
    for _ in 0..n {
        c.sid = None;
        c.proto = g.proto.clone();
        handshake(&mut c, &g).await?;
        if let Some(s) = &c.sid {
            distinct.insert(s.clone());
        }
        if o.has("get-stream") {
            // one connection with an open GET SSE stream per session
            let mut s = connect(o, &c.proto).await?;
            let mut r = hyper::Request::get(&s.path)
                .header("host", &s.host)
                .header("accept", "text/event-stream")
                .header("mcp-protocol-version", &c.proto);
            if let Some(i) = &c.sid {
                r = r.header("mcp-session-id", i);
            }
            let resp = s.s.send_request(r.body(Full::new(Bytes::new()))?).await?;
            if !resp.status().is_success() {
                return Err(format!("GET stream: HTTP {}", resp.status()).into());
            }
            keep.push(Box::new((s, resp)));
        }
    }
    let wall = t.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (cpu, _, _) = acct.end();
    let i0 = acct.end().0;
    tokio::time::sleep(Duration::from_secs(o.n("idle-s", 5) as u64)).await;
    let idle = acct.end().0 - i0;
    let r1 = acct.rss_kb();
    let per = (r1 as f64 - r0 as f64) / n as f64;
    println!(
        "{}",
        json!({"name": o.s("name", ""), "mode": "sessions", "n": n, "distinct_ids": distinct.len(), "get_stream": o.has("get-stream"), "rss0_kb": r0, "rss1_kb": r1, "kb_per_session": r2(per),
        "sessions_per_gib": if per > 0.0 { (1048576.0 / per).round() } else { 0.0 }, "create_per_s": r2(n as f64 / wall), "cpu_s_per_1k_sessions": r2(cpu as f64 / 1e9 / n as f64 * 1000.0), "idle_cpu_pct": r2(idle as f64 / 1e9 / o.n("idle-s", 5) as f64 * 100.0)})
    );
    drop(keep);
    stop(child).await;
    Ok(())
}
