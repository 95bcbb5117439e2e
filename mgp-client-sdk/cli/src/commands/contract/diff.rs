//! `mgp contract diff`.

use mgp_contract::{Bump, Contract, ToolDifference, compare_all, required_version};
use serde::Serialize;

use super::{CommonArgs, source};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, print};

/// The differences between two lists of tools.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DiffReport {
    /// The version change that all differences together require: `none`, `patch`, `minor` or `major`.
    bump: &'static str,
    /// The tools that differ.
    tools: Vec<ToolDiff>,
}

/// The differences of one tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ToolDiff {
    /// The name of the tool.
    pub(super) tool: String,
    /// The version change that the differences of the tool require: `patch`, `minor` or `major`.
    pub(super) bump: &'static str,
    /// The lowest version that the later definition is allowed to have; absent if the earlier definition has no
    /// version.
    #[serde(skip_serializing_if = "Option::is_none")]
    required_version: Option<String>,
    /// The versions that the later definition is allowed to have, in words.
    #[serde(skip)]
    allowed_versions: Option<String>,
    /// The version of the later definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// `true` if the version of the later definition is too low.
    is_too_low: bool,
    /// The changes from the earlier definition to the later one.
    changes: Vec<ChangeRow>,
}

/// One change.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeRow {
    /// The version change that this difference requires.
    bump: &'static str,
    /// The place of the change, as a JSON pointer into the definition.
    path: String,
    /// The change, described in words.
    what: String,
}

impl ToolDiff {
    pub(super) fn new(found: ToolDifference, old: &[Contract], new: &[Contract]) -> Self {
        let version = |tools: &[Contract]| {
            tools.iter().find(|tool| tool.name == found.tool).and_then(Contract::version)
        };
        let (before, after) = (version(old), version(new));
        let required = before.as_ref().map(|before| required_version(before, found.bump));
        let allowed = before.zip(required.as_ref()).map(|(before, required)| {
            let is_any_higher = before < *required && !before.pre.is_empty();
            if is_any_higher { format!("higher than {before}") } else { required.to_string() }
        });
        let is_too_low =
            required.as_ref().zip(after.as_ref()).is_some_and(|(required, after)| after < required);
        let rows = found.changes.into_iter().map(|change| ChangeRow {
            bump: change.bump.as_str(),
            path: change.path,
            what: change.what,
        });
        Self {
            tool: found.tool,
            bump: found.bump.as_str(),
            required_version: required.map(|version| version.to_string()),
            allowed_versions: allowed,
            version: after.map(|version| version.to_string()),
            is_too_low,
            changes: rows.collect(),
        }
    }

    pub(super) fn render(&self, out: &mut Output) {
        let version = match (&self.allowed_versions, &self.version) {
            (Some(allowed), Some(version)) if self.is_too_low => {
                format!("; its version {version} is too low; the next version is {allowed}")
            }
            (Some(allowed), _) => format!("; the next version is {allowed}"),
            _ => String::new(),
        };
        out.status_line(&mark(self.bump), &format!("{}{version}", self.tool));
        for change in &self.changes {
            let path = if change.path.is_empty() { "/" } else { &change.path };
            out.line(format!("  {:<6} {path}: {}", change.bump, change.what));
        }
    }
}

fn mark(bump: &str) -> Cell {
    let color = match bump {
        "major" => Color::Red,
        "minor" => Color::Yellow,
        _ => Color::Green,
    };
    Cell::from(bump).color(color)
}

impl Render for DiffReport {
    fn render(&self, out: &mut Output) {
        for tool in &self.tools {
            tool.render(out);
        }
        out.line(format!("change: {}", self.bump));
    }
}

pub(super) async fn run(global: &Global, old: &str, new: &str, common: &CommonArgs) -> CliResult {
    let old = source::read(global, old, common).await?;
    let new = source::read(global, new, common).await?;
    let found = compare_all(&old, &new);
    let bump = found.iter().map(|one| one.bump).max().unwrap_or(Bump::None);
    let tools: Vec<_> = found.into_iter().map(|one| ToolDiff::new(one, &old, &new)).collect();
    let low: Vec<_> = tools
        .iter()
        .filter(|tool| tool.is_too_low)
        .map(|tool| format!("`{}`", tool.tool))
        .collect();
    print(global, &DiffReport { bump: bump.as_str(), tools })?;
    if low.is_empty() {
        return Ok(());
    }
    let verb = if low.len() == 1 { "version is" } else { "versions are" };
    Err(Failure::failed(format!("the {verb} too low: {}", low.join(", "))))
}
