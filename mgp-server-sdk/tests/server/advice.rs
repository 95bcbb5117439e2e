//! Tests of the warnings that a server logs while it is built.

use mgp_server_sdk::prelude::*;
use mgp_testkit::RecordedLog;
use mgp_types::mgp::{CodeSafety, CodeSafetyLevel};
use tracing::Level;

fn warnings_of(build: impl FnOnce() -> Server) -> String {
    let log = RecordedLog::of(Level::WARN);
    tracing::subscriber::with_default(log.clone(), || build().into_stack().unwrap());
    log.lines().join("\n")
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
