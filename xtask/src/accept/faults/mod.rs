//! The acceptance check `mcp.faults`: hostile and careless HTTP clients, each against its own server process.

mod slow;

use super::Verdict;
use crate::{
    corpus::{alive, echo},
    run::{Failure, Outcome, target},
    serving::Served,
};
use std::ffi::OsString;

/// A fault: its name, and a function that causes it and returns what was observed, or an error if the server failed.
type Fault = (&'static str, fn(&Served) -> Outcome<String>);

const FAULTS: &[Fault] = &[
    ("heads that drip", |served| slow::drip(served, slow::Part::Head)),
    ("bodies that drip", |served| slow::drip(served, slow::Part::Body)),
];

/// Runs each fault against a new server, prints a line for each, and checks that the server still replies afterwards.
pub(super) fn all() -> Outcome<Verdict> {
    let mut words: Vec<OsString> = vec![echo()?.into()];
    words.extend(["--http", "127.0.0.1:PORT"].map(OsString::from));
    let log = target()?.join("scratch/faults.log");
    std::fs::create_dir_all(target()?.join("scratch"))?;
    let mut failed = 0;
    for (name, fault) in FAULTS {
        let served = Served::words(&words, &log)?;
        let seen = fault(&served).and_then(|seen| {
            let lives = alive(served.port());
            if lives { Ok(seen) } else { Err(Failure::new(format!("{seen}; then no answer"))) }
        });
        match seen {
            Ok(seen) => println!("mcp.faults {name}: PASS {seen}"),
            Err(failure) => {
                failed += 1;
                println!("mcp.faults {name}: FAIL {failure}");
            }
        }
    }
    let all = FAULTS.len();
    Ok(Verdict {
        pass: failed == 0,
        figure: format!("{} of {all} faults survived", all - failed),
        bound: "all".to_owned(),
    })
}

/// Returns the HTTP head of a request to the server on this port; `more` are further header lines with their ends.
fn head(port: u16, method: &str, more: &str) -> String {
    format!(
        "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n{more}\r\n"
    )
}
