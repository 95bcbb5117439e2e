//! Tests of `mgp lock` and `mgp serve --locked`: a server that differs from the lock file does not start, and a tool
//! whose definition differs cannot be called.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use mgp_testkit::KilledChild;
use serde_json::{Value, json};

use crate::program::program;
use crate::world::{Host, World, text, within};

/// A shell script of a server whose tools are in a file.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result=$(cat "$1") ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"done"}]}' ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"
      continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}})
}

fn set_tools(world: &World, tools: &[Value]) {
    fs::write(world.folder.join("tools.json"), json!({ "tools": tools }).to_string()).unwrap();
}

fn world() -> World {
    let world = World::empty();
    let folder = world.folder.display();
    fs::write(world.folder.join("server.sh"), SERVER).unwrap();
    set_tools(&world, &[tool("first", "Returns one"), tool("second", "Returns two")]);
    world.config(&format!(
        "[[servers]]\nid = \"s\"\ncommand = \"/bin/sh\"\nargs = [\"{folder}/server.sh\", \"{folder}/tools.json\"]\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\ntrust_level = \"trusted\"\n"
    ));
    world
}

fn lock(world: &World, args: &[&str]) -> Output {
    lock_command(world, args).output().unwrap()
}

fn lock_command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.arg("lock").args(args).arg("--config").arg(world.config_file());
    command.arg("--state").arg(world.folder.join("other"));
    command
}

/// Runs `mgp lock` for the project in the folder, as on a machine whose user has not approved the project.
fn lock_unapproved(world: &World, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.arg("lock").args(args).arg("--state").arg(world.folder.join("other"));
    command.env_remove("MGP_CONFIG").env_remove("MGP_CONFIG_PATH");
    command.current_dir(&world.folder).env("HOME", world.folder.join("home")).output().unwrap()
}

#[track_caller]
fn locked(world: &World) {
    let output = lock(world, &[]);
    assert!(output.status.success(), "{output:?}");
}

fn call(world: &World, tool: &str) -> Result<String, Value> {
    let mut host = Host::standalone(world, &["--locked"]);
    let called = host.call(tool, &json!({}));
    // The host leaves, so that its kernel releases the state folder for the next one.
    host.leave();
    called
}

#[test]
fn a_tool_whose_definition_differs_from_the_lock_file_cannot_be_called() {
    let world = world();
    let first = lock(&world, &[]);
    assert!(text(&first.stdout).starts_with("new s: 2 tools"), "{first:?}");
    assert_eq!(call(&world, "s.first").unwrap(), "done");

    set_tools(
        &world,
        &[tool("first", "Returns all"), tool("second", "Returns two"), tool("third", "New")],
    );
    let refused = call(&world, "s.first").unwrap_err().to_string();
    assert!(refused.contains("not the one in mgp.lock: /description (patch)"), "{refused}");
    assert!(refused.contains("check the definition, and lock it with `mgp lock`"), "{refused}");
    let added = call(&world, "s.third").unwrap_err().to_string();
    assert!(added.contains("the tool is not in mgp.lock") || added.contains("4001"), "{added}");
    assert_eq!(call(&world, "s.second").unwrap(), "done");

    let check = lock(&world, &["--check"]);
    let printed = text(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{printed}");
    assert!(printed.contains("patch: /description: the description changed"), "{printed}");
    assert!(printed.contains("minor: : the tool is added"), "{printed}");
    assert!(printed.starts_with("changed s: 3 tools"), "{printed}");

    let relocked = lock(&world, &[]);
    assert!(text(&relocked.stderr).contains("a kernel that runs with --locked applies the file"));
    assert!(lock(&world, &["--check"]).status.success());
    let again = lock(&world, &[]);
    assert!(text(&again.stdout).starts_with("same s: 3 tools"), "{again:?}");
    assert!(!text(&again.stderr).contains("applies the file"), "{again:?}");
}

#[test]
fn commands_that_lock_different_servers_at_the_same_time_lose_no_entry() {
    let world = World::empty();
    let echo = program("echo");
    let (started, go) = (world.folder.join("started"), world.folder.join("go"));
    let wait = format!(
        "touch {}; until [ -e {} ]; do sleep 0.1; done; exec {echo}",
        started.display(),
        go.display()
    );
    world.config(&(world.server("slow", &wait) + &world.server("quick", &format!("exec {echo}"))));
    let mut slow = KilledChild(lock_command(&world, &["slow", "--timeout", "5m"]).spawn().unwrap());
    within(|| started.exists().then_some(()));
    let quick = lock(&world, &["quick"]);
    assert!(quick.status.success(), "{quick:?}");
    fs::write(&go, "").unwrap();
    assert!(slow.wait().unwrap().success());
    let locked = fs::read_to_string(world.folder.join("mgp.lock")).unwrap();
    let locked: Value = serde_json::from_str(&locked).unwrap();
    let ids: Vec<&String> = locked["servers"].as_object().unwrap().keys().collect();
    assert_eq!(ids, ["quick", "slow"]);
}

/// Calls a tool until the running kernel has applied the changed lock file.
fn call_within(host: &mut Host, tool: &str) {
    within(|| {
        thread::sleep(Duration::from_millis(100));
        host.call(tool, &json!({})).ok()
    });
}

#[test]
fn a_running_kernel_applies_a_changed_lock_file() {
    let world = world();
    locked(&world);
    let mut host = Host::standalone(&world, &["--locked"]);
    assert_eq!(host.call("s.first", &json!({})).unwrap(), "done");
    // The script changes too, so the server that runs differs from the server that `mgp lock` records below.
    fs::write(world.folder.join("server.sh"), format!("{SERVER}\n# changed\n")).unwrap();
    set_tools(&world, &[tool("first", "Returns one"), tool("third", "Returns three")]);
    let before = host.call("s.third", &json!({})).unwrap_err().to_string();
    assert!(!before.contains("done"), "{before}");
    locked(&world);
    call_within(&mut host, "s.third");
    assert_eq!(host.call("s.first", &json!({})).unwrap(), "done");

    // If the kernel cannot read the new lock file, it keeps using the previous one.
    let file = world.folder.join("mgp.lock");
    fs::write(&file, "{").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(["reload", "--state"]).arg(world.state()).stdin(Stdio::null());
    let reloaded = command.output().unwrap();
    assert!(text(&reloaded.stdout).contains("the kernel keeps the previous one"), "{reloaded:?}");
    assert_eq!(host.call("s.third", &json!({})).unwrap(), "done");
    host.leave();
}

#[test]
fn a_tool_that_differed_can_be_called_as_soon_as_it_is_locked() {
    let world = world();
    locked(&world);
    // Add a tool that the lock file does not contain yet. Its definition does not change when the lock file is written
    // below.
    set_tools(&world, &[tool("first", "Returns one"), tool("third", "Returns three")]);
    let mut host = Host::standalone(&world, &["--locked"]);
    assert_eq!(host.call("s.first", &json!({})).unwrap(), "done");
    host.call("s.third", &json!({})).unwrap_err();
    locked(&world);
    call_within(&mut host, "s.third");
    host.leave();
}

#[test]
fn an_operator_is_shown_a_tool_that_differs_from_the_lock_file_and_the_remedy() {
    let world = world();
    locked(&world);
    set_tools(&world, &[tool("first", "Returns all"), tool("second", "Returns two")]);
    let mut host = Host::standalone(&world, &["--locked"]);
    assert_eq!(host.call("s.second", &json!({})).unwrap(), "done");
    let printed = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.args(args).arg("--state").arg(world.state()).stdin(Stdio::null());
        let output = command.output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let is_listed = || printed(&["tools", "ls"]).contains("s.first");
    within(|| is_listed().then_some(()));
    let shown = printed(&["tools", "show", "s.first"]);
    assert!(shown.contains("definition  refused"), "{shown}");
    assert!(shown.contains("not the one in mgp.lock: /description"), "{shown}");
    let option = format!(" --state {}", world.state().display());
    let why = printed(&["why", "ann", "s.first"]);
    assert!(why.contains("its definition is not the one in mgp.lock"), "{why}");
    assert!(why.contains("not the one in mgp.lock: /description (patch)"), "{why}");
    assert!(
        why.contains(&format!(
            "check it with `mgp tools show s.first{option}`, then run `mgp lock s{option}`"
        )),
        "{why}"
    );
    let servers = printed(&["servers", "ls"]);
    assert!(servers.contains("1 definition differs from mgp.lock"), "{servers}");
    let server = printed(&["servers", "ls", "s"]);
    assert!(server.contains(&format!("then run `mgp lock s{option}`")), "{server}");
    let approved = printed(&["tools", "approve", "s.first", "--yes"]);
    assert!(approved.contains("needs no decision; its definition is refused"), "{approved}");
    host.leave();
}

#[test]
fn the_lock_file_has_the_definitions_that_a_server_lists_to_the_kernel() {
    // Like servers of the SDK, the server lists parts of its tools only to clients that offer an extension.
    for (extension, config) in [("scopes", ""), ("security", "extensions = [\"lifecycle\"]\n")] {
        let world = world();
        let initialize = r#"*'"initialize"'*) "#;
        let choose = format!(r#"case "$line" in *'"{extension}"'*) ;; *) set -- "$2" ;; esac; "#);
        let script = SERVER.replace(initialize, &format!("{initialize}{choose}"));
        fs::write(world.folder.join("server.sh"), script).unwrap();
        let bare = json!({ "tools": [tool("first", "Returns one, or none")] });
        let bare_file = world.folder.join("bare.json");
        fs::write(&bare_file, bare.to_string()).unwrap();
        let own = fs::read_to_string(world.config_file()).unwrap();
        let files = format!("tools.json\", \"{}\"]", bare_file.display());
        world.config(&(own.replace("tools.json\"]", &files) + config));
        locked(&world);
        assert_eq!(call(&world, "s.first").unwrap(), "done", "{extension}");
        assert!(lock(&world, &["--check"]).status.success(), "{extension}");
    }
}

#[test]
fn a_definition_that_cannot_be_read_is_left_out_of_the_lock_file_and_cannot_be_called() {
    let world = world();
    let bare = json!({"name": "bare"});
    set_tools(&world, &[tool("first", "Returns one"), bare, json!({"inputSchema": {}})]);
    let output = lock(&world, &[]);
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(
        notes.contains("`s`: the tool `bare` cannot be used: it has no `inputSchema`"),
        "{notes}"
    );
    assert!(notes.contains("`s`: entry 3 of its list of tools cannot be used"), "{notes}");
    assert!(lock(&world, &["--check"]).status.success());
    assert_eq!(call(&world, "s.first").unwrap(), "done");
    call(&world, "s.bare").unwrap_err();
    set_tools(&world, &[tool("first", "Returns one"), tool("bare", "Returns all")]);
    call(&world, "s.bare").unwrap_err();
}

#[test]
fn a_tool_with_two_definitions_is_left_out_of_the_lock_file() {
    let world = world();
    set_tools(&world, &[tool("first", "Returns one"), tool("twice", "One"), tool("twice", "Two")]);
    let output = lock(&world, &[]);
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(notes.contains("`s`: the tool `twice` cannot be used"), "{notes}");
    let output = lock(&world, &["--check"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(call(&world, "s.first").unwrap(), "done");
    call(&world, "s.twice").unwrap_err();
}

#[test]
fn a_server_whose_program_changed_does_not_start() {
    let world = world();
    locked(&world);
    // Make a call first: after it, the kernel knows the tools even while the server does not start.
    assert_eq!(call(&world, "s.first").unwrap(), "done");
    fs::write(world.folder.join("server.sh"), format!("{SERVER}\n# changed\n")).unwrap();
    let refused = call(&world, "s.first").unwrap_err().to_string();
    assert!(refused.contains("differs from mgp.lock: its script changed"), "{refused}");
    assert!(refused.contains("check it, then run `mgp lock s`"), "{refused}");
    // Without `--locked` the same server starts.
    let mut host = Host::standalone(&world, &[]);
    assert_eq!(host.call("s.first", &json!({})).unwrap(), "done");
}

/// Here, a shim is the script of a version manager. It chooses its program at each start, e.g. by a file in the folder
/// of the script.
#[test]
fn a_shim_is_not_locked_and_its_default_program_is_named() {
    use std::os::unix::fs::symlink;

    let world = world();
    let at = |path: &str| world.folder.join("managed").join(path);
    for folder in ["shims", "versions/1.0/bin"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    symlink("/bin/sh", at("versions/1.0/bin/sh")).unwrap();
    fs::write(at("version"), "1.0\n").unwrap();
    fs::copy("/bin/sh", at("shims/sh")).unwrap();
    let own = fs::read_to_string(world.config_file()).unwrap();
    let start =
        |program: &str| world.config(&own.replace("/bin/sh", at(program).to_str().unwrap()));
    start("shims/sh");
    let output = lock(&world, &[]);
    let reason = text(&output.stderr);
    assert!(
        !output.status.success() && reason.contains("is a shim of a version manager"),
        "{reason}"
    );
    assert!(reason.contains("managed/versions/1.0/bin/sh`"), "{reason}");
    start("versions/1.0/bin/sh");
    locked(&world);
}

#[test]
fn data_among_the_arguments_may_change_and_the_script_after_it_may_not() {
    let world = world();
    let folder = world.folder.display();
    let data = world.folder.join("data.db");
    fs::write(&data, "1").unwrap();
    let args = format!(
        "\"-c\", 'exec sh \"$1\" \"$2\"', \"{folder}/data.db\", \"{folder}/server.sh\", \"{folder}/tools.json\""
    );
    world.config(&format!(
        "[[servers]]\nid = \"s\"\ncommand = \"/bin/sh\"\nargs = [{args}]\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\ntrust_level = \"trusted\"\n"
    ));
    locked(&world);
    fs::write(&data, "2").unwrap();
    assert_eq!(call(&world, "s.first").unwrap(), "done");
    let script = world.folder.join("server.sh");
    fs::write(&script, format!("{SERVER}\n# changed\n")).unwrap();
    let refused = call(&world, "s.first").unwrap_err().to_string();
    assert!(refused.contains("differs from mgp.lock: its script changed from"), "{refused}");

    // An older version of mgp wrote the hash of the first file among the arguments into the lock file, even if that
    // file is data.
    fs::write(&script, SERVER).unwrap();
    let file = world.config_file().with_file_name("mgp.lock");
    let mut older: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    older["servers"]["s"]["package"]["name"] = json!(data);
    fs::write(&file, older.to_string()).unwrap();
    let refused = call(&world, "s.first").unwrap_err().to_string();
    assert!(refused.contains("or an older version wrote mgp.lock; check it"), "{refused}");
}

#[test]
fn a_locked_kernel_needs_a_lock_file_and_its_own_process() {
    let world = world();
    let output = world.output(&["--stdio", "--standalone", "--locked"]);
    assert!(text(&output.stderr).contains("write it with `mgp lock --state "), "{output:?}");
    let output = world.output(&["--stdio", "--locked"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--standalone"), "{output:?}");
    // A server that is added to the configuration later is not in the lock file.
    locked(&world);
    let config = fs::read_to_string(world.config_file()).unwrap();
    world.config(&config.replace("id = \"s\"", "id = \"t\""));
    let refused = call(&world, "t.first").unwrap_err().to_string();
    assert!(refused.contains("is not in mgp.lock") || refused.contains("4001"), "{refused}");
}

#[test]
fn servers_that_cannot_be_loaded_are_not_checked_and_keep_their_entries() {
    let world = world();
    locked(&world);
    let file = world.folder.join("mgp.lock");
    let before = fs::read_to_string(&file).unwrap();
    let config = fs::read_to_string(world.config_file()).unwrap();
    for args in [&["--check"][..], &[]] {
        let output = lock_unapproved(&world, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("run `mgp trust --state "), "{output:?}");
    }
    world.config(&config.replace("command = \"/bin/sh\"", "command = 7"));
    for args in [&["--check"][..], &[], &["s"]] {
        let output = lock(&world, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(": error: "), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // A disabled server keeps its entry in the lock file.
    world.config(&config.replace("id = \"s\"", "id = \"s\"\nenabled = false"));
    assert!(lock(&world, &["--check"]).status.success());
    locked(&world);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // `mgp lock --check` reports a removed server as a difference.
    world.config("");
    let check = lock(&world, &["--check"]);
    let printed = text(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(printed.contains("changed s: 2 tools"), "{printed}");
    assert!(printed.contains("the server is not configured any more"), "{printed}");
    locked(&world);
    assert!(lock(&world, &["--check"]).status.success());
}
