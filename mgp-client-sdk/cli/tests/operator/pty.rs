//! A command in a terminal of its own, and the person who types there.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::world::within;

/// A command in the foreground of a new terminal.
pub(crate) struct Terminal {
    child: Child,
    input: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Runs a command of `mgp` in a terminal.
    pub(crate) fn run(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let mut script = Command::new("script");
        script.args(["-qec", &words.join(" "), "/dev/null"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut output, input) = (child.stdout.take().unwrap(), child.stdin.take());
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, input, pieces, shown: String::new() }
    }

    /// Types a line once the terminal has shown a text, which the next one must show again.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, line: &str) {
        within(|| {
            self.read();
            self.shown.find(question)
        });
        self.shown.clear();
        // The echo is switched off before the question is shown.
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for the end; returns the exit code and what was shown since the last answer.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = within(|| self.child.try_wait().unwrap());
        thread::sleep(Duration::from_millis(50));
        self.read();
        self.input = None;
        (status.code(), std::mem::take(&mut self.shown))
    }

    fn read(&mut self) {
        while let Ok(piece) = self.pieces.try_recv() {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
