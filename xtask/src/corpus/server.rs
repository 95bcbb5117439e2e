//! A server process: a thread writes to it, a thread reads from it, and every wait has an end.

use crate::{
    exchange::Piece,
    run::{Context, Outcome, now},
    serving::memory,
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

/// How long a server that is done with may take to leave.
const LEAVE: Duration = Duration::from_secs(5);

/// How many clock ticks a second has, as `/proc` counts them.
const TICKS: u64 = 100;

/// A running server.
pub(super) struct Server {
    child: Child,
    jobs: Option<Sender<Vec<Piece>>>,
    done: Receiver<bool>,
    lines: Receiver<String>,
    gate: Arc<Gate>,
}

/// Holds the reader back while closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        if let Ok(mut state) = self.closed.lock() {
            *state = closed;
        }
        self.opened.notify_all();
    }

    fn pass(&self) {
        if let Ok(state) = self.closed.lock() {
            drop(self.opened.wait_while(state, |closed| *closed));
        }
    }
}

impl Server {
    /// Starts a server.
    pub(super) fn start(command: &[String]) -> Outcome<Self> {
        let (program, arguments) = command.split_first().context("a server command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(program)?;
        let stdin = child.stdin.take().context("stdin")?;
        let stdout = child.stdout.take().context("stdout")?;
        let (jobs, orders) = channel();
        let (report, done) = channel();
        thread::spawn(move || write(stdin, &orders, &report));
        let gate = Arc::new(Gate::default());
        let (sender, lines) = channel();
        let held = Arc::clone(&gate);
        thread::spawn(move || read(stdout, &sender, &held));
        Ok(Self { child, jobs: Some(jobs), done, lines, gate })
    }

    /// Begins to write; [`Self::written`] says when it is done.
    pub(super) fn send(&self, pieces: Vec<Piece>) {
        if let Some(jobs) = &self.jobs {
            // A writer that has gone is noticed by `written`.
            let _ = jobs.send(pieces);
        }
    }

    /// Writes one message.
    pub(super) fn say(&self, message: &str) -> bool {
        self.send(vec![(format!("{message}\n").into_bytes(), Duration::ZERO)]);
        self.written(LEAVE)
    }

    /// Waits until what was sent is written; false if it is not by then.
    pub(super) fn written(&self, limit: Duration) -> bool {
        self.done.recv_timeout(limit).unwrap_or(false)
    }

    /// Stops and starts reading what the server writes.
    pub(super) fn hold(&self, hold: bool) {
        self.gate.set(hold);
    }

    /// The next line the server writes; `None` if there is none by then.
    pub(super) fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Closes its input and waits for it to leave; the exit code if it left by itself.
    pub(super) fn close(&mut self) -> Option<i32> {
        self.jobs = None;
        let end = now() + LEAVE;
        while now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns the most memory the process ever had, in bytes.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        memory(self.child.id(), "VmHWM")
    }

    /// The processor time it used.
    pub(super) fn processor_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name in brackets may hold anything; user and system time are 12th and 13th after it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.jobs = None;
        self.gate.set(false);
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(mut stdin: ChildStdin, orders: &Receiver<Vec<Piece>>, report: &Sender<bool>) {
    for pieces in orders {
        let ok = pieces.into_iter().all(|(bytes, pause)| {
            let ok = stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_ok();
            thread::sleep(pause);
            ok
        });
        if report.send(ok).is_err() || !ok {
            return;
        }
    }
}

fn read(stdout: ChildStdout, lines: &Sender<String>, gate: &Gate) {
    let mut stdout = BufReader::new(stdout);
    loop {
        gate.pass();
        let mut line = Vec::new();
        match stdout.read_until(b'\n', &mut line) {
            Ok(length) if length > 0 => {
                let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                if !text.is_empty() && lines.send(text).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
