//! A server process under test over stdio: one thread writes to it, another reads from it, and every wait has a time
//! limit.

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

/// The time limit for a server to exit after its input is closed, and for writing one line to it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of clock ticks per second in `/proc/PID/stat`.
const TICKS: u64 = 100;

pub(crate) struct Server {
    child: Child,
    jobs: Option<Sender<Vec<Piece>>>,
    done: Receiver<bool>,
    lines: Receiver<String>,
    gate: Arc<Gate>,
}

/// A gate at which the reading thread waits while `closed` is set.
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
    pub(crate) fn start(command: &[String]) -> Outcome<Self> {
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

    /// Starts to write the pieces; [`Self::written`] waits until all are written.
    pub(super) fn send(&self, pieces: Vec<Piece>) {
        if let Some(jobs) = &self.jobs {
            // Ignores an error: if the writing thread has ended, `written` returns false.
            let _ = jobs.send(pieces);
        }
    }

    /// Writes one line; returns whether it was written in time.
    pub(crate) fn send_line(&self, message: &str) -> bool {
        self.send(vec![(format!("{message}\n").into_bytes(), Duration::ZERO)]);
        self.written(EXIT_TIMEOUT)
    }

    /// Waits until everything is written; returns false on a write error or after the time limit.
    pub(super) fn written(&self, limit: Duration) -> bool {
        self.done.recv_timeout(limit).unwrap_or(false)
    }

    /// Stops or resumes reading the server's output.
    pub(super) fn hold(&self, hold: bool) {
        self.gate.set(hold);
    }

    /// Returns the next line of the server's output; `None` if none arrives within the time limit.
    pub(crate) fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Closes the server's input and waits until the server exits; returns its exit code, or `None` after the time
    /// limit.
    pub(super) fn close(&mut self) -> Option<i32> {
        self.jobs = None;
        let end = now() + EXIT_TIMEOUT;
        while now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns the peak resident memory of the server, in bytes.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        memory(self.child.id(), "VmHWM")
    }

    pub(super) fn processor_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The process name in parentheses may itself contain spaces and parentheses, so fields are counted after the
        // last parenthesis. The 12th and 13th of these fields are the user time and the system time.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.jobs = None;
        self.gate.set(false);
        // Ignores errors, because the server may have exited already.
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
