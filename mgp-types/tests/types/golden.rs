//! Tests that every golden message is unchanged after decoding and encoding, including unknown members (MGP §1.1).

use std::fs;
use std::path::PathBuf;

use mgp_types::method::{Kind, methods};
use mgp_types::spec::{check_example, normal_form};
use serde_json::Value;

/// The ends of the paths of maps. In a map, an unknown member would be an entry, so the test adds no unknown members
/// there.
const MAPS: &[&str] = &["/grants", "/inputRequests", "/result/variables"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn messages_go_through_unchanged() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for (name, text) in files() {
        if let Err(error) = check_example(&name, &text) {
            panic!("{name}: {error}");
        }
        let normal = normal_form(&text).unwrap() + "\n";
        if update {
            fs::write(folder().join(&name), normal).unwrap();
        } else {
            assert!(text == normal, "{name} is not in normal form; set UPDATE_GOLDEN=1");
        }
    }
}

#[test]
fn every_method_has_its_messages() {
    let files = files();
    let has = |name: &str| files.iter().any(|(file, _)| file.strip_suffix(".json") == Some(name));
    for info in methods() {
        let name = info.golden();
        assert!(has(&name), "{name}.json is missing");
        assert!(
            info.kind == Kind::Notification || has(&format!("{name}_result")),
            "{name}_result.json is missing"
        );
    }
}

#[test]
fn unknown_members_survive_everywhere() {
    for (name, text) in files() {
        let value: Value = serde_json::from_str(&text).unwrap();
        let mut places = vec![String::new()];
        objects(&value, "", &mut places);
        for place in places.iter().filter(|place| !MAPS.iter().any(|map| place.ends_with(map))) {
            let mut copy = value.clone();
            let object = copy.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
            object.insert("x-later".to_owned(), "kept".into());
            if let Err(error) = check_example(&name, &copy.to_string()) {
                panic!("{name} at {place}: {error}");
            }
        }
    }
}

/// Adds the paths of all objects inside a value to `places`.
fn objects(value: &Value, at: &str, places: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
            members.iter().map(|(name, value)| (escape(name), value)).collect()
        }
        Value::Array(values) => {
            values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => return,
    };
    for (name, value) in members {
        let place = format!("{at}/{name}");
        if value.is_object() {
            places.push(place.clone());
        }
        objects(value, &place, places);
    }
}
