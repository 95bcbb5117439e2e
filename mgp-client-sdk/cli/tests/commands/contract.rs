//! Tests of `mgp contract`.

use std::fs;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

fn tools(description: &str, version: &str, properties: &Value) -> String {
    let tool = json!({
        "name": "notes.find", "description": description,
        "inputSchema": { "type": "object", "properties": properties },
        "_meta": { "version": version },
    });
    json!({ "tools": [tool] }).to_string()
}

#[test]
fn a_change_demands_its_version() {
    let home = Home::new();
    let old = tools("Finds.", "1.2.0", &json!({ "q": { "type": "string", "description": "Q." } }));
    let new = tools("Finds.", "1.3.0", &json!({ "q": { "type": "integer", "description": "Q." } }));
    let (old, new) = (home.write("old.json", &old), home.write("new.json", &new));
    let [old, new] = [old, new].map(|path| path.to_str().unwrap().to_owned());
    let (report, code) = home.any_json("contract-diff", &["contract", "diff", &old, &new]);
    assert_eq!((code, &report["bump"]), (Some(1), &"major".into()));
    assert_eq!(report["tools"][0]["required_version"], "2.0.0");
    assert_eq!(report["tools"][0]["changes"][0]["path"], "/inputSchema/properties/q/type");
    home.fail(1, &["contract", "diff", &old, &new], "the version is too low: `notes.find`");
    let candidate = new.replace("new.json", "candidate.json");
    home.write("candidate.json", &fs::read_to_string(&old).unwrap().replace("1.2.0", "1.0.0-rc.1"));
    let diff = home.succeed(&["contract", "diff", &candidate, &new]);
    assert!(diff.contains("; the next version is higher than 1.0.0-rc.1\n"), "{diff}");
    let same = home.json("contract-diff", &["contract", "diff", &old, &old]);
    assert_eq!(same["bump"], "none");
    home.fail(1, &["contract", "diff", "missing.json", &new], "there is no file");
    // A source that is not a plain file, e.g. a pipe, is read too.
    #[cfg(unix)]
    home.fail(1, &["contract", "diff", "/dev/null", &new], "neither JSON nor");
}

#[test]
fn a_specification_is_generated_from_a_running_server_and_has_no_errors() {
    let home = Home::new();
    let server = |id| format!("[[servers]]\nid = '{id}'\ncommand = '{}'\n", program("workbench"));
    home.configure(&(server("bench") + &server("twin")));
    home.succeed(&["contract", "gen", "bench", "--out", "SPEC.md"]);
    let report = home.json("contract-lint", &["contract", "lint", "SPEC.md"]);
    assert_eq!(report["errors"], 0, "{report}");
    home.fail(1, &["contract", "lint", "SPEC.md", "--strict"], "0 errors");

    let catalog: Value =
        serde_json::from_str(&home.succeed(&["contract", "export", "bench"])).unwrap();
    let count = catalog["tools"].as_array().unwrap().len();
    assert!(count > 3, "{catalog}");
    home.write("work/required.json", &catalog.to_string());
    let checked =
        home.json("contract-check", &["contract", "check", "bench", "--against", "required.json"]);
    assert_eq!(
        (&checked["broken"], &checked["servers"][0]["required"]),
        (&0.into(), &count.into())
    );

    // Two servers have tools of the same names, and each tool has a path of its own, which a kernel distinguishes.
    let openapi = home.succeed(&["contract", "export", "bench", "twin", "--format", "openapi"]);
    let openapi: Value = serde_json::from_str(&openapi).unwrap();
    let paths = openapi["paths"].as_object().unwrap();
    for server in ["/tools/bench.", "/tools/twin."] {
        assert_eq!(paths.keys().filter(|path| path.starts_with(server)).count(), count, "{server}");
    }
    let from_file = home.succeed(&["contract", "export", "required.json", "--format", "openapi"]);
    let from_file: Value = serde_json::from_str(&from_file).unwrap();
    let name = catalog["tools"][0]["name"].as_str().unwrap();
    assert!(from_file["paths"].get(format!("/tools/{name}")).is_some(), "{from_file}");

    let mut required = catalog;
    required["tools"][0]["name"] = "gone".into();
    required["tools"][1]["inputSchema"]["properties"]["extra"] = json!({ "type": "string" });
    home.write("work/required.json", &required.to_string());
    let (checked, code) = home
        .any_json("contract-check", &["contract", "check", "bench", "--against", "required.json"]);
    assert_eq!((code, &checked["broken"]), (Some(1), &2.into()), "{checked}");
    assert_eq!(checked["servers"][0]["missing"], json!(["gone"]));
}

#[test]
fn a_specification_without_its_parts_has_errors() {
    let home = Home::new();
    home.write("work/SPEC.md", "## Tool: `a.b`\n### Purpose\nB.\n");
    let (report, code) = home.any_json("contract-lint", &["contract", "lint", "SPEC.md"]);
    assert_eq!((code, &report["errors"]), (Some(1), &7.into()), "{report}");
    home.fail(1, &["contract", "lint", "unknown"], "there is no server `unknown`");
}

#[test]
fn required_tools_are_read_from_the_lock_file_beside_the_configuration() {
    let home = Home::new();
    home.configure(&format!("[[servers]]\nid = 'bench'\ncommand = '{}'\n", program("workbench")));
    let check = ["contract", "check", "bench", "--against", "mgp.lock"];
    home.fail(1, &check, ".config/mgp/mgp.lock`; write it with `mgp lock`");
    home.succeed(&["lock"]);
    assert!(!home.work().join("mgp.lock").exists());
    let checked = home.json("contract-check", &check);
    assert_eq!(checked["broken"], 0, "{checked}");
    home.write(".config/mgp/mgp.lock", "");
    home.fail(1, &["lock"], "restore it, or move it away and write it with `mgp lock`");
}
