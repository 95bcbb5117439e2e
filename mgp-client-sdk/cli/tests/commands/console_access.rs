//! Tests of the console's page about access: an entry is revoked alone, and also while the configuration is broken.

use serde_json::{Value, json};

use crate::console::Browser;
use crate::kernel::Kernel;
use crate::world::Home;

/// Returns the access entries of the agent `default` for the server `bench`.
fn entries(home: &Home) -> Vec<Value> {
    let found = home.json("access-query", &["access", "query", "default", "bench"]);
    found["entries"].as_array().unwrap().clone()
}

#[test]
fn the_end_of_a_grant_for_a_server_keeps_the_denials_of_its_tools() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let browser = Browser::new(home);
    home.silent(&["access", "grant", "default", "bench"]);
    home.silent(&["access", "grant", "default", "bench", "echo", "--deny"]);
    let entry = [("agent", "default"), ("server", "bench")];
    let page = browser.done("/access/revoke", &entry);
    assert!(page.contains("default bench: revoked"), "{page}");
    let left = entries(home);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((&left[0]["tool_name"], &left[0]["permission"]), (&json!("echo"), &json!("deny")));
    let page = browser.done("/access/revoke", &entry);
    assert!(page.contains("there is no entry to revoke"), "{page}");
    browser.done("/access/revoke", &[&entry[..], &[("tool", "echo")]].concat());
    assert!(entries(home).is_empty());
}

#[test]
fn access_can_be_revoked_while_the_configuration_is_broken() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let browser = Browser::new(home);
    home.silent(&["access", "grant", "default", "bench"]);
    let config = home.write("c.toml", "[[servers\n");
    let page = browser.get("/access");
    let text = page.text();
    assert_eq!(page.status, 200, "{text}");
    let limits = text.split("id=\"limits\"").nth(1).unwrap();
    assert!(limits.contains("class=\"failed\"") && limits.contains("/c.toml:1:"), "{text}");
    assert!(limits.contains("id=\"keys\""), "{text}");
    let (_, matrix) = text.split_once("Who may use what").unwrap();
    assert!(matrix.contains("name=\"server\" value=\"bench\""), "{text}");
    // The kernel decides by the configuration that it has, so the page does not show `?` for its `default_policy`.
    assert!(!matrix.contains("<span class=\"mark warn\">?</span>"), "{text}");
    let page = browser.done("/access/revoke", &[("agent", "default"), ("server", "bench")]);
    assert!(page.contains("default bench: revoked"), "{page}");
    assert!(entries(home).is_empty());
    let config = config.to_str().unwrap();
    let matrix = home.run(&["access", "matrix", "--config", config]);
    assert!(matrix.code == Some(1) && matrix.err.contains("/c.toml:1:"), "{matrix:?}");
}
