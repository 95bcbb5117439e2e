//! Tests of the warnings that a server logs while it is built.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use mgp_server_sdk::prelude::*;
use mgp_types::mgp::{CodeSafety, CodeSafetyLevel};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that records warnings and errors as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn warnings_of(build: impl FnOnce() -> Server) -> String {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || build().into_stack().unwrap());
    let text = log.0.lock().unwrap();
    text.clone()
}

fn run() -> Tool {
    Tool::new("run", "Runs code", || async { "" }).permissions(["code"])
}

#[test]
fn a_tool_that_runs_code_without_rules_is_warned_of() {
    let text = warnings_of(|| Server::new("t", "1").tool(run()));
    assert!(text.contains("without declaring code safety") && text.contains("tool=run"), "{text}");
    let rules = || CodeSafety::new(CodeSafetyLevel::Strict);
    assert_eq!(warnings_of(|| Server::new("t", "1").tool(run().code_safety(rules()))), "");
    let other = Tool::new("other", "", || async { "" }).permissions(["shell"]);
    assert_eq!(warnings_of(|| Server::new("t", "1").tool(other)), "");
}

#[test]
fn a_tool_that_cannot_be_added_at_run_time_is_logged() {
    let text = warnings_of(|| {
        let server = Server::new("t", "1");
        server.tools().add(Tool::new("mgp_x", "", || async { "" }));
        server
    });
    assert!(text.contains("invalid tool left out") && text.contains("mgp_x"), "{text}");
}
