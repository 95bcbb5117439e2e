//! The conversations (cells) in which the command line of the MCP Inspector uses our server over HTTP: the Inspector
//! lists the tools with strict schema checks, and calls one.

use super::{
    super::{
        Cell, Quadrant, Stage,
        clients::{TIMEOUT, at_home},
        install::Places,
        pins::INSPECTOR,
    },
    LEGACY, MODERN, PREFIX,
    clients::echo,
    tap::Tap,
};
use crate::{
    child,
    run::{Context, Failure, Outcome},
};
use serde_json::Value;
use std::{ffi::OsStr, fs, path::Path, process::Command};

/// The text that the called tool must echo.
const TEXT: &str = "żółw 🦀";

/// Returns a cell for each protocol era.
pub(super) fn cells() -> Vec<Cell> {
    let eras = [("auto", MODERN), ("legacy", LEGACY), ("modern", MODERN)];
    let cell = |(era, revision): (&'static str, &'static str)| Cell {
        name: format!("{PREFIX}inspector/{era}"),
        quadrant: Quadrant::PlainClient,
        client: INSPECTOR.shown(),
        server: "ours, `echo --http`".to_owned(),
        mode: era.to_owned(),
        revision,
        pins: vec![INSPECTOR],
        run: Box::new(move |cell, stage| talk(era, cell, stage)),
    };
    eras.into_iter().map(cell).collect()
}

fn talk(era: &str, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let served = echo(stage, cell, false)?;
    let tap = Tap::before(served.port())?;
    let listed = ask(era, &tap.url(), &["tools/list", "--strict"], cell, stage)?;
    let names: Vec<_> = found(&listed, "name");
    if !names.contains(&"echo") {
        return Err(Failure::new(format!("`echo` is not listed: {listed}")));
    }
    let arguments = serde_json::json!({"message": TEXT}).to_string();
    let call = ["tools/call", "--tool-name", "echo", "--tool-args-json", &arguments];
    let called = ask(era, &tap.url(), &call, cell, stage)?;
    if !found(&called, "text").contains(&TEXT) {
        return Err(Failure::new(format!("{TEXT:?} is not echoed: {called}")));
    }
    let settled = tap.traffic().announced;
    if settled.as_deref() != Some(cell.revision) {
        return Err(Failure::new(format!("settled on {settled:?}, expected {}", cell.revision)));
    }
    Ok("lists with `--strict`, and calls".to_owned())
}

/// Runs the Inspector once against a URL, and returns the JSON that it prints; fails if the Inspector fails.
fn ask(era: &str, url: &str, method: &[&str], cell: &Cell, stage: &Stage) -> Outcome<Value> {
    let errors = stage.places.log(&cell.name, "stderr");
    let told = inspect(&[url, "--transport", "http"], era, method, &stage.places, &errors)?;
    serde_json::from_str(told.trim()).context(format!("{}: {told}", method[0]))
}

/// Runs the Inspector once and returns its output; fails if the Inspector fails. `target` are the arguments that name
/// the server, and `asked` is the method with its arguments.
pub(in crate::interop) fn inspect(
    target: &[impl AsRef<OsStr>],
    era: &str,
    asked: &[&str],
    places: &Places,
    errors: &Path,
) -> Outcome<String> {
    let mut command = Command::new(Places::node(INSPECTOR)?);
    command.arg(places.package(INSPECTOR).join("clients/launcher/build/index.js")).arg("--cli");
    command.args(target).args(["--protocol-era", era, "--method"]).args(asked);
    command.args(["-q", "--format", "json"]);
    at_home(&mut command, places);
    let ended = child::run(command, "", errors, TIMEOUT)?;
    if !ended.success {
        let why = fs::read_to_string(errors).unwrap_or_default();
        let said = format!("{} {}", ended.stdout.trim(), why.trim());
        return Err(Failure::new(format!("{} failed: {}", asked[0], said.trim())));
    }
    Ok(ended.stdout)
}

/// Returns the strings of all members with this name, at any depth.
fn found<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    match value {
        Value::Array(many) => many.iter().flat_map(|value| found(value, name)).collect(),
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(text) if key == name => vec![text.as_str()],
                value => found(value, name),
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_at_any_depth() {
        let value = serde_json::json!({"result": {"tools": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(found(&value, "name"), ["a", "b"]);
    }
}
