//! Tests of members and lists that only some hosts have.

use std::path::Path;

use super::imported;
use crate::config::{Config, TargetConfig};
use crate::import::{Host, Import, ImportOutcome, Plan, ToolLimit, read, read_of_user, read_own};

fn names(import: &Import) -> Vec<&str> {
    import.servers.iter().map(|server| server.name.as_str()).collect()
}

fn reasons(import: &Import) -> Vec<(&str, &str)> {
    import.refused.iter().map(|one| (one.name.as_str(), one.why.as_str())).collect()
}

#[test]
fn the_variables_and_headers_of_codex_are_kept() {
    let text = "[mcp_servers.a]\ncommand = 'a'\nenv_vars = ['TOKEN', 'ZONE']\nstartup_timeout_ms = 1500\n\
        [mcp_servers.b]\nurl = 'https://x.org'\nenv_http_headers = { X-Key = 'HKEY' }\n\
        [mcp_servers.c]\ncommand = 'c'\nstartup_timeout_ms = 1500\nstartup_timeout_sec = 20\n\
        [mcp_servers.d]\ncommand = 'd'\nenv_vars = [{ name = 'TOKEN', source = 'remote' }]\n\
        [mcp_servers.e]\ncommand = 'e'\nenv_vars = 'TOKEN'\n\
        [mcp_servers.f]\nurl = 'https://x.org'\nenv_http_headers = { X-Key = 1 }\n\
        [mcp_servers.g]\ncommand = 'g'\nenv_vars = ['A', { name = 'B', source = 'local' }, { name = 'C' }]\n";
    let import = imported(Host::Codex, "config.toml", text);
    let variables = "its `env_vars` has something that is not the name of a variable";
    let headers = "its `env_http_headers` has something that is not the name of a variable";
    let remote =
        "its `env_vars` has a variable whose `source` is not `local`, which only its host can read";
    assert_eq!(reasons(&import), [("d", remote), ("e", variables), ("f", headers)]);
    let expected = ["it inherits from the program that starts mgp: TOKEN, ZONE"];
    assert_eq!(import.servers[0].notes, expected);
    assert_eq!(import.servers[1].entry.headers["X-Key"], "${HKEY}");
    let plan = Plan::new("/nowhere/at/all.toml", &[import]).unwrap();
    let servers = Config::parse("f", plan.text()).unwrap().config.servers;
    assert_eq!(servers[0].pass_env, ["TOKEN", "ZONE"]);
    assert_eq!(servers[3].pass_env, ["A", "B", "C"]);
    let start = |at: usize| servers[at].timeouts.start.unwrap().as_millis();
    assert_eq!((start(0), start(2)), (1500, 20_000));
    let TargetConfig::Url { headers, .. } = &servers[1].target else { panic!("a URL") };
    assert_eq!(headers["X-Key"], "${HKEY}");
}

#[test]
fn the_time_limits_of_each_host_are_kept() {
    let own = r#""command": "a", "timeout": "#;
    let opencode = r#""command": ["a"], "timeout": "#;
    for (host, members, start, timeout) in [
        (Host::Cline, format!("{own}90"), None, Some(90_000)),
        (Host::ClaudeCode, format!("{own}600000"), None, Some(600_000)),
        (Host::ClaudeCode, format!("{own}500"), None, None),
        (Host::CopilotCli, format!("{own}1500"), None, Some(1500)),
        (Host::Droid, format!("{own}30000"), None, Some(30_000)),
        (Host::Droid, r#""command": "a", "connectTimeout": 8000"#.into(), Some(8000), None),
        (Host::GeminiCli, format!("{own}30000"), None, Some(30_000)),
        (Host::Kiro, format!("{own}120000"), None, Some(120_000)),
        (Host::QwenCode, format!("{own}30000"), None, Some(30_000)),
        (Host::OpenCode, format!(r#"{opencode}{{"startup": 9000}}"#), Some(9000), None),
        (Host::OpenCode, format!(r#"{opencode}{{"request": 7000}}"#), None, Some(7000)),
        (Host::Continue, r#""command": "a", "connectionTimeout": 8000"#.into(), Some(8000), None),
    ] {
        let text = format!(r#"{{"{}": {{"s": {{{members}}}}}}}"#, host.servers_key());
        let import = imported(host, "f", &text);
        let server = &import.servers[0];
        let ms = |time: Option<std::time::Duration>| time.map(|time| time.as_millis());
        assert_eq!(ms(server.entry.start_timeout), start, "{host:?}: {members}");
        assert_eq!(ms(server.entry.timeout), timeout, "{host:?}: {members}");
        assert!(server.notes.is_empty(), "{host:?}: {:?}", server.notes);
    }
    // A member `command` inside the time limits must not replace the command of the server.
    let text =
        format!(r#"{{"mcp": {{"s": {{{opencode}{{"request": 7000, "command": ["b"]}}}}}}}}"#);
    let server = &imported(Host::OpenCode, "f", &text).servers[0];
    assert_eq!(server.entry.command.as_deref(), Some("a"));
    assert!(server.notes[0].starts_with("`timeout` was left out: "), "{:?}", server.notes);
    let goose = "extensions:\n  s: {cmd: s, timeout: 300}\n";
    let entry = &imported(Host::Goose, "f", goose).servers[0].entry;
    assert_eq!(entry.timeout.map(|time| time.as_secs()), Some(300));
    // A time limit whose unit is unknown or whose value is not valid must not prevent the import of the server.
    for (host, value) in [(Host::Generic, "60"), (Host::Cline, "0"), (Host::Cline, "1e300")] {
        let text = format!(r#"{{"mcpServers": {{"s": {{{own}{value}}}}}}}"#);
        let server = &imported(host, "f", &text).servers[0];
        assert_eq!(server.entry.timeout, None);
        assert!(server.notes[0].starts_with("`timeout` was left out: "), "{:?}", server.notes);
    }
}

#[test]
fn headers_of_goose_get_the_variables_of_their_entry() {
    let text = "extensions:\n  hub:\n    type: streamable_http\n    uri: https://x.org\n    headers:\n      Authorization: 'Bearer ${TOKEN}'\n      X-Zone: $ZONE\n      X-Other: '${OTHER}'\n    envs: {ZONE: eu}\n    env_keys: [TOKEN]\n";
    let import = read_of_user(Host::Goose, Path::new("config.yaml"), text, &[]).unwrap();
    let headers = &import.servers[0].entry.headers;
    assert_eq!(headers["Authorization"], "Bearer ${keyring:TOKEN}");
    assert_eq!((headers["X-Zone"].as_str(), headers["X-Other"].as_str()), ("eu", "${OTHER}"));
}

#[test]
fn a_small_file_of_goose_does_not_become_a_huge_header() {
    let twice = |number: u32| format!("${{A{number:02}}}${{A{number:02}}}");
    let envs: Vec<_> = (0..50).map(|at| format!("A{at:02}: '{}'", twice(at + 1))).collect();
    let envs = envs.join(", ");
    let header = "${A00}".repeat(100_000);
    let text = format!(
        "extensions:\n  s: {{uri: 'https://a', envs: {{{envs}}}, headers: {{H: '{header}'}}}}\n"
    );
    let import = read_of_user(Host::Goose, Path::new("config.yaml"), &text, &[]).unwrap();
    let header = &import.servers[0].entry.headers["H"];
    // The variables in the value of a variable stay plain text.
    let begin = twice(1).replace('$', "$$");
    assert!(header.starts_with(&begin) && header.len() < 700_000, "{}", header.len());
}

#[test]
fn a_server_that_needs_its_host_stays_there() {
    let entry = |host: Host, members: &str| {
        let text = format!(r#"{{"{}": {{"s": {{{members}}}}}}}"#, host.servers_key());
        imported(host, "f", &text)
    };
    for (host, members, expected) in [
        (
            Host::ClaudeCode,
            r#""url": "https://x.org", "headersHelper": "/bin/h""#,
            "only its host can run its `headersHelper`",
        ),
        (
            Host::GeminiCli,
            r#""httpUrl": "https://x.org", "authProviderType": "google_credentials""#,
            "only its host has the login that its `authProviderType` names",
        ),
        (
            Host::VsCode,
            r#""command": "a", "sandboxEnabled": true"#,
            "its host runs it in a sandbox, which it would lose here",
        ),
        (Host::Zed, r#""source": "extension""#, "an extension of its host starts it"),
    ] {
        let import = entry(host, members);
        assert_eq!(reasons(&import), [("s", expected)], "{members}");
        assert!(import.refused[0].is_started(), "its host starts it: {members}");
    }
    let own = r#""httpUrl": "https://x.org", "authProviderType": "dynamic_discovery""#;
    assert_eq!(names(&entry(Host::GeminiCli, own)), ["s"]);
    let open = entry(Host::VsCode, r#""command": "a", "sandboxEnabled": false"#);
    assert_eq!(names(&open), ["s"]);
    let import = entry(Host::ClaudeCode, r#""url": "https://x.org", "oauth": {"clientId": "c"}"#);
    let note = "`oauth` was left out: `mgp servers login` logs in";
    assert!(import.servers[0].notes[0].starts_with(note), "{:?}", import.servers[0].notes);
}

#[test]
fn the_members_of_hosts_without_a_format_of_their_own_are_read() {
    let text = r#"{"mcpServers": {
        "qwen": {"httpUrl": "https://x.org/mcp"},
        "jan": {"command": "a", "active": false},
        "cherry": {"command": "a", "isActive": false},
        "on": {"command": "a", "isActive": true, "active": true}
    }}"#;
    let import = imported(Host::Generic, "mcp.json", text);
    assert_eq!(names(&import), ["on", "qwen"]);
    let address = import.servers.iter().find_map(|server| server.entry.url.as_deref());
    assert_eq!(address, Some("https://x.org/mcp"));
    assert!(import.servers.iter().all(|server| server.notes.is_empty()));
    let off = "it is switched off there";
    assert_eq!(reasons(&import), [("cherry", off), ("jan", off)]);
}

#[test]
fn a_server_that_inherits_other_variables_is_another_server() {
    let import = |host, file, variables: &str| {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"command": "a", "env_vars": {variables}}}}}}}"#);
        imported(host, file, &text)
    };
    let imports = [
        import(Host::Generic, "f", r#"["A", "B"]"#),
        import(Host::Kiro, "g", r#"["B"]"#),
        import(Host::Junie, "h", r#"["C"]"#),
    ];
    let plan = Plan::new("/nowhere/at/all.toml", &imports).unwrap();
    let config = Config::parse("f", plan.text()).unwrap().config;
    let ids: Vec<_> = config.servers.iter().map(|server| server.id.as_str()).collect();
    assert_eq!(ids, ["a", "a-junie"]);
}

#[test]
fn a_server_imported_before_variables_were_inherited_is_not_added_again() {
    let text = "[mcp_servers.a]\ncommand = 'a'\nenv_vars = ['TOKEN', 'ZONE']\n";
    let import = imported(Host::Codex, "/h/config.toml", text);
    let line = |comment: &str| {
        let before =
            format!("{comment}[[servers]]\nid = 'a'\ncommand = 'a'\npass_env = ['ZONE']\n");
        let plan = Plan::from_text("f", &before, std::slice::from_ref(&import)).unwrap();
        plan.lines()[0].clone()
    };
    let again = line("# From /h/config.toml\n");
    assert_eq!(again.outcome, ImportOutcome::Present("a".to_owned()));
    let expected = "the server there does not inherit TOKEN; add `pass_env`";
    assert!(again.notes.iter().any(|note| note == expected), "{again}");
    assert_eq!(line("").outcome, ImportOutcome::Added("a-codex".to_owned()));
}

#[test]
fn the_limits_of_tools_of_each_host_are_kept() {
    let only = |tools: &[&str]| ToolLimit::Only(tools.iter().map(|&tool| tool.into()).collect());
    let except =
        |tools: &[&str]| ToolLimit::Except(tools.iter().map(|&tool| tool.into()).collect());
    for (host, members, expected) in [
        (Host::CopilotCli, r#""tools": ["a", "b"]"#, only(&["a", "b"])),
        (Host::CopilotCli, r#""tools": ["*"]"#, ToolLimit::default()),
        (Host::GeminiCli, r#""includeTools": ["a(x)", "b"], "excludeTools": ["b"]"#, only(&["a"])),
        (Host::GeminiCli, r#""includeTools": null, "excludeTools": ["b"]"#, except(&["b"])),
        (Host::GeminiCli, r#""excludeTools": []"#, ToolLimit::default()),
        (Host::Windsurf, r#""disabledTools": ["b"]"#, except(&["b"])),
        (Host::Kiro, r#""disabledTools": []"#, ToolLimit::default()),
        (Host::Droid, r#""enabledTools": ["a", "b"], "disabledTools": ["b"]"#, only(&["a"])),
        (Host::Droid, r#""enabledTools": [], "disabledTools": ["s___b"]"#, except(&["b"])),
        (Host::Droid, r#""enabledTools": ["s___a", "t___b"]"#, only(&["a", "t___b"])),
        (Host::Generic, r#""enabled_tools": ["a"]"#, only(&["a"])),
        (Host::Generic, r#""disabled_tools": ["a"]"#, except(&["a"])),
        (Host::Generic, r#""tools": {"a": {"approval_mode": "approve"}}"#, ToolLimit::default()),
    ] {
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "s", {members}}}}}}}"#);
        let import = imported(host, "f", &text);
        let server = &import.servers[0];
        assert_eq!(server.entry.tools, expected, "{members}");
        assert_eq!(server.notes.is_empty(), expected.is_all(), "{members}: {:?}", server.notes);
        // A grant of single tools includes neither resources nor prompts.
        let of_others = "its resources and prompts are not granted";
        let is_noted = server.notes.iter().any(|note| note.ends_with(of_others));
        assert_eq!(is_noted, matches!(expected, ToolLimit::Only(_)), "{members}");
        let plan = Plan::new("/nowhere/at/all.toml", &[import]).unwrap();
        assert_eq!(plan.lines()[0].tools, expected, "{members}");
    }
    for (tools, expected) in
        [("[]", ToolLimit::default()), ("null", ToolLimit::default()), ("[a]", only(&["a"]))]
    {
        let text = format!("extensions:\n  s: {{cmd: s, available_tools: {tools}}}\n");
        assert_eq!(imported(Host::Goose, "f", &text).servers[0].entry.tools, expected, "{tools}");
    }
}

#[test]
fn a_server_with_an_unreadable_list_of_tools_stays_in_its_host() {
    let text = r#"{"mcpServers": {
        "all": {"command": "a", "excludeTools": ["*"], "includeTools": ["a"]},
        "every": {"command": "a", "disabledTools": ["b", "*"]},
        "none": {"command": "a", "tools": []},
        "pattern": {"command": "a", "disabled_tools": ["delete_*"]},
        "letter": {"command": "a", "excludeTools": ["a?"]},
        "number": {"command": "a", "tools": [1]},
        "word": {"command": "a", "excludeTools": "delete"},
        "control": {"command": "a", "tools": ["a\u0000"]}}}"#;
    let import = imported(Host::CopilotCli, "f", text);
    assert_eq!(
        reasons(&import),
        [
            ("all", "it is switched off there"),
            ("control", "`tools` has something that is not the name of a tool"),
            ("every", "it is switched off there"),
            ("letter", "`excludeTools` has a pattern, which only its host can apply"),
            ("none", "it is switched off there"),
            ("number", "`tools` has something that is not the name of a tool"),
            ("pattern", "`disabled_tools` has a pattern, which only its host can apply"),
            ("word", "`excludeTools` is not a list"),
        ]
    );
}

#[test]
fn servers_that_gemini_does_not_allow_are_left_out() {
    let import = |lists: &str| {
        let servers = r#"{"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}"#;
        imported(Host::GeminiCli, "f", &format!(r#"{{"mcp": {lists}, "mcpServers": {servers}}}"#))
    };
    let off = "it is switched off there";
    let excluded = import(r#"{"excluded": ["b"], "allowed": []}"#);
    assert_eq!((names(&excluded), reasons(&excluded)), (vec!["a", "c"], vec![("b", off)]));
    let allowed = import(r#"{"excluded": ["b"], "allowed": ["b", "c"]}"#);
    assert_eq!(names(&allowed), ["c"]);
    assert_eq!(reasons(&allowed), [("b", off), ("a", off)]);
    let text = r#"{"mcp": {"allowed": ["b"]}, "mcpServers": {"a": {"command": "a"}}}"#;
    assert_eq!(names(&imported(Host::Cursor, "f", text)), ["a"]);
}

#[test]
fn a_server_with_a_file_of_opencode_stays_there() {
    let text = r#"{"mcp": {"a": {"type": "remote", "url": "https://x.org", "headers": {"A": "Bearer {file:~/.key}"}},
        "b": {"type": "local", "command": ["b", "{env:B}"]}}}"#;
    let import = imported(Host::OpenCode, "f", text);
    assert_eq!(import.servers[0].entry.args, ["${B}"]);
    assert_eq!(reasons(&import), [("a", "only its host can replace `{file:~/.key}`")]);
}

#[test]
fn a_variable_that_cannot_be_replaced_is_shown_as_its_host_has_it() {
    let text = r#"{"mcpServers": {"a": {"command": "a", "args": ["${file:/x}"]}}}"#;
    for host in [Host::Windsurf, Host::ClaudeCode] {
        let import = imported(host, "f", text);
        assert_eq!(reasons(&import), [("a", "only its host can replace `${file:/x}`")]);
    }
}

#[test]
fn either_file_of_opencode_belongs_to_its_project() {
    let text = r#"{"mcp": {"a": {"type": "local", "command": ["a"]}}}"#;
    let cwd = |file: &str| {
        let import = read(Host::OpenCode, Path::new(file), text).unwrap();
        import.servers[0].entry.cwd.clone()
    };
    for file in ["/p/opencode.json", "/p/opencode.jsonc"] {
        assert_eq!(cwd(file).as_deref(), Some("/p"), "{file}");
    }
    assert_eq!(cwd("/h/.config/opencode/opencode.jsonc"), None);
}

#[test]
fn the_list_of_servers_in_the_settings_of_continue_is_read_without_its_secrets() {
    let text = r#"
name: mine
mcpServers:
  - name: files
    command: npx
    args: ["-y", "files", "$5", "${A}"]
    env: { KEY: "${{ secrets.KEY }}", PLAIN: a }
    cwd: /srv
  - name: web
    type: streamable-http
    url: https://x.org/mcp
    requestOptions: { headers: { Authorization: "Bearer ${{secrets.WEB}}" } }
  - { name: files, command: other }
  - { name: asks, command: a, args: ["${{ inputs.place }}"] }
  - uses: acme/hub-mcp
"#;
    let file = Path::new("/h/.continue/config.yaml");
    let import = read_of_user(Host::Continue, file, text, &[]).unwrap();
    assert_eq!(names(&import), ["files", "files 3", "web"]);
    let (files, web) = (&import.servers[0], &import.servers[2]);
    assert_eq!(files.entry.args, ["-y", "files", "$$5", "$${A}"]);
    assert_eq!(files.entry.env["KEY"], "${keyring:KEY}");
    assert_eq!(files.notes, ["`KEY` is a secret there: run `mgp secrets set KEY`"]);
    assert_eq!(web.entry.headers["Authorization"], "Bearer ${keyring:WEB}");
    assert_eq!(web.notes, ["`WEB` is a secret there: run `mgp secrets set WEB`"]);
    let only_there = "only its host can replace `${{ inputs.place }}`";
    let hub = "its `uses` names settings that only its host can load";
    assert_eq!(reasons(&import), [("acme/hub-mcp", hub), ("asks", only_there)]);
    // Only a file of the user may name a stored secret.
    let import = read(Host::Continue, file, text).unwrap();
    assert_eq!(names(&import), ["files 3"]);
    assert!(reasons(&import).contains(&("web", "its host stores the secret `WEB`")));
    let text = "mcpServers:\n  - { name: a 3, command: a }\n  - { name: a, command: b }\n  - { name: a, command: c }\n";
    assert_eq!(names(&read(Host::Continue, file, text).unwrap()), ["a", "a 3", "a 3 3"]);
}

#[test]
fn further_files_of_continue_have_a_list_or_a_single_server() {
    let list =
        "name: tools\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: own\n    command: own\n";
    for end in ["yaml", "yml"] {
        let file = format!("/p/.continue/mcpServers/tools.{end}");
        let import = read(Host::Continue, Path::new(&file), list).unwrap();
        assert_eq!(names(&import), ["own"]);
        assert_eq!(import.servers[0].entry.cwd.as_deref(), Some("/p"), "{file}");
    }
    let file = Path::new("/p/.continue/mcpServers/single.json");
    for single in [r#"{"command": "own"}"#, r#"{"url": "https://x.org/mcp"}"#] {
        assert_eq!(names(&read(Host::Continue, file, single).unwrap()), ["single"]);
    }
    assert!(read(Host::Continue, file, r#"{"name": "own"}"#).is_err());
}

#[test]
fn what_vs_code_replaces_is_replaced_here() {
    let text = r#"{"servers": {"a": {
        "command": "~/bin/a", "args": ["~", "~/projects", "~other", "a~/b"], "cwd": "~/work",
        "env": {"NODE_OPTIONS": null, "A": "~/x"}}}}"#;
    let import = imported(Host::VsCode, "mcp.json", text);
    let server = &import.servers[0];
    assert_eq!(server.entry.command.as_deref(), Some("${HOME}/bin/a"));
    assert_eq!(server.entry.args, ["${HOME}", "${HOME}/projects", "~other", "a~/b"]);
    assert_eq!(server.entry.cwd.as_deref(), Some("~/work"));
    assert_eq!(server.entry.env.keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(server.entry.env["A"], "~/x");
    let note = "`env.NODE_OPTIONS` was left out: only its host can remove a variable";
    assert_eq!(server.notes, [note]);
    let text = r#"{"servers": {"a": {"url": "https://x.org", "headers": {"A": null}}}}"#;
    let import = imported(Host::VsCode, "mcp.json", text);
    assert_eq!(reasons(&import), [("a", "`headers` has something that is not a text")]);
}

#[test]
fn variables_of_copilot_need_no_braces_and_can_be_those_of_the_entry() {
    let text = r#"{"mcpServers": {
        "a": {"command": "$BIN/a", "args": ["exec a $i", "--key=${KEY}", "${T:-${U}}", "$5 $$KEY"],
            "cwd": "$ROOT", "env": {"KEY": "k$1", "T": "$GH_TOKEN", "U": "${A:-b} $5 $$"}},
        "b": {"url": "https://x.org/$ZONE", "headers": {"X-Key": "$KEY"}}}}"#;
    let import = imported(Host::CopilotCli, "mcp-config.json", text);
    let [a, b] = [0, 1].map(|at| &import.servers[at].entry);
    assert_eq!((a.command.as_deref(), a.cwd.as_deref()), (Some("${BIN}/a"), Some("${ROOT}")));
    assert_eq!(a.args, ["exec a ${i:-$$i}", "--key=k$$1", "${GH_TOKEN}", "$$5 $$k$$1"]);
    assert_eq!((&*a.env["T"], &*a.env["U"]), ("${GH_TOKEN}", "${A:-b} $$5 $$$$"));
    assert_eq!((b.url.as_deref(), &*b.headers["X-Key"]), (Some("https://x.org/${ZONE}"), "${KEY}"));
}

#[test]
fn a_variable_that_only_the_server_itself_has_stays_in_its_arguments() {
    use Host::{ClaudeCode, Cline, Cursor, GeminiCli, Kiro, QwenCode, Windsurf};
    let text = r#"{"mcpServers": {"a": {"command": "npx",
        "args": ["mcp-remote", "--header", "Authorization:${AUTH}", "${HOME}", "${ZONE}", "${N:-5}"],
        "env": {"AUTH": "Bearer MY_AUTH", "ZONE": "${ZONE}-1", "N": 1, "ROOT": "${N}/r"}},
        "b": {"url": "https://x.org", "headers": {"X-Key": "${KEY}"}, "env": {"KEY": "x"}}}}"#;
    for host in [ClaudeCode, Cline, Cursor, GeminiCli, Kiro, QwenCode, Windsurf] {
        let import = imported(host, "f", text);
        let [entry, remote] = [0, 1].map(|at| &import.servers[at].entry);
        let kept = "Authorization:${AUTH:-$${AUTH}}";
        assert_eq!(entry.args[2..], [kept, "${HOME}", "${ZONE}", "${N:-5}"], "{host:?}");
        assert_eq!(entry.env["ROOT"], "${N:-$${N}}/r", "{host:?}");
        assert_eq!(remote.headers["X-Key"], "${KEY}", "{host:?}");
    }
    let own = read_own(Path::new("f"), text).unwrap();
    assert_eq!(own.servers[0].entry.args[2], "Authorization:${AUTH}");
}

#[test]
fn droid_and_goose_replace_variables_in_some_members_only() {
    let text = r#"{"mcpServers": {
        "a": {"command": "sh", "args": ["-c", "exec a ${PORT}"], "env": {"A": "${A:-b}"}},
        "b": {"url": "https://x.org/${A}", "headers": {"X-Key": "${KEY}"}}}}"#;
    let import = imported(Host::Droid, "mcp.json", text);
    let [a, b] = [0, 1].map(|at| &import.servers[at].entry);
    assert_eq!((&*a.args[1], &*a.env["A"]), ("exec a $${PORT}", "${A:-b}"));
    assert_eq!((b.url.as_deref(), &*b.headers["X-Key"]), (Some("https://x.org/$${A}"), "${KEY}"));
    let text = "extensions:\n  a: {cmd: sh, args: ['-c', 'exec a ${A}'], cwd: '/${A}', envs: {A: '${B}'}}\n  b: {uri: 'https://x.org/$ZONE', envs: {ZONE: eu}}\n";
    let import = imported(Host::Goose, "config.yaml", text);
    let [a, b] = [0, 1].map(|at| &import.servers[at].entry);
    assert_eq!((&*a.args[1], &*a.env["A"]), ("exec a $${A}", "$${B}"));
    assert_eq!(a.cwd.as_deref(), Some("/$${A}"));
    assert_eq!(b.url.as_deref(), Some("https://x.org/eu"));
}

#[test]
fn a_member_without_a_value_counts_as_absent() {
    let text = r#"{"mcpServers": {
        "a": {"command": "a", "args": null, "cwd": null, "env": null, "url": null, "type": null},
        "b": {"command": null, "url": "https://x.org", "headers": null}}}"#;
    let import = imported(Host::Cursor, "mcp.json", text);
    assert_eq!((names(&import), reasons(&import)), (vec!["a", "b"], vec![]));
    assert_eq!(import.servers[0].notes.len() + import.servers[1].notes.len(), 0);
}
