//! Runs acceptance checks that are test binaries of the workspace: builds the examples that the tests start, runs the
//! tests and counts the results.

use super::Verdict;
use crate::run::{Outcome, Program, Rigour, has};

/// The name that selects the unit tests of a package's library instead of an integration test.
pub(super) const LIBRARY: &str = "lib";

// The packages of the workspace.
pub(super) const CLIENT: &str = "mgp-client-sdk";
pub(super) const CONTRACT: &str = "mgp-contract";
pub(super) const DISCOVERY: &str = "mgp-discovery";
pub(super) const KERNEL: &str = "mgp-kernel";
pub(super) const LIFECYCLE: &str = "mgp-lifecycle";
pub(super) const MGP: &str = "mgp";
pub(super) const SECURITY: &str = "mgp-security";
pub(super) const SERVER: &str = "mgp-server-sdk";
pub(super) const STREAM: &str = "mgp-stream";
pub(super) const TOOLINDEX: &str = "mgp-toolindex";
pub(super) const TRANSPORT: &str = "mgp-transport";
pub(super) const TYPES: &str = "mgp-types";
pub(super) const VALIDATE: &str = "mgp-validate";
pub(super) const VALIDATORS: &str = "mgp-validators";

/// A test binary of a package, with the filters, environment and requirements of its runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tests {
    package: &'static str,
    binary: &'static str,
    /// Filters by test name. The binary runs once for each filter, and each run must find at least one test. The empty
    /// filter selects all tests.
    each: &'static [&'static str],
    /// The filters that are used together in every run; a test runs if its name contains one of them.
    any: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The beginnings of lines that the tests must print. The check shows these lines as its figure.
    prints: &'static [&'static str],
    bound: &'static str,
    needs: &'static [&'static str],
    release: bool,
}

impl Tests {
    /// Describes a run of all tests of a binary.
    pub(super) const fn of(package: &'static str, binary: &'static str) -> Self {
        Self {
            package,
            binary,
            each: &[""],
            any: &[],
            env: &[],
            prints: &[],
            bound: "all passed",
            needs: &[],
            release: false,
        }
    }

    /// Sets the filters: the binary is run once for each, and each run must find a test.
    pub(super) const fn each(mut self, filters: &'static [&'static str]) -> Self {
        self.each = filters;
        self
    }

    /// Returns the filters that [`Self::each`] has set.
    #[cfg(test)]
    pub(super) const fn filters(&self) -> &'static [&'static str] {
        self.each
    }

    /// Returns the package of the tests, and the beginning of the paths of the test files in this package.
    #[cfg(test)]
    pub(super) fn files(&self) -> (&'static str, String) {
        let is_library = self.binary == LIBRARY;
        let begin = if is_library { "src/".to_owned() } else { format!("tests/{}", self.binary) };
        (self.package, begin)
    }

    /// Selects the tests whose names contain any of these words.
    pub(super) const fn any(mut self, filters: &'static [&'static str]) -> Self {
        self.any = filters;
        self
    }

    /// Sets environment variables for the tests.
    pub(super) const fn env(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    /// Requires that the tests print lines with these beginnings. The tests then run one after the other, so that they
    /// do not affect the times that such lines contain.
    pub(super) const fn prints(mut self, lines: &'static [&'static str]) -> Self {
        self.prints = lines;
        self
    }

    /// Sets the text that the last line of the check's output shows as the bound.
    pub(super) const fn bound(mut self, bound: &'static str) -> Self {
        self.bound = bound;
        self
    }

    /// Sets the programs that some tests need. If a program is missing, the check reports that its tests are skipped;
    /// with `--strict`, the check fails.
    pub(super) const fn needs(mut self, programs: &'static [&'static str]) -> Self {
        self.needs = programs;
        self
    }

    /// Requests that the tests and the examples are built with `--release`.
    pub(super) const fn release(mut self) -> Self {
        self.release = true;
        self
    }
}

/// The outcome of one or more runs: the numbers of passed and failed tests, and the required lines.
#[derive(Debug, Default)]
struct Count {
    passed: usize,
    failed: usize,
    /// The required lines that the tests printed.
    printed: Vec<String>,
}

/// Runs test binaries and sums their counts. The check passes if every run found tests and all of them passed.
pub(super) fn run(check: &str, all: &[Tests], rigour: Rigour) -> Outcome<Verdict> {
    build_examples(all)?;
    let mut sum = Count::default();
    let mut bounds: Vec<&str> = Vec::new();
    for tests in all {
        for program in tests.needs.iter().filter(|program| !has(program)) {
            let why = format!("{program} is not installed");
            rigour.skip(&format!("{check} with {program}"), &why)?;
        }
        for filter in tests.each {
            let count = run_one(tests, filter)?;
            let word = if count.failed == 0 { "PASS" } else { "FAIL" };
            let Count { passed, failed, .. } = count;
            println!("{check} {} {filter}: {word} {passed} passed, {failed} failed", tests.binary);
            sum.passed += passed;
            sum.failed += failed;
            sum.printed.extend(count.printed);
        }
        if !bounds.contains(&tests.bound) {
            bounds.push(tests.bound);
        }
    }
    let counts = format!("{} passed, {} failed", sum.passed, sum.failed);
    let figure = if sum.printed.is_empty() { counts } else { sum.printed.join("; ") };
    Ok(Verdict { pass: sum.failed == 0, figure, bound: bounds.join("; ") })
}

/// Builds the examples that the tests start. Tests of the client SDK also start examples of the server SDK.
fn build_examples(all: &[Tests]) -> Outcome {
    let mut built: Vec<&str> = Vec::new();
    for tests in all {
        let server = (tests.package == CLIENT).then_some(SERVER);
        for package in server.into_iter().chain([tests.package]) {
            if !built.contains(&package) {
                let release: &[&str] = if tests.release { &["--release"] } else { &[] };
                let build = ["build", "--package", package, "--examples"];
                Program::cargo(&build).args(release).run()?;
                built.push(package);
            }
        }
    }
    Ok(())
}

/// Runs one binary with one filter. A run that finds no test, fails, or does not print a required line counts as one
/// failure.
fn run_one(tests: &Tests, filter: &str) -> Outcome<Count> {
    let binary: &[&str] =
        if tests.binary == LIBRARY { &["--lib"] } else { &["--test", tests.binary] };
    let mut program = Program::cargo(&["test", "--package", tests.package]).args(binary);
    if tests.release {
        program = program.args(&["--release"]);
    }
    program = program.args(&["--"]).args(tests.any);
    if !filter.is_empty() {
        program = program.args(&[filter]);
    }
    if !tests.prints.is_empty() {
        // Runs one test at a time, so that no test changes the times of another.
        program = program.args(&["--show-output", "--test-threads=1"]);
    }
    for (key, value) in tests.env {
        program = program.env(key, value);
    }
    let (success, text) = program.tee()?;
    let (passed, failed) = counts(&text).unwrap_or_default();
    let printed = required(&text, tests.prints);
    let whole = success && passed > 0 && printed.is_some();
    Ok(Count {
        passed,
        failed: if whole { failed } else { failed.max(1) },
        printed: printed.unwrap_or_default(),
    })
}

/// Returns, for each of the beginnings, a line of the text that begins with it. No line is used twice. Returns `None`
/// if a beginning has no such line.
fn required(text: &str, beginnings: &[&str]) -> Option<Vec<String>> {
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut take = |beginning: &&str| {
        let at = lines.iter().position(|line| line.starts_with(*beginning))?;
        Some(lines.remove(at).to_owned())
    };
    beginnings.iter().map(&mut take).collect()
}

/// Returns the numbers of passed and failed tests from the `test result:` lines of the test runner.
fn counts(text: &str) -> Option<(usize, usize)> {
    let before = |line: &str, word: &str| {
        let start = line.split(word).next()?;
        start.split_whitespace().last()?.parse::<usize>().ok()
    };
    let lines = text.lines().filter(|line| line.starts_with("test result:"));
    let counts =
        lines.filter_map(|line| Some((before(line, " passed")?, before(line, " failed")?)));
    counts.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_are_counted() {
        let text = "test a ... ok\n\ntest result: ok. 7 passed; 0 failed; 0 ignored\n";
        assert_eq!(counts(text), Some((7, 0)));
        let text = "test result: FAILED. 3 passed; 2 failed; 0 ignored\n";
        assert_eq!(counts(&text.repeat(2)), Some((6, 4)));
        assert_eq!(counts("nothing"), None);
    }

    #[test]
    fn a_missing_line_is_noticed() {
        let text = "tough: 1 kill\n  tough: 2 threads\nidle: 3 ms\n";
        assert_eq!(required(text, &["idle:"]).unwrap(), ["idle: 3 ms"]);
        assert_eq!(required(text, &["tough: "; 2]).unwrap(), ["tough: 1 kill", "tough: 2 threads"]);
        assert!(required(text, &["tough: "; 3]).is_none());
    }
}
