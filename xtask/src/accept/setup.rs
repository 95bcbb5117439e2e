//! The acceptance check `ten.setup`: one command puts nine servers of npm and `PyPI` behind `mgp` for six hosts. Each
//! host must then be able to use the servers in both protocol eras. Another command must restore the files of the
//! hosts.

use super::{
    Options, Verdict,
    contract::installed,
    kernel::{Kernel, path_text},
};
use crate::packages::{self, Node};
use crate::run::{Context, Failure, Outcome, Program};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

const NODE: [&str; 4] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
];
const PYTHON: [&str; 5] = [
    "mcp-server-fetch==2026.10.10",
    "mcp-server-git==2026.10.10",
    "mcp-server-sqlite==2025.4.25",
    "mcp-server-time==2026.10.10",
    "mcp-shell-server==1.1.14",
];

/// The widths of the terminals in which `mgp setup` is run.
const WIDTHS: [usize; 2] = [120, 60];

/// The configuration file of Codex, which is the only file in TOML.
const CODEX: &str = ".codex/config.toml";

/// A host with its servers, and a tool that the check searches for and calls as this host.
struct Host {
    file: &'static str,
    servers: &'static [&'static str],
    wish: &'static str,
    tool: &'static str,
    arguments: &'static str,
}

const HOSTS: [Host; 6] = [
    Host {
        file: ".claude.json",
        servers: &["files", "shell"],
        wish: "list the directories that I may access",
        tool: "files.list_allowed_directories",
        arguments: "{}",
    },
    Host {
        file: ".config/Claude/claude_desktop_config.json",
        servers: &["time", "fetch"],
        wish: "what time is it",
        tool: "time.get_current_time",
        arguments: r#"{"timezone":"UTC"}"#,
    },
    Host {
        file: ".cursor/mcp.json",
        servers: &["everything", "sqlite"],
        wish: "echo a message",
        tool: "everything.echo",
        arguments: r#"{"message":"hello"}"#,
    },
    Host {
        file: ".config/Code/User/mcp.json",
        servers: &["thinking"],
        wish: "think step by step",
        tool: "thinking.sequentialthinking",
        arguments: r#"{"thought":"one","thoughtNumber":1,"totalThoughts":1,"nextThoughtNeeded":false}"#,
    },
    Host {
        file: CODEX,
        servers: &["memory", "time"],
        wish: "read everything in the knowledge graph",
        tool: "memory.read_graph",
        arguments: "{}",
    },
    Host {
        file: ".gemini/settings.json",
        servers: &["git", "files"],
        wish: "status of the repository",
        tool: "git.git_status",
        arguments: r#"{"repo_path":"WORK"}"#,
    },
];

/// Runs the check; needs npm, `PyPI` and `script`, which provides a terminal.
pub(super) fn ten_setup(options: &Options) -> Outcome<Verdict> {
    let mut home = Home::new()?;
    if let Some(skipped) = installed(options, "ten.setup", || home.install())? {
        return Ok(skipped);
    }
    let before = home.write_files()?;
    for width in WIDTHS {
        home.setup(width)?;
    }
    let mut wrong = Vec::new();
    for host in &HOSTS {
        for revision in ["2025-11-25", "2026-07-28"] {
            if let Err(failure) = home.use_as(host, revision) {
                wrong.push(format!("{} {revision}: {failure}", host.file));
            }
        }
    }
    home.kernel.run(&["undo"])?;
    for (file, text) in before {
        if fs::read_to_string(home.folder.join(file)).context(file)? != text {
            wrong.push(format!("{file} was not restored"));
        }
    }
    let _ = home.kernel.run(&["stop"]);
    for line in &wrong {
        println!("  {line}");
    }
    Ok(Verdict {
        pass: wrong.is_empty(),
        figure: format!(
            "6 hosts in both eras, 9 servers, terminals of 60 and 120 columns; {} faults",
            wrong.len()
        ),
        bound: "each host lists, finds and calls a tool; every byte is restored".to_owned(),
    })
}

/// The home folder of a person who uses six hosts.
struct Home {
    kernel: Kernel,
    folder: PathBuf,
    work: PathBuf,
    /// The commands of the servers.
    commands: BTreeMap<&'static str, Vec<String>>,
}

impl Home {
    fn new() -> Outcome<Self> {
        let mut kernel = Kernel::new("setup")?;
        let (folder, work) = kernel.person()?;
        Ok(Self { kernel, folder, work, commands: BTreeMap::new() })
    }

    fn install(&mut self) -> Outcome {
        let (python, node) = (self.kernel.place.join("python"), self.kernel.place.join("node"));
        packages::python(&python, &PYTHON.map(str::to_owned), &self.kernel.home())?;
        let found = Node::of_at_least(20)?;
        found.install(&node, &NODE.map(str::to_owned), &self.kernel.home())?;
        Program::new("git").args(&["init", "--quiet"]).args(&[&self.work]).run()?;
        let work = path_text(&self.work);
        let script = |name: &str| path_text(&python.join("bin").join(name));
        let package = |name: &str| {
            let file = format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
            vec![path_text(&found.program()), path_text(&node.join(file))]
        };
        let mut files = package("filesystem");
        files.push(work.clone());
        let database = path_text(&self.work.join("data.db"));
        self.commands = BTreeMap::from([
            ("everything", package("everything")),
            ("files", files),
            ("memory", package("memory")),
            ("thinking", package("sequential-thinking")),
            ("fetch", vec![script("mcp-server-fetch")]),
            ("git", vec![script("mcp-server-git"), "--repository".to_owned(), work]),
            ("sqlite", vec![script("mcp-server-sqlite"), "--db-path".to_owned(), database]),
            ("time", vec![script("mcp-server-time"), "--local-timezone=UTC".to_owned()]),
            ("shell", vec![script("mcp-shell-server")]),
        ]);
        Ok(())
    }

    /// Writes the files of the hosts; returns their texts.
    fn write_files(&self) -> Outcome<Vec<(&'static str, String)>> {
        let mut texts = Vec::new();
        for host in &HOSTS {
            let commands = host.servers.iter().map(|id| (*id, &self.commands[id]));
            let text = if host.file == CODEX {
                let table = |(id, command): (&str, &Vec<String>)| {
                    format!(
                        "[mcp_servers.{id}]\ncommand = '{}'\nargs = {:?}\n\n",
                        command[0],
                        &command[1..]
                    )
                };
                format!(
                    "# My settings\nmodel = 'large'\n\n{}",
                    commands.map(table).collect::<String>()
                )
            } else {
                let servers: Value = commands
                    .map(|(id, command)| {
                        let entry = json!({ "command": command[0], "args": command[1..] });
                        (id.to_owned(), entry)
                    })
                    .collect::<serde_json::Map<_, _>>()
                    .into();
                let key = if host.file.contains("Code/User") { "servers" } else { "mcpServers" };
                format!("{:#}\n", json!({ "theme": "dark", key: servers }))
            };
            let file = self.folder.join(host.file);
            fs::create_dir_all(file.parent().context(host.file)?).context(host.file)?;
            fs::write(&file, &text).context(host.file)?;
            texts.push((host.file, text));
        }
        Ok(texts)
    }

    /// Runs `mgp setup` in a terminal of this width. Accepts the plan in the narrow terminal only.
    fn setup(&self, width: usize) -> Outcome {
        let answer = if width == WIDTHS[1] { "y\n" } else { "n\n" };
        let line = format!("stty cols {width} rows 40; '{}' setup", self.kernel.program.display());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        self.kernel.inherit(&mut command);
        let mut child = command.spawn().context("script")?;
        let mut input = child.stdin.take().context("stdin")?;
        let mut output = child.stdout.take().context("stdout")?;
        let mut printed = Vec::new();
        while !String::from_utf8_lossy(&printed).contains("[y/N]") {
            let mut piece = [0; 4096];
            match output.read(&mut piece)? {
                0 => return Err(Failure::new(String::from_utf8_lossy(&printed).into_owned())),
                length => printed.extend_from_slice(&piece[..length]),
            }
        }
        input.write_all(answer.as_bytes())?;
        // `script` exits only at the end of its input, so close the input.
        drop(input);
        output.read_to_end(&mut printed)?;
        if !child.wait().context("script")?.success() && answer == "y\n" {
            let printed = String::from_utf8_lossy(&printed);
            return Err(Failure::new(format!("mgp setup: {printed}")));
        }
        Ok(())
    }

    /// Starts the command in a host's file as the host does; lists the tools, finds one by a search, and calls it.
    fn use_as(&self, host: &Host, revision: &'static str) -> Outcome {
        let text = fs::read_to_string(self.folder.join(host.file)).context(host.file)?;
        let entry = started(host.file, &text).context("the entry of mgp")?;
        let mut peer = Peer::start(&self.kernel, &entry, revision)?;
        let listed = peer.request("tools/list", json!({}))?;
        if listed["tools"].as_array().is_none_or(Vec::is_empty) {
            return Err(Failure::new(format!("no tools: {listed}")));
        }
        let arguments = host.arguments.replace("WORK", &path_text(&self.work));
        peer.find_and_call(host.wish, host.tool, &arguments)
    }
}

/// A connection over stdio to the program that a host's file names. The check uses it as the host would.
pub(super) struct Peer {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    revision: &'static str,
    last_id: u64,
}

impl Peer {
    /// Starts the command of an entry in a host's file.
    pub(super) fn start(kernel: &Kernel, entry: &Value, revision: &'static str) -> Outcome<Self> {
        let args = entry["args"].as_array().context("args")?.iter().filter_map(Value::as_str);
        // The parent of `mgp serve --stdio` counts as a host, and children of a host must not run `mgp undo`. `setsid
        // --fork` gives the program another parent than this check; the program exits when its input closes.
        let program = entry["command"].as_str().context("command")?;
        let mut command = Command::new("setsid");
        command.args(["--fork", program]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        kernel.inherit(&mut command);
        let mut child = command.spawn().context("the command of the host")?;
        let input = child.stdin.take().context("stdin")?;
        let output = BufReader::new(child.stdout.take().context("stdout")?);
        child.wait().context("setsid")?;
        let mut peer = Self { input, output, revision, last_id: 0 };
        if revision == "2025-11-25" {
            let info = json!({ "name": "xtask", "version": "1" });
            let hello =
                json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": info });
            peer.request("initialize", hello)?;
            let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            writeln!(peer.input, "{ready}")?;
        }
        Ok(peer)
    }

    /// Finds a tool, given as `SERVER.TOOL`, by a search, and calls it.
    pub(super) fn find_and_call(&mut self, wish: &str, tool: &str, arguments: &str) -> Outcome {
        let search = json!({ "name": "mgp_tools_discover", "arguments": { "query": wish } });
        let found = self.request("tools/call", search)?;
        let text = found["content"][0]["text"].as_str().context("the tools that were found")?;
        let tools: Value = serde_json::from_str(text).context("the tools that were found")?;
        let is_wanted = |found: &Value| {
            found["server_id"].as_str().zip(found["name"].as_str()) == tool.split_once('.')
        };
        if !tools["tools"].as_array().is_some_and(|tools| tools.iter().any(is_wanted)) {
            return Err(Failure::new(format!("`{wish}` does not find {tool}: {text}")));
        }
        let arguments: Value = serde_json::from_str(arguments).context(tool)?;
        let call = json!({ "name": tool, "arguments": arguments });
        let called = self.request("tools/call", call)?;
        if called["isError"] == true {
            return Err(Failure::new(format!("{tool}: {called}")));
        }
        Ok(())
    }

    /// Sends a request, and returns its result.
    pub(super) fn request(&mut self, method: &str, mut params: Value) -> Outcome<Value> {
        if self.revision != "2025-11-25" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{request}")?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(Failure::new(format!("no answer to {method}")));
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message["method"].is_null() {
                let result = message["result"].take();
                return if result.is_null() { Err(Failure::new(line)) } else { Ok(result) };
            }
        }
    }
}

/// Returns the entry `mgp` in a host's file.
fn started(file: &str, text: &str) -> Option<Value> {
    if file == CODEX {
        let (_, table) = text.split_once("[mcp_servers.mgp]\n")?;
        // Parse the values as JSON: the strings and the list in this TOML entry are also valid JSON.
        let members = table.lines().map_while(|line| line.split_once(" = "));
        let members =
            members.filter_map(|(name, value)| Some((name, serde_json::from_str(value).ok()?)));
        let entry = members.map(|(name, value): (_, Value)| (name.to_owned(), value));
        Some(entry.collect::<serde_json::Map<_, _>>().into())
    } else {
        let mut value: Value = serde_json::from_str(text).ok()?;
        let key = if value["servers"].is_null() { "mcpServers" } else { "servers" };
        Some(value[key]["mgp"].take())
    }
}
