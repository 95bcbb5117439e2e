//! Runs the conformance suite against a kernel: `mgp serve --http` in front of a server that passes the suite by
//! itself.
//!
//! One configuration serves callers of both protocol revisions. All tools of the server are pinned, because the suite
//! looks for them in `tools/list`, and permissions are approved automatically, because the suite has no operator. All
//! other settings are the defaults.

use super::{example, suite::Tried};
use crate::{
    accept::kernel,
    exchange,
    packages::{self, Node},
    run::{Context, Failure, Outcome},
    serving::Served,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The packages that the servers on the Python and TypeScript SDKs need.
const PYTHON: &[&str] = &["mcp==2.3.0"];
const TYPESCRIPT: &[&str] =
    &["@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4.2.0"];

/// The sources of the servers on the Python and TypeScript SDKs.
const EVERYTHING_PY: &str = include_str!("peers/everything.py");
const EVERYTHING_MJS: &str = include_str!("peers/everything.mjs");

/// The time limit of a `tools/list` request to the server.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The id of the server in the kernel's configuration.
const SERVER: &str = "peer";

/// The kind of server to which the kernel forwards, by its SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Ours,
    TypeScript,
    Python,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Ours, Self::TypeScript, Self::Python];

    /// Parses the value of `--peer`; without a value, selects our own server.
    pub(super) fn named(name: Option<&str>) -> Outcome<Self> {
        match name {
            None | Some("ours") => Ok(Self::Ours),
            Some("ts") => Ok(Self::TypeScript),
            Some("python") => Ok(Self::Python),
            Some(other) => {
                Err(Failure::new(format!("`{other}` is not a peer; known: ours, ts, python")))
            }
        }
    }

    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Ours => "our fixture",
            Self::TypeScript => "the TypeScript SDK",
            Self::Python => "the Python SDK",
        }
    }

    /// Installs and starts the server.
    fn start(self, folder: &Path) -> Outcome<Served> {
        let mut words = match self {
            Self::Ours => vec![example("conformance_server")?, "--port".into()],
            Self::TypeScript => {
                let (node, place) = (Node::of_at_least(20)?, folder.join("node"));
                let wanted: Vec<_> = TYPESCRIPT.iter().map(|&name| name.to_owned()).collect();
                node.install(&place, &wanted, &folder.join("home"))?;
                vec![node.program(), written(place.join("everything.mjs"), EVERYTHING_MJS)?]
            }
            Self::Python => {
                let place = folder.join("python");
                let wanted: Vec<_> = PYTHON.iter().map(|&name| name.to_owned()).collect();
                packages::python(&place, &wanted, &folder.join("home"))?;
                let script = written(place.join("everything.py"), EVERYTHING_PY)?;
                vec![place.join("bin/python"), script]
            }
        };
        words.push("PORT".into());
        let words: Vec<_> = words.into_iter().map(PathBuf::into_os_string).collect();
        Served::words(&words, &folder.join("server.log"))
    }
}

fn written(file: PathBuf, text: &str) -> Outcome<PathBuf> {
    fs::write(&file, text).context(file.display())?;
    Ok(file)
}

/// A kernel, and the server to which it forwards.
#[derive(Debug)]
pub(super) struct Kernel {
    kernel: Served,
    _server: Served,
}

impl Kernel {
    /// Starts the server and the kernel, and waits until the kernel lists the server's tools.
    pub(super) fn start(peer: Peer) -> Outcome<Self> {
        let name = format!("conformance/behind-{peer:?}").to_lowercase();
        let mut own = kernel::Kernel::new(&name)?;
        let server = peer.start(&own.place)?;
        let tools = tools(server.port())?;
        let home = own.home();
        own.env.push(("HOME", home.into()));
        own.configure(&configure(server.port(), &tools))?;
        let kernel = own.serve(&["--no-auth"])?;
        own.tools(|listed| {
            listed.iter().filter(|tool| tool["server_id"] == SERVER).count() >= tools.len()
        })?;
        Ok(Self { kernel, _server: server })
    }

    pub(super) fn tried(&self) -> Tried {
        Tried::at(&self.kernel)
    }
}

/// Returns the kernel's configuration for a server with these tools.
fn configure(port: u16, tools: &[String]) -> String {
    let pinned: Vec<_> = tools.iter().map(|tool| format!("\"{SERVER}.{tool}\"")).collect();
    let risk: Vec<_> = tools.iter().map(|tool| format!("\"{tool}\" = \"safe\"")).collect();
    format!(
        r#"[kernel]
permission_policy = "auto_approve"
auto_approve_except = []

[agents.default]
pinned = [{}]

[[servers]]
id = "{SERVER}"
url = "http://127.0.0.1:{port}/mcp"

[servers.mgp]
trust_level = "trusted"
default_policy = "opt-out"
risk = {{ {} }}
"#,
        pinned.join(", "),
        risk.join(", ")
    )
}

/// Returns the names of the tools that a server lists.
fn tools(port: u16) -> Outcome<Vec<String>> {
    let answer = exchange::ask(port, &json!({}), "tools/list", json!({}), LIST_TIMEOUT);
    let listed = answer.message().unwrap_or(Value::Null);
    let tools = listed["result"]["tools"].as_array().context(format!("tools/list: {listed}"))?;
    Ok(tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect())
}
