//! `mgp contract lint`.

use mgp_contract::{Lint, LintLevel, lint, read_spec};
use serde::Serialize;

use super::{SourceArgs, source};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, plural, print};

/// The flaws of definitions.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LintReport {
    /// The number of flaws that make a contract wrong.
    errors: usize,
    /// The number of other flaws.
    warnings: usize,
    /// The flaws of all definitions, in the order they were checked.
    flaws: Vec<Flaw>,
}

/// One flaw.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Flaw {
    /// The file or server in which the flaw is.
    source: String,
    /// `error` or `warning`.
    level: &'static str,
    /// The line in a document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The tool that has the flaw; empty for a flaw of a whole document.
    tool: String,
    /// The flaw and its remedy.
    message: String,
}

impl Render for LintReport {
    fn render(&self, out: &mut Output) {
        for flaw in &self.flaws {
            let color = if flaw.level == "error" { Color::Red } else { Color::Yellow };
            let line = flaw.line.map(|line| format!(":{line}")).unwrap_or_default();
            let tool =
                if flaw.tool.is_empty() { String::new() } else { format!("`{}`: ", flaw.tool) };
            let text = format!("{}{line}: {tool}{}", flaw.source, flaw.message);
            out.status_line(&Cell::from(flaw.level).color(color), &text);
        }
        let (errors, warnings) = (plural(self.errors, "error"), plural(self.warnings, "warning"));
        out.line(format!("{errors}, {warnings}"));
    }
}

pub(super) async fn run(global: &Global, args: &SourceArgs, strict: bool) -> CliResult {
    let mut flaws = Vec::new();
    let (sources, common) = source::names(args);
    for name in sources {
        let text = source::read_text(name)?;
        // Check a file that is not JSON as a specification: its text can have flaws even if no tool can be read from
        // it.
        let document =
            text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err());
        let found: Vec<Lint> = match document {
            Some(text) => read_spec(&text).lints,
            None => source::read(global, name, common).await?.iter().flat_map(lint).collect(),
        };
        flaws.extend(found.into_iter().map(|lint| Flaw {
            source: name.clone(),
            level: if lint.level == LintLevel::Error { "error" } else { "warning" },
            line: lint.line,
            tool: lint.tool,
            message: lint.message,
        }));
    }
    let errors = flaws.iter().filter(|flaw| flaw.level == "error").count();
    let warnings = flaws.len() - errors;
    print(global, &LintReport { errors, warnings, flaws })?;
    if errors == 0 && (warnings == 0 || !strict) {
        return Ok(());
    }
    let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
    Err(Failure::failed(format!("{errors} and {warnings} in the definitions")))
}
