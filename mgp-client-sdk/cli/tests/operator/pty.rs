//! Runs a command in a new terminal, in which the test types in place of a person.

use std::io::{Read as _, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use mgp_testkit::KilledChild;

use crate::world::within;

/// A command in the foreground of a new terminal.
pub(crate) struct Terminal {
    child: KilledChild,
    input: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Runs a command of `mgp` in a new terminal, which the program `script` creates.
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
        Self { child: KilledChild(child), input, pieces, shown: String::new() }
    }

    /// Waits until the terminal shows a text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        within(|| {
            self.read();
            self.shown.find(text)
        });
    }

    /// Waits until the terminal shows a question, then types a line. After this call, `wait_for` looks only at newer
    /// output.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, line: &str) {
        self.wait_for(question);
        self.shown.clear();
        // The command turns the echo off before it shows the question.
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until the command exits; returns its exit code and the output since the last answer.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = within(|| self.child.try_wait().unwrap());
        // Read until the end of the output, unless a program that the command started keeps the terminal open.
        while let Ok(piece) = self.pieces.recv_timeout(Duration::from_secs(3)) {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
        self.input = None;
        (status.code(), std::mem::take(&mut self.shown))
    }

    fn read(&mut self) {
        while let Ok(piece) = self.pieces.try_recv() {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}
