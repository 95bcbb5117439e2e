//! Runs a command of the user for `${cmd:…}` (MGP §15.2). Running it blocks.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::config::limits;

/// The time that a command has to exit after it closed its output.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval between two checks of whether the command has exited.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a command in a folder with the system's shell, and returns its output. Kills the command and fails if its
/// output does not end within `timeout`, or if it does not exit within `END_TIMEOUT` after that. An error contains no
/// output of the command.
pub(super) fn run(command: &str, folder: &Path, timeout: Duration) -> Result<String, String> {
    output(command, folder, timeout).map_err(|reason| {
        format!(
            "the command of `${{cmd:…}}` failed: {reason}; run that command in a shell to see its messages"
        )
    })
}

fn output(command: &str, folder: &Path, timeout: Duration) -> Result<String, String> {
    let mut child = shell(command)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the shell cannot be started: {error}"))?;
    let Some(out) = child.stdout.take() else { return Err("it has no output".into()) };
    let (sender, receiver) = mpsc::channel();
    // After a time-out, the thread stays until no process has the output open; such a process has left the group below.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.take(limits::MAX_VALUE_BYTES as u64 + 1).read_to_end(&mut bytes);
        // Sending fails only if the receiver was dropped because the time limit was exceeded.
        let _ = sender.send(read.map(|_| bytes));
    });
    let output = receiver.recv_timeout(timeout);
    let ended = output.is_ok().then(|| ended(&mut child)).flatten();
    // Kill the group even after a normal end, because processes that the command started must not outlive it.
    kill(&mut child);
    let bytes = match output {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(format!("its output cannot be read: {error}")),
        Err(_) => {
            return Err(format!("it did not end within {}", mgp_types::duration_words(timeout)));
        }
    };
    if bytes.len() > limits::MAX_VALUE_BYTES {
        return Err(format!("it printed more than {} bytes", limits::MAX_VALUE_BYTES));
    }
    match ended {
        Some(status) if status.success() => {
            String::from_utf8(bytes).map_err(|_| "its output is not UTF-8 text".to_owned())
        }
        Some(status) => Err(format!("it failed with {status}")),
        None => Err("it closed its output and did not end".to_owned()),
    }
}

fn ended(child: &mut Child) -> Option<std::process::ExitStatus> {
    for _ in 0..END_TIMEOUT.as_millis() / PAUSE.as_millis() {
        match child.try_wait() {
            Ok(None) => thread::sleep(PAUSE),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
    None
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut shell = Command::new("sh");
    // The command gets its own process group, so that its children can be killed with it.
    shell.arg("-c").arg(command).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // This fails if all processes of the group have already ended, so the error is ignored.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
