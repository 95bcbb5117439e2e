//! A report as text.

use std::fmt::Write as _;

use super::{Report, Status, Subject};
use crate::rule::RuleLevel;

/// The maximum length in bytes of a line about a peer.
const MAX_SUBJECT: usize = 2_000;

/// Writes the broken rules, and then a table with the counts of the outcomes in each tier.
pub(super) fn write(report: &Report) -> String {
    let mut out = String::new();
    if let Some(client) = &report.client {
        out.push_str("client  ");
        write_subject(&mut out, client);
        out.push_str("server  ");
    }
    write_subject(&mut out, &report.subject);
    for result in report.results.iter().filter(|result| result.status == Status::Failed) {
        let word = if result.rule.level == RuleLevel::Must { "FAILED" } else { "warning" };
        let rule = &result.rule;
        let _ = writeln!(out, "\n{word}  {} ({})", rule.id, rule.section);
        let _ = writeln!(out, "  rule      {}", rule.text);
        let shown = [("found", result.message.as_deref().unwrap_or_default())];
        let exchanged = [("sent", result.sent.as_str()), ("received", result.received.as_str())];
        for (what, text) in shown.into_iter().chain(exchanged).filter(|(_, text)| !text.is_empty())
        {
            let _ = writeln!(out, "  {what:<9} {}", mgp_types::clip(text, 300));
        }
    }
    out.push_str("\ntier                                        passed  failed  warned  skipped\n");
    for tier in &report.tiers {
        let sum = &tier.summary;
        let title = tier.tier.title();
        let _ = writeln!(
            out,
            "{title:<42} {:>7} {:>7} {:>7} {:>8}",
            sum.passed, sum.failed, sum.warned, sum.skipped
        );
    }
    out.push_str(if report.is_passed() { "\npassed\n" } else { "\nfailed\n" });
    out
}

fn write_subject(out: &mut String, subject: &Subject) {
    let name = subject.name.as_deref().unwrap_or(&subject.target);
    let version = subject.version.as_deref().unwrap_or("without a version");
    let mcp = format!("{name} {version}: MCP {}", or_none(&subject.revisions.join(", ")));
    let mgp = match &subject.mgp_version {
        Some(version) => format!("MGP {version}: {}", or_none(&subject.extensions.join(", "))),
        None => "no MGP".to_owned(),
    };
    for line in [mcp, mgp] {
        // The peer chooses these texts, which must not control the terminal.
        let _ = writeln!(out, "{}", mgp_types::clip(&line, MAX_SUBJECT));
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
