//! Support for tests that start their own program as a child process, with a role and in a temporary folder.

use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const ROLE: &str = "MGP_TEST_ROLE";
const FOLDER: &str = "MGP_TEST_FOLDER";

/// Returns the role and the folder of this process, or `None` in the test itself.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// Reports a number to the parent process.
pub(crate) fn report(word: &str, number: u64) {
    let mut out = stdout().lock();
    // Begin with a newline, because the test runner may have begun a line.
    writeln!(out, "\n{word} {number}").unwrap();
    out.flush().unwrap();
}

/// Returns the number that follows a word in a line.
pub(crate) fn number_after(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}

/// A child process that runs one test of this program. It is killed when this value is dropped.
pub(crate) struct ChildTest {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

impl ChildTest {
    /// Starts a child process that runs the test `child`.
    pub(crate) fn start(role: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next number reported with a word.
    pub(crate) fn wait_for(&mut self, word: &str) -> u64 {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child is gone");
            if let Some(number) = number_after(&line, word) {
                return number;
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ChildTest {
    fn drop(&mut self) {
        self.kill();
    }
}
