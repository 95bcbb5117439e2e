//! The figures of a run, and the line of JSON that the modes `stdio` and `http` print.
use crate::{account::Account, message::Requests, options::Options};
use serde_json::{Value, json};

/// Counts and latencies of the replies of a run.
#[derive(Default)]
pub(crate) struct Figures {
    /// Latencies of the replies, in nanoseconds.
    pub(crate) latencies: Vec<u32>,
    pub(crate) errors: u64,
    /// The number of wrong replies. These are results without the sequence number of their request, and the first
    /// result if it is a tool error. On stdio, lines that are not JSON-RPC also count.
    pub(crate) bad: u64,
    pub(crate) first_error: Option<String>,
    /// The number of replies that arrived as a server-sent event instead of a JSON body.
    pub(crate) sse: u64,
    pub(crate) bytes: u64,
}

impl Figures {
    /// Adds the figures of another connection.
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.errors += other.errors;
        self.bad += other.bad;
        self.sse += other.sse;
        self.bytes += other.bytes;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// Returns a percentile of sorted latencies, in microseconds.
pub(crate) fn percentile_us(v: &[u32], p: f64) -> f64 {
    if v.is_empty() {
        return 0.0;
    }
    v[((v.len() - 1) as f64 * p) as usize] as f64 / 1000.0
}

/// Rounds to three decimal places.
pub(crate) fn rounded(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

pub(crate) fn report(
    o: &Options,
    g: &Requests,
    depth: usize,
    mut st: Figures,
    wall: f64,
    acct: &Account,
    start_ms: f64,
    extra: Value,
) {
    let (cpu, selfc) = acct.end();
    let user = acct.user();
    st.latencies.sort_unstable();
    let n = st.latencies.len().max(1) as f64;
    let mut v = json!({
        "mode": o.mode, "method": g.method, "protocol": g.protocol, "n": st.latencies.len(), "depth": depth, "payload": g.payload,
        "rps": rounded(n / wall), "p50_us": percentile_us(&st.latencies, 0.5), "p90_us": percentile_us(&st.latencies, 0.9), "p99_us": percentile_us(&st.latencies, 0.99), "max_us": percentile_us(&st.latencies, 1.0),
        "server_cpu_s_per_1k": (cpu as f64 / 1e9 / n * 1000.0 * 1e6).round() / 1e6, "server_user_s_per_1k": (user as f64 / 1e9 / n * 1000.0 * 1e6).round() / 1e6, "client_cpu_s_per_1k": (selfc as f64 / 1e9 / n * 1000.0 * 1e6).round() / 1e6,
        "server_peak_rss_kb": acct.peak_kb(), "server_rss_kb": acct.rss_kb(), "server_procs": acct.pids.len(),
        "start_to_init_ms": rounded(start_ms), "wall_s": rounded(wall), "errors": st.errors, "bad": st.bad, "sse_replies": st.sse, "resp_bytes": st.bytes / (n as u64)
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
