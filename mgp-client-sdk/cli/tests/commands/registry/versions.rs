//! Tests of the versions that a registry offers, and of those that it has withdrawn.

use std::fs;

use serde_json::{Value, json};

use super::desk;
use super::place::Place;
use crate::world::{CommandOutput, Home};

/// Runs a command of `mgp servers` with this registry.
fn servers(home: &Home, place: &Place, arguments: &[&str]) -> CommandOutput {
    home.run(&[&["servers"][..], arguments, &["--registry", &place.url]].concat())
}

#[test]
fn an_update_keeps_the_arguments_that_the_user_has_chosen() {
    let home = Home::new();
    let version = |version: &str| {
        let mut entry = desk(version, &json!([]));
        entry["server"]["packages"][0]["packageArguments"] =
            json!([{ "type": "positional", "valueHint": "address", "default": "localhost:1" }]);
        entry
    };
    let place = Place::with(vec![version("1.0.0")]);
    let add = ["add", "io.github.acme/desk", "--yes", "--no-grant", "--set", "ADDRESS=localhost:2"];
    assert_eq!(servers(&home, &place, &add).code, Some(0));
    let check = |new: &str| {
        let updated = servers(&home, &place, &["update", "desk", "--yes"]);
        assert!(updated.out.starts_with("updated desk"), "{updated:?}");
        assert!(!updated.out.contains("localhost"), "{updated:?}");
        let text = fs::read_to_string(home.own()).unwrap();
        assert!(text.contains(&format!("\"@acme/desk@{new}\"")), "{text}");
        assert!(text.contains("\"localhost:2\"") && !text.contains("localhost:1"), "{text}");
    };
    place.replace(vec![version("1.0.0"), version("1.1.0")]);
    check("1.1.0");
    // The registry no longer has the installed version.
    place.replace(vec![version("1.2.0")]);
    check("1.2.0");
}

#[test]
fn an_older_version_of_the_registry_is_not_newer() {
    let (home, place) = (Home::new(), Place::with(vec![desk("1.10.0", &json!([]))]));
    let add = ["add", "io.github.acme/desk", "--yes", "--no-grant"];
    assert_eq!(servers(&home, &place, &add).code, Some(0));
    let text = fs::read_to_string(home.own()).unwrap();
    place.replace(vec![desk("1.9.0", &json!([]))]);
    let current = servers(&home, &place, &["update", "--yes"]);
    assert!(current.code == Some(0) && current.out.starts_with("current desk"), "{current:?}");
    assert!(current.out.contains("its registry has the older version 1.9.0"), "{current:?}");
    assert_eq!(fs::read_to_string(home.own()).unwrap(), text);
    let older = servers(&home, &place, &["update", "desk", "--version", "1.9.0", "--yes"]);
    assert!(older.out.starts_with("updated desk  1.10.0 → 1.9.0"), "{older:?}");
}

fn with_status(version: &str, status: &str) -> Value {
    let mut entry = desk(version, &json!([]));
    let official = json!({ "status": status });
    entry["_meta"] = json!({ "io.modelcontextprotocol.registry/official": official });
    entry
}

#[test]
fn a_version_that_its_registry_has_deleted_is_not_added_and_is_reported() {
    let home = Home::new();
    let place = Place::with(vec![with_status("1.0.0", "deleted")]);
    let add = ["add", "io.github.acme/desk", "--yes", "--no-grant"];
    let refused = servers(&home, &place, &add);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("its registry has deleted version `1.0.0`"), "{refused:?}");
    assert!(!home.own().exists());

    place.replace(vec![with_status("1.0.0", "deprecated")]);
    let added = servers(&home, &place, &add);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.err.contains("marks `io.github.acme/desk` as deprecated"), "{added:?}");
    let check = || servers(&home, &place, &["update", "--check"]);
    let current = check();
    assert_eq!(current.code, Some(0), "{current:?}");
    assert!(current.out.contains("marks version 1.0.0 as deprecated"), "{current:?}");

    place.replace(vec![with_status("1.0.0", "deleted")]);
    let deleted = check();
    assert!(deleted.code == Some(1) && deleted.out.starts_with("failed desk"), "{deleted:?}");
    assert!(deleted.out.contains("has deleted version `1.0.0`"), "{deleted:?}");
    place.replace(vec![with_status("1.0.0", "deleted"), with_status("1.1.0", "active")]);
    let newer = check();
    assert!(newer.code == Some(0) && newer.out.starts_with("newer desk"), "{newer:?}");
    assert!(newer.out.contains("its registry has deleted the installed version"), "{newer:?}");
}
