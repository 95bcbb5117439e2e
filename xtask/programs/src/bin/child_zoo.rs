//! A program for the tests of child processes: it acts as a misbehaving child, or as a parent that ends before its
//! children.
//!
//! `child_zoo MODE [ARGUMENT]`: [`main`] lists the modes. In these modes the program acts like a server that crashes,
//! hangs, floods, forks or stops reading (MGP §11).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a child talks on its descriptors")]

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use mgp_transport::ChildCommand;
use tokio::io::AsyncReadExt;

/// The reply to every line while stderr is flooded.
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// The maximum lifetime of a process that never exits by itself, in case a test does not kill it.
const LIFETIME: Duration = Duration::from_mins(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let argument = std::env::args().nth(2);
    match mode.as_str() {
        // A child that copies stdin to stdout.
        "echo" => echo(),
        // A child that ignores the end of stdin and SIGTERM.
        "hang" => hang(),
        // Writes the given number of bytes to stderr and answers pings meanwhile; then prints "done".
        "flood-stderr" => flood(argument.ok_or("how many bytes?")?.parse()?),
        // A child that sends two replies to each request.
        "reply-twice" => reply_twice(),
        // A child that never reads stdin.
        "never-read" => {
            sleep();
            Ok(())
        }
        // Starts a `sleep` in this program's process group, prints its process id, then copies stdin to stdout.
        "fork" => fork(),
        // A child that exits with the given code.
        "exit" => std::process::exit(argument.ok_or("which code?")?.parse()?),
        // A child that prints its environment and descriptors.
        "env" => inherited(),
        // Starts `hang` as a child, prints the child's process id, and waits until a test kills this process.
        "parent" => parent(),
        // Starts and drops the given number of children, then prints how many children and descriptors remain.
        "storm" => storm(argument.ok_or("how many children?")?.parse()?),
        _ => Err("unknown mode".into()),
    }
}

fn echo() -> Result<(), Box<dyn Error>> {
    io::copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(())
}

fn reply_twice() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let request: serde_json::Value = serde_json::from_str(&line?)?;
        // Reply only to requests: a notification has no id and gets no reply.
        if let Some(id) = request.get("id") {
            let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": { "of": id } });
            // Ignores errors, because the parent might exit between the two replies.
            let _ = writeln!(io::stdout(), "{answer}\n{answer}");
        }
    }
    Ok(())
}

fn sleep() {
    thread::sleep(LIFETIME);
}

#[cfg(unix)]
#[tokio::main(flavor = "current_thread")]
async fn hang() -> Result<(), Box<dyn Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut ignored = signal(SignalKind::terminate())?;
    println!("ready");
    let forever = async {
        loop {
            ignored.recv().await;
            eprintln!("SIGTERM ignored");
        }
    };
    let _ = tokio::time::timeout(LIFETIME, forever).await;
    Ok(())
}

#[cfg(not(unix))]
fn hang() -> Result<(), Box<dyn Error>> {
    sleep();
    Ok(())
}

fn flood(bytes: usize) -> Result<(), Box<dyn Error>> {
    let flooding = thread::spawn(move || {
        let line = [[b'!'; 99].as_slice(), b"\n"].concat();
        let block = line.repeat(100);
        let mut stderr = io::stderr().lock();
        let mut left = bytes;
        while left > 0 {
            let now = left.min(block.len());
            stderr.write_all(&block[..now])?;
            left -= now;
        }
        println!("done");
        io::Result::Ok(())
    });
    for line in io::stdin().lock().lines() {
        line?;
        println!("{PONG}");
    }
    flooding.join().map_err(|_| "the flood panicked")??;
    Ok(())
}

fn fork() -> Result<(), Box<dyn Error>> {
    let grandchild =
        Command::new("sleep").arg(LIFETIME.as_secs().to_string()).stdin(Stdio::null()).spawn()?;
    println!("{}", grandchild.id());
    echo()
}

fn inherited() -> Result<(), Box<dyn Error>> {
    for (name, value) in std::env::vars_os() {
        println!("{}={}", name.display(), value.display());
    }
    println!("cwd={}", std::env::current_dir()?.display());
    for number in descriptors()? {
        println!("fd={number}");
    }
    Ok(())
}

/// Lists the open file descriptors of this process, except the descriptor with which `/proc` is read.
fn descriptors() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let target = std::fs::read_link(entry.path())?;
        if !target.starts_with("/proc") {
            numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[tokio::main(flavor = "current_thread")]
async fn parent() -> Result<(), Box<dyn Error>> {
    let mut child = ChildCommand::new(std::env::current_exe()?).arg("hang").spawn()?;
    let (mut reader, _writer) = child.take_io().ok_or("the pipes are taken")?;
    // Waits until the child has begun to ignore the end of its input. Otherwise the closed pipe alone would end the
    // child, and the test could not show that the death of the parent ends it.
    reader.read_exact(&mut [0; 6]).await?;
    println!("{}", child.pid());
    std::future::pending().await
}

fn storm(children: usize) -> Result<(), Box<dyn Error>> {
    let zoo = ChildCommand::new(std::env::current_exe()?).arg("echo");
    let mut before = None;
    for round in 0..=children {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let child = runtime.block_on(async { zoo.spawn() })?;
        // Test both orders of dropping: in even rounds the runtime is dropped before the child, in odd rounds after it.
        if round % 2 == 0 {
            drop(runtime);
            drop(child);
        } else {
            drop(child);
            drop(runtime);
        }
        if round == 0 {
            wait_for_children();
            before = Some(descriptors()?.len());
        }
    }
    wait_for_children();
    let before = before.unwrap_or_default();
    println!("children={} descriptors={before}->{}", our_children()?, descriptors()?.len());
    Ok(())
}

/// Waits up to five seconds until this process has no children.
fn wait_for_children() {
    for _ in 0..250 {
        if our_children().is_ok_and(|children| children == 0) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Counts the children of this process, including zombies.
fn our_children() -> io::Result<usize> {
    let us = std::process::id().to_string();
    let mut children = 0;
    for entry in std::fs::read_dir("/proc")? {
        let stat = std::fs::read_to_string(entry?.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        children += usize::from(parent == Some(us.as_str()));
    }
    Ok(children)
}
