//! `floor-hop COMMAND ARGS...`: starts a child process, and copies bytes between its own standard streams and the
//! child's, with one thread per direction and without parsing. `cargo xtask bench` uses it as the lower bound for a
//! kernel between an MCP client and a server over stdio.
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};

fn pass(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut child = Command::new(words.next().expect("a command"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child");
    let (down, up) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Plain file descriptors, because the standard streams of the Rust library are buffered and locked.
    let input = unsafe { std::fs::File::from_raw_fd(0) };
    let output = unsafe { std::fs::File::from_raw_fd(1) };
    std::thread::spawn(move || pass(input, down));
    pass(up, output);
    let _ = child.wait();
}
