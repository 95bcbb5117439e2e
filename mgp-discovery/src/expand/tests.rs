//! Tests of the expansion of `${…}`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mgp_testkit::temp_dir;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::describe_target;
use crate::source::Origin;

fn expander() -> Expander {
    Expander::new(|name| match name {
        "SET" => Some("value".into()),
        "EMPTY" => Some(String::new()),
        _ => None,
    })
    .timeout(Duration::from_secs(5))
}

#[track_caller]
fn check(text: &str, expected: Result<&str, &str>) {
    let filled = Template::parse(text)
        .map_err(|bad| bad.to_string())
        .and_then(|template| expander().expand(&template, Origin::User, Path::new("")));
    match (&filled, expected) {
        (Ok(filled), Ok(expected)) => assert_eq!(filled.as_str(), expected),
        (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
        _ => panic!("{text}: {filled:?}"),
    }
}

#[test]
fn variables_and_their_defaults_are_those_of_a_shell() {
    check("a ${SET} b", Ok("a value b"));
    check("${SET}${EMPTY}", Ok("value"));
    check("${EMPTY:-x}", Ok("x"));
    check("${NOT:-}", Ok(""));
    check("${NOT:-${ALSO:-${SET}}}", Ok("value"));
    check("$$ $${SET} 5$ $HOME $", Ok("$ ${SET} 5$ $HOME $"));
    check("${NOT}", Err("the variable `NOT` is not set"));
    check("${NOT:-${ALSO}}", Err("the variable `ALSO` is not set"));
    check("${_NOT}", Err("`_NOT` is not set; set it, or write `${_NOT:-default}`"));
    check("${", Err("never closed"));
    check("${env:SET}", Err("does not name a variable"));
    check("${file:}", Err("`${file:…}` names nothing"));
    check(&format!("{}x{}", "${A:-".repeat(20), "}".repeat(20)), Err("nested deeper than 8"));
}

#[cfg(unix)]
#[test]
fn commands_are_run_for_the_user_only_and_end() {
    check("${cmd:printf '%s\\n' \"{a}\"}", Ok("{a}"));
    let remedy = "it failed with exit status: 3; run that command in a shell";
    check("${cmd:echo no >&2; exit 3}", Err(remedy));
    check("${cmd:head -c 70000 /dev/zero}", Err("more than 65536 bytes"));
    let slow = Template::parse("${cmd:sleep 60 & sleep 60}").unwrap();
    let quick = expander().timeout(Duration::from_millis(50));
    let reason = quick.expand(&slow, Origin::User, Path::new("")).unwrap_err();
    assert!(reason.contains("did not end within 50 ms"), "{reason}");
    let command = Template::parse("${cmd:echo a}").unwrap();
    let reason = expander().expand(&command, Origin::Project, Path::new("")).unwrap_err();
    assert!(reason.starts_with("only your own file may run a command"), "{reason}");
}

#[test]
fn files_of_a_project_stay_in_it() {
    let guard = temp_dir();
    let root = guard.path();
    let project = root.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(root.join("outside"), "s3cret\n").unwrap();
    fs::write(project.join("inside"), "\u{feff}plain\r\n").unwrap();
    fs::write(project.join("long"), vec![b'x'; 70_000]).unwrap();
    let fill =
        |text: &str, origin| expander().expand(&Template::parse(text).unwrap(), origin, &project);
    assert_eq!(fill("${file:inside}", Origin::Project).unwrap().as_str(), "plain");
    assert_eq!(fill("${file:../outside}", Origin::User).unwrap().as_str(), "s3cret");
    assert!(
        fill("${file:../outside}", Origin::Project)
            .unwrap_err()
            .contains("not in the project's folder")
    );
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.join("outside"), project.join("link")).unwrap();
        assert!(
            fill("${file:link}", Origin::Project)
                .unwrap_err()
                .contains("not in the project's folder")
        );
    }
    assert!(fill("${file:long}", Origin::User).unwrap_err().contains("longer than"));
    assert!(fill("${file:.}", Origin::User).unwrap_err().contains("not a plain file"));
    assert!(fill("${file:missing}", Origin::User).unwrap_err().contains("cannot be read"));
    let home = expander().home(root);
    let template = Template::parse("${file:~/outside}").unwrap();
    assert_eq!(home.expand(&template, Origin::User, &project).unwrap().as_str(), "s3cret");
}

#[test]
fn each_place_of_a_server_is_filled_and_no_value_is_shown() {
    let text = "[[servers]]\nid = 'a'\ncommand = '${SET}/a'\nargs = ['-x', '${SET}']\ncwd = 'sub'\nenv = { K = 'k-${SET}', L = 'plain', API_TOKEN = 'hunter2-hunter2' }\n[[servers]]\nid = 'b'\nurl = 'https://${SET}'\nheaders = { A = 'Bearer ${SET}' }\n";
    let config = Config::parse("/etc/mgp.toml", text).unwrap().config;
    let filled = expander().server(&config.servers[0]).unwrap();
    let shown = format!("{filled:?}");
    assert!(!shown.contains("value") && !shown.contains("hunter2"), "{shown}");
    let ExpandedTarget::Program { command, args, cwd, env } = filled.target else {
        panic!("a program")
    };
    assert_eq!(
        (command.as_str(), args[1].as_str(), env["K"].as_str()),
        ("/etc/sub/value/a", "value", "k-value")
    );
    assert_eq!((args[1].is_secret(), env["L"].is_secret()), (true, false));
    assert_eq!(cwd, Path::new("/etc/sub"));
    let ExpandedTarget::Url { url, headers, .. } =
        expander().server(&config.servers[1]).unwrap().target
    else {
        panic!("a URL")
    };
    assert_eq!((url.as_str(), headers["A"].as_str()), ("https://value", "Bearer value"));
}

#[test]
fn the_home_folder_takes_the_place_of_a_missing_variable_and_of_a_tilde() {
    let home = expander().home("/h$x");
    let template = Template::parse("${HOME}/x").unwrap();
    let filled = |expander: &Expander| {
        let filled = expander.expand(&template, Origin::User, Path::new("/etc"));
        filled.map(|text| text.as_str().to_owned())
    };
    assert_eq!(filled(&home).unwrap(), "/h$x/x");
    assert_eq!(filled(&Expander::new(|_| Some("/own".into())).home("/h")).unwrap(), "/own/x");
    assert!(filled(&expander()).unwrap_err().contains("`HOME` is not set"));
    let command = |command: &str| {
        let text = format!("servers = [{{ id = 'a', command = '{command}' }}]");
        let config = Config::parse("/etc/mgp.toml", &text).unwrap().config;
        let target = home.server(&config.servers[0]).unwrap().target;
        let ExpandedTarget::Program { command, .. } = target else { panic!("a program") };
        command.as_str().to_owned()
    };
    assert_eq!(command("~/bin/x"), "/h$x/bin/x");
    assert_eq!(command("~x/y"), format!("/etc{}~x/y", std::path::MAIN_SEPARATOR));
    assert_eq!(command("x"), "x");
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let text =
        "servers = [{ id = 'a', command = '${A}', args = ['${B'], env = { K = '${SET}${C}' } }]";
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let refused = expander().server(&config.servers[0]).unwrap_err();
    let places: Vec<_> = refused.reasons().iter().map(|r| r.split(':').next().unwrap()).collect();
    assert_eq!(places, ["`command`", "`args[0]`", "`env.K`"]);
    assert!(!refused.to_string().contains("value"));
}

#[test]
fn the_last_part_of_the_message_has_the_remedies_for_all_variables() {
    let text =
        "servers = [{ id = 'a', command = 'a', env = { K = '${A}', L = '${B}', M = '${A}' } }]";
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let error = expander().server(&config.servers[0]).unwrap_err();
    let message = error.to_string();
    assert_eq!(message, format!("server `a` is not started: {}", error.summary()));
    let (faults, remedies) = message.split_once("; ").unwrap();
    for (place, name) in [("K", "A"), ("L", "B"), ("M", "A")] {
        let fault = format!("`env.{place}`: the variable `{name}` is not set");
        assert!(faults.contains(&fault), "{message}");
    }
    assert_eq!(remedies, "set it, or write `${A:-default}`, and set it, or write `${B:-default}`");
}

#[test]
fn secrets_in_clear_text_are_found_by_key() {
    let text = "[[servers]]\nid = 'a'\ncommand = 'a'\nargs = ['--api-key', 'abcdefgh', '--token=abcdefgh', 'serve-docs', '-e', 'DB_PASSWORD=abcdefgh', '--env=API_KEY=abcdefgh', '-e', 'MODE=production', '--verbose', '/srv/data']\nenv = { PASSWORD = 'abcdefgh', HOME = '/root' }\n[[servers]]\nid = 'b'\nurl = 'https://example.org/?token=abcdefgh&secret=abcdefgh&x=1'\n";
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let places = |at: usize| {
        clear_secrets(&config.servers[at]).into_iter().map(|s| s.place).collect::<Vec<_>>()
    };
    assert_eq!(places(0), ["env.PASSWORD", "args[1]", "args[2]", "args[5]", "args[6]"]);
    let shown = describe_target(&config.servers[0]);
    assert_eq!(
        shown,
        "a --api-key … --token=… serve-docs -e … --env=… -e MODE=production --verbose /srv/data"
    );
    assert_eq!(places(1), ["url", "url"]);
    let shown = clear_secrets(&config.servers[0])[1].to_string();
    assert_eq!(
        shown,
        "`args[1]` of `a` looks like a secret in clear text (its name suggests it); write `${API_KEY}` or `${file:PATH}` in its place"
    );
    let text = "[[servers]]\nid = 'a'\nurl = 'https://example.org'\nheaders = { Authorization = 'Bearer abcdefgh' }\n";
    let mut server = Config::parse("mgp.toml", text).unwrap().config.servers.remove(0);
    server.origin = Origin::User;
    let remedy = clear_secrets(&server).remove(0).remedy;
    assert_eq!(
        remedy,
        "run `mgp secrets set a.AUTHORIZATION` and write `${keyring:a.AUTHORIZATION}` in its place"
    );
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "[${}:a-z-]{0,80}") {
        if let Ok(template) = Template::parse(&text) {
            let _ = (template.needs(), template.is_literal());
        }
    }

    #[test]
    fn a_text_with_its_dollars_doubled_stays_itself(text in "\\PC{0,60}") {
        let template = Template::parse(&text.replace('$', "$$")).unwrap();
        let filled = expander().expand(&template, Origin::User, Path::new("")).unwrap();
        prop_assert_eq!(filled.as_str(), text);
    }
}

#[test]
fn each_secret_in_clear_text_is_hidden_as_the_server_gets_it() {
    let text = "[[servers]]\nid = 'a'\ncommand = 'pg'\nargs = ['postgres://ada:s3cr3t-1@db/x', '--token=a$$b$$c$$d']\nenv = { PASSWORD = 'pa$$w0rd-pa', DATABASE_URL = 'postgres://ada:s3cr3t$$2@db/x', OPEN = 'https://x.org/a' }\n";
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let filled = expander().server(&config.servers[0]).unwrap();
    let secrets: Vec<&str> = filled.secrets().collect();
    assert_eq!(secrets, ["s3cr3t-1", "a$b$c$d", "s3cr3t$2", "pa$w0rd-pa"]);
    let shown = format!("{filled:?}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("w0rd"), "{shown}");
    assert!(shown.contains("https://x.org/a"), "{shown}");
}

#[test]
fn a_token_in_headers_that_a_variable_has_as_json_is_flagged_and_not_shown() {
    let text = r#"servers = [{ id = 'a', command = 'notes', env = { HEADERS = '{"Authorization": "Bearer ntn_s3cr3t", "Version": "2"}' } }]"#;
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let server = &config.servers[0];
    let places: Vec<_> = clear_secrets(server).into_iter().map(|secret| secret.place).collect();
    assert_eq!(places, ["env.HEADERS"]);
    assert_eq!(crate::settings(server), ["HEADERS=…"]);
    let filled = expander().server(server).unwrap();
    assert_eq!(filled.secrets().collect::<Vec<_>>(), ["Bearer ntn_s3cr3t"]);
}

#[test]
fn a_password_in_a_url_is_flagged_and_not_shown() {
    let text = "[[servers]]\nid = 'a'\ncommand = 'pg'\nargs = ['postgresql://ada:s3cr3t@db/x?token=hunter2hunter2&y=1', '--dsn=redis://:pw@h', 'https://x.org/a b']\nenv = { DATABASE_URL = 'postgres://ada:s3cr3t@db/x', OPEN = 'postgres://ada:${PW}@db/x' }\n";
    let config = Config::parse("mgp.toml", text).unwrap().config;
    let server = &config.servers[0];
    let places: Vec<_> = clear_secrets(server).into_iter().map(|secret| secret.place).collect();
    assert_eq!(places, ["env.DATABASE_URL", "args[0]", "args[1]"]);
    let shown = "pg postgresql://ada:…@db/x?token=…&y=1 --dsn=redis://:…@h \"https://x.org/a b\"";
    assert_eq!(describe_target(server), shown);
    let settings = crate::settings(server).join(" ");
    assert!(settings.contains("DATABASE_URL=…") && settings.contains("ada:${PW}@db"), "{settings}");
}
