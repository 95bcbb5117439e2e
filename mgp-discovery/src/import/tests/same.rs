//! Tests of imported servers that the configuration already has, and of the ids of new servers.

use std::fs;
use std::path::{Path, PathBuf};

use super::imported;
use crate::import::{Host, Import, ImportOutcome, Plan};

/// Returns the import of a server `fs` whose environment has this key.
fn of_key(host: Host, file: &str, key: &str) -> Import {
    let text = format!(
        r#"{{"mcpServers": {{"fs": {{"command": "fs", "env": {{"API_KEY": "{key}"}}}}}}}}"#
    );
    imported(host, file, &text)
}

fn outcomes(text: &str, imports: &[Import]) -> Vec<ImportOutcome> {
    let plan = Plan::from_text("mgp.toml", text, imports).unwrap();
    plan.lines().iter().map(|line| line.outcome.clone()).collect()
}

fn added(id: &str) -> ImportOutcome {
    ImportOutcome::Added(id.to_owned())
}

fn present(id: &str) -> ImportOutcome {
    ImportOutcome::Present(id.to_owned())
}

#[test]
fn a_server_with_another_account_is_not_the_one_whose_secret_became_a_reference() {
    let work = of_key(Host::Cursor, "c", "hunter2hunter2");
    let imports = [of_key(Host::ClaudeDesktop, "d", "s3cret-s3cret"), work.clone()];
    let plan = Plan::from_text("mgp.toml", "", &imports).unwrap();
    let stored = plan.text().replace("s3cret-s3cret", "${keyring:a}");
    assert_eq!(outcomes(&stored, &imports), [present("fs"), present("fs-cursor")]);
    // Both configured servers now refer to stored secrets, and each still matches the server that was imported from its
    // host.
    let both = stored.replace("hunter2hunter2", "${keyring:b}");
    assert_eq!(outcomes(&both, &imports), [present("fs"), present("fs-cursor")]);
    // The configuration now has only the other server, not the server of Cursor.
    let alone = &stored[..stored.find("# From c").unwrap()];
    assert_eq!(outcomes(alone, &[work]), [added("fs-cursor")]);
}

#[test]
fn an_entry_that_the_user_wrote_may_have_the_secret_of_a_host_as_a_reference() {
    let own =
        "[[servers]]\nid = 'fs'\ncommand = 'fs'\nenv = { API_KEY = '${keyring:a}' }\n".to_owned();
    let import = of_key(Host::Cursor, "c", "hunter2hunter2");
    assert_eq!(outcomes(&own, std::slice::from_ref(&import)), [present("fs")]);
    // A configured server with exactly the imported values must have precedence over a server with references.
    let exact = own.replace("'fs'\nc", "'fs-cursor'\nc").replace("${keyring:a}", "hunter2hunter2");
    assert_eq!(outcomes(&format!("{own}{exact}"), &[import]), [present("fs-cursor")]);
}

#[test]
fn a_server_that_is_switched_off_here_is_left_out() {
    let text = "[[servers]]\nid = 'fs'\ncommand = 'fs'\nenabled = false\n";
    let import = imported(Host::Cursor, "c", r#"{"mcpServers": {"fs": {"command": "fs"}}}"#);
    let why =
        "mgp has it as `fs`, which is switched off; run `mgp servers enable fs`, then try again";
    assert_eq!(outcomes(text, &[import]), [ImportOutcome::Skipped(why.to_owned())]);
}

#[test]
fn hidden_characters_of_a_server_are_escaped_in_the_configuration_and_keep_their_meaning() {
    let text = r#"{"mcpServers": {"fs": {"command": "f\u061cs", "cwd": "/a\u00ad", "args": ["a\u202e\"b\n"],
        "env": {"A\u200b": "c\\\udb40\udc41d"}}}}"#;
    let import = imported(Host::Cursor, "p\u{202e}q", text);
    let plan = Plan::from_text("mgp.toml", "", std::slice::from_ref(&import)).unwrap();
    assert_eq!(plan.lines()[0].outcome, added("fs"));
    let is_bad = |c: char| c != '\n' && mgp_types::is_hidden(c);
    assert!(!plan.text().contains(is_bad), "{}", plan.text().escape_debug());
    assert_eq!(outcomes(plan.text(), &[import]), [present("fs")]);
}

#[test]
fn an_id_that_the_rule_refuses_is_not_used() {
    let text = r#"{"mcpServers": {"core": {"command": "a"}, "Hub": {"command": "b"}}}"#;
    let import = imported(Host::Cursor, "c", text);
    let file = PathBuf::from("/nowhere/at/all.toml");
    let fits = |id: &str, others: &[&str]| {
        id != "core" && !others.iter().any(|other| other.eq_ignore_ascii_case(id))
    };
    let own = imported(Host::Generic, "f", r#"{"mcpServers": {"hub": {"command": "c"}}}"#);
    let plan = Plan::with_id_rule(&file, &[own, import.clone()], fits).unwrap();
    let found: Vec<_> = plan.lines().iter().map(|line| line.outcome.clone()).collect();
    assert_eq!(found, [added("hub"), added("Hub-cursor"), added("core-cursor")]);
    let note = "the id `core` is reserved, or looks like that of another server";
    assert_eq!(plan.lines()[2].notes, [note]);
    let plan = Plan::with_id_rule(Path::new("/nowhere"), &[import], |_, _| false).unwrap();
    let why = "`core` cannot be the id of a server; rename it there";
    assert_eq!(plan.lines()[1].outcome, ImportOutcome::Skipped(why.to_owned()));
}

#[test]
fn a_plan_for_a_file_that_was_changed_meanwhile_keeps_its_rule_for_ids() {
    let folder = mgp_testkit::temp_dir();
    let file = folder.path().join("mgp.toml");
    let import = imported(Host::Cursor, "c", r#"{"mcpServers": {"core": {"command": "a"}}}"#);
    let plan = Plan::with_id_rule(&file, &[import], |id, _| id != "core").unwrap();
    fs::write(&file, "# mine\n").unwrap();
    plan.apply().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# mine") && text.contains("id = \"core-cursor\""), "{text}");
}

#[test]
fn the_time_limit_of_a_server_that_another_host_has_without_it_is_reported() {
    let import = |host, file, members: &str| {
        let text = format!("[mcp_servers.fs]\ncommand = 'fs'\n{members}");
        imported(host, file, &text)
    };
    let limits = "tool_timeout_sec = 600\nstartup_timeout_sec = 90\n";
    let imports = [
        import(Host::Codex, "a", "startup_timeout_sec = 20\n"),
        import(Host::Codex, "b", limits),
        import(Host::Codex, "c", ""),
    ];
    let plan = Plan::from_text("mgp.toml", "", &imports).unwrap();
    let notes: Vec<_> = plan.lines().iter().map(|line| line.notes.clone()).collect();
    let expected = [
        "its `start_timeout` of 90s was not copied; the server there has 20s".to_owned(),
        "its `timeout` of 600s was not copied; the server there has none".to_owned(),
    ];
    assert_eq!(notes, [Vec::new(), expected.to_vec(), Vec::new()]);
    assert_eq!(plan.lines()[1].outcome, present("fs"));
}
