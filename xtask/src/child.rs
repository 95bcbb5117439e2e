//! Runs a program with a time limit. Afterwards, kills its process group, so that no process remains that it started.

use crate::{
    run::{Context, Failure, Outcome, now, target},
    serving::{kill_group, own_group},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The result of a program that exited within the time limit.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) stdout: String,
}

/// Runs `command` with `input` on its standard input, for at most a minute.
pub(crate) fn talk(command: Command, input: &str) -> Outcome<Ended> {
    let errors = target()?.join("scratch/stderr.txt");
    run(command, input, &errors, Duration::from_mins(1))
}

/// Runs `command` with `input` on its standard input for at most `limit`; writes its standard error to a file.
pub(crate) fn run(
    mut command: Command,
    input: &str,
    errors: &Path,
    limit: Duration,
) -> Outcome<Ended> {
    if let Some(folder) = errors.parent() {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    own_group(&mut command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(errors).context(errors.display())?)
        .spawn()
        .context(command.get_program().to_string_lossy())?;
    let mut stdin = child.stdin.take().context("stdin")?;
    let input = input.to_owned();
    // Writes in a thread, because some programs never read their input. Write errors are ignored: a program that exits
    // early reports the reason itself.
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let mut stdout = child.stdout.take().context("stdout")?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let status = wait(&mut child, limit);
    // Kills the processes that the program started and did not stop.
    kill_group(child.id());
    let _ = child.wait();
    let _ = writer.join();
    let stdout = reader.join().map_err(|_| Failure::new("its output was lost"))?;
    match status? {
        Some(success) => Ok(Ended { success, stdout }),
        None => Err(Failure::new(format!(
            "did not end within {} s; so far: {}",
            limit.as_secs(),
            stdout.lines().last().unwrap_or("nothing")
        ))),
    }
}

/// Waits until the program exits; returns whether it succeeded, or `None` after the time limit.
fn wait(child: &mut Child, limit: Duration) -> Outcome<Option<bool>> {
    let end = now() + limit;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status.success())),
            None if now() > end => return Ok(None),
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str, limit: Duration) -> Outcome<Ended> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let errors = std::env::temp_dir().join(format!("xtask-child-{}", std::process::id()));
        let ended = run(command, input, &errors, limit);
        let _ = std::fs::remove_file(errors);
        ended
    }

    #[test]
    fn one_that_does_not_end_goes_with_its_children() {
        // The background process of this program keeps the pipe open, so reading ends only if that process is killed,
        // too.
        let start = now();
        let failure = shell("sleep 60 & echo on; wait", "", Duration::from_secs(3)).unwrap_err();
        assert!(failure.to_string().contains("so far: on"), "{failure}");
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(shell("sleep 60 & echo off", "", Duration::from_secs(20)).is_ok());
    }
}
