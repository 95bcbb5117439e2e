//! Tests of skills and MCP Apps of several servers. A host must receive the right page for each tool, and the files of
//! the same server for each skill.

use std::fs;
use std::path::Path;

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_discovery::Config;
use mgp_kernel::Kernel;
use mgp_server_sdk::{Resource, Server, Skill, Tool};
use mgp_testkit::temp_dir;
use mgp_types::ErrorCode;
use mgp_types::mcp::{Era, SkillResources, UI_MIME_TYPE, UiCsp, UiResourceMeta, UiToolMeta};
use serde_json::{Value, json};

use super::world::{
    PAIRS, build, build_with_tools, host, host_of, kernel_with, limit_era, open, search, until,
};

const PAGE: &str = "ui://chart/page.html";

/// Returns a server with a tool that has a page, and a tool that only this page uses. If `lists_page` is `false`, the
/// server does not list the page.
fn charts(era: Era, name: &'static str, lists_page: bool) -> Server {
    let mut settings = UiResourceMeta::new();
    let mut csp = UiCsp::new();
    csp.connect_domains = vec![format!("https://{name}.example")].into();
    settings.csp = Some(csp);
    let page = format!("<!doctype html><p>{name}");
    let page = if lists_page {
        Resource::app(PAGE, "page", page, &settings)
    } else {
        Resource::template("ui://chart/{file}", "pages", move || {
            let page = page.clone();
            async move { page }
        })
        .mime(UI_MIME_TYPE)
    };
    let draw = Tool::new(format!("draw_{name}"), "Draws a chart", || async { "a chart" }).app(PAGE);
    let zoom =
        Tool::new(format!("zoom_{name}"), "Zooms", || async { "zoomed" }).app(PAGE).app_only();
    limit_era(Server::new(name, "1").resource(page).tool(draw).tool(zoom), era)
}

async fn two_charts(era: Era, config: Option<Config>, lists_page: bool) -> Kernel {
    let tools = ["zoom_rain", "zoom_sun"];
    let mut builder = Kernel::builder()
        .local_with("rain", open(&tools), move || charts(era, "rain", lists_page))
        .local_with("My_sun", open(&tools), move || charts(era, "sun", lists_page));
    if let Some(config) = config {
        builder = builder.config(config);
    }
    build_with_tools(builder, [("rain", 2), ("My_sun", 2)]).await
}

/// Returns the URI of a tool's page according to the tool list of the host.
async fn page_of(host: &Client, tool: &str) -> Option<String> {
    let tools = host.list_tools().await.unwrap();
    UiToolMeta::of(tools.iter().find(|listed| listed.name == tool)?)?.resource_uri
}

#[tokio::test]
async fn each_tool_leads_to_the_page_of_its_own_server() {
    for (above, below) in PAIRS {
        for lists_page in [true, false] {
            let kernel = two_charts(below, None, lists_page).await;
            let host = host(&kernel, "ann", host_of(above).apps()).await;
            for name in ["rain", "sun"] {
                let uri = page_of(&host, &format!("draw_{name}")).await.unwrap();
                assert!(uri.starts_with("ui://mgp+") && uri.ends_with("/chart/page.html"), "{uri}");
                assert_eq!(page_of(&host, &format!("zoom_{name}")).await.as_ref(), Some(&uri));
                let read = host.read_resource(&uri).await.unwrap();
                let page = &read.contents[0];
                assert_eq!(page.text.as_deref(), Some(&*format!("<!doctype html><p>{name}")));
                assert_eq!(page.uri, uri);
                assert_eq!(page.mime_type.as_deref(), Some(UI_MIME_TYPE));
                if lists_page {
                    let meta = page.meta.as_ref().unwrap();
                    let ui: UiResourceMeta = meta.decode("ui").unwrap().unwrap();
                    let csp = ui.csp.unwrap();
                    assert_eq!(csp.connect_domains[0], format!("https://{name}.example"));
                    let listed = host.list_resources().await.unwrap();
                    assert!(listed.iter().any(|one| one.uri == uri), "{uri} is listed");
                }
            }
            kernel.stop().await;
        }
    }
}

#[tokio::test]
async fn a_page_that_one_server_lists_keeps_its_uri() {
    let kernel = kernel_with("rain", open(&[]), 2, || charts(Era::Modern, "rain", true)).await;
    let host = host(&kernel, "ann", host_of(Era::Legacy).apps()).await;
    assert_eq!(page_of(&host, "draw_rain").await.as_deref(), Some(PAGE));
    let read = host.read_resource(PAGE).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("<!doctype html><p>rain"));
}

#[tokio::test]
async fn tools_for_pages_only_are_listed_to_hosts_with_pages_only() {
    let kernel = two_charts(Era::Modern, Some(search()), true).await;
    for era in [Era::Legacy, Era::Modern] {
        let plain = host(&kernel, "bob", host_of(era)).await;
        let with_pages = host(&kernel, "ann", host_of(era).apps()).await;
        let names = |tools: Vec<mgp_types::mcp::Tool>| {
            let names = tools.into_iter().map(|tool| tool.name);
            names.filter(|name| !name.starts_with("mgp")).collect::<Vec<_>>()
        };
        assert!(names(plain.list_tools().await.unwrap()).is_empty());
        let mut listed = names(with_pages.list_tools().await.unwrap());
        listed.sort();
        assert_eq!(listed, ["draw_rain", "draw_sun", "zoom_rain", "zoom_sun"]);
        for host in [&plain, &with_pages] {
            let found = host.call("mgp_tools_discover").arg("query", "zoom chart").await.unwrap();
            let found = format!("{found:?}");
            assert!(found.contains("draw_rain") && !found.contains("zoom_"), "{found}");
        }
        assert_ne!(with_pages.call("zoom_rain").await.unwrap().is_error, Some(true));
    }
}

/// Calls a tool of the kernel. Returns the names of the tools in one member of its answer.
async fn names_in(host: &Client, tool: &str, arguments: Value, member: &str) -> Vec<String> {
    let answer = host.call(tool).args(arguments).await.unwrap().to_text();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let tools = answer[member].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Regression test: if two servers had a tool of this name that only pages use, the kernel did not recognize it as such
/// a tool. The kernel also left such tools in the answers to requests for tools, and they replaced other tools in the
/// session.
#[tokio::test]
async fn tools_for_pages_only_reach_no_model_if_two_servers_have_the_name() {
    let with_zoom = |name: &'static str| {
        move || {
            let zoom = Tool::new("zoom", "Zooms a chart", || async { "zoomed" });
            charts(Era::Modern, name, true).tool(zoom.app(PAGE).app_only())
        }
    };
    let builder = Kernel::builder()
        .config(search())
        .local_with("rain", open(&["zoom", "zoom_rain"]), with_zoom("rain"))
        .local_with("My_sun", open(&["zoom"]), with_zoom("sun"));
    let kernel = build_with_tools(builder, [("rain", 3), ("My_sun", 3)]).await;
    for builder in [host_of(Era::Legacy), host_of(Era::Legacy).apps()] {
        let host = host(&kernel, "ann", builder).await;
        let best = json!({ "query": "zoom chart", "max_results": 1 });
        let found = names_in(&host, "mgp_tools_discover", best, "tools").await;
        assert!(matches!(&found[..], [name] if name.starts_with("draw_")), "{found:?}");
        let wanted = json!({ "requirements": { "capabilities": ["zoom"] } });
        let loaded = names_in(&host, "mgp_tools_request", wanted, "tools_loaded").await;
        assert!(!loaded.iter().any(|name| name.starts_with("zoom")), "{loaded:?}");
    }
    // A page can call such a tool. The call does not add the tool to the list of a host that shows no pages.
    let plain = host(&kernel, "bob", host_of(Era::Legacy)).await;
    plain.call("zoom_rain").await.unwrap();
    let listed = plain.list_tools().await.unwrap();
    assert!(!listed.iter().any(|tool| tool.name.contains("zoom")), "{listed:?}");
}

fn write_skill(root: &Path, name: &str, text: &str) {
    let folder = root.join(name);
    fs::create_dir_all(folder.join("references")).unwrap();
    let head =
        format!("---\nname: {name}\ndescription: {text}\nmetadata:\n  cups: 2\n---\n{text}\n");
    fs::write(folder.join("SKILL.md"), head).unwrap();
    fs::write(folder.join("references/more.md"), text).unwrap();
}

/// Returns a function that creates a server with two skills: `tea`, which other servers also have, and a skill that
/// only this server has.
fn teacher(root: &Path, server: &'static str, own: &'static str) -> impl Fn() -> Server + use<> {
    let root = root.join(server);
    write_skill(&root, "tea", server);
    write_skill(&root, own, own);
    move || {
        Server::new(server, "1")
            .skill(Skill::folder(root.join("tea")).unwrap().prefix("drinks"))
            .skill(Skill::folder(root.join(own)).unwrap())
    }
}

#[tokio::test]
async fn skills_of_two_servers_have_names_and_files_of_their_own() {
    let folder = temp_dir();
    let builder = Kernel::builder()
        .local_with("rain", open(&[]), teacher(folder.path(), "rain", "soup"))
        .local_with("sun", open(&[]), teacher(folder.path(), "sun", "cake"));
    let kernel = build(builder).await;
    let host = host(&kernel, "ann", host_of(Era::Modern)).await;
    until("both are listed", || async { host.list_skills().await.unwrap().len() == 4 }).await;
    let skills = host.list_skills().await.unwrap();
    let mut uris: Vec<_> = skills.iter().map(|skill| skill.uri.as_str()).collect();
    uris.sort_unstable();
    let expected = [
        "skill://cake/SKILL.md",
        "skill://mgp+rain/drinks/tea/SKILL.md",
        "skill://mgp+sun/drinks/tea/SKILL.md",
        "skill://soup/SKILL.md",
    ];
    assert_eq!(uris, expected);
    for skill in &skills {
        assert_eq!(&host.get_skill(&skill.uri).await.unwrap(), skill);
        let SkillResources::Files(files) = &skill.resources else { panic!("{skill:?}") };
        assert_eq!(files.len(), 2);
        let mut texts = Vec::new();
        for file in files {
            let bytes = host.read_skill_file(skill, &file.uri).await.unwrap();
            texts.push(String::from_utf8(bytes).unwrap());
        }
        let origin = ["rain", "sun", "soup", "cake"].into_iter().find(|name| texts[1] == *name);
        assert!(texts[0].contains(origin.unwrap()), "{texts:?}");
        let root = skill.uri.strip_suffix("/SKILL.md").unwrap();
        let children = host.read_directory(root).await.unwrap();
        let names: Vec<_> = children.iter().map(|child| child.uri.as_str()).collect();
        assert_eq!(names, [format!("{root}/SKILL.md"), format!("{root}/references")]);
        assert_eq!(children[1].mime_type.as_deref(), Some("inode/directory"));
    }
    for uri in ["skill://drinks/tea/SKILL.md", "skill://nowhere/SKILL.md"] {
        assert!(host.get_skill(uri).await.is_err(), "{uri}");
    }
    let refused = host.read_directory("skill://soup/nothing").await.unwrap_err();
    assert!([ErrorCode::INVALID_PARAMS, ErrorCode::TOOL_NAME_CONFLICT].contains(&refused.code()));
    kernel.stop().await;
}
