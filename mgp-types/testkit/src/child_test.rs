//! Tests that start their own test program as a child process, in order to kill it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

use crate::KilledChild;

const ROLE_VARIABLE: &str = "MGP_TEST_ROLE";
const PATH_VARIABLE: &str = "MGP_TEST_PATH";

/// Returns the role and the path that the parent gave this child process; `None` in the process of the test itself.
#[must_use]
pub fn child_role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE_VARIABLE).ok()?, std::env::var_os(PATH_VARIABLE)?.into()))
}

/// Prints a word and a number, for the parent process to read with [`ChildTest::wait_for`].
///
/// # Panics
/// Panics if the standard output cannot be written.
pub fn report(word: &str, number: u64) {
    let mut out = stdout().lock();
    // Begin with a newline, because the test runner may have printed the beginning of a line.
    writeln!(out, "\n{word} {number}").and_then(|()| out.flush()).expect("the parent reads");
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}

/// A child process that runs one test of this test program. The process is killed when this value is dropped.
#[derive(Debug)]
pub struct ChildTest {
    /// The process.
    pub child: KilledChild,
    /// The standard output of the process.
    pub lines: BufReader<ChildStdout>,
}

impl ChildTest {
    /// Starts a child process that runs the test with this name. In the child, [`child_role`] returns `role` and
    /// `path`.
    ///
    /// # Panics
    /// Panics if the process cannot be started.
    #[must_use]
    pub fn start(test: &str, role: &str, path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a test knows its own path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE_VARIABLE, role)
            .env(PATH_VARIABLE, path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program of the test starts");
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child: KilledChild(child), lines }
    }

    /// Waits for the next number that the child reports with this word.
    ///
    /// # Panics
    /// Panics if the process ends before it reports a number with this word.
    pub fn wait_for(&mut self, word: &str) -> u64 {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("the output is text");
            assert_ne!(read, 0, "the child is gone");
            if let Some(number) = number_after(&line, word) {
                return number;
            }
        }
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        // Ignore the error: the process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the process. For each word, returns the highest number that the process reported with this word and that
    /// was not read yet.
    ///
    /// # Panics
    /// Panics if the output is not text.
    pub fn kill_and_read<const N: usize>(&mut self, words: [&str; N]) -> [Option<u64>; N] {
        self.kill();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("the output is text");
        // The last line may be incomplete, because the process may have been killed while it was printing the line.
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        words.map(|word| whole.lines().filter_map(|line| number_after(line, word)).max())
    }
}
