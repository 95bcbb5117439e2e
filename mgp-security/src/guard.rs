//! The guard, which judges test cases for validators and tool definitions; each case is a line of JSON (MGP §4, §7).

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use mgp_types::mcp::differ_only_in_order;
use mgp_types::{Extras, Payload};
use mgp_validators::{CaseKind, Cases};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::definition::{Inspection, NameFlaw};

/// The maximum length of an input line, in bytes. A longer line is blocked, and its rest is skipped.
const LINE_MAX: u64 = 4 * 1024 * 1024;
/// The maximum number of judgements whose durations are stored.
const MAX_DURATIONS: usize = 1_000_000;

/// A judge for one kind of test cases: `sandbox`, `network_restricted`, `readonly`, `code_safety` or `tooldef`.
#[derive(Debug)]
pub struct Guard {
    judge: Judge,
}

#[derive(Debug)]
enum Judge {
    Validator(Cases),
    Definitions,
}

/// The durations of the judgements so far.
#[derive(Debug, Clone, Default)]
pub struct GuardTiming {
    durations: Vec<Duration>,
}

impl GuardTiming {
    /// Returns the duration within which the given percentage of judgements were made.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }
}

/// The answer to one input line.
#[derive(Serialize)]
struct Answer {
    id: Payload,
    decision: &'static str,
    reason: String,
}

impl Guard {
    /// The names of all kinds of judges.
    pub const KINDS: [&'static str; 5] =
        ["sandbox", "network_restricted", "readonly", "code_safety", "tooldef"];

    /// Creates the judge with a name in [`KINDS`](Self::KINDS); returns `None` for any other name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let judge = match name {
            "tooldef" => Judge::Definitions,
            name => Judge::Validator(Cases::new(CaseKind::from_name(name)?)),
        };
        Some(Self { judge })
    }

    /// Reads the lists of imports and patterns (§7.3) to which test cases with code refer by name.
    ///
    /// # Errors
    /// An error with the position at which the text is not a JSON object.
    pub fn configs(self, text: &str) -> Result<Self, serde_json::Error> {
        let judge = match self.judge {
            Judge::Validator(cases) => Judge::Validator(cases.configs(text)?),
            Judge::Definitions => Judge::Definitions,
        };
        Ok(Self { judge })
    }

    /// Writes one answer for each input line. A line that cannot be parsed is blocked.
    ///
    /// # Errors
    /// An error if the input cannot be read or the output cannot be written.
    pub fn answer_all(
        &self,
        mut lines: impl BufRead,
        mut out: impl Write,
    ) -> io::Result<GuardTiming> {
        let mut timing = GuardTiming::default();
        while let Some(line) = next_line(&mut lines)? {
            let read = line.and_then(|line| {
                String::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())
            });
            let parsed = read.as_deref().ok().and_then(|text| Payload::parse(text.to_owned()).ok());
            let id = parsed.as_ref().and_then(|line| line.get::<Extras>().ok()?.get("id").cloned());
            let start = Instant::now();
            let decided = read.and_then(|text| self.judge(&text, parsed.as_ref()));
            if timing.durations.len() < MAX_DURATIONS {
                timing.durations.push(start.elapsed());
            }
            let answer = Answer {
                id: id.unwrap_or_else(Payload::null),
                decision: if decided.is_ok() { "allow" } else { "block" },
                reason: decided.err().unwrap_or_else(|| "nothing was found".to_owned()),
            };
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(timing)
    }

    fn judge(&self, text: &str, parsed: Option<&Payload>) -> Result<(), String> {
        match (&self.judge, parsed) {
            (_, None) => Err("the line is not JSON".to_owned()),
            (Judge::Validator(cases), _) => cases.judge(text),
            (Judge::Definitions, Some(line)) => definitions(line),
        }
    }
}

/// Returns the next line, or the reason why it cannot be read; `None` at the end of the input.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let read = Read::take(&mut *lines, LINE_MAX).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
        lines.skip_until(b'\n')?;
        return Ok(Some(Err(format!("the line is longer than {LINE_MAX} bytes"))));
    }
    Ok(Some(Ok(line)))
}

/// Judges a line with tool definitions.
fn definitions(line: &Payload) -> Result<(), String> {
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
    let (earlier, later) = (Inspection::of(old), Inspection::of(new));
    match (earlier.fingerprint(), later.fingerprint()) {
        (Some(before), Some(after)) if before == after => Ok(()),
        // As in the kernel, another order of words that form a set is not a change.
        (Some(_), Some(_)) if later.is_usable() && differ_only_in_order(old, new) => Ok(()),
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
        /// `true` if a server of another owner registered the same id before.
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
