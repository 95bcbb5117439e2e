//! The command `relay FILE -- CMD…`: starts a server, forwards messages between it and the client on stdio, and records
//! both directions in a file.
//!
//! In the file, a line from the client begins with `> `, and a line from the server with `< `.

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome},
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write, stdin, stdout},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// Starts the server and forwards lines in both directions until the server exits.
pub(crate) fn relay(flags: &Flags) -> Outcome {
    let ([file], [program, arguments @ ..]) = (flags.words(), flags.rest()) else {
        return Err(Failure::new("give a file and, after `--`, a command"));
    };
    let mut file = PathBuf::from(file);
    if file.is_dir() {
        // Names the file after the process, because several relays can record into this folder at the same time.
        file.push(format!("{}.traffic", std::process::id()));
    }
    let log = Arc::new(Mutex::new(File::create(&file).context(file.display())?));
    let mut server = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context(program)?;
    let (to, from) =
        (server.stdin.take().context("stdin")?, server.stdout.take().context("stdout")?);
    let down = Arc::clone(&log);
    // Do not join this thread: if the server exits first, the client might keep our standard input open forever.
    thread::spawn(move || pass(stdin(), to, "> ", &down));
    pass(from, stdout(), "< ", &log);
    let status = server.wait()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{program}: {status}"))) }
}

/// Forwards and records lines until one side closes. When the function returns, `to` is dropped, which closes the
/// server's input.
fn pass(from: impl Read, mut to: impl Write, mark: &str, log: &Mutex<File>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(mark.as_bytes());
        match from.read_until(b'\n', &mut line) {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        // Records before forwarding, so that the file contains everything that a peer has received.
        let logged = log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
        let passed = to.write_all(&line[mark.len()..]).and_then(|()| to.flush());
        if logged.is_err() || passed.is_err() {
            return;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// The revision in the last `MCP-Protocol-Version` header of the client; `None` on stdio.
    pub(super) announced: Option<String>,
    /// The lines that the client sent.
    pub(super) up: Vec<String>,
    /// The lines that the server sent.
    pub(super) down: Vec<String>,
}

impl Traffic {
    pub(super) fn read(file: &Path) -> Outcome<Self> {
        let text = fs::read(file).context(file.display())?;
        let mut traffic = Self::default();
        for line in String::from_utf8_lossy(&text).lines() {
            match line.split_once(' ') {
                Some((">", line)) => traffic.up.push(line.to_owned()),
                Some(("<", line)) => traffic.down.push(line.to_owned()),
                _ => return Err(Failure::new(format!("{}: odd line {line}", file.display()))),
            }
        }
        Ok(traffic)
    }

    /// Returns the negotiated revision: the revision in the last header, else in the last reply to `initialize`, else
    /// in the last request that names a revision.
    pub(super) fn revision(&self) -> Option<String> {
        if self.announced.is_some() {
            return self.announced.clone();
        }
        let values = |lines: &[String]| -> Vec<Value> {
            lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        let settled = values(&self.down)
            .iter()
            .rev()
            .find_map(|line| Some(line["result"]["protocolVersion"].as_str()?.to_owned()));
        settled.or_else(|| {
            let key = "io.modelcontextprotocol/protocolVersion";
            let named = |line: &Value| Some(line["params"]["_meta"][key].as_str()?.to_owned());
            values(&self.up).iter().rev().find_map(named)
        })
    }
}

/// Returns the first line that contains "mgp" in upper or lower case; a folder `mgp` in a path does not count.
pub(super) fn mgp_named(lines: &[String]) -> Option<&String> {
    lines.iter().find(|line| line.to_ascii_lowercase().replace("/mgp/", "/").contains("mgp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mgp_are_found_in_any_case() {
        let lines = ["{}".to_owned(), r#"{"_MGP":1}"#.to_owned()];
        assert_eq!(mgp_named(&lines), Some(&lines[1]));
        assert_eq!(mgp_named(&lines[..1]), None);
    }
}
