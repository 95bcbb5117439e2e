//! The conversations of `interop` (cells) in which a foreign client without MGP uses our server `echo` over stdio, in
//! every protocol era that the client's SDK supports.

use super::{
    Cell, Ours, Quadrant, Stage,
    install::Places,
    pins::{PYTHON_1, PYTHON_2, Pin, Registry, TYPESCRIPT_1, TYPESCRIPT_2},
    relay::{Traffic, mgp_named},
    relayed,
};
use crate::{
    child,
    run::{Context, Failure, Outcome},
};
use serde_json::{Value, json};
use std::{process::Command, time::Duration};

/// The time limit of one conversation, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A foreign SDK whose client the cells use: its package, and its modes, each with the protocol revision that it
/// negotiates.
pub(super) struct Sdk {
    pub(super) name: &'static str,
    pub(super) pin: Pin,
    /// The major version of a TypeScript SDK, as an argument for the driver script; `None` for Python, whose driver
    /// script detects the installed version.
    version: Option<&'static str>,
    pub(super) modes: &'static [(&'static str, &'static str)],
}

const BOTH_ERAS: &[(&str, &str)] =
    &[("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")];
const LEGACY: &[(&str, &str)] = &[("legacy", "2025-11-25")];

/// The SDKs whose clients use our server.
pub(super) const SDKS: &[Sdk] = &[
    Sdk { name: "python-2", pin: PYTHON_2, version: None, modes: BOTH_ERAS },
    Sdk { name: "python-1", pin: PYTHON_1, version: None, modes: LEGACY },
    Sdk { name: "typescript-2", pin: TYPESCRIPT_2, version: Some("2"), modes: BOTH_ERAS },
    Sdk { name: "typescript-1", pin: TYPESCRIPT_1, version: Some("1"), modes: LEGACY },
];

impl Sdk {
    /// Returns the command of the driver script that calls tools; the caller appends a mode and a server.
    fn driven(&self, places: &Places) -> Outcome<Command> {
        self.runs(places, "")
    }

    /// Returns the command of the driver script that uses every feature of MCP; the caller appends a mode and a server.
    pub(super) fn driven_in_full(&self, places: &Places) -> Outcome<Command> {
        self.runs(places, "kernel_")
    }

    fn runs(&self, places: &Places, prefix: &str) -> Outcome<Command> {
        let (program, driver) = match self.pin.registry {
            Registry::PyPi => (places.python(self.pin), format!("{prefix}python.py")),
            _ => (Places::node(self.pin)?, format!("{prefix}typescript.mjs")),
        };
        let mut command = Command::new(program);
        command.arg(places.driver(&driver)).args(self.version);
        Ok(command)
    }
}

/// Returns a cell for each SDK and mode.
pub(super) fn cells() -> Vec<Cell> {
    let of = |sdk: &'static Sdk| {
        sdk.modes.iter().map(move |&(mode, revision)| Cell {
            name: format!("{}/{mode}", sdk.name),
            quadrant: Quadrant::PlainClient,
            client: sdk.pin.shown(),
            server: "ours, `echo`".to_owned(),
            mode: mode.to_owned(),
            revision,
            pins: vec![sdk.pin],
            run: Box::new(move |cell, stage| talk(sdk, mode, cell, stage)),
        })
    };
    SDKS.iter().flat_map(of).collect()
}

/// Returns the calls that a driver script makes, each as step name, tool and arguments.
fn calls() -> Value {
    json!([
        ["echo", "echo", {"message": "hello"}],
        ["unicode", "echo", {"message": UNICODE}],
        ["wrong", "echo", {"message": 5}],
        ["missing", "echo", {}],
        ["unknown", "ecco", {"message": "hello"}],
        ["again", "echo", {"message": "still here"}],
    ])
}

/// A text with characters of two, three and four bytes, a combining mark, and characters that JSON must escape.
const UNICODE: &str = "żółw 日本 🦀 e\u{301} \u{2028} \"\\\n";

/// The expected outcome of each step: its kind, and the text of the result or a part of the error's text.
const WANTED: &[(&str, &str, &str)] = &[
    ("echo", "result", "hello"),
    ("unicode", "result", UNICODE),
    ("wrong", "error", "string"),
    ("missing", "error", "message"),
    ("unknown", "error", "ecco"),
    ("again", "result", "still here"),
];

fn talk(sdk: &Sdk, mode: &str, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let places = &stage.places;
    let traffic = places.log(&cell.name, "traffic");
    let mut command = sdk.driven(places)?;
    command.arg(mode);
    command.args(relayed(&traffic)?).arg(stage.program(Ours::Echo)?);
    converse(command, cell, places)?;
    plain(&Traffic::read(&traffic)?, cell.revision)
}

/// Runs a driver script that makes all calls, and checks its report.
fn converse(mut command: Command, cell: &Cell, places: &Places) -> Outcome {
    at_home(&mut command, places);
    let errors = places.log(&cell.name, "stderr");
    let ended = child::run(command, &calls().to_string(), &errors, TIMEOUT)?;
    judge(&ended.stdout)?;
    if ended.success {
        return Ok(());
    }
    Err(Failure::new(format!("the client failed; see {}", errors.display())))
}

/// Makes a program run in a scratch folder that is also its home, so that it does not touch the user's files.
pub(super) fn at_home(command: &mut Command, places: &Places) {
    let home = places.home();
    command.current_dir(&home).env("HOME", &home).env("PYTHONIOENCODING", "utf-8");
}

/// Checks the driver's report of the conversation.
fn judge(text: &str) -> Outcome {
    let steps = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).context(line))
        .collect::<Outcome<Vec<_>>>()?;
    let step = |name: &str| {
        let found = steps.iter().find(|step| step["step"] == name);
        found.context(format!("step `{name}`, of {} seen", steps.len()))
    };
    step("connect")?;
    if step("list")?["names"] != json!(["echo"]) {
        return Err(Failure::new(format!("the list: {}", step("list")?)));
    }
    for &(name, kind, part) in WANTED {
        let seen = step(name)?;
        let text = seen["text"].as_str().unwrap_or_default();
        // The text of a result must be exact; an error only has to name the problem.
        let right = if kind == "result" { text == part } else { text.contains(part) };
        if seen["kind"] != kind || !right {
            return Err(Failure::new(format!(
                "step `{name}`: {seen}, expected {kind} with {part:?}"
            )));
        }
    }
    step("close").map(|_| ())
}

/// Checks the recorded traffic for the negotiated revision, and that no line to the client mentions MGP.
fn plain(traffic: &Traffic, revision: &str) -> Outcome<String> {
    if let Some(line) = mgp_named(&traffic.down) {
        return Err(Failure::new(format!("a plain peer saw {line}")));
    }
    let settled = traffic.revision().unwrap_or_default();
    if settled != revision {
        return Err(Failure::new(format!("settled on {settled:?}, expected {revision}")));
    }
    let bytes: usize = traffic.down.iter().map(String::len).sum();
    Ok(format!("{} steps, {bytes} bytes without a name of MGP", WANTED.len() + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(change: impl Fn(&mut Vec<Value>)) -> String {
        let mut steps =
            vec![json!({"step": "connect"}), json!({"step": "list", "names": ["echo"]})];
        steps.extend(
            WANTED
                .iter()
                .map(|(step, kind, text)| json!({"step": step, "kind": kind, "text": text})),
        );
        steps.push(json!({"step": "close"}));
        change(&mut steps);
        let lines: Vec<_> = steps.iter().map(Value::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn each_step_counts() {
        judge(&account(|_| {})).unwrap();
        for gone in 0..WANTED.len() + 3 {
            assert!(judge(&account(|steps| drop(steps.remove(gone)))).is_err(), "{gone}");
        }
        assert!(judge(&account(|steps| steps[1]["names"] = json!([]))).is_err());
        assert!(judge(&account(|steps| steps[3]["text"] = json!("zolw"))).is_err());
        assert!(judge(&account(|steps| steps[4]["kind"] = json!("result"))).is_err());
        assert!(judge("no json").is_err());
    }
}
