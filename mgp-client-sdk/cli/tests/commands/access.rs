//! Tests of `mgp access`, `mgp permissions`, `mgp keys` and `mgp audit` without a running kernel.

use serde_json::json;

use crate::program::program;
use crate::world::Home;

/// The note of `mgp keys add` about each new key.
const STORE_NOW: &str = "mgp: store the key now, because it is not shown again\n";

#[test]
fn access_is_granted_queried_and_revoked() {
    let home = Home::with_servers(&["files", "clock"]);
    let ask = |tool: &str| {
        home.json("access-query", &["access", "query", "ada", "files", tool])["permission"].clone()
    };
    assert_eq!(ask("read"), "deny");
    home.succeed(&["access", "grant", "ada", "files", "--because", "she works there"]);
    home.succeed(&["access", "grant", "ada", "files", "wipe", "--deny"]);
    home.succeed(&["access", "grant", "*", "clock", "--expires", "8h"]);
    assert_eq!((ask("read"), ask("wipe")), (json!("allow"), json!("deny")));
    assert!(home.succeed(&["access", "query", "ada", "files"]).contains("she works there"));
    let printed = home.succeed(&["access", "query", "ada", "files", "wipe"]);
    assert!(printed.starts_with("deny ada for wipe of files, by tool grant"), "{printed}");
    let printed = home.succeed(&["access", "query", "*", "files", "read"]);
    assert!(printed.contains("`mgp access grant '*' files read`"), "{printed}");

    home.silent(&["access", "revoke", "ada", "files", "wipe"]);
    assert_eq!(ask("wipe"), "allow");
    home.silent(&["access", "revoke", "ada", "files"]);
    home.fail(1, &["access", "revoke", "ada", "files"], "there is no entry to revoke");
    assert_eq!(ask("read"), "deny");
}

#[test]
fn connect_lists_the_servers_that_the_named_configuration_closes() {
    let home = Home::new();
    let server = |id: &str, policy: &str| {
        format!("[[servers]]\nid = '{id}'\ncommand = 'x'\nmgp.default_policy = '{policy}'\n")
    };
    let config = home.write("c.toml", &(server("open", "opt-out") + &server("closed", "opt-in")));
    let config = ["--config", config.to_str().unwrap(), "--no-grant"];
    let connect = ["connect", "cursor", "--interactive", "no"];
    let done = home.json("connect", &[&connect[..], &config].concat());
    assert_eq!(done["not_granted"], json!(["closed"]), "{done}");
}

#[test]
fn the_matrix_shows_all_agents_and_servers() {
    let home = Home::new();
    assert!(home.succeed(&["access", "matrix"]).contains("no servers"));
    home.configure(
        "[[servers]]\nid = 'a'\ncommand = 'a'\n[[servers]]\nid = 'b'\ncommand = 'b'\nmgp.default_policy = 'opt-out'\n[agents.ada]\n",
    );
    home.succeed(&["access", "grant", "ada", "a"]);
    home.succeed(&["access", "grant", "ada", "b", "t"]);
    // The matrix also shows agents that have access entries but no entry in the configuration.
    home.succeed(&["access", "grant", "eve", "a"]);
    let table = home.json("access-matrix", &["access", "matrix", "--agent", "bob"]);
    let rows = table["agents"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["agent"].as_str().unwrap()).collect();
    assert_eq!(names, ["*", "ada", "bob", "default", "eve"]);
    let expected = json!([
        { "server": "a", "whole": "allow", "by_default": "deny", "allowed": [], "denied": [] },
        { "server": "b", "whole": "default", "by_default": "allow", "allowed": ["t"], "denied": [] },
    ]);
    assert_eq!(rows[1]["access"], expected);
    assert_eq!(rows[4]["access"][0]["whole"], "allow");
    let other = home.json("access-matrix", &["access", "matrix", "--tenant", "acme"]);
    assert_eq!(other["agents"], json!([]), "these are entries of `local`: {other}");
    let printed = home.succeed(&["access", "matrix"]);
    let words = |at: usize| printed.lines().nth(at).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(0), ["SERVER", "*", "ada", "default", "eve"], "{printed}");
    assert_eq!(words(1), ["a", "-", "yes", "-", "yes"], "{printed}");
    assert_eq!(words(2), ["b", "yes*", "yes*", "+1", "yes*", "yes*"], "{printed}");
    let asked = home.succeed(&["access", "query", "bob", "b"]);
    assert!(asked.starts_with("allow: no entry for bob and b"), "{asked}");
}

#[test]
fn the_configuration_decides_about_access_without_a_kernel_too() {
    let home = Home::new();
    let config = "[[servers]]\nid = 'a'\ncommand = 'a'\n[[servers]]\nid = 'b'\ncommand = 'b'\nmgp.default_policy = 'opt-out'\n[agents.cursor]\ngroups = ['dev']\n";
    home.configure(config);
    home.succeed(&["access", "grant", "group:dev", "a"]);
    let ask = |agent: &str, server: &str| {
        let query = ["access", "query", agent, server, "t"];
        home.json("access-query", &query)["permission"].clone()
    };
    assert_eq!((ask("cursor", "a"), ask("ada", "a")), (json!("allow"), json!("deny")));
    assert_eq!(ask("ada", "b"), "allow");
    let table = home.succeed(&["access", "matrix"]);
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["a", "-", "yes", "-", "yes"], "{table}");
    // `mgp connect` names the servers that the agent may not use; it does not name `b`, which is open to every agent.
    home.write(".cursor/mcp.json", "{}");
    home.silent(&["access", "revoke", "group:dev", "a"]);
    let connected = home.json("connect", &["connect", "cursor", "--interactive", "no"]);
    assert_eq!(connected["not_granted"], json!(["a"]), "{connected}");
}

#[cfg(unix)]
#[test]
fn the_default_policy_is_that_of_the_running_kernel() {
    let clock = program("echo");
    let kernel = crate::kernel::Kernel::new(&format!(
        "[[servers]]\nid = 'clock'\ncommand = '{clock}'\nmgp.default_policy = 'opt-out'\n"
    ));
    let asked = kernel.home.succeed(&["access", "query", "cursor", "clock"]);
    assert!(asked.starts_with("allow: no entry for cursor and clock"), "{asked}");
    let matrix = kernel.home.json("access-matrix", &["access", "matrix"]);
    assert_eq!(matrix["agents"][0]["access"][0]["by_default"], "allow", "{matrix}");
}

#[test]
fn a_server_of_another_file_keeps_its_decisions() {
    let home = Home::with_servers(&["files"]);
    let other = home.write("other.toml", "[[servers]]\nid = 'files'\ncommand = 'other'\n");
    home.succeed(&["access", "grant", "ada", "files", "wipe", "--deny"]);
    let removed = home.run(&["servers", "rm", "files", "--config", other.to_str().unwrap()]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.err.contains("kept, since there is another server `files`"), "{removed:?}");
    assert!(home.succeed(&["access", "query", "ada", "files"]).contains("wipe"));
    let removed = home.run(&["servers", "rm", "files"]);
    assert!(removed.err.contains("removed with it"), "{removed:?}");
}

#[test]
fn the_decisions_about_a_server_deleted_by_hand_are_removed_without_a_kernel() {
    let home = Home::with_servers(&["files"]);
    home.succeed(&["access", "grant", "ada", "files"]);
    home.configure("");
    let removed = home.run(&["servers", "rm", "files"]);
    assert!(removed.code == Some(0) && removed.err.contains("removed with it"), "{removed:?}");
    home.fail(1, &["servers", "rm", "files"], "there is no server `files`");
}

#[test]
fn a_name_that_nothing_has_is_refused() {
    let home = Home::new();
    home.succeed(&["servers", "add", "files", "--agent", "ada", "--", &program("echo")]);
    let fail = |arguments: &[&str], why: &str| home.fail(1, arguments, why);
    home.fail(
        2,
        &["access", "grant", "files", "ada"],
        "`files` is a server; name the agent before it: `ada files`",
    );
    let server = "there is no server `fiels`; did you mean `files`? add --force";
    fail(&["access", "grant", "ada", "fiels"], server);
    fail(&["permissions", "approve", "fiels", "filesystem.read"], server);
    fail(&["tools", "pin", "fiels.echo", "--agent", "ada"], server);
    let tool = "there is no `files` tool `ehco`; did you mean `echo`?";
    fail(&["access", "grant", "ada", "files", "ehco"], tool);
    fail(&["permissions", "approve", "files", "filesystem.read", "--tool", "ehco"], tool);
    fail(&["tools", "pin", "files.ehco", "--agent", "ada"], tool);
    fail(&["keys", "add", "ada", "--permission", "tools.call:files.ehco"], tool);
    fail(
        &["permissions", "approve", "files", "filesystem.wrte"],
        "there is no permission `filesystem.wrte`; did you mean `filesystem.write`?",
    );
    let kind = "`TOOL_EXECUTE` is not a type of event; did you mean `TOOL_EXECUTED`?";
    home.fail(2, &["audit", "query", "--type", "TOOL_EXECUTE"], kind);
    home.fail(
        2,
        &["audit", "query", "--type", "NOSUCH"],
        "`NOSUCH` is not a type of event. Known: ",
    );
    home.fail(2, &["audit", "query", "--limit", "0"], "--limit");
    home.fail(2, &["tools", "search", "read", "--most", "0"], "--most");
    home.fail(2, &["tools", "search", " "], "`mgp tools ls`");
    home.fail(
        1,
        &["permissions", "ls", "fiels"],
        "there is no server `fiels`; did you mean `files`?",
    );
    home.fail(2, &["approvals", "approve", "--because", "x"], "approve [OPTIONS] <ID>");
    home.fail(1, &["lock", "--check"], "write it with `mgp lock`");
    let before = home.json("access-query", &["access", "query", "ada", "files"]);
    assert_eq!(before["entries"].as_array().unwrap().len(), 1, "nothing was granted: {before}");

    // With `--force`, these commands accept names that do not exist yet. `mgp access grant` only prints a note about an
    // unknown agent.
    home.silent(&["access", "grant", "ada", "later", "--force"]);
    home.silent(&["permissions", "approve", "files", "mistyped", "--force"]);
    let asked = home.run(&["access", "query", "ada", "fiels"]);
    assert_eq!(asked.code, Some(1));
    assert_eq!(asked.err, "mgp: there is no server `fiels`; did you mean `files`?\n");
    home.fail(1, &["servers", "rm", "fiels"], "there is no server `fiels` in ");
    home.fail(1, &["servers", "disable", "fiels"], "; did you mean `files`?");
    home.fail(1, &["doctor", "fiels"], "there is no server `fiels`; did you mean `files`?");
    home.fail(1, &["servers", "login", "fiels"], "did you mean `files`?");
    home.write("work/mgp.toml", "[[servers]]\nid = 'file'\ncommand = 'file'\n");
    for command in ["enable", "disable", "rm"] {
        home.fail(1, &["servers", command, "file"], "work/mgp.toml; add `--config ");
    }
    let disabled = home.run(&["servers", "disable", "file", "--config", "mgp.toml"]);
    assert_eq!(disabled.out, "file: disabled\n", "{disabled:?}");
    assert!(disabled.err.contains("is the file of a project, run `mgp trust`"), "{disabled:?}");
    // In the command to paste, a path with a blank is quoted, so that the shell reads it as one word.
    let named = home.write("my work/other.toml", "[[servers]]\nid = 'other'\ncommand = 'x'\n");
    let environment = [("MGP_CONFIG_PATH", named.to_str().unwrap())];
    let own = home.own();
    let disable = ["servers", "disable", "other", "--config", own.to_str().unwrap()];
    let refused = home.run_with(&disable, &environment);
    assert!(refused.err.contains("my work/other.toml'`"), "{refused:?}");
}

#[test]
fn the_agent_of_a_new_key_needs_no_entry_for_a_server_that_is_open_to_all() {
    let home = Home::with_servers(&["files"]);
    let added = home.run(&["keys", "add", "night shift"]);
    assert!(added.err.contains("run `mgp access grant 'night shift' SERVER`"), "{added:?}");
    let open = "[[servers]]\nid = 'open'\ncommand = 'x'\nmgp = { default_policy = 'opt-out' }\n";
    home.configure(open);
    assert_eq!(home.run(&["keys", "add", "nightly"]).err, STORE_NOW);
}

#[test]
fn an_agent_that_is_nearly_a_known_one_is_new_only_on_request() {
    let home = Home::new();
    let echo = program("echo");
    home.succeed(&["servers", "add", "files", "--agent", "ada", "--", &echo]);
    let added = home.run(&["keys", "add", "nightly-build"]);
    let remedy = "nightly-build has no access yet; run `mgp access grant nightly-build SERVER`";
    assert!(added.err.contains(remedy), "{added:?}");
    assert_eq!(home.run(&["keys", "add", "ada"]).err, STORE_NOW);
    let config = || std::fs::read_to_string(home.own()).unwrap();
    let before = config();
    for (typed, meant) in
        [("claude-cod", "claude-code"), ("nightly-bulid", "nightly-build"), ("aad", "ada")]
    {
        let refused =
            format!("no agent `{typed}` is known yet; did you mean `{meant}`? add --new-agent");
        home.fail(1, &["access", "grant", typed, "files"], &refused);
        home.fail(1, &["tools", "pin", "files.echo", "--agent", typed], &refused);
        home.fail(1, &["servers", "add", "more", "--agent", typed, "--", &echo], &refused);
    }
    assert_eq!(config(), before);
    let matrix = home.json("access-matrix", &["access", "matrix"]).to_string();
    assert!(!matrix.contains("claude-cod"), "{matrix}");
    // If a new name resembles no known agent, the command accepts it as an agent that has not connected yet.
    let granted = home.run(&["access", "grant", "reviewer-7", "files"]);
    assert_eq!(
        (granted.code, &*granted.err),
        (Some(0), "mgp: no agent `reviewer-7` is known yet\n")
    );
    home.silent(&["access", "grant", "claude-cod", "files", "--new-agent"]);
    home.silent(&["tools", "pin", "files.echo", "--agent", "claude-cod"]);
    // The command also accepts a name that differs from a known agent's name only in its number, because it is likely
    // another agent.
    let granted = home.run(&["access", "grant", "reviewer-8", "files"]);
    assert!(granted.code == Some(0) && granted.err.contains("did you mean `reviewer-7`?"));
}

#[test]
fn the_name_that_lists_show_is_understood_everywhere() {
    let home = Home::new();
    home.succeed(&["servers", "add", "files", "--agent", "ada", "--", &program("echo")]);
    home.silent(&["access", "grant", "ada", "files.echo", "--deny"]);
    let asked = home.json("access-query", &["access", "query", "ada", "files", "files.echo"]);
    assert_eq!((&asked["tool"], &asked["permission"]), (&json!("echo"), &json!("deny")));
    let found = |more: &[&str]| -> usize {
        let query = [&["audit", "query", "--type", "access_granted"], more].concat();
        home.json("audit-query", &query).as_array().unwrap().len()
    };
    assert_eq!((found(&[]), found(&["--tool", "files.echo"])), (2, 1));
    let approve = ["permissions", "approve", "files", "filesystem.read", "--tool", "files.echo"];
    home.silent(&approve);
    let decided = home.json("permissions-ls", &["permissions", "ls", "files"]);
    assert!(decided.to_string().contains(r#""tools":["echo"]"#), "{decided}");
    home.silent(&["access", "revoke", "ada", "files.echo"]);
}

#[test]
fn a_relative_path_of_a_permission_is_refused_with_the_absolute_one() {
    let home = Home::with_servers(&["files"]);
    let with_path = |path| ["permissions", "approve", "files", "filesystem.read", "--path", path];
    let absolute = home.work().join("notes");
    let remedy = format!("`notes` is relative; write `{}`", absolute.display());
    home.fail(2, &with_path("notes"), &remedy);
    // Only an approval can be limited, so the other commands have no option `--path`.
    for verb in ["deny", "revoke", "reset"] {
        let limited = ["permissions", verb, "files", "filesystem.read", "--path", "/srv/notes"];
        home.fail(2, &limited, "--path");
        assert!(!home.succeed(&["permissions", verb, "--help"]).contains("--path"), "{verb}");
    }
    assert!(home.succeed(&["permissions", "ls"]).contains("no decisions yet"));
    home.silent(&[&with_path("notes")[..], &["--force"]].concat());
    for path in ["/srv/notes", "~/notes"] {
        home.silent(&with_path(path));
    }
}

#[test]
fn permissions_are_decided_and_revoked() {
    let home = Home::with_servers(&["files"]);
    assert!(home.succeed(&["permissions", "ls"]).contains("no decisions yet"));
    home.succeed(&[
        "permissions",
        "approve",
        "files",
        "filesystem.read",
        "--tool",
        "read",
        "--because",
        "it reads",
    ]);
    home.silent(&["permissions", "deny", "files", "network.outbound"]);
    let granted = ["audit", "query", "--type", "permission_granted"];
    let granted = home.json("audit-query", &granted);
    assert_eq!(granted[0]["details"]["confirm"], "usual", "its calls are confirmed as before");
    let all = home.json("permissions-ls", &["permissions", "ls", "files"]);
    let decided = |name: &str| {
        all.as_array().unwrap().iter().find(|one| one["permission"] == name).unwrap().clone()
    };
    assert_eq!(decided("filesystem.read")["tools"], json!(["read"]));
    assert_eq!(decided("network.outbound")["decision"], "denied");
    home.fail(1, &["permissions", "ls", "other"], "there is no server `other`");
    home.silent(&["permissions", "revoke", "files", "filesystem.read"]);
    home.fail(1, &["permissions", "revoke", "files", "camera"], "there is no decision to revoke");
    let words = |name: &str| {
        let all = home.json("permissions-ls", &["permissions", "ls", "files"]);
        let one = all.as_array().unwrap().iter().find(|one| one["permission"] == name).cloned();
        one.map(|one| one["decision"].as_str().unwrap().to_owned())
    };
    assert_eq!(words("filesystem.read").as_deref(), Some("revoked"));
    for name in ["filesystem.read", "network.outbound"] {
        home.silent(&["permissions", "reset", "files", name, "--because", "a mistake"]);
        assert_eq!(words(name), None);
        home.fail(1, &["permissions", "reset", "files", name], "there is no decision to reset");
    }
}

#[test]
fn doctor_names_what_is_stored_for_a_server_whose_entry_was_deleted_by_hand() {
    let home = Home::new();
    for id in ["kept", "gone"] {
        home.succeed(&["servers", "add", id, "--", &program("echo")]);
    }
    home.write("work/mgp.toml", "[[servers]]\nid = 'project'\ncommand = 'project'\n");
    home.succeed(&["trust", "--yes"]);
    home.succeed(&["access", "grant", "ada", "project"]);
    let text = std::fs::read_to_string(home.own()).unwrap();
    let (before, entry) = text.split_at(text.rfind("[[servers]]").unwrap());
    assert!(entry.contains("gone") && !entry.contains("kept"), "{entry}");
    home.configure(before);
    // The project of the server `project` is in another folder.
    let doctor = || {
        let mut command = home.command(&["doctor", "--no-start"]);
        let output = command.current_dir(home.path(".config")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let report = doctor();
    let expected = "the configuration has no server `gone`, but stored for it are the access of \
                    default; the recorded definitions of 1 tool; fix: if no other configuration \
                    has it, run `mgp servers rm gone`";
    assert!(report.contains(expected), "{report}");
    assert!(!report.contains("`kept`") && !report.contains("`project`"), "{report}");
    home.succeed(&["servers", "rm", "gone"]);
    assert!(!doctor().contains("`gone`"));
}

#[test]
fn a_key_is_shown_once_and_its_revocation_is_recorded() {
    let home = Home::new();
    assert!(home.succeed(&["keys", "ls"]).contains("no keys"));
    let made = home.json(
        "keys-add",
        &["keys", "add", "nightly", "--expires", "90d", "--permission", "tools.call:x"],
    );
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with(&format!("mgp_{id}_")));
    let all = home.json("keys-ls", &["keys", "ls"]);
    assert_eq!(
        (&all[0]["agent"], &all[0]["status"], &all[0]["admin"]),
        (&json!("nightly"), &json!("valid"), &json!(false))
    );
    let secret = key.rsplit('_').next().unwrap();
    assert!(!all.to_string().contains(secret));
    home.silent(&["keys", "revoke", id]);
    assert_eq!(home.json("keys-ls", &["keys", "ls"])[0]["status"], "revoked");
    let again = home.run(&["keys", "revoke", id]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.err.contains(&format!("the key `{id}` was already revoked")), "{again:?}");
    home.fail(1, &["keys", "revoke", "0000000000000000"], "see `mgp keys ls`");
    let events = home.json("audit-query", &["audit", "query"]);
    let kinds: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..2], ["dev.cloto.key_added", "dev.cloto.key_revoked"]);
    let table = home.succeed(&["audit", "query", "--type", "key_added"]);
    assert!(table.contains(&format!("nightly {id}")), "{table}");
    let folder = home.path(".local/state/mgp");
    assert!(!std::fs::read_to_string(folder.join("keys.json")).unwrap().contains(secret));
}

#[test]
fn events_are_queried_shown_and_exported() {
    let home = Home::with_servers(&["a", "b", "c"]);
    assert!(home.succeed(&["audit", "tail"]).contains("no matching events"));
    for server in ["a", "b", "c"] {
        home.succeed(&["access", "grant", "ada", server]);
    }
    home.silent(&["access", "revoke", "ada", "a"]);
    let servers = |arguments: &[&str]| -> Vec<String> {
        let events = home.json("audit-query", arguments);
        let name =
            |event: &serde_json::Value| event["target"]["server_id"].as_str().unwrap().to_owned();
        events.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(servers(&["audit", "query", "--type", "ACCESS_GRANTED"]), ["a", "b", "c"]);
    assert_eq!(servers(&["audit", "query", "--limit", "2"]), ["c", "a"]);
    assert_eq!(servers(&["audit", "query", "--server", "b", "--since", "1h"]), ["b"]);
    assert_eq!(servers(&["audit", "tail", "-n", "1"]), ["a"]);
    assert!(servers(&["audit", "query", "--until", "1h"]).is_empty());
    let lines = home.succeed(&["audit", "export"]);
    assert_eq!(lines.lines().count(), 4);
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert_eq!(home.json("audit-verify", &["audit", "verify"])["records"], 4);
    assert!(home.succeed(&["audit", "verify"]).starts_with("OK 4 records"));
    home.fail(2, &["audit", "query", "--since", "yesterday"], "2027-01-31");
}

#[test]
fn an_empty_state_cannot_be_verified() {
    let home = Home::new();
    home.fail(1, &["audit", "verify"], "name another folder with --state DIR");
}
