//! Metrics of the kernel in the text format of Prometheus.
//!
//! The kernel counts calls only if an operator can read the metrics. It always logs denials.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_security::EventSource as _;
use mgp_types::RpcError;
use mgp_types::mgp::ServerState;
use mgp_types::service::{AgentId, Call, Context, ServerId, TraceSpan};
use mgp_types::sync::Mutex;

use super::handle::Kernel;
use super::refusal::is_refusal;
use super::telemetry::{CallSpan, SpanSender};

/// The upper bounds of the buckets of durations, in seconds.
pub(super) const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0];

/// The codes of refusals by rules: access, permissions, approvals (MGP §14.3).
const DENIALS: std::ops::Range<i32> = 1000..1100;

/// The maximum number of different outcomes that are counted separately for a server, because a server can invent error
/// codes. Results and denials are always counted separately.
const MAX_OUTCOMES: usize = 64;

/// The key of the count that all outcomes beyond [`MAX_OUTCOMES`] share.
const OTHER: i32 = i32::MIN;

/// The key of calls that were answered with a result.
pub(crate) const ANSWERED: i32 = 0;

/// The key of calls that their callers cancelled.
pub(crate) const CANCELLED: i32 = i32::MIN + 1;

/// The counts of calls for metrics. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CallMetrics(Arc<MetricsState>);

#[derive(Default)]
struct MetricsState {
    is_read: AtomicBool,
    /// The sender of the spans of calls; set only if the kernel exports calls to a collector.
    spans: OnceLock<SpanSender>,
    /// Entries of removed servers stay, because counters must not decrease.
    by_server: Mutex<BTreeMap<ServerId, ServerCalls>>,
}

/// The counts of the calls of one server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerCalls {
    /// The number of calls by their outcome: [`ANSWERED`], an error code, [`CANCELLED`] or [`OTHER`].
    pub(super) outcomes: BTreeMap<i32, u64>,
    /// The number of calls that a rule of this kernel denied, by their error code.
    denied: BTreeMap<i32, u64>,
    /// The number of calls in each bucket of durations; a call is counted only in the smallest bucket that contains it.
    pub(super) buckets: [u64; BUCKETS.len()],
    pub(super) time: Duration,
}

impl ServerCalls {
    /// Counts a call by its outcome. If [`MAX_OUTCOMES`] outcomes are in use, counts any further error code as
    /// [`OTHER`], except those of denials.
    fn count(&mut self, code: i32) {
        let is_separate = matches!(code, ANSWERED | CANCELLED)
            || DENIALS.contains(&code)
            || self.outcomes.contains_key(&code)
            || self.outcomes.len() < MAX_OUTCOMES;
        *self.outcomes.entry(if is_separate { code } else { OTHER }).or_default() += 1;
    }
}

/// Returns whether this kernel denied a call by a rule.
fn is_denial(error: &RpcError) -> bool {
    DENIALS.contains(&error.code().0) && is_refusal(error)
}

pub(super) fn error_text(code: i32) -> String {
    match code {
        OTHER => "other".to_owned(),
        CANCELLED => "cancelled".to_owned(),
        code => code.to_string(),
    }
}

/// Returns the id of the span of a call. If the caller repeats the call with answers to questions, all these requests
/// (rounds) share a span, which is exported at the end of the last request.
fn span_of(cx: &Context) -> TraceSpan {
    let Some(logical) = &cx.logical else { return TraceSpan::of(cx.key) };
    // Hash the logical id of the call. It has a random part, so the hash differs from those of other calls.
    let mut hasher = DefaultHasher::new();
    logical.hash(&mut hasher);
    TraceSpan(hasher.finish().max(1))
}

impl CallMetrics {
    /// If calls are exported, gives a call the id of its span. The server receives this id as the parent of its own
    /// span.
    pub(crate) fn identify(&self, call: &mut Call) {
        if self.0.spans.get().is_some() {
            let cx = call.cx_mut();
            cx.trace_or_new();
            let span = span_of(cx);
            cx.extensions.insert(span);
        }
    }

    /// Returns whether calls that begin now are counted.
    pub(crate) fn counts_calls(&self) -> bool {
        self.0.is_read.load(Ordering::Relaxed)
    }

    /// Counts a call that has ended, and exports it if calls are exported. `time` is the duration of all requests
    /// (rounds) of the call. `code` is [`ANSWERED`], [`CANCELLED`] or the code of an error.
    pub(crate) fn count(
        &self,
        cx: &Context,
        (server, tool): (&ServerId, &str),
        time: Duration,
        code: i32,
        is_denied: bool,
    ) {
        if let Some(spans) = self.0.spans.get() {
            spans.send(CallSpan::new(cx, (server, tool), time, code));
        }
        let mut by_server = self.0.by_server.lock();
        let calls = by_server.entry(server.clone()).or_default();
        calls.count(code);
        if is_denied {
            *calls.denied.entry(code).or_default() += 1;
        }
        calls.time += time;
        let seconds = time.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|most| seconds <= *most) {
            calls.buckets[bucket] += 1;
        }
    }

    /// Sets the sender that exports the spans of calls, beginning with the next call.
    pub(super) fn export_to(&self, spans: SpanSender) {
        if self.0.spans.set(spans).is_ok() {
            self.0.is_read.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn exporter(&self) -> Option<&SpanSender> {
        self.0.spans.get()
    }

    pub(super) fn by_server(&self) -> BTreeMap<ServerId, ServerCalls> {
        self.0.by_server.lock().clone()
    }
}

/// Returns whether this kernel denied a call by a rule, and logs the call if so.
pub(crate) fn log_denial(cx: &Context, server: &ServerId, tool: &str, error: &RpcError) -> bool {
    let is_denied = is_denial(error);
    if is_denied {
        tracing::warn!(
            %server,
            tool,
            agent = cx.principal.as_agent().map(AgentId::as_str),
            code = error.code().0,
            trace = cx.trace.as_deref(),
            "denied tool call"
        );
    }
    is_denied
}

impl Kernel {
    /// Returns whether the kernel can serve requests without delay, i.e. searches and requests for lists do not wait for
    /// the first lists of any server.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.fleet.all().values().any(|server| server.delays_lists())
    }

    /// Returns the metrics of the kernel in the text format of Prometheus. The first call of this method begins the
    /// counting of calls.
    #[must_use]
    pub fn metrics(&self) -> String {
        let metrics = &self.0.dispatcher.parts().metrics;
        metrics.0.is_read.store(true, Ordering::Relaxed);
        let mut out = String::new();
        let servers = self.servers();
        let name = |id: &str| format!("server=\"{}\"", escape(id));
        let up = servers.iter().map(|server| {
            (name(&server.id), f64::from(u8::from(server.status == ServerState::Connected)))
        });
        series(&mut out, "mgp_server_up", "gauge", "Whether a server is connected.", up);
        let restarts = servers.iter().map(|server| (name(&server.id), number(server.restarts)));
        series(&mut out, "mgp_server_restarts_total", "counter", "Automatic restarts.", restarts);
        let tools = servers.iter().map(|server| (name(&server.id), number(server.tools)));
        series(&mut out, "mgp_server_tools", "gauge", "The tools of a server.", tools);
        let clients = [(String::new(), number(self.clients().list().len() as u64))];
        series(&mut out, "mgp_clients", "gauge", "Connected clients.", clients);
        let newest: u64 = self.governance().log().map_or(0, |log| *log.newest().borrow());
        let waiting = self.0.sinks.delivered().map(|(sink, at)| {
            (format!("sink=\"{}\"", escape(sink)), number(newest.saturating_sub(at)))
        });
        let about = "Audit events that a sink has not received yet.";
        series(&mut out, "mgp_audit_sink_waiting", "gauge", about, waiting);
        let lost = metrics.exporter().map(|spans| (String::new(), number(spans.dropped())));
        let about = "Spans of calls that the collector has not received.";
        series(&mut out, "mgp_spans_dropped_total", "counter", about, lost);
        let table = metrics.by_server();
        let of_table = |denied: bool| {
            table.iter().flat_map(move |(server, calls)| {
                let counts = if denied { &calls.denied } else { &calls.outcomes };
                counts.iter().map(move |(code, count)| {
                    let code = if *code == ANSWERED { "ok".to_owned() } else { error_text(*code) };
                    (format!("{},code=\"{code}\"", name(server.as_str())), number(*count))
                })
            })
        };
        series(&mut out, "mgp_calls_total", "counter", "Tool calls.", of_table(false));
        series(&mut out, "mgp_denied_total", "counter", "Denied tool calls.", of_table(true));
        durations(&mut out, &table);
        out
    }
}

/// Writes a metric: one line for each combination of labels.
fn series(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl IntoIterator<Item = (String, f64)>,
) {
    // Ignore the result, because writing to a text cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

fn durations(out: &mut String, table: &BTreeMap<ServerId, ServerCalls>) {
    const NAME: &str = "mgp_call_duration_seconds";
    series(out, NAME, "histogram", "The time of tool calls, in seconds.", []);
    for (server, calls) in table {
        let server = escape(server.as_str());
        let all: u64 = calls.outcomes.values().sum();
        let mut below = 0;
        for (most, count) in BUCKETS.iter().zip(calls.buckets) {
            below += count;
            let _ = writeln!(out, "{NAME}_bucket{{server=\"{server}\",le=\"{most}\"}} {below}");
        }
        let _ = writeln!(out, "{NAME}_bucket{{server=\"{server}\",le=\"+Inf\"}} {all}");
        let _ = writeln!(out, "{NAME}_sum{{server=\"{server}\"}} {}", calls.time.as_secs_f64());
        let _ = writeln!(out, "{NAME}_count{{server=\"{server}\"}} {all}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floating-point figures only")]
fn number(count: u64) -> f64 {
    count as f64
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use mgp_security::Refusal;
    use mgp_types::ErrorCode;
    use mgp_types::service::HttpFailure;

    use super::*;

    #[test]
    fn the_guide_has_every_figure() {
        let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |file: &str| std::fs::read_to_string(package.join(file)).unwrap();
        let (code, page) = (read("src/metrics.rs"), read("../../docs/mgp-serve.md"));
        let code = code.split("#[cfg(test)]").next().unwrap();
        let names: Vec<&str> = code.split('"').filter(|text| text.starts_with("mgp_")).collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn only_a_refusal_of_the_kernel_counts_as_a_denial() {
        let denied = RpcError::from(Refusal::TooManyEntries(1));
        let of = |code: i32| RpcError::new(ErrorCode(code), "no");
        assert!(!is_denial(&denied), "its code is none of a denial");
        assert!(is_denial(&of(1_001).because(Refusal::TooManyEntries(1))));
        assert!(is_denial(
            &of(1_001).because(Refusal::TooManyEntries(1)).with_message("no access")
        ));
        for answered in [of(1_000), of(1_002).because(HttpFailure::Status(401)), of(-32_603)] {
            assert!(!is_denial(&answered), "{answered:?}");
        }
    }

    #[test]
    fn error_codes_that_a_server_invents_are_counted_together_beyond_a_limit() {
        let mut calls = ServerCalls::default();
        for code in 5_000..15_000 {
            calls.count(code);
        }
        calls.count(0);
        calls.count(1_001);
        calls.count(CANCELLED);
        calls.count(5_000);
        assert_eq!(calls.outcomes.len(), MAX_OUTCOMES + 4);
        assert_eq!(calls.outcomes.values().sum::<u64>(), 10_004);
        assert_eq!((calls.outcomes[&0], calls.outcomes[&1_001], calls.outcomes[&5_000]), (1, 1, 2));
        assert_eq!(calls.outcomes[&OTHER], 10_000 - MAX_OUTCOMES as u64);
        assert_eq!((error_text(OTHER).as_str(), error_text(-32_603).as_str()), ("other", "-32603"));
    }
}
