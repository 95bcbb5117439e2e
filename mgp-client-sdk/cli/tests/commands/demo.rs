//! Tests of `mgp demo`; each of its steps checks its own outcome.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn every_step_succeeds() {
    let shown = Command::new(env!("CARGO_BIN_EXE_mgp")).args(["demo", "--json"]).output().unwrap();
    let reply: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let missed: Vec<_> =
        reply["steps"].as_array().unwrap().iter().filter(|step| step["ok"] != true).collect();
    assert!(missed.is_empty(), "{missed:#?}\n{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(reply["steps"].as_array().unwrap().len(), 8);
    assert_eq!(shown.status.code(), Some(0));
}

#[test]
fn the_readme_shows_what_the_demo_prints() {
    let shown = Command::new(env!("CARGO_BIN_EXE_mgp")).arg("demo").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "the log warns of nothing");
    let readme = include_str!("../../../../README.md");
    let (_, after) = readme.split_once("`cargo mgp demo`").unwrap();
    let block = after.split("```").nth(1).unwrap().trim_start_matches("text\n");
    // The id of the approval differs in each run, so it is replaced before the comparison.
    let is_id = |word: &str| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let without_ids = |text: &str| -> Vec<String> {
        let words = text.split(' ').map(|word| {
            let end = word.trim_end_matches(',');
            if is_id(end) { word.replace(end, "ID") } else { word.to_owned() }
        });
        words.collect::<Vec<_>>().join(" ").lines().map(str::to_owned).collect()
    };
    let printed = without_ids(&String::from_utf8(shown.stdout).unwrap());
    let excerpt = without_ids(block);
    assert!(excerpt.len() > 6, "{block}");
    for line in excerpt {
        assert!(printed.contains(&line), "{line:?} is not in {printed:#?}");
    }
}

#[test]
fn a_signal_ends_the_demo_and_its_folder_is_removed() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_mgp"));
    let mut demo = demo.arg("demo").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(demo.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let folder = line.trim_end().trim_end_matches('.').rsplit(' ').next().unwrap();
    assert!(Path::new(folder).is_dir(), "{line}");
    let sent = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert!(!Path::new(folder).exists(), "{folder}");
}

#[test]
fn an_unknown_example_is_invalid_usage() {
    let asked =
        Command::new(env!("CARGO_BIN_EXE_mgp")).args(["__example", "cat"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("known: notes, unruly"));
}
