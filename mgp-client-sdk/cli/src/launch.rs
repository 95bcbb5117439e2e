//! Starts the kernel that several hosts share: detached, logging to `kernel.log`, and waited for.
//!
//! Applies to: both.

use std::io::{self, IsTerminal as _, Write as _};

use crate::exit::Failure;

/// Tells a person who started `mgp serve --stdio` by hand what it waits for.
pub(crate) fn hint() {
    if io::stdin().is_terminal() {
        let _ = writeln!(
            io::stderr(),
            "mgp: waiting for messages on standard input; hosts start this by themselves, see `mgp connect --help`"
        );
    }
}

/// What the detached kernel says on its standard output to who started it: one line, then no more.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Said {
    /// None once it serves, else the exit code.
    code: Option<u8>,
    error: String,
    /// Another kernel has the folder.
    taken: bool,
}

/// The way to say it.
#[derive(Debug)]
#[must_use = "whoever started this waits for it"]
pub(crate) struct Report(());

impl Report {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Everything is served.
    pub(crate) fn served(self) {
        let Self(()) = self;
        say(&Said::default());
    }
}

fn say(said: &Said) {
    let mut line = serde_json::to_vec(said).unwrap_or_default();
    line.push(b'\n');
    let mut output = io::stdout();
    // Nobody may be waiting any more.
    let _ = output.write_all(&line).and_then(|()| output.flush());
    #[cfg(unix)]
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// Says why it does not serve, if it never did.
pub(crate) fn failed(failure: &Failure) {
    let said =
        Said { code: Some(failure.code()), error: failure.to_string(), taken: failure.is_taken() };
    say(&said);
}

#[cfg(unix)]
pub(crate) use self::starting::{Launched, detached};

#[cfg(unix)]
mod starting {
    use std::fs::{File, OpenOptions};
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;
    use std::process::{ChildStdout, Command, Stdio};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::Said;
    use crate::exit::{Ended, Failure};
    use crate::log;

    /// What became of it.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum Launched {
        Serves,
        /// Another kernel has the folder: it serves soon, or is about to leave.
        Taken,
    }

    /// Starts a kernel and waits until it serves.
    pub(crate) fn detached(
        folder: &Path,
        config: Option<&Path>,
        linger: Option<u64>,
        patience: Duration,
    ) -> Ended<Launched> {
        let log = log::file(folder);
        let failed = |error: std::io::Error| {
            Failure::failed(format!("no kernel can be started: `{}`: {error}", log.display()))
        };
        let output: File =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&log).map_err(failed)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("__kernel").arg("--state").arg(folder);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if let Some(linger) = linger {
            command.arg("--linger").arg(linger.to_string());
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()
            .map_err(|error| Failure::failed(format!("no kernel can be started: {error}")))?;
        let said = match child.stdout.take() {
            Some(output) => hear(output, patience),
            None => None,
        };
        let log = log.display();
        match said {
            Some(Said { code: None, .. }) => Ok(Launched::Serves),
            Some(Said { taken: true, .. }) => Ok(Launched::Taken),
            Some(Said { code: Some(code), error, .. }) => Err(Failure::of(code, error)),
            None => Err(Failure::failed(match child.try_wait() {
                Ok(Some(status)) => {
                    format!("the kernel ended before it served ({status}); see `{log}`")
                }
                _ => format!("the kernel takes more than {patience:?} to start; see `{log}`"),
            })),
        }
    }

    /// Waits for its line.
    fn hear(mut output: ChildStdout, patience: Duration) -> Option<Said> {
        #[expect(clippy::disallowed_methods, reason = "a process is waited for in real time")]
        let until = std::time::Instant::now() + patience;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            #[expect(clippy::disallowed_methods, reason = "as above")]
            let left = until.checked_duration_since(std::time::Instant::now())?;
            let left = Timespec::try_from(left).ok()?;
            let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left));
            match ready {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            let mut some = [0; 4096];
            match output.read(&mut some) {
                Ok(count) if count > 0 => line.extend_from_slice(&some[..count]),
                _ => return None,
            }
        }
        serde_json::from_slice(&line).ok()
    }
}
