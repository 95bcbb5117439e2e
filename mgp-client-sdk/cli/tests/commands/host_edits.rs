//! Tests of hosts' files that other programs edit while mgp is connected.

use std::fs;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

#[test]
fn servers_that_connect_took_out_come_back_though_the_host_removed_the_entry_of_mgp() {
    let home = Home::new();
    let echo = program("echo");
    let before = json!({ "mcpServers": {
        "a": { "command": echo },
        "b": { "command": echo, "args": ["b"] },
    } });
    let file = home.write(".cursor/mcp.json", &before.to_string());
    home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
    let connect = ["connect", "cursor", "--interactive", "no", "--no-grant", "--replace"];
    let written = || serde_json::from_str::<Value>(&fs::read_to_string(&file).unwrap()).unwrap();
    let names = || {
        let written = written();
        written["mcpServers"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let remove_mgp = || {
        let mut now = written();
        now["mcpServers"].as_object_mut().unwrap().remove("mgp").unwrap();
        fs::write(&file, now.to_string()).unwrap();
    };
    home.succeed(&connect);
    assert_eq!(names(), ["mgp"]);
    remove_mgp();
    let done = home.json("disconnect", &["disconnect", "cursor"]);
    assert_eq!(done["restored"], json!(["a", "b"]), "{done}");
    assert_eq!(written(), before);
    home.fail(1, &["disconnect", "cursor"], "does not start mgp");

    home.succeed(&connect);
    remove_mgp();
    home.succeed(&connect[..5]);
    assert_eq!(names(), ["mgp"]);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(written(), before);

    // Servers that the user has put back meanwhile stay.
    home.succeed(&connect);
    fs::write(&file, before.to_string()).unwrap();
    home.succeed(&connect[..5]);
    assert_eq!(names(), ["a", "b", "mgp"]);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(written(), before);
}
