//! Tests of servers that keep every rule, and of servers that break a single rule.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod extensions;
mod good;
mod scripted;

use std::time::Duration;

use mgp_validate::{Options, Report, Status, Target, judge_server};

fn options() -> Options {
    let mut options = Options::new();
    options.timeout = Duration::from_secs(5);
    options.tool = Some(("echo".to_owned(), serde_json::json!({ "text": "to be" })));
    options
}

async fn judged(target: Target, options: &Options) -> Report {
    judge_server(&target, options).await
}

/// Returns the names of the broken rules, with what was found.
fn broken_rules(report: &Report) -> Vec<(&'static str, String)> {
    let failed = report.results.iter().filter(|result| result.status == Status::Failed);
    failed.map(|result| (result.rule.id, result.message.clone().unwrap_or_default())).collect()
}
