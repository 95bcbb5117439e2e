//! Tests of the spans and figures that a kernel sends to a collector (OpenTelemetry), and of the tool search that
//! learns from use.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mgp_testkit::{HttpRequest, http_response, serve_http};
use serde_json::{Value, json};

use crate::reach::{agent, configure, text, world};
use crate::world::{Host, World, kill, within};

/// A test collector, with the requests that it has received.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    requests: Arc<Mutex<Vec<HttpRequest>>>,
    /// The path whose requests the collector refuses.
    refused: &'static str,
}

fn path_of(request: &HttpRequest) -> &str {
    request.head.split(' ').nth(1).unwrap_or_default()
}

impl Collector {
    /// Serves at a free port until the test ends; returns the URL.
    pub(crate) fn start(&self) -> String {
        let all = self.clone();
        serve_http(move |request| {
            all.requests.lock().unwrap().push(request.clone());
            http_response(if path_of(request) == all.refused { 404 } else { 200 }, "", "{}")
        })
    }

    /// Returns all items that the kernel sent to a path, e.g. all spans. `keys` are the names of the nested lists, from
    /// the outermost list to the list of the items.
    fn all(&self, path: &str, keys: [&str; 3]) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let of_path = requests.iter().filter(|request| path_of(request) == path);
        of_path
            .flat_map(|request| request.value()[keys[0]].as_array().unwrap().clone())
            .flat_map(|of| of[keys[1]].as_array().unwrap().clone())
            .flat_map(|of| of[keys[2]].as_array().unwrap().clone())
            .collect()
    }

    pub(crate) fn spans(&self) -> Vec<Value> {
        self.all("/v1/traces", ["resourceSpans", "scopeSpans", "spans"])
    }

    /// Returns the spans of the trace [`TRACE`].
    fn traced(&self) -> Vec<Value> {
        self.spans().into_iter().filter(|span| span["traceId"] == TRACE).collect()
    }

    /// Returns the number of requests to a path.
    fn count(&self, path: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| path_of(request) == path).count()
    }

    /// Returns the ids of the kernels that sent requests.
    fn instances(&self) -> BTreeSet<String> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|request| {
            let body = request.value();
            ["resourceSpans", "resourceMetrics"].map(|kind| body[kind][0]["resource"].clone())
        });
        let id = |resource: Value| attribute(&resource, "service.instance.id").map(str::to_owned);
        resources.filter_map(id).collect()
    }
}

fn attribute<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = of["attributes"].as_array()?;
    attributes.iter().find(|one| one["key"] == key)?["value"]["stringValue"].as_str()
}

#[test]
fn calls_and_figures_reach_a_collector_in_the_trace_of_the_caller() {
    let collector = Collector::default();
    let url = collector.start();
    let world = world(&[("log", text("a"))], "");
    let telemetry = format!(
        "traceparent = true\n[kernel.telemetry]\notlp = \"{url}\"\nheaders = {{ X-Key = \"k1\" }}\ninterval = \"1s\"\n"
    );
    configure(&world, &telemetry);
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    let (trace, parent) = (TRACE, PARENT);
    let meta = json!({"traceparent": format!("00-{trace}-{parent}-01")});
    ann.ask("tools/call", &json!({"name": "log", "arguments": {}, "_meta": meta})).unwrap();
    assert!(
        ann.ask(
            "tools/call",
            &json!({"name": "mgp_tools_call", "arguments": {"name": "log", "arguments": {"x": 1}}})
        )
        .is_ok()
    );

    let span = within(|| collector.spans().into_iter().find(|span| span["traceId"] == trace));
    assert_eq!(span["parentSpanId"], parent);
    assert_eq!(span["name"], "tools/call log");
    assert_eq!(attribute(&span, "mgp.server"), Some("files"));
    assert_eq!(attribute(&span, "mgp.agent"), Some("ann"));
    let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") < nanos("endTimeUnixNano"));
    // The kernel passed the id of its span to the server, as the parent of the server's own spans.
    let received = fs::read_to_string(world.folder.join("traces")).unwrap();
    let sent = format!("00-{trace}-{}-01", span["spanId"].as_str().unwrap());
    assert!(received.contains(&sent), "{received} lacks {sent}");

    let total = within(|| {
        let metrics = collector.all("/v1/metrics", ["resourceMetrics", "scopeMetrics", "metrics"]);
        let calls = metrics.into_iter().rfind(|metric| metric["name"] == "mgp.calls")?;
        let points = calls["sum"]["dataPoints"].as_array()?.clone();
        let ok = points.into_iter().find(|point| attribute(point, "error.type").is_none())?;
        ok["asInt"].as_str()?.parse::<u64>().ok().filter(|count| *count >= 3)
    });
    assert!(total < 100, "{total}");
    assert!(
        collector.requests.lock().unwrap().iter().all(|request| request.header("x-key") == "k1")
    );
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Creates a world whose kernel sends its spans and figures to a collector.
fn exporting(collector: &Collector) -> World {
    let world = world(&[("log", text("a"))], "");
    let url = collector.start();
    let telemetry = format!("[kernel.telemetry]\notlp = \"{url}\"\ninterval = \"1s\"\n");
    configure(&world, &format!("traceparent = true\n{telemetry}"));
    world
}

/// Calls a tool within the trace [`TRACE`].
fn call_traced(host: &mut Host, mut params: Value) {
    params["_meta"] = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    host.ask("tools/call", &params).unwrap();
}

#[test]
fn calls_of_found_tools_and_with_a_trace_id_of_mgp_are_children_of_the_callers_span() {
    let collector = Collector::default();
    let world = exporting(&collector);
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    let id = "550e8400-e29b-41d4-a716-446655440000";
    let found = json!({"name": "log", "arguments": {"x": 1}});
    call_traced(&mut ann, json!({"name": "mgp_tools_call", "arguments": &found}));
    let batch = json!({"name": "mgp_tools_call_many", "arguments": {"calls": [&found]}});
    call_traced(&mut ann, batch);
    call_traced(&mut ann, json!({"name": "log", "arguments": {"x": 2}, "trace_id": id}));
    let spans = within(|| Some(collector.traced()).filter(|spans| spans.len() == 3));
    let received = fs::read_to_string(world.folder.join("traces")).unwrap();
    for span in &spans {
        assert_eq!(span["parentSpanId"], PARENT, "{span}");
        let sent = format!("00-{TRACE}-{}-01", span["spanId"].as_str().unwrap());
        assert!(received.contains(&sent), "{received} lacks {sent}");
    }
    assert_eq!(attribute(&spans[2], "mgp.trace_id"), Some(id), "{spans:?}");
}

#[test]
fn a_kernel_that_was_started_again_is_another_instance_with_other_ids_of_spans() {
    let collector = Collector::default();
    let world = exporting(&collector);
    for run in 1..=2 {
        let figures = collector.count("/v1/metrics");
        let mut ann = agent(&world, "ann");
        within(|| ann.call("log", &json!({})).ok());
        call_traced(&mut ann, json!({"name": "log", "arguments": {}}));
        within(|| (collector.traced().len() == run).then_some(()));
        within(|| (collector.count("/v1/metrics") > figures).then_some(()));
        assert_eq!(collector.instances().len(), run, "spans and figures name the same instance");
        kill("-KILL", world.kernel().unwrap());
        ann.end();
    }
    let spans: BTreeSet<String> =
        collector.traced().iter().map(|span| span["spanId"].to_string()).collect();
    assert_eq!(spans.len(), 2, "{spans:?}");
}

#[test]
fn a_collector_that_takes_no_figures_is_logged_once() {
    let collector = Collector { refused: "/v1/metrics", ..Collector::default() };
    let world = exporting(&collector);
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    while collector.count("/v1/metrics") < 4 || collector.count("/v1/traces") < 4 {
        ann.call("log", &json!({})).unwrap();
        thread::sleep(Duration::from_millis(200));
    }
    let log = fs::read_to_string(world.state().join("kernel.log")).unwrap();
    assert_eq!(log.matches("metrics not exported").count(), 1, "{log}");
    assert!(!log.contains("spans not exported"), "{log}");
}

/// Returns the position of a tool among the tools that a search finds, or their number if the tool is not among them.
pub(crate) fn rank(host: &mut Host, query: &str, tool: &str) -> usize {
    let arguments = json!({"query": query, "max_results": 8});
    let found =
        host.ask("tools/call", &json!({"name": "mgp_tools_discover", "arguments": arguments}));
    let found = found.unwrap();
    let tools = found["structuredContent"]["tools"].as_array().unwrap_or_else(|| panic!("{found}"));
    tools.iter().position(|one| one["name"] == tool).unwrap_or(tools.len())
}

const LEARNING: &str = "[kernel.search]\nlearning = true\n";

/// Creates a world whose kernel learns from searches, and whose server has eight tools.
fn learning() -> World {
    let names = ["amber", "basil", "cedar", "dahlia", "elder", "fennel", "ginger", "hazel"];
    let tools: Vec<_> = names.iter().map(|name| (*name, text(name))).collect();
    world(&tools, LEARNING)
}

/// Returns one of many similar queries. After such a query, [`teach`] lets an agent call `hazel`.
fn query(n: usize) -> String {
    format!("a file with the gizmo forecast of quarter {n}")
}

/// Lets an agent search and call tools until its search finds `hazel` first.
fn teach(ann: &mut Host) {
    let others = |n: usize| format!("a file with the roster of team {n}");
    for n in 1..40 {
        rank(ann, &query(n), "hazel");
        ann.call("hazel", &json!({})).unwrap();
        rank(ann, &others(n), "basil");
        ann.call("basil", &json!({})).unwrap();
    }
    within(|| (rank(ann, &query(99), "hazel") == 0).then_some(()));
}

#[test]
fn an_agent_finds_first_what_it_used_after_similar_queries_and_no_other_agent_does() {
    let world = learning();
    let mut ann = agent(&world, "ann");
    within(|| ann.call("hazel", &json!({})).ok());
    let mut bob = agent(&world, "bob");
    let before = rank(&mut bob, &query(99), "hazel");
    assert!(before > 0 && rank(&mut ann, &query(99), "hazel") > 0, "{before}");
    teach(&mut ann);
    assert_eq!(rank(&mut bob, &query(99), "hazel"), before, "another agent learned from it");
    // Wait until the kernel has written the history, which then survives the kill.
    thread::sleep(Duration::from_secs(1));
    kill("-KILL", world.kernel().unwrap());
    ann.end();
    bob.end();
    let mut ann = agent(&world, "ann");
    within(|| (rank(&mut ann, &query(98), "hazel") == 0).then_some(()));
}

#[test]
fn a_later_server_of_an_id_does_not_inherit_the_searches_of_a_removed_one() {
    for has_kernel in [true, false] {
        let world = learning();
        let mut ann = agent(&world, "ann");
        within(|| ann.call("hazel", &json!({})).ok());
        assert!(rank(&mut ann, &query(99), "hazel") > 0);
        teach(&mut ann);
        if !has_kernel {
            // Wait until the kernel has written the history.
            thread::sleep(Duration::from_secs(1));
            kill("-KILL", world.kernel().unwrap());
            ann.end();
        }
        let mut remove = Command::new(&world.program);
        remove.env("MGP_STATE", world.state()).args(["servers", "rm", "files", "--config"]);
        let removed = remove.arg(world.config_file()).output().unwrap();
        assert!(removed.status.success(), "{removed:?}");
        configure(&world, LEARNING);
        let mut again = agent(&world, "ann");
        within(|| again.call("hazel", &json!({})).ok());
        assert!(rank(&mut again, &query(98), "hazel") > 0, "{has_kernel}");
    }
}

#[test]
fn an_encoder_that_cannot_be_used_is_reported_and_search_goes_on() {
    let world = world(&[("log", text("a"))], "[kernel.search]\nencoder = \"no/such/model\"\n");
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    assert_eq!(rank(&mut ann, "a file", "log"), 0);
    let status = world.operator().ask("mgp/kernel/info", &json!({})).unwrap();
    assert!(status.to_string().contains("`kernel.search.encoder` is not used"), "{status}");
}
