//! Runs the guard of tool definitions over test cases: for each line of standard input, `guard tooldef` reports
//! whether a tool definition, a change of a definition, or a registration would be blocked (MGP §4).
//!
//! A line is `{"id", "kind": "definition" | "change" | "register", …}` with `tool`, `old` and `new`, or `existing`
//! and `new`. The answer is `{"id", "decision": "block" | "allow", "reason"}`, one per line, in order.
//! An unreadable line is blocked.
//!
//! ```sh
//! echo '{"id":1,"kind":"definition","tool":{"name":"add","description":"Adds.","inputSchema":{}}}' \
//!   | cargo run -q -p mgp-security --all-features --example guard -- tooldef
//! ```

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use mgp_security::{Inspection, NameFlaw};
use mgp_types::{Extras, Payload};
use serde::{Deserialize, Serialize};

const USAGE: &str = "usage: guard tooldef < LINES";

/// The maximum length of an input line in bytes; the rest of a longer line is skipped, and the line is blocked.
const LINE_MAX: u64 = 4 * 1024 * 1024;

fn main() -> ExitCode {
    let Some(judge) = std::env::args().nth(1).and_then(|name| judge(&name)) else {
        // Ignore the error: standard error may be closed.
        let _ = writeln!(io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    match answer_all(judge) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "guard: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A check of one input line; an `Err` holds the reason why the line would be blocked.
type Judge = fn(&Payload) -> Result<(), String>;

/// Returns the check of a subcommand, or `None` if the subcommand is unknown.
fn judge(name: &str) -> Option<Judge> {
    match name {
        "tooldef" => Some(tooldef),
        _ => None,
    }
}

/// The answer to a line.
#[derive(Serialize)]
struct Answer {
    id: Payload,
    decision: &'static str,
    reason: String,
}

/// Writes one answer for each line; a line for which the judge returns a reason is blocked.
fn answer_all(judge: Judge) -> io::Result<()> {
    let (mut lines, mut out) = (io::stdin().lock(), io::stdout().lock());
    while let Some(line) = next_line(&mut lines)? {
        let read = line.and_then(|line| {
            let text = String::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
            Payload::parse(text)
                .map_err(|error| format!("the line is not JSON: {}", error.message()))
        });
        let id = read.as_ref().ok().and_then(|line| line.get::<Extras>().ok()?.get("id").cloned());
        let decided = read.and_then(|line| judge(&line));
        let answer = Answer {
            id: id.unwrap_or_else(Payload::null),
            decision: if decided.is_ok() { "allow" } else { "block" },
            reason: decided.err().unwrap_or_else(|| "nothing was found".to_owned()),
        };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Returns the next line, or the reason why that line cannot be read, or `None` at the end of the input.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *lines, LINE_MAX).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
        lines.skip_until(b'\n')?;
        return Ok(Some(Err(format!("the line is longer than {LINE_MAX} bytes"))));
    }
    Ok(Some(Ok(line)))
}

/// Judges a line about tool definitions.
fn tooldef(line: &Payload) -> Result<(), String> {
    let members: Extras = line.get().map_err(|error| error.message().to_owned())?;
    let member = |name: &str| members.get(name).ok_or_else(|| format!("`{name}` is missing"));
    match &*member("kind")?.get::<String>().map_err(|error| error.message().to_owned())? {
        "definition" => definition(member("tool")?),
        "change" => change(member("old")?, member("new")?),
        "register" => register(member("existing")?, member("new")?),
        other => Err(format!("unknown kind `{other}`; known: definition, change, register")),
    }
}

fn definition(tool: &Payload) -> Result<(), String> {
    let inspection = Inspection::of(tool);
    match inspection.findings().iter().find(|finding| finding.blocks()) {
        Some(finding) => Err(format!("{}: {finding}", finding.rule)),
        None => Ok(()),
    }
}

fn change(old: &Payload, new: &Payload) -> Result<(), String> {
    let (old, new) = (Inspection::of(old), Inspection::of(new));
    match (old.fingerprint(), new.fingerprint()) {
        (Some(before), Some(after)) if before == after => Ok(()),
        (Some(before), Some(after)) => {
            Err(format!("the definition changed from {before} to {after}"))
        }
        _ => Err("a definition cannot be read".to_owned()),
    }
}

fn register(existing: &Payload, new: &Payload) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Registered {
        server_id: String,
        name: String,
        /// `true` if the id was registered before by a server of another owner.
        #[serde(default)]
        impersonates: bool,
    }
    let read = |error: mgp_types::RpcError| error.message().to_owned();
    let existing: Vec<Registered> = existing.get().map_err(read)?;
    let new: Registered = new.get().map_err(read)?;
    let flaw = |flaw: NameFlaw| flaw.to_string();
    let servers = existing.iter().map(|known| known.server_id.as_str());
    if new.impersonates && servers.clone().any(|known| known == new.server_id) {
        return Err(format!("the server id `{}` already belongs to another server", new.server_id));
    }
    NameFlaw::check_server(&new.server_id, servers).map_err(flaw)?;
    NameFlaw::check_tool(&new.name).map_err(flaw)?;
    let tools = existing.iter().map(|known| (known.server_id.as_str(), known.name.as_str()));
    NameFlaw::check_shadow(&new.server_id, &new.name, tools).map_err(flaw)
}
