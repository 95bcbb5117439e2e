//! Tests of servers that break a single rule about what they declare (capabilities, pages of tools, skills), or about
//! tools that they do not have.

use serde_json::{Value, json};

use crate::broken::{Row, is_unknown_tool, legacy, modern, sets, succeed};

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
    sets!("mcp.prompts.capability", legacy "initialize" "capabilities.prompts" = null),
    sets!("apps.visibility", legacy "tools/list" "tools.0._meta.ui.visibility" = ["user"]),
    sets!("apps.page", legacy "resources/read" "contents.0.mimeType" = "text/html"),
    sets!("skills.resources", modern "server/discover" "capabilities.resources" = null),
    ("skills.list", &["skills.get"], |m, r| {
        modern(m, r, "skills/list", |x| x["skills"][0]["frontmatter"]["name"] = json!("coffee"));
    }),
    ("skills.files", &["skills.get"], |m, r| {
        modern(m, r, "skills/list", |x| {
            let again = x["skills"][0]["resources"][0].clone();
            x["skills"][0]["resources"].as_array_mut().unwrap().push(again);
        });
    }),
    sets!("skills.read", modern "resources/read" "contents.0.text" = "# Coffee"),
    sets!("skills.get", modern "skills/get" "skill.resources" = "dynamic"),
    ("skills.get.unknown", &[], |m, r| {
        if m.method() == "skills/get" && r[0].get("error").is_some() {
            r[0]["error"]["code"] = json!(-32002);
        }
    }),
    sets!("proposals.manifest", legacy "mgp/manifest/get" "server.version" = null),
    ("proposals.permissions", &[], |m, r| {
        if m.value["params"]["tool"] == "echo" {
            legacy(m, r, "mgp/permissions/check", |x| *x = json!({ "allowed": false }));
        }
    }),
    sets!("proposals.permissions.unknown", legacy "mgp/permissions/check" "allowed" = true),
    sets!("skills.directory", modern "resources/directory/read" "resources" = []),
];
