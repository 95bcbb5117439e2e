//! The check `valid.real`: ordinary calls must reach servers from npm and `PyPI`, and attacks must be blocked, although
//! these servers do not use MGP and no validators are configured for them.

use super::{
    Options, Verdict,
    contract::installed,
    kernel::{Kernel, ask, path_text},
};
use crate::packages::{self, Node};
use crate::run::{Context, Failure, Outcome, Program};
use crate::serving::Served;
use serde_json::{Value, json};
use std::fs;

/// Ordinary calls, and calls that must be blocked, one per line.
const CALLS: &str = include_str!("real_calls.txt");

const PYTHON: [&str; 3] =
    ["mcp-shell-server==1.1.14", "mcp-server-fetch==2026.10.10", "mcp-server-git==2026.10.10"];
const FILES: &str = "@modelcontextprotocol/server-filesystem";
/// The only commands that the shell server accepts.
const COMMANDS: &str = "ls,cat,echo,git,grep,find,bash,sh,rm,python3";

/// Makes all calls through one kernel; a blocked call must not have reached its server.
pub(super) fn valid_real(options: &Options) -> Outcome<Verdict> {
    let kernel = Kernel::new("real")?;
    let (python, node) = (kernel.place.join("python"), kernel.place.join("node"));
    let mut program = None;
    let install = || {
        packages::python(&python, &PYTHON.map(str::to_owned), &kernel.home())?;
        let found = Node::of_at_least(20)?;
        found.install(&node, &[format!("{FILES}@2026.8.31")], &kernel.home())?;
        program = Some(path_text(&found.program()));
        Ok(())
    };
    if let Some(skipped) = installed(options, "valid.real", install)? {
        return Ok(skipped);
    }
    let folder = path_text(&work_folder(&kernel)?);
    let script = |name: &str| path_text(&python.join("bin").join(name));
    let files = path_text(&node.join(format!("node_modules/{FILES}/dist/index.js")));
    let git = vec![script("mcp-server-git"), "--repository".to_owned(), folder.clone()];
    let servers = [
        ("shell", vec![script("mcp-shell-server")]),
        ("fetch", vec![script("mcp-server-fetch")]),
        ("git", git),
        ("files", vec![program.context("Node")?, files, folder.clone()]),
    ];
    let entries = servers.iter().map(|(id, command)| server(&kernel, id, command));
    kernel.configure(&entries.collect::<String>())?;
    let served = kernel.serve(&["--no-auth"])?;
    kernel.tools(|tools| {
        ["shell_execute", "fetch", "git_status", "read_text_file"]
            .iter()
            .all(|tool| tools.iter().any(|known| known["name"] == *tool))
    })?;
    for (server, _) in servers {
        kernel.run(&["access", "grant", "*", server, "--no-confirm", "--because", "the check"])?;
    }
    // The number of calls with the expected outcome and of all calls, for attacks and for ordinary calls.
    let mut counts = [[0_usize; 2]; 2];
    for line in CALLS.lines().skip(1) {
        let is_right = judge(&kernel, &served, &line.replace("DIR", &folder))?;
        let [right, all] = &mut counts[usize::from(line.starts_with('+'))];
        *right += usize::from(is_right);
        *all += 1;
    }
    let [[blocked, attacks], [passed, ordinary]] = counts;
    Ok(Verdict {
        pass: (passed, blocked) == (ordinary, attacks),
        figure: format!(
            "{passed} of {ordinary} ordinary calls reach their servers, {blocked} of {attacks} attacks are blocked"
        ),
        bound: "all".to_owned(),
    })
}

/// Makes the call of a line. Returns whether its outcome is the expected one: an ordinary call reached its server, and
/// an attack was refused.
fn judge(kernel: &Kernel, served: &Served, line: &str) -> Outcome<bool> {
    let parts: Vec<&str> = line.splitn(4, ' ').collect();
    let [kind, server, tool, arguments] = parts[..] else {
        return Err(Failure::new(format!("not a call: {line}")));
    };
    let arguments: Value = serde_json::from_str(arguments).context(line)?;
    let before = received(kernel, server)?;
    let params = json!({ "name": format!("{server}.{tool}"), "arguments": arguments });
    let result = ask(served.port(), &json!({}), "tools/call", params)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    // Read the code from the end of the text, because the refusal of a tool with an output schema has no structured
    // content.
    let code = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).map(|(_, code)| code);
    let has_code = code.is_some_and(|code| code.parse::<i32>().is_ok());
    let is_refused = result["isError"] == true && has_code;
    let has_reached = received(kernel, server)? != before;
    let is_right = is_refused == (kind == "-") && has_reached != is_refused;
    if !is_right {
        println!("{line}: refused {is_refused}, reached {has_reached}: {result}");
    }
    Ok(is_right)
}

/// Creates the folder in which the servers work, a git repository with a few files.
fn work_folder(kernel: &Kernel) -> Outcome<std::path::PathBuf> {
    let folder = kernel.place.join("work");
    let _ = fs::remove_dir_all(&folder);
    for (name, text) in [
        ("notes/list.txt", "milk\nbread\n"),
        ("notes/log.txt", "started\nerror: none\n"),
        ("notes/old.txt", "milk\n"),
        ("notes/table.csv", "name,price\nmilk,1\n"),
        ("docs/guide.md", "# Guide\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("readme.md", "Hello\n"),
        ("package.json", "{}\n"),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().context(name)?).context(name)?;
        fs::write(&file, text).context(name)?;
    }
    Program::new("git").args(&["init", "--quiet"]).args(&[&folder]).run()?;
    folder.canonicalize().context("the folder")
}

/// Returns the configuration entry of a server. A copy of the server's input is also written to a file.
fn server(kernel: &Kernel, id: &str, command: &[String]) -> String {
    let log = path_text(&kernel.place.join(format!("{id}.input")));
    let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    format!(
        "[[servers]]\nid = \"{id}\"\ncommand = \"sh\"\n\
         args = [\"-c\", 'tee -a \"$0\" | exec \"$@\"', '{log}', {}]\n\
         env = {{ ALLOW_COMMANDS = \"{COMMANDS}\" }}\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\n\
         permissions = [\"shell.execute\", \"filesystem.read\", \"filesystem.write\", \"network.outbound\", \"code_execution\"]\n",
        words.join(", ")
    )
}

/// Returns the number of calls that a server has received.
fn received(kernel: &Kernel, server: &str) -> Outcome<usize> {
    let text = fs::read_to_string(kernel.place.join(format!("{server}.input"))).context(server)?;
    Ok(text.matches("\"tools/call\"").count())
}
