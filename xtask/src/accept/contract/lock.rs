//! The check `contract.lock`: a server from npm or `PyPI` whose files changed under the same name and version does not
//! start under `mgp serve --locked`.

use super::{Options, Verdict, installed};
use crate::accept::kernel::{Kernel, path_text};
use crate::packages::{self, Node};
use crate::run::{Context, Outcome};
use std::{
    ffi::OsString,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

const CONFIG: &str = r#"[[servers]]
id = "memory"
command = "npx"
args = ["-y", "@modelcontextprotocol/server-memory@2026.8.31"]
[servers.mgp]
default_policy = "opt-out"
risk = { read_graph = "safe" }
[[servers]]
id = "time"
command = "uvx"
args = ["mcp-server-time@2026.10.19"]
[servers.mgp]
default_policy = "opt-out"
risk = { get_current_time = "safe" }
"#;

/// The servers. Each has an id, a call as arguments of `mgp tools call`, which succeeds before the change, and the end
/// of the path of the file in its package that the check changes.
const SERVERS: [(&str, &[&str], &str); 2] = [
    (
        "memory",
        &["memory.read_graph"],
        "node_modules/@modelcontextprotocol/server-memory/dist/index.js",
    ),
    ("time", &["time.get_current_time", "timezone=UTC"], "site-packages/mcp_server_time/server.py"),
];

/// Locks both servers, changes a file in each package, and calls the servers before and after the change.
pub(in crate::accept) fn lock(options: &Options) -> Outcome<Verdict> {
    let mut kernel = Kernel::new("contract/lock")?;
    let home = kernel.home();
    // Empty the home folder: package runners keep their packages there, and an earlier run of this check has changed
    // files in it.
    fs::remove_dir_all(&home).and_then(|()| fs::create_dir_all(&home)).context(home.display())?;
    let uv = kernel.place.join("uv");
    let mut path = OsString::new();
    let install = || {
        packages::python(&uv, &["uv==0.13.8".to_owned()], &home)?;
        let node = Node::of_at_least(20)?.path()?;
        let folders = std::iter::once(uv.join("bin")).chain(std::env::split_paths(&node));
        path = std::env::join_paths(folders).context("PATH")?;
        Ok(())
    };
    if let Some(skipped) = installed(options, "contract.lock", install)? {
        return Ok(skipped);
    }
    kernel.env = vec![("HOME", home.clone().into()), ("PATH", path)];
    kernel.configure(CONFIG)?;
    let config = path_text(&kernel.config());
    // Lock the servers. This command also installs both packages.
    kernel.run(&["lock", "--config", &config, "--timeout", "120s"])?;
    let before = calls(&kernel)?;
    let works = before.iter().filter(|(success, _)| *success).count();
    for (_, _, file) in SERVERS {
        let file = find(&home, file)?.context(file)?;
        let mut file = fs::OpenOptions::new().append(true).open(&file).context(file.display())?;
        file.write_all(b"\n")?;
    }
    let after = calls(&kernel)?;
    let is_held = |(success, text): &&(bool, String)| {
        !success && text.contains("differs from mgp.lock: its package changed from")
    };
    let held = after.iter().filter(is_held).count();
    let (is_same, printed, _) =
        kernel.outcome(&["lock", "--check", "--config", &config, "--timeout", "120s"])?;
    let shown =
        SERVERS.iter().filter(|(id, ..)| printed.contains(&format!("changed {id}:"))).count();
    for (_, text) in before.iter().chain(&after) {
        println!("{}", text.trim());
    }
    Ok(Verdict {
        pass: (works, held, is_same, shown) == (2, 2, false, 2),
        figure: format!(
            "{works} packages start as locked; {held} changed ones do not, {shown} are shown"
        ),
        bound: "2, 2, 2".to_owned(),
    })
}

/// Calls both servers through a locked kernel; returns whether each call succeeded, and its output.
fn calls(kernel: &Kernel) -> Outcome<Vec<(bool, String)>> {
    let _served = kernel.serve(&["--locked"])?;
    kernel.tools(|tools| {
        SERVERS.iter().all(|(id, ..)| tools.iter().any(|tool| tool["server_id"] == *id))
    })?;
    let called = SERVERS.iter().map(|(_, call, _)| {
        let (success, printed, errors) = kernel.outcome(&[&["tools", "call"], *call].concat())?;
        Ok((success, printed + &errors))
    });
    called.collect()
}

/// Returns the first file whose path ends with `end`.
fn find(folder: &Path, end: &str) -> Outcome<Option<PathBuf>> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).context(folder.display())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else if entry.path().ends_with(end) {
                return Ok(Some(entry.path()));
            }
        }
    }
    Ok(None)
}
