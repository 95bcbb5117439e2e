//! A story in two processes: this binary starts itself again, and kills what it started.
//!
//! Applies to: both.

use std::fs::DirBuilder;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Tells a process that it was started by a story, and where it works.
const FOLDER: &str = "MGP_TOUGH_FOLDER";

/// Where this process works for a story; none where it is the test itself.
pub(crate) fn started_in() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Tells the process that started this one; without a number it could not tell what else is printed.
pub(crate) fn say(word: &str, number: u64) {
    let mut out = stdout().lock();
    // What the test runner says may stand on the line already.
    writeln!(out, "\n{word} {number}").unwrap();
    out.flush().unwrap();
}

/// A process of a story; it ends with it.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts one test of this binary.
    pub(crate) fn start(test: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits until it says a word.
    pub(crate) fn hear(&mut self, word: &str) -> u64 {
        self.next(|line| said(line, word)).expect("the process ended by itself")
    }

    /// Kills it; the last number that it said with each of two words.
    pub(crate) fn kill(mut self, words: [&str; 2]) -> [Option<u64>; 2] {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut last = [None; 2];
        while let Some((which, number)) =
            self.next(|line| (0..2).find_map(|which| Some((which, said(line, words[which])?))))
        {
            last[which] = Some(number);
        }
        last
    }

    /// The next line that means something.
    fn next<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        loop {
            let mut line = String::new();
            // A line that a kill cut says nothing.
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(said) = line.strip_suffix('\n').and_then(&read) {
                return Some(said);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}

/// A folder of the owner alone.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mgp-{name}-{}", std::process::id()));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
