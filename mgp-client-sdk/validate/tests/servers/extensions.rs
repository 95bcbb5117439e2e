//! Servers that break a single rule about what it declares (capabilities, pages of tools, skills), or about tools that
//! it does not have.

use serde_json::{Value, json};

use crate::broken::{Row, is_unknown_tool, legacy, modern, succeed};

pub(crate) const EXTENSIONS: &[Row] = &[
    ("mcp.cancelled.unknown", &[], |m, r| {
        if m.method() == "notifications/cancelled" {
            r.push(json!({ "end": true }));
        }
    }),
    ("mcp.tools.call.unknown.code", &[], |m, r| {
        if is_unknown_tool(m) && !m.is_modern && !m.has_mgp {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    ("modern.tools.call.unknown", &[], |m, r| {
        if is_unknown_tool(m) && m.is_modern && !m.has_mgp {
            succeed(m, r, json!({ "content": [], "resultType": "complete" }));
        }
    }),
    ("mcp.tools.capability", &[], |m, r| {
        if !m.has_mgp {
            legacy(m, r, "initialize", |x| x["capabilities"]["tools"] = Value::Null);
        }
    }),
    ("mcp.prompts.capability", &[], |m, r| {
        legacy(m, r, "initialize", |x| x["capabilities"]["prompts"] = Value::Null);
    }),
    ("apps.visibility", &[], |m, r| {
        legacy(m, r, "tools/list", |x| {
            x["tools"][0]["_meta"]["ui"]["visibility"] = json!(["user"]);
        });
    }),
    ("apps.page", &[], |m, r| {
        legacy(m, r, "resources/read", |x| x["contents"][0]["mimeType"] = json!("text/html"));
    }),
    ("skills.resources", &[], |m, r| {
        modern(m, r, "server/discover", |x| x["capabilities"]["resources"] = Value::Null);
    }),
    ("skills.list", &["skills.get"], |m, r| {
        modern(m, r, "skills/list", |x| x["skills"][0]["frontmatter"]["name"] = json!("coffee"));
    }),
    ("skills.files", &["skills.get"], |m, r| {
        modern(m, r, "skills/list", |x| {
            let again = x["skills"][0]["resources"][0].clone();
            x["skills"][0]["resources"].as_array_mut().unwrap().push(again);
        });
    }),
    ("skills.read", &[], |m, r| {
        modern(m, r, "resources/read", |x| x["contents"][0]["text"] = json!("# Coffee"));
    }),
    ("skills.get", &[], |m, r| {
        modern(m, r, "skills/get", |x| x["skill"]["resources"] = json!("dynamic"));
    }),
    ("skills.get.unknown", &[], |m, r| {
        if m.method() == "skills/get" && r[0].get("error").is_some() {
            r[0]["error"]["code"] = json!(-32002);
        }
    }),
    ("proposals.manifest", &[], |m, r| {
        legacy(m, r, "mgp/manifest/get", |x| x["server"]["version"] = Value::Null);
    }),
    ("proposals.permissions", &[], |m, r| {
        if m.value["params"]["tool"] == "echo" {
            legacy(m, r, "mgp/permissions/check", |x| *x = json!({ "allowed": false }));
        }
    }),
    ("proposals.permissions.unknown", &[], |m, r| {
        legacy(m, r, "mgp/permissions/check", |x| x["allowed"] = json!(true));
    }),
    ("skills.directory", &[], |m, r| {
        modern(m, r, "resources/directory/read", |x| x["resources"] = json!([]));
    }),
];
