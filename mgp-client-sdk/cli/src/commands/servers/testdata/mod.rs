//! Some 2,100 published servers for tests: several publishers' servers of each kind that people use, and entries as in
//! the official registry. Also wishes of users, each with the kinds of servers that fulfil it.

use serde_json::{Value, json};

/// Returns the kinds of servers: name, title and description.
fn families() -> Vec<(&'static str, &'static str, &'static str)> {
    let line = |line: &'static str| {
        let mut parts = line.split('\t');
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    };
    include_str!("servers.tsv").lines().map(line).collect()
}

/// Publishers, each with a template of its descriptions: `{}` is the description of a kind of server, `[]` its title.
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

/// Returns the entries of all published servers of the tests.
pub(crate) fn published() -> Vec<Value> {
    let mut all = listed();
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

/// Returns the entries of `published.tsv`: name, title, description, way to run it, package and variables.
fn listed() -> Vec<Value> {
    let entry = |line: &str| {
        let parts: Vec<&str> = line.split('\t').collect();
        let [name, title, description, way, package, variables] = parts[..] else {
            panic!("{line}")
        };
        let variable = |name: &str| json!({ "name": name.trim_end_matches('!'), "isRequired": true, "isSecret": name.ends_with('!') });
        let variables: Vec<Value> =
            variables.split(',').filter(|name| !name.is_empty()).map(variable).collect();
        let mut server = json!({
            "name": name, "title": title, "description": description, "version": "1.2.0",
        });
        if way == "url" {
            server["remotes"] = json!([{ "type": "streamable-http", "url": package }]);
        } else {
            server["packages"] = json!([{
                "registryType": way, "identifier": package, "version": "1.2.0",
                "transport": { "type": "stdio" }, "environmentVariables": variables,
            }]);
        }
        json!({ "server": server })
    };
    include_str!("published.tsv").lines().map(entry).collect()
}

/// Returns the wishes, each with the kinds of servers that fulfil it.
pub(crate) fn wishes() -> Vec<(&'static str, Vec<&'static str>)> {
    let wish = |line: &'static str| {
        let (wish, kinds) = line.split_once('\t').unwrap();
        (wish, kinds.split(' ').collect())
    };
    include_str!("wishes.tsv").lines().map(wish).collect()
}

/// Returns the kind of a server from its name: `github` for `io.github.github/github-mcp-server`.
pub(crate) fn kind(name: &str) -> String {
    let plain = |part: &str| {
        let words = part.split('-').filter(|word| !["mcp", "server", ""].contains(word));
        words.collect::<Vec<_>>().join("-")
    };
    let (publisher, last) = name.rsplit_once('/').unwrap_or(("", name));
    let mut parts = std::iter::once(last).chain(publisher.rsplit('.')).map(plain);
    parts.find(|part| !part.is_empty()).unwrap_or_default()
}
