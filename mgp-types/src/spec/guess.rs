//! Guesses the type of an example (a result or a fragment of a message) from its members, and from the section number
//! in the name of its file.

use serde_json::Value;

use crate::method::{Shape, methods, shapes};
use crate::{mcp, mgp};

struct Candidate {
    section: &'static str,
    shape: Shape,
}

macro_rules! fragments {
    ($( $section:literal $ty:path; )+) => {
        static FRAGMENTS: &[Candidate] = &[$(
            Candidate { section: $section, shape: Shape::of::<$ty>(stringify!($ty)) },
        )+];
    };
}

fragments! {
    "4.2" mcp::Tool;
    "4.3" mgp::ToolSecurity;
    "7.3" mgp::ToolDeclaration;
    "7.4" mgp::CodeRejection;
    "11.5" mgp::RestartConfig;
    "12.2" mgp::MgpDeclaration;
    "16.2" mgp::MgpDeclaration;
    "15.2" mgp::ServerEntry;
    "15.2" mgp::ServerConfig;
    "16.4" mgp::IndexEntry;
    "16.8" mgp::ContextBudgetConfig;
}

pub(super) fn fragment(file_name: &str, value: &Value) -> Option<Shape> {
    choose(file_name, value, FRAGMENTS.iter().map(|one| (one.section, one.shape)))
}

pub(super) fn result(file_name: &str, value: &Value) -> Option<Shape> {
    match value.get("resultType").and_then(Value::as_str) {
        Some("input_required") => {
            return Some(Shape::of::<mcp::InputRequiredResult>("InputRequiredResult"));
        }
        Some("task") => return Some(Shape::of::<mcp::CreateTaskResult>("CreateTaskResult")),
        _ => {}
    }
    let stem = file_name.strip_suffix(".json").unwrap_or(file_name);
    let named = methods().find(|info| stem.strip_suffix("_result") == Some(&info.golden()));
    if let Some(info) = named {
        return shapes(info)?.result;
    }
    let results = methods()
        .filter(|info| !info.is_kernel_only())
        .filter_map(|info| Some((info, shapes(info)?.result?)))
        .filter(|(_, shape)| shape.name != "RawObject");
    let results = results.map(|(info, shape)| {
        let section = match info.name {
            "initialize" => "2.3",
            "tools/list" => "4.2",
            "tools/call" => "12.5",
            _ => info.section,
        };
        (section, shape)
    });
    // §3.6 shows a decision about permissions as a result, so this type is a candidate for the examples of §3.6. It is
    // not a candidate for §3.5, whose result can also be decoded as such a decision.
    let decision = Shape::of::<mgp::PermissionDecision>("PermissionDecision");
    let task = Shape::of::<mcp::LegacyCreateTaskResult>("LegacyCreateTaskResult");
    choose(file_name, value, results.chain([("3.6", decision), ("MCP", task)]))
}

/// Returns the candidate type that has fields for the most members of the value. If several types have fields for the
/// same number of members, returns the type with the fewest fields. If some candidates belong to the section in the
/// file name, only these candidates are compared.
fn choose(
    file_name: &str,
    value: &Value,
    candidates: impl Iterator<Item = (&'static str, Shape)>,
) -> Option<Shape> {
    let members = value.as_object()?;
    let candidates: Vec<_> = candidates.collect();
    let section = section(file_name);
    let in_section = |candidate: &str| section.as_deref() == Some(candidate);
    let any_in_section = candidates.iter().any(|(candidate, _)| in_section(candidate));
    let known = |shape: &Shape| {
        let names = shape.members();
        let known = members.keys().filter(|name| names.contains(name)).count();
        (known, std::cmp::Reverse(names.len()))
    };
    let best = candidates
        .iter()
        .filter(|(candidate, _)| !any_in_section || in_section(candidate))
        .map(|(_, shape)| (known(shape), *shape))
        .max_by_key(|(score, _)| *score)?;
    let ((score, _), shape) = best;
    (score > 0 || members.is_empty() || any_in_section).then_some(shape)
}

/// Returns the section number in a file name: 3.6 for `03.6-1-permission.json` and for `s3_6_permission.json`.
fn section(file_name: &str) -> Option<String> {
    let name = file_name.strip_prefix('s').unwrap_or(file_name);
    let (chapter, rest) = name.split_once(['.', '_'])?;
    let chapter: u8 = chapter.parse().ok()?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let part: u8 = rest.get(..digits)?.parse().ok()?;
    Some(format!("{chapter}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_file_names() {
        for (name, expected) in [
            ("03.6-1-permission-response-method.json", Some("3.6")),
            ("s16_7_tools_session.json", Some("16.7")),
            ("mcp_tools_call.json", None),
            ("session.json", None),
            ("", None),
        ] {
            assert_eq!(section(name).as_deref(), expected, "{name}");
        }
    }
}
