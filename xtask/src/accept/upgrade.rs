//! The acceptance check `day.upgrade`: a server from npm is replaced by a version that is 17 months newer, and one
//! command approves all its changed definitions.

use super::{Verdict, kernel::Kernel};
use crate::packages::Node;
use crate::run::{Context, Failure, Outcome};
use serde_json::Value;
use std::{fs, path::PathBuf};

const PACKAGE: &str = "@modelcontextprotocol/server-filesystem";
const VERSIONS: [&str; 2] = ["2025.3.28", "2026.8.31"];

/// Runs the check, which needs access to npm, and to `PyPI` if Node is missing.
pub(super) fn day_upgrade() -> Outcome<Verdict> {
    let day = Day::new()?;
    day.configure(VERSIONS[0])?;
    let kernel = &day.kernel;
    let _served = kernel.serve(&["--no-auth"])?;
    let before = kernel.tools(|tools| !tools.is_empty())?;
    if waiting(&before) != 0 {
        return Err(Failure::new(format!("definitions of {} wait", VERSIONS[0])));
    }
    day.configure(VERSIONS[1])?;
    let held = waiting(&kernel.tools(|tools| waiting(tools) > 0)?);
    // This single command approves all changed definitions.
    kernel.run(&["tools", "approve", "files", "--yes"])?;
    let after = kernel.tools(|tools| waiting(tools) == 0)?;
    let called = kernel.run(&["--json", "tools", "call", "files.list_allowed_directories"])?;
    let works = called.contains(&*day.files.to_string_lossy());
    Ok(Verdict {
        pass: works && after.len() > before.len(),
        figure: format!(
            "{} tools, then {} of which {held} waited; one command, none waits, a call works: {works}",
            before.len(),
            after.len()
        ),
        bound: "one review, one command".to_owned(),
    })
}

/// The kernel of this check, with the old and the new version of the server installed.
struct Day {
    kernel: Kernel,
    files: PathBuf,
    node: Node,
}

impl Day {
    fn new() -> Outcome<Self> {
        let kernel = Kernel::new("upgrade")?;
        let node = Node::of_at_least(20)?;
        for version in VERSIONS {
            let folder = kernel.place.join(version);
            node.install(&folder, &[format!("{PACKAGE}@{version}")], &kernel.home())?;
        }
        let files = kernel.place.join("files");
        fs::create_dir_all(&files).context(files.display())?;
        let files = files.canonicalize().context("the served folder")?;
        Ok(Self { kernel, files, node })
    }

    fn configure(&self, version: &str) -> Outcome {
        let script = format!("{version}/node_modules/{PACKAGE}/dist/index.js");
        self.kernel.configure(&format!(
            "[[servers]]\nid = \"files\"\ncommand = '{}'\nargs = ['{}', '{}']\n[servers.mgp]\n\
             default_policy = \"opt-out\"\npermissions = [\"filesystem.read\"]\n\
             risk = {{ list_allowed_directories = \"safe\" }}\n",
            self.node.program().display(),
            self.kernel.place.join(script).display(),
            self.files.display(),
        ))
    }
}

/// Returns the number of tools whose definitions wait for an operator's approval.
fn waiting(tools: &[Value]) -> usize {
    tools.iter().filter(|tool| tool["standing"] != "pinned").count()
}
