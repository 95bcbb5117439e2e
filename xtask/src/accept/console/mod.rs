//! The acceptance check `console.browser`: Chromium opens every page of the console of a real kernel.

use super::{Options, Verdict};
use crate::{
    child,
    packages::Node,
    run::{Context, Failure, Outcome, debug_programs, has, root, target},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The pinned npm packages: `axe-core` checks the accessibility of the pages, and `playwright-core` controls the
/// browser.
const PACKAGES: [&str; 2] = ["axe-core@4.14.1", "playwright-core@1.65.1"];

/// The minimum major version of Node that the package `playwright-core` needs.
const LEAST_NODE: u32 = 20;

const TIMEOUT: Duration = Duration::from_mins(12);

/// Runs the script `browser.mjs`; its screenshots remain in the target folder.
pub(super) fn browser(options: &Options) -> Outcome<Verdict> {
    if !has("chromium") {
        let why = "there is no `chromium`; on Debian: apt-get install chromium";
        return options.skip("console.browser", why);
    }
    let folder = target()?.join("console");
    let node = Node::of_at_least(LEAST_NODE)?;
    fs::create_dir_all(folder.join("home")).context(folder.display())?;
    node.install(&folder, &PACKAGES.map(str::to_owned), &folder.join("home"))?;
    let programs = build()?;
    let source = root().join("xtask/src/accept/console");
    let pictures = folder.join("pictures");
    let mut command = Command::new(node.program());
    command.arg(source.join("browser.mjs")).args(&programs);
    command.arg(source.join("hostile.mjs")).arg(&pictures);
    command.current_dir(&folder).env("PATH", node.path()?).env("HOME", folder.join("home"));
    let ended = child::run(command, "", &folder.join("stderr.txt"), TIMEOUT)?;
    verdict(&ended.stdout, &pictures)
}

/// Builds `mgp` and the servers that it runs, and returns their paths.
fn build() -> Outcome<[PathBuf; 3]> {
    let folder = debug_programs(&["echo", "workbench"])?;
    Ok(["mgp", "examples/echo", "examples/workbench"].map(|name| folder.join(name)))
}

/// Parses the verdict in the last line of the script's output.
fn verdict(output: &str, pictures: &Path) -> Outcome<Verdict> {
    let line = output.lines().last().ok_or_else(|| Failure::new("the script printed nothing"))?;
    let read: serde_json::Value = serde_json::from_str(line)?;
    let faults = read["faults"].as_array().context("faults")?;
    for fault in faults {
        println!("  {}", fault.as_str().unwrap_or_default());
    }
    let figure = format!(
        "{} pages looked at, {} buttons pressed, {} faults; pictures in {}",
        read["looked"],
        read["clicked"],
        faults.len(),
        pictures.display()
    );
    let bound = "no fault; no serious or critical one of axe".to_owned();
    Ok(Verdict { pass: faults.is_empty(), figure, bound })
}
