//! Tests that imported files of untrusted authors add no references to commands, files or secrets.

use std::path::Path;

use mgp_testkit::temp_dir;
use proptest::prelude::*;

use super::imported;
use crate::config::{Config, TargetConfig};
use crate::expand::Template;
use crate::import::{Entry, Host, Plan, read, read_of_user};

#[test]
fn a_file_of_a_stranger_names_no_command_and_no_stored_secret() {
    let text = r#"{"mcpServers": {
        "token": {"url": "https://x.org", "bearer_token_env_var": "TOKEN"},
        "command": {"url": "https://x.org", "bearer_token_env_var": "cmd:touch x"},
        "default": {"url": "https://x.org", "bearer_token_env_var": "A:-${cmd:touch x}"},
        "secret": {"command": "a", "env_keys": ["github"]},
        "inherited": {"command": "a", "env_vars": ["cmd:touch x"]},
        "all": {"command": "a", "env_vars": ["AWS_*"]},
        "header": {"url": "https://x.org", "env_http_headers": {"A": "keyring:github"}},
        "end": {"command": "a", "env_keys": ["A}${cmd:touch x}"]}}}"#;
    let name = "its `bearer_token_env_var` is not the name of a variable";
    let inherited = "its `env_vars` has something that is not the name of a variable";
    let header = "its `env_http_headers` has something that is not the name of a variable";
    let secret = "its `env_keys` has something that is not the name of a secret";
    let file = Path::new("/p/.mcp.json");
    let of_user = read_of_user(Host::Generic, file, text, &[]).unwrap();
    assert_eq!(of_user.servers[0].entry.env["github"], "${keyring:github}");
    let import = imported(Host::Generic, "/p/.mcp.json", text);
    let refused: Vec<_> =
        import.refused.iter().map(|one| (one.name.as_str(), one.why.as_str())).collect();
    let expected = [
        ("all", inherited),
        ("command", name),
        ("default", name),
        ("end", secret),
        ("header", header),
        ("inherited", inherited),
        ("secret", "its host stores the secret `github`"),
    ];
    assert_eq!(refused, expected);
    assert_eq!(import.servers[0].entry.headers["Authorization"], "Bearer ${TOKEN}");
}

/// Generates texts as an untrusted author could write them, from pieces that could form a variable, a file or a
/// command.
fn strange() -> impl Strategy<Value = String> {
    "(\\$|\\{|\\}|:-|:|A|b|-|=|cmd:x|file:/y|\\$\\{|\\$\\{cmd:x\\}|\\$\\{file:/y\\}|\\$\\{HOME\\}){0,6}"
}

/// Generates the JSON of an argument or a variable of a package, with texts from `strange`.
fn strange_input() -> impl Strategy<Value = serde_json::Value> {
    let texts = (strange(), strange(), strange(), strange());
    (texts, 0..8_u8).prop_map(|((name, value, default, hint), has)| {
        let mut input = serde_json::json!({
            "type": if has & 4 == 0 { "named" } else { "positional" },
            "name": name, "valueHint": hint, "isRequired": has & 2 == 0,
        });
        if has & 1 == 0 {
            input["value"] = value.into();
        } else if has & 2 == 0 {
            input["default"] = default.into();
        }
        input
    })
}

/// Returns all references to values outside the configuration in the texts of an entry.
fn needs(entry: &Entry) -> Vec<String> {
    let run = entry.command.iter().chain(&entry.args).chain(&entry.cwd).chain(entry.env.values());
    let texts = run.chain(&entry.url).chain(entry.headers.values());
    let templates = texts.filter_map(|text| Template::parse(text).ok());
    templates.flat_map(|template| template.needs()).collect()
}

fn strange_document() -> impl Strategy<Value = serde_json::Value> {
    let inputs = || proptest::collection::vec(strange_input(), 0..3);
    let kind = prop_oneof![Just("npm"), Just("pypi"), Just("oci"), Just("none")];
    let package = (kind, strange(), strange(), inputs(), inputs(), inputs());
    (strange(), package, strange(), inputs()).prop_map(|(name, package, url, headers)| {
        let (kind, identifier, version, runtime, arguments, variables) = package;
        serde_json::json!({
            "name": format!("n{name}"),
            "packages": [{
                "registryType": kind, "identifier": identifier, "version": version,
                "runtimeArguments": runtime, "packageArguments": arguments,
                "environmentVariables": variables,
            }],
            "remotes": [{"type": "http", "url": format!("https://{url}"), "headers": headers}],
        })
    })
}

proptest! {
    #[test]
    fn a_document_of_a_stranger_becomes_text_and_chosen_variables(document in strange_document()) {
        let import = imported(Host::Registry, "server.json", &document.to_string());
        let folder = temp_dir();
        let plan = Plan::new(folder.path().join("mgp.toml"), std::slice::from_ref(&import)).unwrap();
        let config = Config::parse("mgp.toml", plan.text()).unwrap().config;
        let named: Vec<String> = document.to_string().to_ascii_uppercase().split('"').map(crate::import::variables::name_of).collect();
        for server in &config.servers {
            let texts: Vec<&String> = match &server.target {
                TargetConfig::Program { command, args, cwd, env } => {
                    [command].into_iter().chain(args).chain(cwd).chain(env.values()).collect()
                }
                TargetConfig::Url { url, headers, .. } => [url].into_iter().chain(headers.values()).collect(),
                _ => unreachable!("a document has packages and remotes"),
            };
            for text in texts {
                let template = Template::parse(text).unwrap();
                for need in template.needs() {
                    let name = need.strip_prefix("${").unwrap().strip_suffix('}').unwrap();
                    let name = name.trim_start_matches('-');
                    prop_assert!(!name.contains(':'), "{text}");
                    prop_assert!(named.iter().any(|own| own.ends_with(name) || name == "ARGUMENT"), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_host_brings_variables_only(text in strange(), value in strange()) {
        let program = serde_json::json!({"command": text, "args": [value, text], "cwd": value, "env": {"A": text, "B": value}});
        let headers = serde_json::json!({"A": text, "B": value});
        let servers = serde_json::json!({
            "a": program,
            "b": {"url": text, "headers": headers},
            "c": {"url": value, "headers": headers, "bearer_token_env_var": text},
            "d": {"command": text, "env": {"A": value}, "env_keys": [value, text]},
            "e": {"url": value, "env_http_headers": {"A": text, "B": value}},
        });
        let document = serde_json::json!({"mcpServers": servers, "servers": servers, "mcp": servers, "extensions": servers});
        // Print the JSON with spaces after the colons, so that it is also valid YAML.
        let (file, document) = (Path::new("/p/.vscode/mcp.json"), format!("{document:#}"));
        let stored = [&text, &value].map(|name| format!("${{keyring:{name}}}"));
        for host in [Host::ClaudeDesktop, Host::ClaudeCode, Host::Cursor, Host::VsCode, Host::GeminiCli, Host::OpenCode, Host::Goose] {
            for (import, is_of_user) in [(read(host, file, &document), false), (read_of_user(host, file, &document, &[]), true)] {
                for need in import.unwrap().servers.iter().flat_map(|server| needs(&server.entry)) {
                    prop_assert!(!need.contains(':') || (is_of_user && stored.contains(&need)), "{need}");
                }
            }
        }
    }
}
