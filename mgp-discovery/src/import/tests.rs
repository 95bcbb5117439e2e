//! Tests of the import of other hosts' files.

mod host_members;
mod published;
mod same;
mod strangers;

use std::fs;
use std::path::Path;

use mgp_testkit::temp_dir;
use proptest::prelude::*;

use super::*;
use crate::config::{Config, TargetConfig};
use crate::error::DiscoveryError;

fn imported(host: Host, file: &str, text: &str) -> Import {
    read(host, Path::new(file), text).unwrap()
}

#[test]
fn an_editor_file_with_inputs_and_comments_is_read() {
    let text = r#"{
        // the key is asked for
        "inputs": [{"id": "api-key", "type": "promptString", "password": true, "default": "x"},
            {"id": "site", "type": "pickString", "options": ["eu", "us"], "default": "eu"}, 1, {"id": "a"},
            {"id": "token", "type": "promptString", "default": "hunter2hunter2"}],
        "servers": {
            "web": {"type": "http", "url": "https://x.org/mcp", "headers": {"A": "Bearer ${input:api-key}", "S": "${input:site}"}},
            "local": {"type": "stdio", "command": "${workspaceFolder}/run", "dev": {},},
            "token": {"type": "http", "url": "https://x.org/${input:token}"},
        },
    }"#;
    let file = Path::new("/p/.vscode/mcp.json");
    let import = read_of_user(Host::VsCode, file, text, &["API_KEY".to_owned()]).unwrap();
    let (local, web) = (&import.servers[0], &import.servers[1]);
    assert_eq!(local.entry.command.as_deref(), Some("/p/run"));
    assert_eq!(local.notes.len(), 1, "{:?}", local.notes);
    assert_eq!(web.entry.headers["A"], "Bearer ${keyring:API_KEY}");
    assert_eq!(web.entry.headers["S"], "${SITE:-eu}");
    assert_eq!(
        web.notes,
        [
            "the input `api-key` is the secret `API_KEY` here",
            "the input `site` is the variable `SITE` here, or the default proposed there",
        ]
    );
    assert_eq!(
        import.refused[0].why,
        "its host asks for the input `token`; run `mgp secrets set TOKEN`, then try again"
    );
    // A file that may come from an untrusted author must not receive a stored secret.
    let import = imported(Host::VsCode, "/p/.vscode/mcp.json", text);
    let refused: Vec<_> = import.refused.iter().map(|one| one.why.as_str()).collect();
    assert_eq!(
        refused,
        ["its host asks for the input `token`", "its host asks for the input `api-key`"]
    );
}

#[test]
fn servers_that_work_only_in_their_host_stay_there() {
    let home = std::env::home_dir().unwrap();
    let file = home.join(".cursor/mcp.json");
    for (host, member, reason) in [
        (Host::Cursor, r#""args": ["${workspaceFolder}/tools/mcp.js"]"#, "`${workspaceFolder}`"),
        (
            Host::Cursor,
            r#""env": {"A": "${workspaceFolderBasename}"}"#,
            "`${workspaceFolderBasename}`",
        ),
        (Host::VsCode, r#""args": ["${workspaceFolder}"]"#, "`${workspaceFolder}`"),
        (Host::VsCode, r#""args": ["${config:x.y}"]"#, "`${config:x.y}`"),
        (Host::VsCode, r#""envFile": "/p/.env""#, "`envFile`; write them to `env`"),
        (Host::ClaudeCode, r#""args": ["${workspaceFolder}"]"#, "`${workspaceFolder}`"),
    ] {
        let key = host.servers_key();
        let text = format!(r#"{{"{key}": {{"a": {{"command": "node", {member}}}}}}}"#);
        let import = read(host, &file, &text).unwrap();
        assert!(import.servers.is_empty(), "{member}: {:?}", import.servers);
        assert!(import.refused[0].why.contains(reason), "{}", import.refused[0].why);
    }
}

#[test]
fn the_time_limits_of_codex_are_kept() {
    let text = "[mcp_servers.a]\ncommand = 'a'\nstartup_timeout_sec = 20\ntool_timeout_sec = 0.5\n";
    let import = imported(Host::Codex, "config.toml", text);
    assert!(import.servers[0].notes.is_empty(), "{:?}", import.servers[0].notes);
    let plan = Plan::new("/nowhere/at/all.toml", &[import]).unwrap();
    assert!(
        plan.text().contains("start_timeout = \"20s\"\ntimeout = \"500ms\"\n"),
        "{}",
        plan.text()
    );
}

/// Files of several hosts, each with the same servers `files` and `web`. Each file has comments if its host allows
/// them.
const FORMS: &[(Host, &str)] = &[
    (
        Host::Codex,
        "model = 'o'\n[mcp_servers.files]\ncommand = 'npx'\nargs = ['-y', 'files']\nstartup_timeout_sec = 20\n[mcp_servers.files.env]\nROOT = '/srv'\n\
         [mcp_servers.web]\nurl = 'https://x.org/mcp'\nbearer_token_env_var = 'TOKEN'\n[mcp_servers.off]\ncommand = 'off'\nenabled = false\n",
    ),
    (
        Host::GeminiCli,
        r#"{"theme": "x", "mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}, "timeout": 9, "trust": false},
            "web": {"httpUrl": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}"#,
    ),
    (
        Host::Windsurf,
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}},
            "web": {"serverUrl": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}}}"#,
    ),
    (
        Host::OpenCode,
        r#"{"$schema": "https://opencode.ai/config.json", "mcp": {"files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"ROOT": "/srv"}, "enabled": true},
            // remote
            "web": {"type": "remote", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}}, "off": {"type": "local", "command": ["off"], "enabled": false}}}"#,
    ),
    (
        Host::Cline,
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}, "disabled": false, "autoApprove": ["read"]},
            "web": {"type": "streamableHttp", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}}}"#,
    ),
    (
        Host::CopilotCli,
        r#"{"mcpServers": {"files": {"type": "local", "command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}, "tools": ["*"]},
            "web": {"type": "http", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "tools": ["*"]}}}"#,
    ),
    (
        Host::Kiro,
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}, "disabled": false, "disabledTools": []},
            "web": {"url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}"#,
    ),
    (
        Host::Junie,
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/srv"}},
            "web": {"url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}"#,
    ),
    (
        Host::Goose,
        "GOOSE_MODEL: o\nextensions:\n  developer: {type: builtin, enabled: true, name: off}\n  files:\n    type: stdio\n    cmd: npx\n    args: ['-y', files]\n    envs:\n      ROOT: /srv\n    timeout: 300\n\
        \x20 web:\n    type: streamable_http\n    uri: https://x.org/mcp\n    headers: {Authorization: 'Bearer ${TOKEN}'}\n",
    ),
];

#[test]
fn each_host_writes_the_same_servers_in_its_own_form() {
    for (host, text) in FORMS {
        let import = imported(*host, "f", text);
        let [files, web] = &import.servers[..] else { panic!("{host:?}: {:?}", import.servers) };
        assert_eq!((files.name.as_str(), web.name.as_str()), ("files", "web"), "{host:?}");
        assert_eq!(files.entry.command.as_deref(), Some("npx"), "{host:?}");
        assert_eq!(files.entry.args, ["-y", "files"], "{host:?}");
        assert_eq!(files.entry.env["ROOT"], "/srv", "{host:?}");
        assert_eq!(web.entry.url.as_deref(), Some("https://x.org/mcp"), "{host:?}");
        assert_eq!(web.entry.headers["Authorization"], "Bearer ${TOKEN}", "{host:?}");
        let is_left_out = |name: &str| name == "off" || name == "developer";
        assert!(import.refused.iter().all(|refused| is_left_out(&refused.name)), "{host:?}");
    }
}

#[test]
fn words_of_goose_that_are_booleans_in_yaml_1_1_only_are_texts() {
    let text = "extensions:\n  own: {type: stdio, cmd: own, args: [y, no], envs: {DEBUG: on}}\n";
    let import = imported(Host::Goose, "config.yaml", text);
    let own = &import.servers[0].entry;
    assert_eq!(own.args, ["y", "no"]);
    assert_eq!(own.env["DEBUG"], "on");
}

#[test]
fn secrets_of_goose_are_taken_from_the_own_store() {
    let text = "extensions:\n  hub:\n    type: stdio\n    cmd: hub\n    args: []\n    envs: {HOST: a}\n    env_keys: [HUB_TOKEN]\n";
    let import = read_of_user(Host::Goose, Path::new("config.yaml"), text, &[]).unwrap();
    let hub = &import.servers[0];
    assert_eq!(hub.entry.env["HUB_TOKEN"], "${keyring:HUB_TOKEN}");
    assert_eq!(hub.entry.env["HOST"], "a");
    assert_eq!(hub.notes.len(), 1, "{:?}", hub.notes);
    assert!(hub.notes[0].contains("mgp secrets set HUB_TOKEN"), "{:?}", hub.notes);
    for bomb in ["a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n".to_owned(), "[".repeat(100_000), "a: {b".to_owned()] {
        assert!(read(Host::Goose, Path::new("config.yaml"), &bomb).is_err());
    }
}

#[test]
fn servers_of_a_project_start_in_its_folder() {
    for (host, file) in [
        (Host::ClaudeCode, ".mcp.json"),
        (Host::Cursor, ".cursor/mcp.json"),
        (Host::VsCode, ".vscode/mcp.json"),
        (Host::Codex, ".codex/config.toml"),
        (Host::GeminiCli, ".gemini/settings.json"),
        (Host::QwenCode, ".qwen/settings.json"),
        (Host::Zed, ".zed/settings.json"),
        (Host::OpenCode, "opencode.json"),
        (Host::CopilotCli, ".github/mcp.json"),
        (Host::Kiro, ".kiro/settings/mcp.json"),
        (Host::Continue, ".continue/mcpServers/mcp.json"),
        (Host::Junie, ".junie/mcp/mcp.json"),
        (Host::Droid, ".factory/mcp.json"),
        (Host::Antigravity, ".agents/mcp_config.json"),
    ] {
        assert_eq!(host.project_file(), Some(file));
        let key = host.servers_key();
        let text = match host {
            Host::Codex => format!("[{key}.a]\ncommand = 'a'\n"),
            _ => format!(r#"{{"{key}": {{"a": {{"command": "a"}}}}}}"#),
        };
        let cwd = |folder: &Path| {
            let import = read(host, &folder.join(file), &text).unwrap();
            import.servers[0].entry.cwd.clone()
        };
        assert_eq!(cwd(Path::new("/p")).as_deref(), Some("/p"), "{file}");
        assert_eq!(cwd(&std::env::home_dir().unwrap()), None, "{file}");
    }
    let text = r#"{"mcp": {"a": {"command": ["a"]}}}"#;
    let import = imported(Host::OpenCode, "/h/.config/opencode/opencode.json", text);
    assert_eq!(import.servers[0].entry.cwd, None);
    assert_eq!(Host::Windsurf.project_file(), None);
}

#[test]
fn both_forms_of_zed_are_read_and_extensions_are_left_out() {
    let text = r#"{"context_servers": {
        "new": {"source": "custom", "command": "npx", "args": ["a"], "env": {}}, // a comment
        "old": {"source": "custom", "command": {"path": "npx", "args": ["b"], "env": {"A": "$1"}}},
        "extension": {"source": "extension", "settings": {}},
    }}"#;
    let import = imported(Host::Zed, "settings.json", text);
    let args: Vec<_> = import.servers.iter().map(|one| one.entry.args.concat()).collect();
    assert_eq!(args, ["a", "b"]);
    assert_eq!(import.servers[1].entry.env["A"], "$$1");
    assert_eq!(import.refused[0].name, "extension");
}

#[test]
fn addresses_of_gemini_and_newer_files_of_opencode_are_read() {
    for (member, expected) in [
        (r#""url": "https://x.org/mcp""#, None),
        (r#""url": "https://x.org/mcp", "type": "http""#, None),
        (r#""url": "https://x.org/sse", "type": "sse""#, Some("sse")),
        (r#""httpUrl": "https://x.org/mcp""#, None),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{{member}}}}}}}"#);
        let import = imported(Host::GeminiCli, "f", &text);
        assert_eq!(import.servers[0].entry.transport, expected, "{member}");
    }
    let text = r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}}}"#;
    assert_eq!(imported(Host::OpenCode, "f", text).servers[0].name, "a");
    let import = imported(
        Host::LmStudio,
        "f",
        r#"{"mcpServers": {"a": {"command": "a", "env": {"K": "$x"}}}}"#,
    );
    assert_eq!(import.servers[0].entry.env["K"], "$$x");
}

#[test]
fn the_projects_of_a_file_are_read_and_disabled_servers_are_left_out() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "off": {"command": "x", "disabled": true}},
        "projects": {"/p": {"mcpServers": {"b": {"type": "sse", "url": "https://b"}}}, "/q": {}}}"#;
    let import = imported(Host::ClaudeCode, "/h/.claude.json", text);
    let names: Vec<_> = import.servers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(import.servers[1].entry.transport, Some("sse"));
    let refused = |name| import.refused.iter().find(|one| one.name == name).unwrap().why.as_str();
    assert_eq!(refused("off"), "it is switched off there");
}

#[test]
fn a_document_of_the_registry_is_started_by_its_package() {
    let text = r#"{"name": "io.github.user/weather", "packages": [{"registryType": "npm", "identifier": "@user/weather",
        "version": "1.0.2", "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}, {"name": "UNIT", "default": "c"}],
        "packageArguments": [{"type": "named", "name": "--city", "value": "Bern"}, {"type": "positional", "valueHint": "folder", "isRequired": true}]}]}"#;
    let import = imported(Host::Registry, "server.json", text);
    let ImportedServer { name, entry, notes, .. } = &import.servers[0];
    assert_eq!(name, "io.github.user/weather");
    assert_eq!(entry.command.as_deref(), Some("npx"));
    assert_eq!(entry.args, ["-y", "@user/weather@1.0.2", "--city", "Bern", "${FOLDER}"]);
    assert_eq!((entry.env["KEY"].as_str(), entry.env["UNIT"].as_str()), ("${KEY}", "${UNIT:-c}"));
    assert_eq!(notes.len(), 2);
    let text = r#"{"name": "a/b", "remotes": [{"type": "sse", "url": "https://b"}]}"#;
    let import = imported(Host::Registry, "server.json", text);
    assert_eq!(import.servers[0].entry.transport, Some("sse"));
    let text = r#"{"name": "a/b", "remotes": [{"type": "sse", "url": "https://a"},
        {"type": "streamable-http", "url": "https://b"}]}"#;
    assert_eq!(
        imported(Host::Registry, "server.json", text).servers[0].entry.url.as_deref(),
        Some("https://b")
    );
}

#[test]
fn a_file_of_another_kind_is_refused_without_its_values() {
    for (text, expected) in [
        ("{", "`f` cannot be read: it is not JSON at line 1, column 1"),
        ("{\"a\": \"s3cret\"}", "`f` cannot be read: it has no `mcpServers`"),
        ("[]", "`f` cannot be read: it has no `mcpServers`"),
    ] {
        let error = read(Host::Generic, Path::new("f"), text).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let has_no_servers = matches!(error, DiscoveryError::NoServers { .. });
        assert_eq!(has_no_servers, text != "{", "{text}");
    }
}

#[test]
fn a_plan_keeps_comments_and_entries_and_a_backup() {
    let folder = temp_dir();
    let file = folder.path().join("deep/servers.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = "# mine\n[[servers]]\nid = 'a' # keep\ncommand = 'own'\n";
    fs::write(&file, before).unwrap();
    let text = r#"{"mcpServers": {"a": {"command": "x"}, "my server": {"command": "b", "env": {"API_KEY": "hunter2hunter2"}}, "bad": {}}}"#;
    let import = imported(Host::ClaudeDesktop, "claude.json", text);
    let plan = Plan::new(&file, &[import]).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "a plan writes nothing");
    let lines: Vec<_> = plan.lines().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "a from claude.json: added as `a-claude-desktop`; another server has the id `a`",
            "my server from claude.json: added as `my-server`; `env.API_KEY` of `my-server` looks like a secret in clear text (its name suggests it); run `mgp secrets set my-server.API_KEY` and write `${keyring:my-server.API_KEY}` in its place",
            "bad from claude.json: left out, it has neither a `command` nor a `url`",
        ]
    );
    assert!(!format!("{plan:?}").contains("hunter2"));
    let backup = plan.apply().unwrap().unwrap();
    assert_eq!(fs::read_to_string(&backup).unwrap(), before);
    let after = fs::read_to_string(&file).unwrap();
    assert!(after.starts_with(before), "{after}");
    assert_eq!(Config::parse(&file, &after).unwrap().config.servers.len(), 3);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        for path in [&file, &backup] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    // The file changed since the plan was made.
    assert!(plan.apply().unwrap_err().to_string().ends_with("was changed meanwhile; try again"));
}

#[test]
fn a_plan_keeps_what_another_plan_has_added_meanwhile_unless_its_outcome_would_change() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let plan = |id: &str, command: &str| {
        let text = format!(r#"{{"mcpServers": {{"{id}": {{"command": "{command}"}}}}}}"#);
        Plan::new(&file, &[imported(Host::Generic, "f", &text)]).unwrap()
    };
    let (one, two, same_id) = (plan("a", "x"), plan("b", "y"), plan("a", "z"));
    one.apply().unwrap();
    two.apply().unwrap();
    let both = fs::read_to_string(&file).unwrap();
    assert!(both.contains("id = \"a\"") && both.contains("id = \"b\""), "{both}");
    let refused = same_id.apply().unwrap_err();
    assert!(matches!(refused, DiscoveryError::Changed { .. }), "{refused}");
    let late = plan("c", "x");
    fs::remove_file(&file).unwrap();
    assert!(late.apply().is_err() && !file.exists(), "a removed file is not written again");
}

#[cfg(unix)]
#[test]
fn an_import_without_secrets_keeps_the_mode_of_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let import = imported(Host::Generic, "f", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    Plan::new(&file, &[import]).unwrap().apply().unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("id = \"a\""));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_missing_file_is_created() {
    let folder = temp_dir();
    let file = folder.path().join("a/b.toml");
    let import = imported(Host::Generic, "f", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    assert_eq!(Plan::new(&file, &[import]).unwrap().apply().unwrap(), None);
    assert!(fs::read_to_string(&file).unwrap().contains("id = \"a\""));
    let again = imported(Host::Generic, "f", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    assert!(Plan::new(&file, &[again]).unwrap().is_idle());
}

#[test]
fn a_second_server_of_an_id_is_not_dropped_and_the_same_one_is_not_added_twice() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let server = |arg: &str| {
        format!(
            r#"{{"mcpServers": {{"fs": {{"command": "fs", "args": ["{arg}"], "env": {{"API_KEY": "hunter2hunter2"}}}}}}}}"#
        )
    };
    let import = |host, arg: &str| imported(host, "f", &server(arg));
    let imports = [
        import(Host::ClaudeDesktop, "/a"),
        import(Host::ClaudeCode, "/a"),
        import(Host::Cursor, "/b"),
        import(Host::Cursor, "/c"),
    ];
    let outcomes = |imports: &[Import]| -> Vec<ImportOutcome> {
        let plan = Plan::new(&file, imports).unwrap();
        plan.apply().unwrap();
        plan.lines().iter().map(|line| line.outcome.clone()).collect()
    };
    let added = |id: &str| ImportOutcome::Added(id.to_owned());
    let present = |id: &str| ImportOutcome::Present(id.to_owned());
    assert_eq!(
        outcomes(&imports),
        [added("fs"), present("fs"), added("fs-cursor"), added("fs-cursor-2")]
    );
    // A server whose secret was replaced by a variable must still count as the same server.
    let text = fs::read_to_string(&file).unwrap().replacen("hunter2hunter2", "${API_KEY}", 2);
    fs::write(&file, text).unwrap();
    let again = [present("fs"), present("fs"), present("fs-cursor"), present("fs-cursor-2")];
    assert_eq!(outcomes(&imports), again);
}

#[test]
fn servers_that_a_project_switches_off_are_left_out() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}}, "projects": {"/p": {
        "mcpServers": {"b": {"command": "b"}, "c": {"command": "c"}},
        "disabledMcpServers": ["a", "b"], "disabledMcpjsonServers": ["d"]}}}"#;
    let mut import = imported(Host::ClaudeCode, "/h/.claude.json", text);
    let names: Vec<_> = import.servers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(import.servers[0].notes[0].contains("switched off in the project `/p`"));
    assert_eq!(
        (&*import.refused[0].name, &*import.refused[0].why),
        ("b", "it is switched off there")
    );
    assert_eq!(switched_off(text, Path::new("/p")), ["d"]);
    import.leave_out(&["c".to_owned()]);
    assert_eq!((import.servers.len(), &*import.refused[1].name), (1, "c"));
}

#[test]
fn ten_backups_are_kept() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    for name in ["servers.toml", "servers.toml.bak", "servers.toml.bakery", "other.toml.bak1"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let mut last = None;
    for number in 0..13 {
        let text = format!(r#"{{"mcpServers": {{"s{number}": {{"command": "a"}}}}}}"#);
        let import = imported(Host::Generic, "f", &text);
        last = Plan::new(&file, &[import]).unwrap().apply().unwrap();
    }
    assert_eq!(last.unwrap(), folder.path().join("servers.toml.bak13"));
    let there = |number: u32| folder.path().join(format!("servers.toml.bak{number}")).exists();
    assert!((1..=3).all(|number| !there(number)) && (4..=13).all(there));
    for name in ["servers.toml.bak", "servers.toml.bakery", "other.toml.bak1"] {
        assert!(folder.path().join(name).exists(), "{name} is not ours");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_the_file_stays_a_link() {
    let folder = temp_dir();
    let (file, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let import = imported(Host::Generic, "f", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    assert!(Plan::new(&link, &[import]).unwrap().apply().unwrap().is_some());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("id = \"a\""));
}

#[test]
fn an_entry_whose_values_became_secrets_is_not_added_again() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let import = |host, name: &str, token: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"web": {{"url": "https://x.org", "headers": {{"T": "{token}"}}}}}}}}"#
        );
        imported(host, name, &text)
    };
    let outcome = |import: Import| {
        let plan = Plan::new(&file, &[import]).unwrap();
        plan.lines()[0].outcome.clone()
    };
    let first = import(Host::Cursor, "cursor.json", "Bearer ${env:TOKEN}");
    Plan::new(&file, std::slice::from_ref(&first)).unwrap().apply().unwrap();
    let present = ImportOutcome::Present("web".to_owned());
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("${TOKEN}", "${keyring:TOKEN}")).unwrap();
    let other = import(Host::Kiro, "kiro.json", "Bearer abc");
    assert_eq!(outcome(first.clone()), present);
    assert_eq!(outcome(other), ImportOutcome::Added("web-kiro".to_owned()));
    // In an import from the same host, the server counts as present even if its reference differs, because the user may
    // have stored the value under another name. In an import from another host, a different variable means another
    // server.
    fs::write(&file, text.replace("${TOKEN}", "${keyring:work}")).unwrap();
    assert_eq!(outcome(first), present);
    let other = import(Host::Windsurf, "windsurf.json", "Bearer ${env:TOKEN}");
    assert_eq!(outcome(other), ImportOutcome::Added("web-windsurf".to_owned()));
}

proptest! {
    #[test]
    fn what_is_imported_reads_as_it_was(command in "[^\\p{Cc}]{1,20}", arg in "[^\\x00]{0,20}", value in "[^\\x00]{0,20}") {
        prop_assume!(!command.trim().is_empty());
        let text = serde_json::json!({"mcpServers": {"a": {"command": command, "args": [arg], "env": {"K": value}}}});
        let import = imported(Host::ClaudeDesktop, "f", &text.to_string());
        let plan = Plan::new("/nowhere/at/all.toml", &[import]).unwrap();
        let config = Config::parse("f", plan.text()).unwrap().config;
        let TargetConfig::Program { command: read, args, env, .. } = &config.servers[0].target else { panic!("a program") };
        prop_assert_eq!(read.replace("$$", "$"), command);
        prop_assert_eq!(args[0].replace("$$", "$"), arg);
        prop_assert_eq!(env["K"].replace("$$", "$"), value);
    }
}

#[test]
fn answers_take_the_place_of_variables() {
    let server = PublishedServer::new(serde_json::json!({ "server": {
        "name": "com.acme/desk", "version": "2", "remotes": [{ "type": "streamable-http",
            "url": "https://{tenant}.acme.example/mcp", "variables": { "tenant": { "isRequired": true } },
            "headers": [{ "name": "Authorization", "value": "Bearer {token}", "variables": { "token": { "isSecret": true, "isRequired": true } } }] }],
    } })).unwrap();
    let needs = server.needs();
    let names: Vec<_> = needs.iter().map(|need| (need.variable.as_str(), need.is_secret)).collect();
    assert_eq!(names, [("TENANT", false), ("TOKEN", true)]);
    let answers = Answers::from([
        ("TENANT".to_owned(), vec![Answer::text("a$b")]),
        ("TOKEN".to_owned(), vec![Answer::secret("desk.TOKEN")]),
    ]);
    let entry = &server.import(&answers).servers[0].entry;
    assert_eq!(entry.url.as_deref(), Some("https://a$$b.acme.example/mcp"));
    assert_eq!(entry.headers["Authorization"], "Bearer ${keyring:desk.TOKEN}");
    assert_eq!(entry.published.as_deref(), Some("com.acme/desk@2"));
    let open = &server.import(&Answers::new()).servers[0].entry;
    assert_eq!(open.url.as_deref(), Some("https://${TENANT}.acme.example/mcp"));
}

#[test]
fn a_package_is_exact_only_if_nothing_adds_another_one() {
    let is_exact = |kind: &str, arguments: serde_json::Value| {
        let package = serde_json::json!({ "registryType": kind, "identifier": "weather",
            "version": "1.0.0", "runtimeArguments": arguments });
        let server = serde_json::json!({ "name": "com.acme/weather", "version": "1",
            "packages": [package] });
        PublishedServer::new(serde_json::json!({ "server": server })).unwrap().is_exact()
    };
    let yes = serde_json::json!({ "type": "positional", "value": "--yes" });
    for kind in ["npm", "pypi"] {
        assert!(is_exact(kind, serde_json::json!([])) && is_exact(kind, serde_json::json!([yes])));
        for more in [
            serde_json::json!({ "type": "named", "name": "--with", "value": "helper-x" }),
            serde_json::json!({ "type": "named", "name": "-p", "value": "--yes" }),
            serde_json::json!({ "type": "named", "name": "--package" }),
            serde_json::json!({ "type": "positional", "valueHint": "package" }),
            serde_json::json!({ "type": "positional", "value": "--from=git+https://a.example" }),
        ] {
            assert!(!is_exact(kind, serde_json::json!([yes, more])), "{kind} {more}");
        }
    }
}

#[test]
fn a_setting_of_a_bundle_with_several_values_becomes_several_arguments() {
    let bundle = Bundle::new(&serde_json::json!({
        "name": "files", "version": "1", "server": { "type": "node", "mcp_config": {
            "command": "node", "args": ["${__dirname}/i.js", "${user_config.folders}", "--x=${user_config.x}", "$(id) ${cmd:id}"] } },
        "user_config": { "folders": { "type": "directory", "multiple": true, "default": ["${HOME}/a", "${DESKTOP}"] },
            "x": { "default": "${user_config.x}" } },
    }))
    .unwrap();
    let args =
        |answers: &Answers| bundle.import(Path::new("/b/1"), answers).servers[0].entry.args.clone();
    let last = "$$(id) $${cmd:id}";
    let x = "--x=$${user_config.x}";
    assert_eq!(args(&Answers::new()), ["/b/1/i.js", "${HOME}/a", "${HOME}/Desktop", x, last]);
    let answers =
        Answers::from([("FOLDERS".to_owned(), vec![Answer::text("/p"), Answer::text("/q")])]);
    assert_eq!(args(&answers), ["/b/1/i.js", "/p", "/q", x, last]);
}
