//! Runs our client, the example `call_tool`.

use super::{Cell, Ours, Stage, relay::Traffic, relayed};
use crate::{
    child,
    run::{Context, Failure, Outcome},
};
use serde_json::Value;
use std::{ffi::OsString, process::Command, time::Duration};

/// The time limit of one call including the start of the server, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The extensions of MGP that our client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mgp {
    All,
    None,
}

/// The server to which the client connects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// A command that starts a server over stdio, through a recording relay.
    Command(&'a [OsString]),
    /// The URL of a recording proxy in front of the server. The caller adds the recorded traffic to the result
    /// afterwards.
    Url(&'a str),
}

/// The arguments of one run of `call_tool`.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    pub(super) era: &'a str,
    pub(super) mgp: Mgp,
    pub(super) server: Place<'a>,
    pub(super) tool: &'a str,
    pub(super) arguments: Value,
}

impl Call<'_> {
    /// Runs `call_tool`; `place` can change the command, e.g. its folder.
    pub(super) fn make(
        &self,
        cell: &Cell,
        stage: &Stage,
        log: &str,
        place: impl FnOnce(&mut Command),
    ) -> Outcome<Seen> {
        let traffic = stage.places.log(&cell.name, log);
        let mgp = if self.mgp == Mgp::All { "all" } else { "none" };
        let mut command = Command::new(stage.program(Ours::CallTool)?);
        command.args(["--era", self.era, "--mgp", mgp, "--timeout", "30000"]);
        match self.server {
            Place::Command(server) => {
                command.args(["--json", "--"]).args(relayed(&traffic)?).args(server)
            }
            Place::Url(url) => command.args(["--json", "--url", url]),
        };
        command.arg(self.tool).arg(self.arguments.to_string());
        place(&mut command);
        let ended = child::run(command, "", &stage.places.log(&cell.name, "stderr"), TIMEOUT)?;
        let lines = ended
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).context(line))
            .collect::<Outcome<_>>()?;
        let traffic = match self.server {
            Place::Command(_) => Traffic::read(&traffic)?,
            Place::Url(_) => Traffic::default(),
        };
        Ok(Seen { lines, traffic })
    }
}

/// The output of `call_tool`, and the recorded traffic.
#[derive(Debug)]
pub(super) struct Seen {
    lines: Vec<Value>,
    pub(super) traffic: Traffic,
}

impl Seen {
    /// Returns the contents of the output lines of one kind.
    fn of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter_map(move |line| line.get(kind))
    }

    fn one(&self, kind: &'static str) -> Outcome<&Value> {
        let last = self.lines.last().map_or_else(|| "nothing".to_owned(), Value::to_string);
        self.of(kind).next().context(format!("a line `{kind}`; the last one is {last}"))
    }

    /// Returns the result of the call; fails if the tool reported an error.
    pub(super) fn result(&self) -> Outcome<&Value> {
        let result = self.one("result")?;
        if result["isError"] == true {
            return Err(Failure::new(format!("the tool failed: {result}")));
        }
        Ok(result)
    }

    /// Returns the error message of a call that was expected to fail; `None` if the call succeeded.
    pub(super) fn refusal(&self) -> Option<String> {
        if let Some(error) = self.of("error").next() {
            return Some(error["message"].as_str()?.to_owned());
        }
        let result = self.of("result").next()?;
        let text = result["content"][0]["text"].as_str()?;
        (result["isError"] == true).then(|| text.to_owned())
    }

    /// Returns whether extensions of MGP were negotiated.
    pub(super) fn negotiated_mgp(&self) -> Outcome<bool> {
        Ok(self.one("negotiated")?["mgp"].is_array())
    }

    /// Checks that the client reports this revision, and that the traffic shows it.
    pub(super) fn settled_on(&self, revision: &str) -> Outcome {
        let (negotiated, sent) = (&self.one("negotiated")?["revision"], self.traffic.revision());
        if negotiated == revision && sent.as_deref() == Some(revision) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "negotiated {negotiated}, on the wire {sent:?}, expected {revision}"
        )))
    }
}
