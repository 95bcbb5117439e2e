//! One JSON line per run.
use crate::{account::Acct, message::Gen, options::Opt};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Stat {
    pub(crate) lat: Vec<u32>,
    pub(crate) errors: u64,
    pub(crate) bad: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) sse: u64,
    pub(crate) bytes: u64,
}
pub(crate) fn pct(v: &[u32], p: f64) -> f64 {
    if v.is_empty() {
        return 0.0;
    }
    v[((v.len() - 1) as f64 * p) as usize] as f64 / 1000.0
}
pub(crate) fn r2(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}
pub(crate) fn report(
    o: &Opt,
    g: &Gen,
    depth: usize,
    mut st: Stat,
    wall: f64,
    acct: &Acct,
    start_ms: f64,
    extra: Value,
) {
    let (cpu, selfc, ctx) = acct.end();
    st.lat.sort_unstable();
    let n = st.lat.len().max(1) as f64;
    let mut v = json!({
        "name": o.s("name", ""), "mode": o.mode, "method": g.method, "protocol": g.proto, "n": st.lat.len(), "depth": depth, "payload": g.payload,
        "rps": r2(n / wall), "p50_us": pct(&st.lat, 0.5), "p90_us": pct(&st.lat, 0.9), "p99_us": pct(&st.lat, 0.99), "max_us": pct(&st.lat, 1.0),
        "server_cpu_s_per_1k": (cpu as f64 / 1e9 / n * 1000.0 * 1e6).round() / 1e6, "client_cpu_s_per_1k": (selfc as f64 / 1e9 / n * 1000.0 * 1e6).round() / 1e6,
        "server_ctxsw_per_req": r2(ctx as f64 / n), "server_peak_rss_kb": acct.hwm_kb(), "server_rss_kb": acct.rss_kb(), "server_procs": acct.pids.len(),
        "start_to_init_ms": r2(start_ms), "wall_s": r2(wall), "errors": st.errors, "bad": st.bad, "sse_replies": st.sse, "resp_bytes": st.bytes / (n as u64)
    });
    if let Some(e) = st.first_error {
        v["first_error"] = json!(e.chars().take(300).collect::<String>());
    }
    if let Value::Object(m) = extra {
        for (k, x) in m {
            v[k] = x;
        }
    }
    println!("{v}");
}
