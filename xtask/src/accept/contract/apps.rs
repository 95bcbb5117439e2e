//! The check `contract.skills-apps`: MCP Apps from npm work through the kernel. Two of them have a tool of the same
//! name, with a page at the same URI.

use super::{Options, Verdict, installed};
use crate::accept::kernel::{Kernel, ask};
use crate::packages::Node;
use crate::run::{Context, Outcome};
use serde_json::{Value, json};
use std::fs;

/// The servers; the first two have the tool `get-time` with the page `ui://get-time/mcp-app.html`.
const SERVERS: [&str; 3] = ["basic-vanillajs", "basic-react", "budget-allocator"];
const VERSION: &str = "2.0.3";
const PAGE_TYPE: &str = "text/html;profile=mcp-app";

/// Reads the page of each tool through one kernel, and compares it with the page in the package of its server.
pub(in crate::accept) fn apps(options: &Options) -> Outcome<Verdict> {
    let kernel = Kernel::new("contract/apps")?;
    let folder = kernel.place.join("node");
    let mut node = None;
    let install = || {
        let found = Node::of_at_least(20)?;
        let wanted = SERVERS.map(|name| format!("@modelcontextprotocol/server-{name}@{VERSION}"));
        found.install(&folder, &wanted, &kernel.home())?;
        node = Some(found);
        Ok(())
    };
    if let Some(skipped) = installed(options, "contract.skills-apps", install)? {
        return Ok(skipped);
    }
    let program = node.context("Node")?.program();
    let files =
        |name: &str| folder.join(format!("node_modules/@modelcontextprotocol/server-{name}/dist"));
    let entry = |name: &&str| {
        format!(
            "[[servers]]\nid = \"{name}\"\ncommand = '{}'\nargs = ['{}', \"--stdio\"]\n\
             [servers.mgp]\ndefault_policy = \"opt-out\"\n",
            program.display(),
            files(name).join("index.js").display(),
        )
    };
    kernel.configure(&SERVERS.iter().map(entry).collect::<String>())?;
    let served = kernel.serve(&["--no-auth"])?;
    kernel.tools(|tools| tools.len() == SERVERS.len())?;
    let listed = ask(served.port(), &pages(), "tools/list", json!({}))?;
    let tools = listed["tools"].as_array().context("the tools")?;
    let mut right = 0;
    for (name, tool) in
        SERVERS.iter().zip(["basic-vanillajs.get-time", "basic-react.get-time", "get-budget-data"])
    {
        let tool = tools.iter().find(|listed| listed["name"] == tool).context(tool)?;
        let uri = tool["_meta"]["ui"]["resourceUri"].as_str().context("the page of the tool")?;
        let read = ask(served.port(), &pages(), "resources/read", json!({ "uri": uri }))?;
        let page = &read["contents"][0];
        let expected = fs::read_to_string(files(name).join("mcp-app.html")).context(name)?;
        let is_right = page["text"] == expected.as_str()
            && page["mimeType"] == PAGE_TYPE
            && page["uri"] == uri;
        println!("{name}: {uri}: {}", if is_right { "PASS" } else { "FAIL" });
        right += usize::from(is_right);
    }
    Ok(Verdict {
        pass: right == SERVERS.len(),
        figure: format!(
            "{right} of {} pages of npm packages are those of their servers",
            SERVERS.len()
        ),
        bound: format!("{}", SERVERS.len()),
    })
}

/// Returns the capabilities of a client that can show pages of tools (MCP Apps).
fn pages() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": [PAGE_TYPE] } } })
}
