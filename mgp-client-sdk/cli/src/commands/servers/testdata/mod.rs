//! Some 2,000 published servers for tests: kinds of servers that people use, each by several publishers.

use serde_json::{Value, json};

/// Returns the kinds of servers: name, title and description.
fn families() -> Vec<(&'static str, &'static str, &'static str)> {
    let line = |line: &'static str| {
        let mut parts = line.split('\t');
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    };
    include_str!("servers.tsv").lines().map(line).collect()
}

/// Publishers of servers of each kind, and how they describe theirs; `{}` is the description, `[]` the title.
const PUBLISHERS: &[(&str, &str)] = &[
    ("io.github.alpha", "{}"),
    ("com.bravo", "[] integration for assistants. {}"),
    ("io.github.charlie", "An unofficial [] server: {}"),
    ("dev.delta", "MCP server for []. {}"),
    ("ai.echo", "Connects your agent to []. {}"),
    ("io.github.foxtrot", "{}. Self-hosted, in TypeScript"),
    ("io.github.golf", "{}. Written in Go, one program"),
    ("com.hotel", "[] tools with read-only mode. {}"),
    ("io.github.india", "Lightweight []: {}"),
    ("net.juliett", "[] for teams, with audit. {}"),
    ("io.github.kilo", "Fork with more tools. {}"),
    ("org.lima", "{}. Needs an API key"),
    ("io.github.mike", "Experimental [] support. {}"),
    ("app.november", "Hosted []. {}"),
    ("io.github.oscar", "{}. Docker image included"),
];

/// Returns 2,000 servers: each kind by each publisher.
pub(crate) fn published() -> Vec<Value> {
    let mut all = Vec::new();
    for (at, (name, title, description)) in families().into_iter().enumerate() {
        for (publisher, template) in PUBLISHERS {
            let description = template.replace("{}", description).replace("[]", title);
            let package = format!("@{}/{name}", publisher.rsplit('.').next().unwrap());
            all.push(json!({
                "server": {
                    "name": format!("{publisher}/{name}"), "title": title, "description": description,
                    "version": format!("1.{at}.0"),
                    "packages": [{ "registryType": "npm", "identifier": package, "version": format!("1.{at}.0"),
                        "transport": { "type": "stdio" } }],
                },
                "_meta": { "io.modelcontextprotocol.registry/official": { "status": "active", "isLatest": true } },
            }));
        }
    }
    all
}
