//! Tests of the console's page about access: the entries and limits that it shows, the forms that add entries, and the
//! buttons that revoke entries.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use mgp_testkit::until_blocking;
use serde_json::{Value, json};

use crate::console::{Browser, guarded};
use crate::hostile::stub;
use crate::kernel::Kernel;
use crate::login::get;
use crate::program::program;
use crate::world::Home;

/// Returns the access entries of the agent `default` for the server `bench`.
fn entries(home: &Home) -> Vec<Value> {
    let found = home.json("access-query", &["access", "query", "default", "bench"]);
    found["entries"].as_array().unwrap().clone()
}

#[test]
fn the_end_of_a_grant_for_a_server_keeps_the_denials_of_its_tools() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
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
    let page = browser.done("/access/revoke", &[&entry[..], &[("tool", "echo")]].concat());
    assert!(page.contains("default bench.echo: revoked"), "{page}");
    assert!(entries(home).is_empty());
}

#[test]
fn the_access_of_an_agent_whose_name_begins_with_a_space_is_revoked() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    home.succeed(&["access", "grant", " ada ", "bench", "--force"]);
    let form = "name=\"agent\" value=\" ada \"";
    assert!(browser.get("/access").body.contains(form));
    let page = browser.done("/access/revoke", &[("agent", " ada "), ("server", "bench")]);
    assert!(page.contains("ada  bench: revoked"), "{page}");
    assert!(!browser.get("/access").body.contains(form));
}

#[test]
fn access_can_be_revoked_while_the_configuration_is_broken() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
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
    // The kernel uses the configuration that it has loaded, so the page shows no `?` for the `default_policy` although
    // the file is now broken.
    assert!(!matrix.contains("<span class=\"mark warn\">?</span>"), "{text}");
    let page = browser.done("/access/revoke", &[("agent", "default"), ("server", "bench")]);
    assert!(page.contains("default bench: revoked"), "{page}");
    assert!(entries(home).is_empty());
    let config = config.to_str().unwrap();
    let matrix = home.run(&["access", "matrix", "--config", config]);
    assert!(matrix.code == Some(1) && matrix.err.contains("/c.toml:1:"), "{matrix:?}");
}

#[test]
fn a_tool_whose_name_begins_with_its_server_is_denied_by_its_whole_name() {
    let files = Home::new();
    let tool = |name: &str| json!({ "name": name, "description": "Looks.", "inputSchema": { "type": "object" } });
    let tools = json!([tool("odd.look"), tool("look")]);
    let kernel = Kernel::new(&stub(&files, "odd", &tools, &json!({ "content": [] })));
    let home = &kernel.home;
    until_blocking("the tools are listed", || kernel.server("odd")["tools"].as_u64() == Some(2));
    let browser = Browser::new(home);
    let deny = |server, tool| {
        let form = [("agent", "ada"), ("server", server), ("tool", tool), ("answer", "deny")];
        browser.post("/access/grant", &[&form[..], &[("new_agent", "yes")]].concat())
    };
    for (server, tool, kept) in [
        ("mgp", "mgp.discovery.register", "mgp.discovery.register"),
        ("mgp.discovery.deregister", "", "mgp.discovery.deregister"),
        ("odd", "odd.look", "odd.look"),
        ("odd.look", "", "look"),
    ] {
        assert_eq!(deny(server, tool).status, 303, "{server} {tool}");
        let id = server.split('.').next().unwrap();
        let found = home.json("access-query", &["access", "query", "ada", id]);
        let entries = found["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["tool_name"] == kept);
        assert!(entry.is_some_and(|entry| entry["permission"] == "deny"), "{kept}: {found}");
    }
    // The page refuses to deny a tool that the kernel does not have, because that would deny nothing.
    let refused = deny("mgp", "discovery.register");
    let text = refused.text();
    assert!(refused.status == 422 && text.contains("there is no `mgp` tool"), "{text}");
    assert!(text.contains("did you mean `mgp.discovery.register`?"), "{text}");
    let typed = ["access", "grant", "ada", "mgp", "mgp.discovery.regster", "--deny"];
    home.fail(1, &typed, "did you mean `mgp.discovery.register`?");
}

#[test]
fn a_reload_of_a_file_with_an_error_is_shown_as_a_failure() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    let config = std::fs::read_to_string(home.path("c.toml")).unwrap();
    let broken = "[[servers]]\nid = 'far'\nurl = 'https://user@far.example/mcp'\n";
    home.write("c.toml", &format!("{config}{broken}"));
    let page = browser.done("/configuration", &[]);
    let notice = page.split("class=\"failed\"").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(notice.contains("the files have errors"), "{page}");
    assert!(!page.contains("class=\"done\""), "{page}");
}

#[test]
fn the_page_of_a_disabled_server_shows_the_command_that_enables_it() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    let config = std::fs::read_to_string(home.path("c.toml")).unwrap();
    let disabled = "[[servers]]\nid = 'off'\ncommand = 'sh'\nenabled = false\n";
    home.write("c.toml", &format!("{config}{disabled}"));
    browser.done("/configuration", &[]);
    assert!(browser.get("/servers").body.contains("/servers/off\""));
    let page = browser.get("/servers/off");
    let text = page.text();
    assert!(page.status == 200 && text.contains("mgp servers enable off"), "{text}");
    assert_eq!(browser.get("/servers/none").status, 404);
    let missing = browser.get("/definition/off.none").text();
    assert!(missing.contains("<code>off.none</code>: the kernel has no such tool"), "{missing}");
}

#[test]
fn a_notice_is_in_the_language_of_the_browser() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    let headers = format!("Origin: http://{}\r\nAccept-Language: de\r\n", browser.address);
    let notice = |path: &str, pairs: &[(&str, &str)]| {
        let all = [&[("token", browser.token.as_str())][..], pairs].concat();
        let answer = browser.post_with(path, &all, &headers);
        assert_eq!(answer.status, 303, "{}", answer.body);
        answer.header("location").unwrap().to_owned()
    };
    let entry = [("agent", "default"), ("server", "bench")];
    home.silent(&["access", "grant", "default", "bench"]);
    let denied = [&entry[..], &[("answer", "deny"), ("tool", "echo")]].concat();
    for (path, pairs, word) in [
        ("/configuration", Vec::new(), "=nichts+hat+sich+ge%C3%A4ndert&"),
        ("/access/grant", denied, "bench.echo%3A+abgelehnt&"),
        ("/access/revoke", entry.to_vec(), "+bench%3A+zur%C3%BCckgenommen&"),
    ] {
        let location = notice(path, &pairs);
        assert!(location.contains(word), "{path}: {location}");
    }
}

#[test]
fn the_page_names_the_state_of_an_idle_server_as_the_command_does() {
    let kernel = guarded("");
    kernel.home.silent(&["stop"]);
    let home = kernel.into_home();
    let _ = std::fs::remove_file(home.path("ready.json"));
    let config = home.path("c.toml");
    let kernel = Kernel::on(home, Some(&config));
    let table = kernel.home.succeed(&["servers", "ls"]);
    assert!(table.contains("  idle "), "{table}");
    let browser = Browser::new(&kernel.home);
    for path in ["/servers", "/servers/desk"] {
        let page = browser.get(path).text();
        assert!(page.contains(">idle</span>") && !page.contains("registered"), "{page}");
    }
}

#[test]
fn an_entry_about_a_tool_of_the_kernel_is_shown_and_revoked_on_the_page() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    assert!(!browser.get("/access").text().contains("mgp.discovery.register"));
    let tool = "mgp.discovery.register";
    home.silent(&["access", "grant", "ada", "mgp", tool, "--new-agent"]);
    let page = browser.get("/access").text();
    let cell = page.split("name=\"server\" value=\"mgp\"").nth(1).unwrap();
    assert!(cell.split("</form>").next().unwrap().contains(tool), "{page}");
    let matrix = home.json("access-matrix", &["access", "matrix"]);
    assert_eq!((&matrix["servers"], &matrix["left"]), (&json!(["bench", "mgp"]), &json!([])));
    browser.done("/access/revoke", &[("agent", "ada"), ("server", "mgp"), ("tool", tool)]);
    let left = home.json("access-query", &["access", "query", "ada", "mgp"]);
    assert_eq!(left["entries"], json!([]), "{left}");
    assert!(!browser.get("/access").text().contains(tool));
}

#[test]
fn an_entry_of_all_agents_is_shown_for_each_and_revoked_in_its_own_row() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    home.silent(&["access", "grant", "*", "bench", "--because", "all may read"]);
    let denial = ["access", "grant", "default", "bench", "--deny", "--expires", "1h"];
    home.silent(&[&denial[..], &["--because", "incident"]].concat());
    let page = browser.get("/access").text();
    let (_, matrix) = page.split_once("Who may use what").unwrap();
    let row = matrix.split("<tr").find(|row| row.contains(">default</th>")).unwrap();
    let entry = |word: &str| {
        let begin = format!(">{word}</span> all tools");
        row.split("<div>").find(|entry| entry.contains(&begin)).unwrap()
    };
    assert_eq!(row.matches("/access/revoke").count(), 1, "{row}");
    let own = entry("deny");
    assert!(own.contains("/access/revoke") && own.contains("until "), "{own}");
    assert!(own.contains("incident"), "{own}");
    let inherited = entry("allow");
    assert!(inherited.contains("entry of *") && inherited.contains("no end"), "{inherited}");
    assert!(inherited.contains("all may read"), "{inherited}");
    let page = browser.done("/access/revoke", &[("agent", "default"), ("server", "bench")]);
    assert!(page.contains("default bench: revoked"), "{page}");
    assert_eq!(entries(home).len(), 1, "that of all agents");
}

#[test]
fn a_denial_of_a_permission_is_revoked_on_the_page() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.silent(&["permissions", "deny", "bench", "filesystem.write"]);
    let browser = Browser::new(home);
    let page = browser.get("/access").text();
    let (_, decisions) = page.split_once("id=\"decisions\"").unwrap();
    let row = decisions.split("<tr").find(|row| row.contains("filesystem.write")).unwrap();
    assert!(row.contains(">denied<") && row.contains("/access/withdraw"), "{row}");
    let permission = [("server", "bench"), ("permission", "filesystem.write")];
    let page = browser.done("/access/withdraw", &permission);
    assert!(page.contains("bench filesystem.write: revoked"), "{page}");
    let left = home.json("permissions-ls", &["permissions", "ls", "bench"]);
    assert_eq!(left[0]["decision"], "revoked", "{left}");
}

#[test]
fn a_permission_for_one_folder_is_shown_with_its_limit() {
    let kernel = Kernel::bench();
    let approve = ["permissions", "approve", "bench", "filesystem.write", "--path", "/srv/notes"];
    kernel.home.silent(&approve);
    let page = Browser::new(&kernel.home).get("/access").text();
    let (_, decisions) = page.split_once("id=\"decisions\"").unwrap();
    assert!(decisions.contains("paths below `/srv/notes`"), "{decisions}");
}

#[test]
fn a_console_shows_the_limits_of_its_kernel_from_whatever_folder_it_is_started() {
    let home = Home::new();
    let server = |id: &str| format!("[[servers]]\nid = '{id}'\ncommand = '{}'\n", program("echo"));
    let limited = |id, most| format!("{}[servers.limits]\ncalls_per_minute = {most}\n", server(id));
    home.configure(&limited("own", 4));
    home.write("project/mgp.toml", &limited("db", 5));
    home.write("work/mgp.toml", &limited("elsewhere", 6));
    home.succeed(&["trust", "--yes"]);
    let in_project = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.current_dir(home.path("project")).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(in_project(&["trust", "--yes"]).status().unwrap().success());
    let ready = home.path("ready.json");
    let mut serve = in_project(&["serve", "--http", "127.0.0.1:0", "--no-auth", "--ready-file"]);
    let mut kernel = serve.arg(&ready).spawn().unwrap();
    until_blocking("the kernel is ready", || ready.exists());
    let page = Browser::new(&home).get("/access").text();
    home.silent(&["stop"]);
    kernel.wait().unwrap();
    let (_, limits) = page.split_once("id=\"limits\"").unwrap();
    assert!(limits.contains(">db</th>") && limits.contains("5 calls in a minute"), "{limits}");
    assert!(limits.contains(">own</th>") && !limits.contains("elsewhere"), "{limits}");
}

#[test]
fn commands_on_the_pages_of_another_state_folder_name_it() {
    let home = Home::new();
    let folder = home.path("other").display().to_string();
    let mut command = home.command(&["console", "--print", "--state", &folder]);
    let mut console = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let (first, _) = link.split_once("/login?").unwrap();
    let (_, page) = get(first);
    console.kill().unwrap();
    console.wait().unwrap();
    home.run(&["stop", "--state", &folder]);
    assert!(page.contains(&format!("run `mgp console --state {folder}`")), "{page}");
}
