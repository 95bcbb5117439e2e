//! The command `accept NAME`: runs acceptance checks by name; without a name, lists them.
//!
//! Each check ends with the line `NAME: PASS|FAIL <figure> (bound <figure>)`.

mod binaries;
mod console;
mod contract;
mod day;
mod fresh;
mod gov;
mod index;
mod install;
pub(crate) mod kernel;
mod ping;
mod real;
mod rows;
mod sdk;
mod setup;
mod spec;
mod stream;
mod table;
mod wire;

use crate::{
    flags::Flags,
    run::{Failure, Outcome, Rigour, root},
};
use binaries::Tests;
use std::path::PathBuf;
use table::CHECKS;

/// An acceptance check: its name, a sentence that describes it, and its steps.
struct Check {
    name: &'static str,
    about: &'static str,
    steps: &'static [Step],
}

/// A step of a check; a check passes if all its steps pass.
enum Step {
    /// Runs test binaries of the workspace.
    Tests(&'static [Tests]),
    /// Calls a function that measures something or causes a fault.
    Program(fn(&Options) -> Outcome<Verdict>),
}

/// The options of `accept` on the command line.
#[derive(Debug)]
struct Options {
    rigour: Rigour,
    /// The folder of the labelled sets of the tool index; `None` for the folder beside the repository.
    data: Option<PathBuf>,
}

impl Options {
    /// Reports that a check or a part of it cannot run, and returns a verdict that passes. Returns a failure in strict
    /// mode.
    fn skip(&self, what: &str, why: &str) -> Outcome<Verdict> {
        self.rigour.skip(what, why)?;
        let (figure, bound) = (format!("{what} SKIPPED"), why.to_owned());
        Ok(Verdict { pass: true, figure, bound })
    }
}

/// The result of a check: whether it passed, its figure and the bound of the figure.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) pass: bool,
    pub(crate) figure: String,
    pub(crate) bound: String,
}

impl Verdict {
    /// Joins two results; both must pass.
    pub(crate) fn and(self, other: Self) -> Self {
        let join = |one: String, other: String| {
            if one == other { one } else { format!("{one}; {other}") }
        };
        Self {
            pass: self.pass && other.pass,
            figure: join(self.figure, other.figure),
            bound: join(self.bound, other.bound),
        }
    }
}

/// Runs the named checks, or lists all of them.
pub(crate) fn accept(flags: &Flags) -> Outcome {
    if flags.words().is_empty() {
        for check in CHECKS {
            println!("{:24} {}", check.name, check.about);
        }
        return Ok(());
    }
    let mut checks = Vec::new();
    for name in flags.words() {
        let check = CHECKS.iter().find(|check| check.name == name).ok_or_else(|| {
            let known: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
            Failure::new(format!("unknown check {name}; known: {}", known.join(", ")))
        })?;
        checks.push(check);
    }
    let options = Options {
        rigour: Rigour::from_strict(flags.has("--strict")),
        data: flags.value("--data").map(PathBuf::from),
    };
    let failed: Vec<_> = checks
        .into_iter()
        .filter(|check| !check.passes(&options))
        .map(|check| check.name)
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join(", "))) }
}

/// Runs the part of the acceptance checks that `ci` needs: reads the examples of the specification, if they are beside
/// the repository. The other checks take longer, or are tests, which `ci` runs anyway.
pub(crate) fn quick() -> Outcome {
    if shared("").is_none() {
        println!("the material of the checks does not lie beside the repository; skipped");
        return Ok(());
    }
    let verdict = spec::core_spec()?;
    if verdict.pass { Ok(()) } else { Err(Failure::new(verdict.figure)) }
}

/// Returns a file or folder in `../shared`, the material beside the repository, if it exists.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let place = root().parent()?.join("shared").join(path);
    place.exists().then_some(place)
}

impl Check {
    /// Runs the check and prints its last line.
    fn passes(&self, options: &Options) -> bool {
        let verdict = self.run(options).unwrap_or_else(|failure| Verdict {
            pass: false,
            figure: failure.to_string(),
            bound: "no failure".to_owned(),
        });
        let word = if verdict.pass { "PASS" } else { "FAIL" };
        println!("{}: {word} {} (bound {})", self.name, verdict.figure, verdict.bound);
        verdict.pass
    }

    fn run(&self, options: &Options) -> Outcome<Verdict> {
        let mut joined: Option<Verdict> = None;
        for step in self.steps {
            let verdict = match step {
                Step::Tests(tests) => binaries::run(self.name, tests, options.rigour)?,
                Step::Program(run) => run(options)?,
            };
            joined = Some(match joined {
                Some(before) => before.and(verdict),
                None => verdict,
            });
        }
        joined.ok_or_else(|| Failure::new("the check has no steps"))
    }
}
