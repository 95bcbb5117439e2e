//! Tests that the example `workbench` behaves as its documentation promises, because other tests rely on that.

use mgp_testkit::hello;
use serde_json::{Value, json};

use super::bench::{Settings, server};

fn settings(flags: &[&str]) -> Result<Settings, String> {
    Settings::parse(flags.iter().map(ToString::to_string))
}

#[tokio::test]
async fn every_tool_of_the_contract_is_listed() {
    let mut raw = super::raw::connect(server(&Settings::default()));
    raw.ask("initialize", hello("2025-11-25", &json!({}))).await;
    let list = raw.ask("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let contract = "add_tool big block confirm echo exit fail fetch freeze progress publish remove_tool \
         run_code shell sleep stream";
    assert_eq!(names.join(" "), contract);
}

#[tokio::test]
async fn flags_show_in_the_handshake() {
    let flags = ["--permissions", "shell.execute,com.example.print", "--server-id", "bench-7"];
    let mut raw = super::raw::connect(server(&settings(&flags).unwrap()));
    let capabilities = json!({"mgp": {"version": "0.3.0", "extensions": ["streaming"]}});
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    let mgp = &answer["result"]["capabilities"]["mgp"];
    let needed = mgp["permissions_required"].as_array().unwrap();
    for permission in ["shell.execute", "com.example.print"] {
        assert!(needed.contains(&json!(permission)), "{mgp}");
    }
    assert_eq!(mgp["server_id"], "bench-7");
    let mut raw = super::raw::connect(server(&settings(&["--extensions", "none"]).unwrap()));
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    assert_eq!(answer["result"]["capabilities"]["mgp"], Value::Null);
}

#[test]
fn invalid_flags_are_refused_by_name() {
    let refused = |flags: &[&str]| settings(flags).unwrap_err();
    assert!(refused(&["--http"]).contains("`--http` needs a value"));
    assert!(refused(&["--colour"]).contains("unknown flag `--colour`"));
    assert!(refused(&["--server-id"]).contains("`--server-id` needs a value"));
    assert!(refused(&["--ready-after", "soon"]).contains("not `soon`"));
    assert!(refused(&["--extensions", "audit,colour"]).contains("unknown extension `colour`"));
    assert!(refused(&["--permissions", "no spaces"]).contains("no spaces"));
}
