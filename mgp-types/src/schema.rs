//! Generated documents: JSON Schemas, and the page of methods (feature `schema`).
//!
//! Covers MGP §2 to §16; MCP publishes the schemas of its own messages.

use std::fmt::Write as _;
use std::iter::once;

use serde_json::{Map, Value, json};

use crate::mcp::Revision;
use crate::method::{Direction, Kind, MethodInfo, Shape, methods, shapes};
use crate::{RpcError, mgp};

/// The MGP objects inside MCP messages, and the objects of configuration files.
static OBJECTS: [Shape; 10] = [
    Shape::of::<mgp::MgpCapability>(""),
    Shape::of::<mgp::ToolSecurity>(""),
    Shape::of::<mgp::CodeRejection>(""),
    Shape::of::<mgp::RestartConfig>(""),
    Shape::of::<mgp::CallExtension>(""),
    Shape::of::<mgp::ResultExtension>(""),
    Shape::of::<RpcError>(""),
    Shape::of::<mgp::ServerConfig>(""),
    Shape::of::<mgp::IndexEntry>(""),
    Shape::of::<mgp::ContextBudgetConfig>(""),
];

/// Returns a JSON Schema document with the types of all MGP messages, and of the MGP objects inside MCP messages and
/// configuration files, under `$defs`. The names of the types are those in [`methods_markdown`].
#[must_use]
pub fn message_schemas() -> Value {
    let messages = methods().filter(|info| info.is_mgp()).filter_map(shapes);
    let messages = messages.flat_map(|shapes| once(&shapes.params).chain(&shapes.result));
    let mut types = Map::new();
    for shape in messages.chain(&OBJECTS) {
        let Value::Object(mut schema) = (shape.schema)().to_value() else { continue };
        schema.remove("$schema");
        if let Some(Value::Object(parts)) = schema.remove("$defs") {
            types.extend(parts);
        }
        if let Some(Value::String(name)) = schema.remove("title") {
            types.insert(name, schema.into());
        }
    }
    json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": types })
}

/// Returns the page `docs/methods.md`, with every method.
#[must_use]
pub fn methods_markdown() -> String {
    let mut page = String::from(
        "# Methods\n\n\
         Generated from the table in `mgp-types`; `cargo xtask schema` rewrites it.\n\
         The file [schema/messages.json](schema/messages.json) has the JSON Schemas of the types of MGP, by their names.\n",
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
        Some(path) => format!("`{}`", type_name(path)),
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

/// Returns the name of a type without its path.
fn type_name(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim()
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
        let document = message_schemas();
        for info in methods().filter(|info| info.is_mgp()) {
            for path in once(info.params).chain(info.result) {
                assert!(document["$defs"][type_name(path)]["type"].is_string(), "{path}");
            }
        }
        let text = document.to_string();
        for name in text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document["$defs"][name].is_object(), "{name} has no schema");
        }
    }

    #[test]
    fn required_members_are_required() {
        let chunk = &message_schemas()["$defs"]["ChunkParams"];
        assert_eq!(chunk["required"], json!(["request_id", "index", "content"]));
        assert_eq!(chunk["properties"]["index"]["description"], "The number of the chunk, from 0.");
    }

    #[test]
    fn the_page_has_a_row_for_every_method() {
        let page = methods_markdown();
        assert!(methods().all(|info| page.contains(&format!("`{}`", info.name))));
        assert!(page.contains("19 methods and 6 notifications"));
    }
}
