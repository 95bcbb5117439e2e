//! Runs tests of this binary in child processes, and kills these processes.

use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The variable that is set for a child process, and contains the path of its folder.
const FOLDER_VARIABLE: &str = "MGP_TOUGH_FOLDER";

/// Returns the folder of this process if it is a child.
pub(crate) fn child_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from)
}

/// Prints a line with a word and a number, which the parent process reads.
pub(crate) fn print(word: &str, number: u64) {
    let mut out = stdout().lock();
    // The test runner may have left an unfinished line.
    writeln!(out, "\n{word} {number}").unwrap();
    out.flush().unwrap();
}

/// A running child process; it is killed on drop.
pub(crate) struct ChildProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts one test of this binary in a child process.
    pub(crate) fn start(test: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER_VARIABLE, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for a line with the given word, and returns its number.
    pub(crate) fn wait_for(&mut self, word: &str) -> u64 {
        self.next(|line| number_after(line, word)).expect("the process ended by itself")
    }

    /// Kills the process, and returns the last number it printed with each of two words.
    pub(crate) fn kill(mut self, words: [&str; 2]) -> [Option<u64>; 2] {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut last = [None; 2];
        while let Some((which, number)) = self
            .next(|line| (0..2).find_map(|which| Some((which, number_after(line, words[which])?))))
        {
            last[which] = Some(number);
        }
        last
    }

    /// Returns the next line that `read` accepts.
    fn next<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        loop {
            let mut line = String::new();
            // The kill may have cut the last line; it is ignored.
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.strip_suffix('\n').and_then(&read) {
                return Some(value);
            }
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}
