//! Exports tool calls (as spans) and metrics to a collector, with OTLP over HTTP in JSON.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mgp_types::Sha256Hash;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::mgp::ServerState;
use mgp_types::service::{AgentId, CallerTrace, Context, ServerId, TraceSpan};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::handle::{Kernel, KernelParts};
use super::metrics::{ANSWERED, BUCKETS, CallMetrics, error_text};
use super::url_sink::UrlSink;

/// The maximum number of spans that wait for an export. Further spans are dropped and counted.
const MAX_WAITING: usize = 4096;
/// The maximum number of spans in one request to the collector.
const MAX_BATCH: usize = 512;
/// The interval at which finished spans are exported to the collector.
const SPAN_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a request to the collector.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time that a stopping kernel waits for the last export.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of hexadecimal digits of a trace id in OpenTelemetry.
const TRACE_DIGITS: usize = 32;

/// The span of a tool call that has ended, for OpenTelemetry.
pub(crate) struct CallSpan {
    trace: String,
    /// The call's trace id of MGP (`trace_id`), if it differs from the trace of the span.
    foreign_trace: Option<String>,
    span: u64,
    parent: Option<String>,
    tool: String,
    server: ServerId,
    agent: Option<String>,
    code: i32,
    ended: SystemTime,
    time: Duration,
}

enum Message {
    Span(Box<CallSpan>),
    Flush(oneshot::Sender<()>),
}

/// A sender of spans to the task that exports them. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct SpanSender {
    queue: mpsc::Sender<Message>,
    /// The number of spans that were dropped because the queue was full, or lost because their export failed.
    dropped: Arc<AtomicU64>,
}

impl SpanSender {
    /// Sends a span, unless too many spans wait already.
    pub(crate) fn send(&self, span: CallSpan) {
        // Drop the span if the queue is full: the collector does not answer in time, and calls must not wait for it.
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of spans that were dropped or lost.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Exports all waiting spans, within a limited time.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flush = async {
            // If the queue is full, wait for room.
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = timeout(FLUSH_TIMEOUT, flush).await;
    }
}

impl CallSpan {
    /// Creates the span of a call that has just ended, in the trace of its caller.
    pub(crate) fn new(
        cx: &Context,
        (server, tool): (&ServerId, &str),
        time: Duration,
        code: i32,
    ) -> Self {
        let given = cx.trace.as_deref().unwrap_or_default();
        let caller = cx.extensions.get::<CallerTrace>();
        let is_id = given.len() == TRACE_DIGITS
            && given.bytes().all(|byte| byte.is_ascii_hexdigit())
            && given.bytes().any(|byte| byte != b'0');
        let trace = match caller {
            Some(caller) => caller.trace().to_owned(),
            None if is_id => given.to_ascii_lowercase(),
            None => Sha256Hash::digest(given.as_bytes()).to_string().split_off(TRACE_DIGITS),
        };
        let span = cx.extensions.get::<TraceSpan>().copied();
        Self {
            foreign_trace: (!given.eq_ignore_ascii_case(&trace)).then(|| given.to_owned()),
            trace,
            span: span.unwrap_or_else(|| TraceSpan::of(cx.key)).0,
            parent: caller.map(|caller| caller.span().to_owned()),
            tool: tool.to_owned(),
            server: server.clone(),
            agent: cx.principal.as_agent().map(|agent| AgentId::as_str(agent).to_owned()),
            code,
            ended: SystemTime::now(),
            time,
        }
    }

    fn to_json(&self) -> Value {
        let mut attributes = vec![
            text("mcp.method.name", ToolsCall::METHOD),
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &self.tool),
            text("mgp.server", self.server.as_str()),
        ];
        attributes.extend(self.agent.iter().map(|agent| text("mgp.agent", agent)));
        attributes.extend(self.foreign_trace.iter().map(|trace| text("mgp.trace_id", trace)));
        let status = if self.code == ANSWERED {
            json!({})
        } else {
            attributes.push(text("error.type", &error_text(self.code)));
            json!({ "code": 2 })
        };
        let begun = self.ended.checked_sub(self.time).unwrap_or(self.ended);
        let mut span = json!({
            "traceId": self.trace, "spanId": format!("{:016x}", self.span),
            "name": format!("{} {}", ToolsCall::METHOD, self.tool), "kind": 2,
            "startTimeUnixNano": nanos(begun), "endTimeUnixNano": nanos(self.ended),
            "attributes": attributes, "status": status,
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

/// Starts the export to a collector, if one is configured; the export ends with the kernel.
pub(super) fn start(kernel: &Kernel, collector: Option<UrlSink>) {
    let Some(sink) = collector else { return };
    let metrics_interval = kernel.0.config.config().kernel.telemetry.interval;
    let (sender, inbox) = mpsc::channel(MAX_WAITING);
    let metrics = kernel.0.dispatcher.parts().metrics.clone();
    let dropped = Arc::new(AtomicU64::new(0));
    metrics.export_to(SpanSender { queue: sender, dropped: Arc::clone(&dropped) });
    let (kernel, lifetime) = (Arc::downgrade(&kernel.0), kernel.0.config.lifetime());
    let exporter = Exporter {
        sink,
        kernel,
        metrics,
        dropped,
        resource: resource(),
        begun: SystemTime::now(),
        spans_fail: false,
        metrics_fail: false,
    };
    tokio::spawn(exporter.run(inbox, metrics_interval, lifetime));
}

struct Exporter {
    sink: UrlSink,
    kernel: Weak<KernelParts>,
    metrics: CallMetrics,
    /// The number of spans that the collector has not received.
    dropped: Arc<AtomicU64>,
    resource: Value,
    begun: SystemTime,
    /// `true` while exports of spans fail, so that only the first failure is logged.
    spans_fail: bool,
    /// `true` while exports of metrics fail, so that only the first failure is logged.
    metrics_fail: bool,
}

impl Exporter {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Message>,
        metrics_interval: Duration,
        mut lifetime: tokio::sync::watch::Receiver<()>,
    ) {
        let mut spans = Vec::new();
        let (mut soon, mut later) = (interval(SPAN_INTERVAL), interval(metrics_interval));
        soon.set_missed_tick_behavior(MissedTickBehavior::Delay);
        later.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = lifetime.changed() => return,
                message = inbox.recv() => match message {
                    Some(Message::Span(span)) => {
                        spans.push(span.to_json());
                        if spans.len() >= MAX_BATCH {
                            self.export_spans(&mut spans).await;
                        }
                    }
                    Some(Message::Flush(done)) => {
                        self.export_spans(&mut spans).await;
                        self.export_metrics().await;
                        let _ = done.send(());
                    }
                    None => return,
                },
                _ = soon.tick() => self.export_spans(&mut spans).await,
                _ = later.tick() => self.export_metrics().await,
            }
        }
    }

    async fn export_spans(&mut self, spans: &mut Vec<Value>) {
        if spans.is_empty() {
            return;
        }
        let spans = std::mem::take(spans);
        let count = spans.len() as u64;
        let body = json!({ "resourceSpans": [{
            "resource": self.resource, "scopeSpans": [{ "scope": scope(), "spans": spans }],
        }]});
        let failed = self.post("/v1/traces", &body).await;
        if let Some(error) = &failed {
            let dropped = self.dropped.fetch_add(count, Ordering::Relaxed) + count;
            if !self.spans_fail {
                tracing::warn!(%error, dropped, "spans not exported; they are dropped until the collector accepts them");
            }
        }
        self.spans_fail = failed.is_some();
    }

    async fn export_metrics(&mut self) {
        let Some(kernel) = self.kernel.upgrade().map(Kernel) else { return };
        let metrics = self.metrics_of(&kernel);
        drop(kernel);
        let body = json!({ "resourceMetrics": [{
            "resource": self.resource, "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
        }]});
        let failed = self.post("/v1/metrics", &body).await;
        if let Some(error) = failed.as_ref().filter(|_| !self.metrics_fail) {
            tracing::warn!(%error, "metrics not exported");
        }
        self.metrics_fail = failed.is_some();
    }

    fn metrics_of(&self, kernel: &Kernel) -> Value {
        let (begun, now) = (nanos(self.begun), nanos(SystemTime::now()));
        let (mut calls, mut times) = (Vec::new(), Vec::new());
        for (server, of_server) in self.metrics.by_server() {
            let name = text("mgp.server", server.as_str());
            for (code, count) in &of_server.outcomes {
                let mut attributes = vec![name.clone()];
                if *code != 0 {
                    attributes.push(text("error.type", &error_text(*code)));
                }
                calls.push(json!({
                    "attributes": attributes, "asInt": count.to_string(),
                    "startTimeUnixNano": begun, "timeUnixNano": now,
                }));
            }
            let all: u64 = of_server.outcomes.values().sum();
            let longer = all.saturating_sub(of_server.buckets.iter().sum());
            let counts: Vec<_> =
                of_server.buckets.iter().chain([&longer]).map(u64::to_string).collect();
            times.push(json!({
                "attributes": [name], "count": all.to_string(), "sum": of_server.time.as_secs_f64(),
                "explicitBounds": BUCKETS, "bucketCounts": counts,
                "startTimeUnixNano": begun, "timeUnixNano": now,
            }));
        }
        let up = kernel.servers().into_iter().map(|server| {
            let is_up = u8::from(server.status == ServerState::Connected).to_string();
            let name = text("mgp.server", &server.id);
            json!({ "attributes": [name], "asInt": is_up, "timeUnixNano": now })
        });
        let up: Vec<_> = up.collect();
        json!([
            { "name": "mgp.calls", "unit": "{call}", "description": "Tool calls.",
              "sum": { "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": calls } },
            { "name": "mcp.server.operation.duration", "unit": "s", "description": "The time of tool calls.",
              "histogram": { "aggregationTemporality": 2, "dataPoints": times } },
            { "name": "mgp.server.up", "unit": "1", "description": "Whether a server is connected.",
              "gauge": { "dataPoints": up } },
        ])
    }

    /// Sends data to the collector; returns the failure, if any.
    async fn post(&self, path: &str, body: &Value) -> Option<String> {
        self.sink.post(path, &body.to_string()).await.err()
    }
}

/// Returns the attributes that identify this kernel. The id of the instance is new at each start, because a collector
/// adds up the metrics of different instances.
fn resource() -> Value {
    json!({ "attributes": [
        text("service.name", "mgp"), text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &mgp_types::random_name().unwrap_or_default()),
    ]})
}

fn scope() -> Value {
    json!({ "name": "mgp-kernel", "version": env!("CARGO_PKG_VERSION") })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns a time as OTLP writes it: nanoseconds since 1970, as text.
fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}
