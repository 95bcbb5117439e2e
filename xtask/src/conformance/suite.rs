//! Installs and runs the conformance suite: a pinned version, with its mock servers bound to loopback.

use super::{
    judged::{self, Judged},
    sets::{Requirements, Scenarios, Set, Side},
};
use crate::{
    child,
    packages::Node,
    run::{Context, Failure, Outcome, target},
    serving::Served,
};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The pinned version of the suite; a newer version must be reviewed before it is used.
const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";

/// The minimum major version of Node that the suite needs.
const LEAST_NODE: u32 = 22;

/// A script that makes the suite's mock servers listen on loopback only.
const LOOPBACK: &str = include_str!("loopback.cjs");

/// The time limit of one scenario in milliseconds; long, because the suite runs all client scenarios in parallel, and
/// the machine may be busy.
const SCENARIO_TIMEOUT_MS: &str = "90000";

/// The time limit of one whole set of conformance tests.
const SET_TIMEOUT: Duration = Duration::from_mins(20);

#[derive(Debug)]
pub(super) struct Suite {
    node: Node,
    folder: PathBuf,
}

/// The program that the suite tests: the URL of a server, or the path of a client program.
#[derive(Debug, Clone)]
pub(super) enum Tried {
    Server(String),
    Client(PathBuf),
}

impl Tried {
    /// Returns the URL of a running server.
    pub(super) fn at(served: &Served) -> Self {
        Self::Server(format!("http://127.0.0.1:{}/mcp", served.port()))
    }
}

impl Suite {
    /// Installs the suite unless it is installed already.
    pub(super) fn install() -> Outcome<Self> {
        let folder = target()?.join("conformance");
        let node = Node::of_at_least(LEAST_NODE)?;
        fs::create_dir_all(folder.join("home")).context(folder.display())?;
        node.install(&folder, &[SUITE.to_owned()], &folder.join("home"))?;
        fs::write(folder.join("loopback.cjs"), LOOPBACK).context("loopback.cjs")?;
        Ok(Self { node, folder })
    }

    fn package(&self) -> PathBuf {
        self.folder.join("node_modules/@modelcontextprotocol/conformance")
    }

    /// Returns the folder of the suite's output.
    pub(super) fn written(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// Reads the suite's list of the required scenarios of a set, and checks that the list has the expected length.
    pub(super) fn requirements(&self, set: &Set) -> Outcome<Requirements> {
        if set.scenarios != Scenarios::Required {
            return Ok(Requirements::default());
        }
        let file = self.package().join("requirements").join(format!("{}.yaml", set.revision));
        let read = Requirements::read(&fs::read_to_string(&file).context(file.display())?);
        let found = read.of(set.side).len();
        if found == set.required {
            return Ok(read);
        }
        let (name, known) = (set.shown(), set.required);
        Err(Failure::new(format!("{name} requires {found} scenarios, not the {known} known here")))
    }

    /// Runs all scenarios of a set. Repeats failed client scenarios one by one, because in the first run all of them
    /// run in parallel and can time out.
    pub(super) fn run(&self, set: &Set, tried: &Tried) -> Outcome<Vec<Judged>> {
        let mut run = self.ask(set, tried, &set.arguments(), "all")?;
        for scenario in self.requirements(set)?.run(set.side) {
            if !run.iter().any(|judged| judged.scenario == scenario) {
                run.push(Judged::lost(scenario));
            }
        }
        if set.side == Side::Client {
            for judged in run.iter_mut().filter(|judged| judged.verdict.is_bad()) {
                *judged = self.alone(set, tried, &judged.scenario)?;
            }
        }
        if run.is_empty() {
            return Err(Failure::new(format!("the suite ran nothing of {}", set.shown())));
        }
        Ok(run)
    }

    /// Runs one scenario of a set.
    pub(super) fn alone(&self, set: &Set, tried: &Tried, scenario: &str) -> Outcome<Judged> {
        let alone = match set.scenarios {
            Scenarios::Required => {
                vec!["--scenario", scenario, "--spec-version", set.revision, "--force"]
            }
            Scenarios::Suite(_) => vec!["--scenario", scenario],
        };
        let run = self.ask(set, tried, &alone, scenario)?;
        let found = run.into_iter().find(|judged| judged.scenario == scenario);
        Ok(found.unwrap_or_else(|| Judged::lost(scenario)))
    }

    /// Runs the suite with the arguments `wanted`, and returns the verdicts; the output stays in a folder for `set` and
    /// `name`.
    fn ask(&self, set: &Set, tried: &Tried, wanted: &[&str], name: &str) -> Outcome<Vec<Judged>> {
        let name = [&set.shown().replace(' ', "-"), "-", &name.replace('/', "-")].concat();
        let out = self.written().join(name);
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).context(out.display())?;
        let mut command = Command::new(self.node.program());
        command.arg(self.package().join("dist/index.js")).arg(set.side.word()).args(wanted);
        command.args(["--timeout", SCENARIO_TIMEOUT_MS]).arg("-o").arg(&out);
        match tried {
            Tried::Server(url) => command.args(["--url", url]),
            Tried::Client(program) => command.arg("--command").arg(spaceless(program)?),
        };
        command.env("PATH", self.node.path()?).env("HOME", self.folder.join("home"));
        command.env("NODE_OPTIONS", self.preload());
        // Ignores the suite's exit code and standard output: the verdicts are derived from the files it writes.
        child::run(command, "", &out.join("stderr.txt"), SET_TIMEOUT)?;
        judged::read(&out, set.side.word())
    }

    fn preload(&self) -> OsString {
        let mut options = OsString::from("--require \"");
        options.push(self.folder.join("loopback.cjs"));
        options.push("\"");
        options
    }
}

/// Returns the program's path, or fails if it contains a space: the suite splits commands at spaces.
fn spaceless(program: &Path) -> Outcome<&Path> {
    if program.to_string_lossy().contains(' ') {
        let program = program.display();
        return Err(Failure::new(format!("the suite cannot start {program}: no spaces there")));
    }
    Ok(program)
}
