//! A report as a page, and as a badge.

use std::fmt::Write as _;

use super::{Report, Status};
use crate::rule::{RuleLevel, Tier};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;\
color-scheme:light dark}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;\
border-bottom:1px solid #8884;vertical-align:top}code,pre{font:13px/1.4 ui-monospace,monospace}\
pre{overflow:auto;background:#8881;padding:.5rem}.passed{color:#18794e}.failed{color:#c62a2f}\
.warned{color:#ad5700}.skipped{opacity:.6}";

/// Writes the page. Every text from the peer is escaped.
pub(super) fn write(report: &Report) -> String {
    let subject = &report.subject;
    let name = subject.name.as_deref().unwrap_or(&subject.target);
    let mut out = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
    let _ = write!(
        out,
        "<title>{} – MCP and MGP</title><style>{STYLE}</style></head><body>",
        escaped(name)
    );
    let verdict = verdict(report);
    let _ =
        write!(out, "<h1>{}: <span class=\"{verdict}\">{verdict}</span></h1><p>", escaped(name));
    let client = report.client.as_ref().map_or_else(String::new, |client| {
        let name = client.name.as_deref().unwrap_or("without a name");
        format!("{name} {}", client.version.as_deref().unwrap_or_default())
    });
    for (what, text) in [
        ("judged", subject.target.as_str()),
        ("version", subject.version.as_deref().unwrap_or("none")),
        ("MCP", &subject.revisions.join(", ")),
        ("MGP", subject.mgp_version.as_deref().unwrap_or("none")),
        ("extensions", &subject.extensions.join(", ")),
        ("client", &client),
        ("at", &report.tested_at),
    ] {
        if text.is_empty() {
            continue;
        }
        let _ = write!(out, "{what}: <code>{}</code><br>", escaped(text));
    }
    out.push_str("</p><table><thead><tr><th>Tier<th>passed<th>failed<th>warned<th>skipped</tr></thead><tbody>");
    for tier in &report.tiers {
        let sum = &tier.summary;
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            tier.tier.title(),
            sum.passed,
            sum.failed,
            sum.warned,
            sum.skipped
        );
    }
    out.push_str("</tbody></table>");
    for tier in Tier::ALL {
        write_tier(&mut out, report, tier);
    }
    out.push_str("</body></html>\n");
    out
}

fn write_tier(out: &mut String, report: &Report, tier: Tier) {
    let _ = write!(out, "<h2>{}</h2><table><tbody>", tier.title());
    for result in report.results.iter().filter(|result| result.rule.tier == tier) {
        let is_warning = result.status == Status::Failed && result.rule.level == RuleLevel::Should;
        let class = if is_warning { "warned" } else { result.status.as_str() };
        let rule = &result.rule;
        let _ = write!(
            out,
            "<tr><td class=\"{class}\">{class}<td><code>{}</code><br>{}<td>{}",
            escaped(rule.id),
            escaped(rule.section),
            escaped(rule.text)
        );
        if let Some(message) = &result.message {
            let _ = write!(out, "<br><small>{}</small>", escaped(message));
        }
        for text in [&result.sent, &result.received].into_iter().filter(|text| !text.is_empty()) {
            let _ = write!(out, "<pre>{}</pre>", escaped(text));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
}

pub(super) fn badge(report: &Report) -> String {
    let verdict = verdict(report);
    let colour = if report.is_passed() { "#18794e" } else { "#c62a2f" };
    let what = if report.subject.mgp_version.is_some() { "MCP + MGP" } else { "MCP" };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"150\" height=\"20\" role=\"img\" \
         aria-label=\"{what}: {verdict}\"><rect width=\"150\" height=\"20\" rx=\"3\" fill=\"#444\"/>\
         <rect x=\"85\" width=\"65\" height=\"20\" rx=\"3\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,sans-serif\" font-size=\"11\">\
         <text x=\"8\" y=\"14\">{what}</text><text x=\"95\" y=\"14\">{verdict}</text></g></svg>\n"
    )
}

/// Returns the word for the outcome of a report, which is also the name of its style.
fn verdict(report: &Report) -> &'static str {
    if report.is_passed() { "passed" } else { "failed" }
}

/// Returns text escaped for HTML; control and bidirectional characters are removed.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() && c != '\n' => {}
            c => out.push(c),
        }
    }
    out
}
