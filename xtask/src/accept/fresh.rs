//! `core.fresh`: a fresh clone and the Rust toolchain are enough.

use super::Verdict;
use crate::run::{Context, Failure, Outcome, Program, now, root, seconds, target};
use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// How long `ci` may take on two cores.
const BOUND: Duration = Duration::from_mins(20);

/// The programs of the Rust toolchain.
const TOOLCHAIN: &[&str] = &[
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "clippy-driver",
    "rustc",
    "rustdoc",
    "rustfmt",
    "rustup",
];

/// Clones what is committed, hides every other tool, and runs the two commands of the README.
pub(super) fn core_fresh() -> Outcome<Verdict> {
    let place = target()?.join("fresh");
    if place.exists() {
        fs::remove_dir_all(&place).context(place.display())?;
    }
    let (clone, tools) = (place.join("clone"), place.join("tools"));
    fs::create_dir_all(&tools)?;
    let (from, to) = (root(), clone.clone());
    Program::new("git").args(&["clone", "--quiet"]).args(&[&from, &to]).run()?;
    let path = only_the_toolchain(&tools)?;
    greet(&clone, &path)?;
    println!("the echo server answers");
    let start = now();
    let ci = Program::new("cargo").args(&["xtask", "ci"]).dir(&clone).env("PATH", &path);
    ci.without("CARGO_TARGET_DIR").without("CARGO").run()?;
    let took = start.elapsed();
    fs::remove_dir_all(&place).context(place.display())?;
    Ok(Verdict {
        pass: took <= BOUND,
        figure: format!("both commands work, ci in {}", seconds(took)),
        bound: format!("ci in {}", seconds(BOUND)),
    })
}

/// A search path with the toolchain, a linker and the usual small programs.
fn only_the_toolchain(tools: &Path) -> Outcome<String> {
    let search = std::env::var_os("PATH").context("PATH")?;
    for tool in TOOLCHAIN {
        let found = std::env::split_paths(&search).map(|dir| dir.join(tool)).find(|p| p.is_file());
        if let Some(found) = found {
            link(&found, &tools.join(tool)).context(tool)?;
        }
    }
    Ok(format!("{}:/usr/bin:/bin", tools.display()))
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to).map(|_| ())
}

/// The README's first command: starts the echo server and says hello.
fn greet(clone: &Path, path: &str) -> Outcome {
    const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fresh","version":"0"}}}
"#;
    let mut server = Command::new("cargo")
        .args(["run", "-q", "--release", "-p", "mgp-server-sdk", "--example", "echo"])
        .current_dir(clone)
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the echo server")?;
    let mut stdin = server.stdin.take().context("stdin")?;
    stdin.write_all(HELLO)?;
    // The end of the input is its sign to leave.
    drop(stdin);
    let mut reply = String::new();
    server.stdout.take().context("stdout")?.read_to_string(&mut reply)?;
    let status = server.wait()?;
    if status.success() && reply.contains("\"serverInfo\"") {
        return Ok(());
    }
    Err(Failure::new(format!("the echo server: {status}, reply {reply:?}")))
}
