//! The npm packages: one for each platform, which contains the program, and one that starts the program of the current
//! platform.

use super::Release;
use super::archive::{Entry, tar_gz};
use super::texts;
use crate::run::{Failure, Outcome};
use serde_json::{Value, json};

/// The platforms: the target as rustc names it, the npm package, and npm's names for the operating system and the
/// processor.
const PLATFORMS: [(&str, &str, &str, &str); 4] = [
    ("x86_64-unknown-linux-gnu", "mgp-linux-x64", "linux", "x64"),
    ("aarch64-unknown-linux-gnu", "mgp-linux-arm64", "linux", "arm64"),
    ("x86_64-apple-darwin", "mgp-darwin-x64", "darwin", "x64"),
    ("aarch64-apple-darwin", "mgp-darwin-arm64", "darwin", "arm64"),
];

/// A script that starts the program for the current platform; it forwards signals and the exit code.
const LAUNCHER: &str = r#"#!/usr/bin/env node
"use strict";
const { spawn } = require("child_process");
const name = `mgp-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/mgp`);
} catch {
  console.error(`mgp: the package ${name} is not installed; install mgp without --no-optional, or build it from source`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => { console.error(`mgp: ${error.message}`); process.exit(1); });
child.on("exit", (code, signal) => {
  if (signal) { process.removeAllListeners(signal); process.kill(process.pid, signal); } else process.exit(code);
});
"#;

pub(super) fn pack(release: &Release) -> Outcome<Vec<(String, Vec<u8>)>> {
    let own = PLATFORMS.iter().find(|platform| platform.0 == release.target);
    let Some((_, name, system, processor)) = own else {
        return Err(Failure::new(format!("npm has no package for {}", release.target)));
    };
    let version = &release.version;
    let all = PLATFORMS.iter().map(|platform| (platform.1.to_owned(), json!(version)));
    let main = json!({
        "name": "mgp", "version": version, "description": texts::SUMMARY,
        "license": "MIT OR Apache-2.0", "bin": { "mgp": "bin/mgp.js" }, "engines": { "node": ">=18" },
        "optionalDependencies": all.collect::<serde_json::Map<String, Value>>(),
        "man": release.manuals.iter().map(|(name, _)| format!("man/{name}")).collect::<Vec<_>>(),
    });
    let platform = json!({
        "name": name, "version": version, "description": format!("{} ({system} {processor})", texts::SUMMARY),
        "license": "MIT OR Apache-2.0", "os": [system], "cpu": [processor],
    });
    let mut starter = package(release, &main)?;
    starter.push(Entry::program("package/bin/mgp.js", LAUNCHER));
    for (name, text) in &release.manuals {
        starter.push(Entry::file(format!("package/man/{name}"), text.clone()));
    }
    let mut carrier = package(release, &platform)?;
    carrier.push(Entry::program("package/bin/mgp", release.program.clone()));
    Ok(vec![
        (format!("mgp-{version}.tgz"), tar_gz(&starter, release.epoch)?),
        (format!("{name}-{version}.tgz"), tar_gz(&carrier, release.epoch)?),
    ])
}

/// Returns the files that all npm packages contain.
fn package(release: &Release, manifest: &Value) -> Outcome<Vec<Entry>> {
    let manifest = serde_json::to_string_pretty(manifest)? + "\n";
    let mut entries = vec![
        Entry::file("package/package.json", manifest),
        Entry::file("package/README.md", release.readme.clone()),
    ];
    for (name, text) in &release.licences {
        entries.push(Entry::file(format!("package/{name}"), text.clone()));
    }
    Ok(entries)
}
