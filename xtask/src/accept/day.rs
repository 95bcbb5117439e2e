//! The acceptance check `day.again`, for a user of Claude Code whose caches are empty: one command puts ten servers of
//! npm and `PyPI` behind `mgp`, and their tools can then be called. The check repeats this with servers that start
//! slowly.

use super::{
    Options, Verdict,
    contract::installed,
    kernel::{Kernel, path_text},
    setup::Peer,
};
use crate::packages::{self, Node};
use crate::run::{Context, Outcome, Program, now};
use serde_json::{Map, Value, json};
use std::{fs, path::PathBuf};

/// The package with `uvx`, which runs servers of `PyPI`.
const UV: &str = "uv==0.13.9";

/// The configuration file of Claude Code in the home folder.
const FILE: &str = ".claude.json";

/// A server in a host's file: its id, its command, and a harmless call that does not leave the machine, as tool and
/// arguments. The call is `None` if the server has no such tool.
type Server = (&'static str, &'static [&'static str], Option<(&'static str, &'static str)>);

const SERVERS: [Server; 10] = [
    (
        "everything",
        &["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"],
        Some(("echo", r#"{"message":"hello"}"#)),
    ),
    (
        "files",
        &["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "WORK"],
        Some(("list_allowed_directories", "{}")),
    ),
    (
        "memory",
        &["npx", "-y", "@modelcontextprotocol/server-memory@2026.8.31"],
        Some(("read_graph", "{}")),
    ),
    (
        "thinking",
        &["npx", "-y", "@modelcontextprotocol/server-sequential-thinking@2026.8.31"],
        Some((
            "sequentialthinking",
            r#"{"thought":"one","thoughtNumber":1,"totalThoughts":1,"nextThoughtNeeded":false}"#,
        )),
    ),
    ("context7", &["npx", "-y", "@upstash/context7-mcp"], None),
    ("fetch", &["uvx", "mcp-server-fetch==2026.10.10"], None),
    (
        "git",
        &["uvx", "mcp-server-git==2026.10.10", "--repository", "WORK"],
        Some(("git_status", r#"{"repo_path":"WORK"}"#)),
    ),
    // Make no call of these tools: they do not declare what they do, so a person would have to confirm it.
    (
        "sqlite",
        &["uvx", "--with", "mcp<2", "mcp-server-sqlite==2025.4.25", "--db-path", "WORK/data.db"],
        None,
    ),
    ("calculator", &["uvx", "mcp-server-calculator"], None),
    (
        "time",
        &["uvx", "mcp-server-time==2026.10.10", "--local-timezone=UTC"],
        Some(("get_current_time", r#"{"timezone":"UTC"}"#)),
    ),
];

/// The way in which the servers start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    AtOnce,
    /// Each server sleeps for 15 seconds before it starts.
    Slow,
}

/// Runs the check, which needs access to npm and `PyPI`.
pub(super) fn day_again(options: &Options) -> Outcome<Verdict> {
    let mut figures = Vec::new();
    let mut wrong = Vec::new();
    for start in [Start::AtOnce, Start::Slow] {
        let day = Day::new(start)?;
        if let Some(skipped) = installed(options, "day.again", || day.install())? {
            return Ok(skipped);
        }
        let begun = now();
        let faults = day.play().unwrap_or_else(|failure| vec![failure.to_string()]);
        let _ = day.kernel.run(&["stop"]);
        figures.push(format!("{start:?} {:.0} s", begun.elapsed().as_secs_f64()));
        wrong.extend(faults.into_iter().map(|fault| format!("{start:?}: {fault}")));
    }
    for line in &wrong {
        println!("  {line}");
    }
    Ok(Verdict {
        pass: wrong.is_empty(),
        figure: format!("{}; {} faults", figures.join(", "), wrong.len()),
        bound: "after one command, ten servers offer their tools; six are found and called"
            .to_owned(),
    })
}

/// A run of the check for a person who has never used `mgp`, npm or uv.
struct Day {
    kernel: Kernel,
    folder: PathBuf,
    work: PathBuf,
    start: Start,
}

impl Day {
    fn new(start: Start) -> Outcome<Self> {
        let mut kernel = Kernel::new("day")?;
        let (folder, work) = kernel.person()?;
        kernel.env.push(("XDG_CACHE_HOME", folder.join(".cache").into()));
        kernel.env.push(("UV_PYTHON_DOWNLOADS", "never".into()));
        let python = kernel.place.join("python");
        let rest = Node::of_at_least(20)?.path()?;
        let path = std::iter::once(python.join("bin")).chain(std::env::split_paths(&rest));
        kernel.env.push(("PATH", std::env::join_paths(path).context("PATH")?));
        Ok(Self { kernel, folder, work, start })
    }

    fn install(&self) -> Outcome {
        packages::python(&self.kernel.place.join("python"), &[UV.to_owned()], &self.kernel.home())?;
        Program::new("git").args(&["init", "--quiet"]).args(&[&self.work]).run()
    }

    /// Writes the file of the host, runs `mgp setup`, uses the servers as the host does, and runs `mgp undo`. Returns
    /// the faults that it found.
    fn play(&self) -> Outcome<Vec<String>> {
        let text = format!("{:#}\n", json!({ "numStartups": 7, "mcpServers": self.entries() }));
        let file = self.folder.join(FILE);
        fs::write(&file, &text).context(FILE)?;
        self.kernel.run(&["setup", "--yes"])?;
        let mut wrong = self.use_servers()?;
        self.kernel.run(&["undo"])?;
        if fs::read_to_string(&file).context(FILE)? != text {
            wrong.push("`mgp undo` does not restore the file".to_owned());
        }
        Ok(wrong)
    }

    fn entries(&self) -> Map<String, Value> {
        let entry = |(id, command, _): &Server| {
            let command = command.iter().map(|word| self.filled(word));
            let sleep = ["sh", "-c", "sleep 15; exec \"$0\" \"$@\""].map(str::to_owned);
            let sleep = sleep.into_iter().filter(|_| self.start == Start::Slow);
            let words: Vec<String> = sleep.chain(command).collect();
            ((*id).to_owned(), json!({ "command": words[0], "args": words[1..] }))
        };
        SERVERS.iter().map(entry).collect()
    }

    fn filled(&self, text: &str) -> String {
        text.replace("WORK", &path_text(&self.work))
    }

    fn use_servers(&self) -> Outcome<Vec<String>> {
        let mut wrong = Vec::new();
        let entry = fs::read_to_string(self.folder.join(FILE)).context(FILE)?;
        let entry: Value = serde_json::from_str(&entry).context(FILE)?;
        let mut peer = Peer::start(&self.kernel, &entry["mcpServers"]["mgp"], "2025-11-25")?;
        let listed = peer.request("tools/list", json!({}))?;
        if listed["tools"].as_array().is_none_or(Vec::is_empty) {
            wrong.push("the first list is empty".to_owned());
        }
        for (id, _, call) in &SERVERS {
            let Some((tool, arguments)) = call else { continue };
            let wish = format!("{id} {}", tool.replace('_', " "));
            let (name, arguments) = (format!("{id}.{tool}"), self.filled(arguments));
            if let Err(failure) = peer.find_and_call(&wish, &name, &arguments) {
                wrong.push(format!("{name}: {failure}"));
            }
        }
        let known = self.kernel.json(&["servers", "ls"])?;
        for (id, _, _) in &SERVERS {
            let mut all = known.as_array().into_iter().flatten();
            let server = all.find(|server| server["id"] == *id).unwrap_or(&Value::Null);
            if server["tools"].as_u64().is_none_or(|tools| tools == 0) {
                wrong.push(format!("{id} offers no tools: {server}"));
            }
        }
        Ok(wrong)
    }
}
