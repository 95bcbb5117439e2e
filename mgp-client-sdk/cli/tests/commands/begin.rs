//! The first minutes: help, a configuration to begin with, completions, and what is not understood.

use std::fs;

use crate::world::Home;

#[test]
fn a_configuration_to_begin_with_is_written_once() {
    let home = Home::new();
    let written = home.json("init", &["init"]);
    assert_eq!(written["file"], home.own().to_str().unwrap());
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("[[servers]]") && text.contains("# id = "));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(home.own()).unwrap().permissions().mode() & 0o777, 0o600);
    }
    home.ill(1, &["init"], "is there already; edit it");
    assert_eq!(fs::read_to_string(home.own()).unwrap(), text);

    let said = home.well(&["init", "--project"]);
    assert!(said.contains("mgp trust") && home.path("work/mgp.toml").exists(), "{said}");
    home.ill(2, &["init", "--project", "--config", "x.toml"], "cannot be used with");
    // A folder that cannot be made.
    home.write("file", "");
    home.ill(
        1,
        &["init", "--config", home.path("file/x.toml").to_str().unwrap()],
        "cannot be made",
    );
}

#[test]
fn what_is_added_stands_behind_the_comments_of_the_beginning() {
    let home = Home::new();
    home.well(&["init"]);
    home.well(&["servers", "add", "a", "--no-grant", "--", "a"]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.starts_with("# The servers behind `mgp`"), "{text}");
    assert!(text.trim_end().ends_with("command = \"a\""), "{text}");
    let home = Home::new();
    home.well(&["init"]);
    home.quietly(&["tools", "pin", "a.b", "--agent", "x"]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.starts_with("# The servers behind `mgp`"), "{text}");
    assert!(text.trim_end().ends_with("pinned = [\"a.b\"]"), "{text}");
}

#[test]
fn whoever_says_nothing_is_shown_what_there_is() {
    let home = Home::new();
    home.ill(2, &[], "mgp import");
    let help = home.well(&["--help"]);
    for word in ["doctor", "connect", "Exit code"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(home.well(&["help", "access", "grant"]).contains("Example:"));
    assert!(home.well(&["--version"]).starts_with("mgp "));
}

#[test]
fn what_is_not_understood_says_what_would_be() {
    let home = Home::new();
    home.ill(2, &["doctr"], "doctor");
    home.ill(2, &["servers", "list"], "unrecognized subcommand");
    home.ill(2, &["access", "grant", "a"], "<SERVER>");
    home.ill(2, &["access", "grant", "a", "b", "--expires", "soon"], "90d");
    home.ill(2, &["access", "grant", "a", "b", "--expires", "2001-01-01"], "is over");
    home.ill(2, &["servers", "add", "a"], "COMMAND");
    home.ill(2, &["servers", "add", "a b", "--", "c"], "is no id of a server");
    home.ill(2, &["servers", "add", "a", "--url", "https://x", "--header", "y"], "NAME=VALUE");
    home.ill(2, &["tools", "pin", "a", "--agent", "x"], "is not server.tool");
    home.ill(
        2,
        &["permissions", "approve", "a", "files"],
        "is no permission; known: filesystem.read",
    );
    home.ill(2, &["keys", "add", "a", "--permission", "all"], "permits nothing; known: tools.call");
    home.ill(2, &["completions", "tcsh"], "possible values");
}

#[test]
fn each_shell_gets_its_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = home.well(&["completions", shell]);
        assert!(script.contains("doctor") && script.contains("permissions"), "{shell}");
    }
}

#[test]
fn what_needs_a_kernel_says_how_to_start_one() {
    let home = Home::new();
    for arguments in [
        &["status"][..],
        &["stop"],
        &["sessions"],
        &["servers", "ls"],
        &["servers", "restart", "a"],
        &["servers", "logs", "a"],
        &["tools", "ls"],
        &["tools", "search", "x"],
        &["tools", "call", "a.b"],
        &["tools", "tokens"],
        &["tools", "approve", "a.b"],
        &["audit", "tail", "--follow"],
    ] {
        home.ill(3, arguments, "mgp serve");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_may_use_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let folder = home.path("state");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    home.ill(1, &["--state", folder.to_str().unwrap(), "keys", "ls"], "chmod 700");
    home.ill(1, &["--state", folder.to_str().unwrap(), "access", "query", "a", "b"], "chmod 700");
}
