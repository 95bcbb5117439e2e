//! The conversations (cells) that send the same requests to a server directly and through the kernel: the results must
//! be equal.

use super::{
    super::{
        Cell, Stage,
        clients::{SDKS, at_home},
        servers,
    },
    TIMEOUT, agent, cell, script,
};
use crate::{
    child,
    run::{Context, Failure, Outcome},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, ffi::OsString, path::Path};

/// The requests to each server. `FOLDER` in a request is replaced by a git repository with a file. Each request can be
/// sent twice with the same result.
const REQUESTS: &str = include_str!("requests.json");

fn requests(server: &str, folder: &Path) -> Outcome<Vec<Value>> {
    let text = REQUESTS.replace("FOLDER", &folder.display().to_string());
    let mut all: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&text).context("requests.json")?;
    all.remove(server).context(server)
}

/// Returns a cell for each server and protocol era.
pub(super) fn cells() -> Vec<Cell> {
    // Uses the first SDK of the table, because it supports both eras.
    let sdk = &SDKS[0];
    let eras = [("legacy", "2025-11-25"), ("auto", "2026-07-28")];
    let each = servers::collection().flat_map(|server| eras.map(|era| (server, era)));
    each.map(|((server, _, command), (mode, revision))| {
        let shown = (format!("same/{server}/{mode}"), mode, sdk.pin);
        cell(shown, revision, move |cell, stage| {
            let world = stage.kernel()?;
            let itself = answers(server, &command(&stage.places)?, mode, cell, stage)?;
            let through = answers(server, &world.shim(&agent(cell)), mode, cell, stage)?;
            compare(&itself, &through)
        })
    })
    .collect()
}

/// Starts a server by its command, sends it the requests, and returns the results.
fn answers(
    server: &str,
    command: &[OsString],
    mode: &str,
    cell: &Cell,
    stage: &Stage,
) -> Outcome<Vec<Value>> {
    let (places, folder) = (&stage.places, servers::home_folder(&stage.places));
    let mut steps = requests(server, &folder)?;
    for (number, step) in steps.iter_mut().enumerate() {
        step["step"] = number.to_string().into();
    }
    let script = json!({"root": "file:///nowhere/at/all", "steps": steps}).to_string();
    let mut driver = SDKS[0].driven_in_full(places)?;
    driver.arg(mode).args(command);
    at_home(&mut driver, places);
    let ended = child::run(driver, &script, &places.log(&cell.name, "stderr"), TIMEOUT)?;
    let account = script::read(&ended.stdout)?;
    let answers = (0..steps.len()).map(|number| {
        let mut seen = script::step(&account, &number.to_string())?.clone();
        // Removes members that the server and the kernel set differently: the server that produced a result, the
        // result's lifetime and its cache scope.
        if let Some(result) = seen["result"].as_object_mut() {
            for own in ["_meta", "ttlMs", "cacheScope"] {
                result.remove(own);
            }
            // Removes the resource `knowledge-graph`: only the kernel lists it, because it belongs to another of its
            // servers.
            for list in ["resources", "resourceTemplates", "prompts"] {
                if let Some(all) = result.get_mut(list).and_then(Value::as_array_mut) {
                    all.retain(|one| one["name"] != "knowledge-graph");
                }
            }
        }
        Ok(json!({"asked": steps[number], "result": seen["result"], "error": seen["error"]}))
    });
    answers.collect()
}

/// Returns whether the kernel refused arguments that the server refuses too. The kernel checks arguments against the
/// schema before it sends the call, and its message must name the same member as the server's.
fn is_refused_earlier(itself: &Value, through: &Value) -> bool {
    let text = |answer: &Value| {
        let is_error = answer["result"]["isError"] == true;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.filter(|_| is_error).map(str::to_owned)
    };
    let (Some(itself), Some(through)) = (text(itself), text(through)) else { return false };
    let refused = through.strip_prefix("the arguments do not fit the input schema of `");
    let member = refused.and_then(|rest| rest.split_once("`: `/")?.1.split_once('`'));
    member.is_some_and(|(member, _)| itself.contains(member))
}

fn compare(itself: &[Value], through: &[Value]) -> Outcome<String> {
    for (itself, through) in itself.iter().zip(through) {
        if itself != through && !is_refused_earlier(itself, through) {
            let (asked, itself, through) =
                (&itself["asked"], itself.to_string(), through.to_string());
            let same = itself.chars().zip(through.chars()).take_while(|(one, other)| one == other);
            let from = same.count().saturating_sub(40);
            let part = |text: &str| text.chars().skip(from).take(200).collect::<String>();
            let (itself, through) = (part(&itself), part(&through));
            return Err(Failure::new(format!("{asked}: {itself} became {through}")));
        }
    }
    let refused =
        |answer: &&Value| answer["error"].is_string() || answer["result"]["isError"] == true;
    let refusals = itself.iter().filter(refused).count();
    let answers = itself.len().checked_sub(refusals).context("answers")?;
    Ok(format!("{answers} answers and {refusals} refusals are the same"))
}
