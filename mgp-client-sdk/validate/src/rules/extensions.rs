//! The rules about extensions of MCP: pages of tools (SEP-1865) and skills (SEP-2640).

use mgp_types::Sha256Hash;
use serde_json::{Value, json};

use crate::json::{Wrong, list, member, object, one_of, shown, text};
use crate::rule::{Check, ensure, server_rules, skip};
use crate::session::Session;

server_rules! { Mcp;
    "apps.visibility", "SEP-1865", Must, Legacy,
        "`_meta.ui.visibility` of a tool is a list of `model` and `app`" => visibility;
    "apps.page", "SEP-1865", Must, Legacy,
        "the page of a tool has a URI under `ui://`, and is read as `text/html;profile=mcp-app`" => pages;
    "skills.resources", "SEP-2640", Must, Modern,
        "a server with skills declares the capability `resources`" => resources at_once;
    "skills.list", "SEP-2640", Must, Modern,
        "each skill has the URI of a `SKILL.md` in a folder of its name, a frontmatter, and its files" => entries;
    "skills.files", "SEP-2640", Must, Modern,
        "each file of a skill is in its folder, once, with a hash and a size; `SKILL.md` is one of them" => files;
    "skills.read", "SEP-2640", Must, Modern,
        "a `SKILL.md` has the hash and size that its skill states" => contents;
    "skills.get", "SEP-2640", Must, Modern,
        "`skills/get` returns the skill as it is listed" => single;
    "skills.get.unknown", "SEP-2640", Must, Modern,
        "an unknown skill fails with -32602" => unknown;
    "skills.directory", "SEP-2640", Must, Modern,
        "the folder of a skill is read, and an unknown one fails with -32602" => directories;
}

/// The maximum number of pages, and of skills, that are read.
const MAX_READ: usize = 16;

const READ_DIRECTORY: &str = "resources/directory/read";

const PAGE: &str = "text/html;profile=mcp-app";

// === Pages ===

/// Returns `_meta.ui` of each tool that has it, with the name of the tool.
async fn ui_of_tools(session: &mut Session) -> Result<Vec<(String, Value)>, crate::rule::Outcome> {
    let tools =
        if session.capability("tools").is_some() { session.tools().await? } else { Vec::new() };
    let of = |tool: &Value| {
        let ui = tool.pointer("/_meta/ui")?.clone();
        Some((tool["name"].as_str().unwrap_or_default().to_owned(), ui))
    };
    let found: Vec<_> = tools.iter().filter_map(of).collect();
    if found.is_empty() { Err(skip("no tool has a page")) } else { Ok(found) }
}

async fn visibility(session: &mut Session) -> Check {
    for (tool, ui) in ui_of_tools(session).await? {
        if ui.get("visibility").is_none() {
            continue;
        }
        for audience in list(&ui, "visibility")? {
            ensure(*audience == json!("model") || *audience == json!("app"), || {
                format!("the tool `{tool}`: {} is neither `model` nor `app`", shown(audience))
            })?;
        }
    }
    Ok(())
}

async fn pages(session: &mut Session) -> Check {
    for (tool, ui) in ui_of_tools(session).await?.into_iter().take(MAX_READ) {
        if ui.get("resourceUri").is_none() {
            continue;
        }
        let uri = text(&ui, "resourceUri")?;
        ensure(uri.starts_with("ui://"), || {
            format!("the tool `{tool}`: `{uri}` is not under `ui://`")
        })?;
        let read = session.ask("resources/read", json!({ "uri": uri })).await?;
        let read = read.result(&format!("resources/read of `{uri}`"))?;
        let page = list(&read, "contents")?.first().ok_or_else(|| format!("`{uri}` is empty"))?;
        one_of(page, "mimeType", &[PAGE])?;
        let has_html = page["text"].is_string() || page["blob"].is_string();
        ensure(has_html, || format!("`{uri}` has neither `text` nor `blob`"))?;
    }
    Ok(())
}

// === Skills ===

fn settings(session: &Session) -> Result<&Value, crate::rule::Outcome> {
    let settings =
        session.capability("extensions").and_then(|all| all.get("io.modelcontextprotocol/skills"));
    settings.ok_or_else(|| skip("the server declares no skills"))
}

/// Returns the skills on the first page.
async fn skills(session: &mut Session) -> Result<Vec<Value>, crate::rule::Outcome> {
    settings(session)?;
    let result = session.ask("skills/list", json!({})).await?.result("skills/list")?;
    Ok(list(&result, "skills")?.iter().take(MAX_READ).cloned().collect())
}

fn resources(session: &mut Session) -> Check {
    settings(session)?;
    ensure(session.capability("resources").is_some(), || {
        "the capability `resources` is missing".to_owned()
    })
}

/// Returns the folder of a skill, with a slash at its end.
fn folder(skill: &Value) -> Result<&str, Wrong> {
    let uri = text(skill, "uri")?;
    let folder = uri.strip_suffix("SKILL.md").filter(|folder| folder.ends_with('/'));
    folder.ok_or_else(|| format!("`{uri}` is no URI of a `SKILL.md`"))
}

async fn entries(session: &mut Session) -> Check {
    for skill in skills(session).await? {
        let folder = folder(&skill)?;
        let frontmatter = object(&skill, "frontmatter")?;
        let name = text(frontmatter, "name")?;
        text(frontmatter, "description")?;
        ensure(folder.trim_end_matches('/').rsplit('/').next() == Some(name), || {
            format!("the skill `{name}` is in the folder `{folder}`")
        })?;
        let files = member(&skill, "resources")?;
        ensure(files.is_array() || *files == json!("dynamic"), || {
            format!("`resources` must be a list or `dynamic`, not {}", shown(files))
        })?;
    }
    Ok(())
}

async fn files(session: &mut Session) -> Check {
    for skill in skills(session).await? {
        let Some(files) = skill["resources"].as_array() else { continue };
        let folder = folder(&skill)?;
        let mut known = std::collections::HashSet::new();
        for file in files {
            let uri = text(file, "uri")?;
            ensure(uri.starts_with(folder), || format!("`{uri}` is not in `{folder}`"))?;
            ensure(known.insert(uri), || format!("`{uri}` is listed twice"))?;
            let digest = text(file, "digest")?;
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            ensure(hex.len() == 64 && hex.bytes().all(is_hex), || {
                format!("`{digest}` is no hash")
            })?;
            ensure(file["size"].is_u64(), || format!("`{uri}` has no size"))?;
        }
        let own = text(&skill, "uri")?;
        ensure(known.contains(own), || format!("`{own}` is not one of its files"))?;
    }
    Ok(())
}

async fn contents(session: &mut Session) -> Check {
    for skill in skills(session).await? {
        let uri = text(&skill, "uri")?;
        let read = session.ask("resources/read", json!({ "uri": uri })).await?;
        let read = read.result(&format!("resources/read of `{uri}`"))?;
        let Some(found) = read.pointer("/contents/0/text").and_then(Value::as_str) else {
            continue;
        };
        let Some(files) = skill["resources"].as_array() else { continue };
        let Some(file) = files.iter().find(|file| file["uri"] == json!(uri)) else { continue };
        let digest = format!("sha256:{}", Sha256Hash::digest(found.as_bytes()));
        ensure(file["digest"] == json!(digest) && file["size"] == json!(found.len()), || {
            format!("`{uri}` has {} bytes and the hash `{digest}`, unlike its skill", found.len())
        })?;
    }
    Ok(())
}

async fn single(session: &mut Session) -> Check {
    for skill in skills(session).await? {
        let uri = text(&skill, "uri")?;
        let result =
            session.ask("skills/get", json!({ "uri": uri })).await?.result("skills/get")?;
        ensure(result["skill"] == skill, || format!("`{uri}` is {}", shown(&result["skill"])))?;
    }
    Ok(())
}

async fn unknown(session: &mut Session) -> Check {
    settings(session)?;
    let params = json!({ "uri": "skill://no-such-skill-7f3a/SKILL.md" });
    session.ask("skills/get", params).await?.check_error("an unknown skill", &[-32602])
}

async fn directories(session: &mut Session) -> Check {
    if settings(session)?["directoryRead"] != json!(true) {
        return Err(skip("the server does not read directories"));
    }
    for skill in skills(session).await? {
        let folder = folder(&skill)?.trim_end_matches('/');
        let result =
            session.ask(READ_DIRECTORY, json!({ "uri": folder })).await?.result(READ_DIRECTORY)?;
        let has_file = list(&result, "resources")?.iter().any(|child| child["uri"] == skill["uri"]);
        ensure(has_file, || format!("the folder `{folder}` lacks its `SKILL.md`"))?;
    }
    let params = json!({ "uri": "skill://no-such-skill-7f3a" });
    session.ask(READ_DIRECTORY, params).await?.check_error("an unknown directory", &[-32602])
}
