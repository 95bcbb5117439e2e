//! Generated documents: JSON Schemas, and the page of methods (feature `schema`).
//!
//! Covers MGP §2 to §16; MCP publishes the schemas of its own messages.

use std::fmt::Write as _;

use serde_json::Value;

use crate::mcp::Revision;
use crate::method::{Direction, Kind, MethodInfo, Shape, methods, shapes};
use crate::{RpcError, mgp};

/// Returns the JSON Schemas of all MGP messages, each with the name of its file.
///
/// A request has two files, e.g. `s11_3_health_ping_params.json` and `s11_3_health_ping_result.json`; a notification
/// has one. MGP objects inside MCP messages, and configuration files, have one file each.
#[must_use]
pub fn message_schemas() -> Vec<(String, Value)> {
    let mut schemas = Vec::new();
    for info in methods().filter(|info| info.is_mgp()) {
        let Some(shapes) = shapes(info) else { continue };
        let name = info.golden();
        schemas.push((format!("{name}_params.json"), (shapes.params.schema)().to_value()));
        if let Some(result) = &shapes.result {
            schemas.push((format!("{name}_result.json"), (result.schema)().to_value()));
        }
    }
    for (name, shape) in [
        ("s2_2_mgp_capability", Shape::of::<mgp::MgpCapability>("")),
        ("s4_3_tool_security", Shape::of::<mgp::ToolSecurity>("")),
        ("s7_4_code_rejection", Shape::of::<mgp::CodeRejection>("")),
        ("s11_5_restart_config", Shape::of::<mgp::RestartConfig>("")),
        ("s12_3_call_extension", Shape::of::<mgp::CallExtension>("")),
        ("s12_5_result_extension", Shape::of::<mgp::ResultExtension>("")),
        ("s14_4_error", Shape::of::<RpcError>("")),
        ("s15_2_server_config", Shape::of::<mgp::ServerConfig>("")),
        ("s16_4_index_entry", Shape::of::<mgp::IndexEntry>("")),
        ("s16_8_context_budget", Shape::of::<mgp::ContextBudgetConfig>("")),
    ] {
        schemas.push((format!("{name}.json"), (shape.schema)().to_value()));
    }
    schemas.sort_by(|(left, _), (right, _)| left.cmp(right));
    schemas
}

/// Returns the page `docs/methods.md`, with every method.
#[must_use]
pub fn methods_markdown() -> String {
    let mut page = String::from(
        "# Methods\n\n\
         Generated from the table in `mgp-types`; `cargo xtask schema` rewrites it.\n",
    );
    let seed = |kind| methods().filter(|info| info.seed && info.kind == kind).count();
    let (requests, notifications) = (seed(Kind::Request), seed(Kind::Notification));
    let _ = writeln!(
        page,
        "The {requests} methods and {notifications} notifications of the first specification are in bold."
    );
    section(&mut page, "MGP", |info| info.is_mgp() && !info.is_kernel_only());
    section(&mut page, "MCP", |info| !info.is_mgp());
    section(&mut page, "Kernel", MethodInfo::is_kernel_only);
    page.push_str(
        "\nThese methods are not part of the specification; only operators may call them.\n",
    );
    page
}

fn section(page: &mut String, title: &str, belongs: impl Fn(&MethodInfo) -> bool) {
    let _ = write!(
        page,
        "\n## {title}\n\n\
         | method | § | extension | direction | MCP | params | result |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for info in methods().filter(|info| belongs(info)) {
        row(page, info);
    }
}

fn row(page: &mut String, info: &MethodInfo) {
    let bold = if info.seed { "**" } else { "" };
    let direction = match info.direction {
        Direction::ToServer => "client → server",
        Direction::ToClient => "server → client",
        Direction::Both => "both",
    };
    let revisions = if info.first == Revision::V2024_11_05 && info.last == Revision::MODERN {
        "all".to_owned()
    } else if info.first == info.last {
        info.first.to_string()
    } else {
        format!("{} to {}", info.first, info.last)
    };
    let code = |path: Option<&str>| match path {
        Some(path) => format!("`{}`", path.rsplit("::").next().unwrap_or(path).trim()),
        None => "–".to_owned(),
    };
    let _ = writeln!(
        page,
        "| {bold}`{}`{bold} | {} | {} | {direction} | {revisions} | {} | {} |",
        info.name,
        info.section,
        extension(info),
        code(Some(info.params)),
        code(info.result),
    );
}

/// Returns the table cell with the extension of a method. For a part of an extension of §2.2, the name of the whole
/// extension comes first, e.g. `security (permissions)`.
fn extension(info: &MethodInfo) -> String {
    match info.extension {
        None => "–".to_owned(),
        Some(part) if part.whole() == part => part.to_string(),
        Some(part) => format!("{} ({part})", part.whole()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_mgp_has_a_schema() {
        let schemas = message_schemas();
        let requests = methods().filter(|info| info.is_mgp() && info.kind == Kind::Request).count();
        let notifications =
            methods().filter(|info| info.is_mgp() && info.kind == Kind::Notification).count();
        assert_eq!(schemas.len(), 2 * requests + notifications + 10);
        for (name, schema) in &schemas {
            assert!(schema.get("$schema").is_some() && schema.get("type").is_some(), "{name}");
        }
        let names: std::collections::HashSet<_> = schemas.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), schemas.len());
    }

    #[test]
    fn required_members_are_required() {
        let schemas = message_schemas();
        let (_, chunk) =
            schemas.iter().find(|(name, _)| name == "s12_4_stream_chunk_params.json").unwrap();
        assert_eq!(chunk["required"], serde_json::json!(["request_id", "index", "content"]));
        assert_eq!(chunk["properties"]["index"]["description"], "The number of the chunk, from 0.");
    }

    #[test]
    fn the_page_has_a_row_for_every_method() {
        let page = methods_markdown();
        assert!(methods().all(|info| page.contains(&format!("`{}`", info.name))));
        assert!(page.contains("19 methods and 6 notifications"));
    }
}
