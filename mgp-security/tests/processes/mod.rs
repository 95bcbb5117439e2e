//! A test that starts itself again, with a role, in a folder that goes with the test.
//!
//! Applies to: both.

use std::fs::DirBuilder;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const ROLE: &str = "MGP_TEST_ROLE";
const FOLDER: &str = "MGP_TEST_FOLDER";

/// What this process was started to do, and where; none where it is the test itself.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// Tells the process that started this one.
pub(crate) fn say(word: &str, number: u64) {
    let mut out = stdout().lock();
    // The line may begin with what the test runner had to say.
    writeln!(out, "\n{word} {number}").unwrap();
    out.flush().unwrap();
}

/// What a line says after a word.
pub(crate) fn said(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}

/// This test in a process of its own, killed with the test.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the test `child`.
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

    /// The next number said with a word.
    pub(crate) fn hear(&mut self, word: &str) -> u64 {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child is gone");
            if let Some(number) = said(&line, word) {
                return number;
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder of the owner alone.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mgp-{name}-{}-{number}", std::process::id()));
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
