//! Tests of servers with `[servers.confine]`, in the program itself: a server in Python tries what it must not do.

use std::net::TcpListener;

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_types::mcp::Era;
use serde_json::json;

use crate::created::python;
use crate::published::write_npx;
use crate::world::World;

/// A server whose only tool tries something, and returns `ok` or the name of the error.
pub(crate) const SCRIPT: &str = r#"
import json, os, resource, socket, sys, tempfile

TOOL = {
    "name": "attempt",
    "description": "Tries something",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}, "target": {"type": "string"}}},
}

def attempt(what, target):
    if what == "read":
        open(target).read()
    elif what == "write":
        open(target, "w").write("x")
    elif what == "temporary":
        tempfile.NamedTemporaryFile().write(b"x")
    elif what == "tcp":
        socket.create_connection(("127.0.0.1", int(target)), 5).close()
    elif what == "listen":
        socket.create_server(("127.0.0.1", int(target))).close()
    elif what == "datagram":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    elif what == "mptcp":
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()
    elif what == "local":
        socket.socket(socket.AF_UNIX).close()
    elif what == "pair":
        [end.close() for end in socket.socketpair()]
    elif what == "kill":
        os.kill(int(target), 0)
    elif what == "free port":
        socket.socket().listen()
    elif what == "limits":
        resource.prlimit(int(target), resource.RLIMIT_FSIZE)
    elif what == "link":
        os.symlink(target, "module.py")
    elif what == "loader":
        return f"{os.getppid()} {os.environ['LD_LIBRARY_PATH']}"
    return "ok"

for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if "id" not in message:
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "tries", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif method == "tools/call":
        try:
            text = attempt(**message["params"]["arguments"])
        except OSError as error:
            text = type(error).__name__
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
"#;

/// Returns whether this system can enforce all restrictions that the tests try: Linux 6.12 or later.
pub(crate) fn can_confine() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    mgp_transport::Confinement::is_supported()
        && [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)] >= [6, 12]
}

/// Returns a world with the server, whose `[servers.confine]` has these lines.
fn world(confine: &str) -> World {
    let world = World::new(&format!(
        "[[servers]]\nid = 'tries'\ncommand = '{}'\nargs = ['{{DIR}}/code/server.txt', 'module.py']\n\
         env = {{ LD_LIBRARY_PATH = '/nowhere:' }}\n[servers.confine]\n{confine}\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
         risk = {{ attempt = 'safe' }}\nvalidators = {{ attempt = 'none' }}\n",
        python()
    ));
    for folder in ["code", "readable", "writable"] {
        std::fs::create_dir_all(world.path(folder)).unwrap();
    }
    world.write("code/server.txt", SCRIPT);
    world.write("readable/note.txt", "a note");
    world.write("secret.txt", "a secret");
    world
}

/// Calls the tool; returns its answer, or the error of a refused call.
pub(crate) async fn attempt(host: &Client, what: &str, target: impl AsRef<str>) -> String {
    let arguments = json!({"what": what, "target": target.as_ref()});
    let call = json!({"name": "tries.attempt", "arguments": arguments});
    match host.call("mgp_tools_call").args(call).await {
        Ok(answer) => answer.to_text(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_confined_server_reads_writes_and_connects_only_where_it_may() {
    if !can_confine() {
        return;
    }
    let (permitted, other) = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap()).into();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
    let world = world(&format!(
        "read = ['readable']\nwrite = ['writable']\nconnect = ['{}']",
        port(&permitted)
    ));
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(1).await;
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    for (what, target) in [
        ("read", path("readable/note.txt")),
        ("read", path("code/server.txt")),
        ("write", path("writable/new.txt")),
        ("temporary", String::new()),
        ("tcp", port(&permitted)),
        ("datagram", String::new()),
        ("pair", String::new()),
    ] {
        assert_eq!(attempt(&host, what, &target).await, "ok", "{what} {target}");
    }
    let refused = [
        ("read", path("secret.txt")),
        ("read", path("mgp.toml")),
        ("write", path("readable/note.txt")),
        ("write", path("new.txt")),
        ("write", "/tmp/mgp-confined-server".to_owned()),
        ("tcp", port(&other)),
        ("listen", "0".to_owned()),
        ("free port", String::new()),
        ("limits", std::process::id().to_string()),
        ("mptcp", String::new()),
        ("local", String::new()),
    ];
    for (what, target) in refused {
        let text = attempt(&host, what, &target).await;
        assert_eq!(text, "PermissionError", "{what} {target}");
    }
    host.close().await;
}

#[tokio::test]
async fn a_confined_server_without_rights_opens_no_socket_and_signals_no_process() {
    if !can_confine() {
        return;
    }
    let world = world("");
    let host = world.host("ada", Era::Modern, Client::builder("host", "1")).await;
    world.knows(1).await;
    for what in ["datagram", "tcp", "local"] {
        assert_eq!(attempt(&host, what, "9").await, "PermissionError", "{what}");
    }
    let own = std::process::id().to_string();
    assert_eq!(attempt(&host, "kill", own).await, "PermissionError");
    host.close().await;
}

/// The folder that a server can write must have no effect on what it may do after its next start.
#[tokio::test]
async fn a_confined_server_gains_no_rights_by_links_in_its_private_folder() {
    if !can_confine() {
        return;
    }
    let world = world("");
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(1).await;
    let secret = world.path("secret.txt").to_str().unwrap().to_owned();
    assert_eq!(attempt(&host, "link", &secret).await, "ok");
    world.json(&["servers", "restart", "tries"]);
    assert_eq!(attempt(&host, "read", &secret).await, "PermissionError");
    host.close().await;
}

/// A library in a folder that the server can write must not run in the processes that confine it.
#[tokio::test]
async fn variables_of_the_loader_have_an_effect_only_after_the_confinement() {
    if !can_confine() {
        return;
    }
    let world = world("");
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(1).await;
    let shown = attempt(&host, "loader", "").await;
    let (keeper, value) = shown.split_once(' ').unwrap();
    assert_eq!(value, "/nowhere:");
    let environ = std::fs::read(format!("/proc/{keeper}/environ")).unwrap();
    assert!(!environ.split(|byte| *byte == 0).any(|line| line.starts_with(b"LD_")));
    host.close().await;
}

/// A server that could change its own rules, or that could not use what it was given, does not start; the reason has the
/// remedy.
#[tokio::test]
async fn rights_to_write_the_configuration_or_without_effect_prevent_the_start() {
    for (confine, reason) in
        [("write = ['{DIR}']", "name narrower folders"), ("read = ['missing']", "create it")]
    {
        let world = world(confine);
        let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
        let mut shown = String::new();
        mgp_testkit::until("the server has failed", async || {
            shown = world.json(&["servers", "ls"]).to_string();
            shown.contains(reason)
        })
        .await;
        assert!(shown.contains("`confine"), "{shown}");
        host.close().await;
    }
}

/// An entry with a mistake keeps its earlier rules, so the command must not report success.
#[tokio::test]
async fn a_server_is_not_reported_as_confined_while_its_earlier_rights_apply() {
    if !can_confine() {
        return;
    }
    let world = world("");
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(1).await;
    let file = world.path("mgp.toml").to_str().unwrap().to_owned();
    let confine = ["servers", "confine", "tries", "--config", &file, "--connect"];
    let port = world.command(&[&confine[..], &["https"]].concat()).output().unwrap();
    assert_eq!(port.status.code(), Some(2), "{port:?}");
    let text = std::fs::read_to_string(world.path("mgp.toml")).unwrap();
    world.write("mgp.toml", &format!("{text}\n[[servers]]\nid = 'broken'\n"));
    let failed = world.command(&[&confine[..], &["443"]].concat()).output().unwrap();
    assert!(!failed.status.success(), "{failed:?}");
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert!(stderr.contains("earlier rights"), "{stderr}");
    let remedy = format!("`mgp servers confine tries --off --config {file}`");
    assert!(stderr.contains(&remedy), "{stderr}");
    host.close().await;
}

/// The first line of a script that the server can write gives the server no right, so the script cannot start.
#[test]
fn the_error_of_a_script_that_its_server_can_write_names_the_interpreter() {
    if !can_confine() {
        return;
    }
    let world = World::new(
        "[[servers]]\nid = 'own'\ncommand = '{DIR}/writable/run'\n[servers.confine]\nwrite = ['{DIR}/writable']\n",
    );
    let shell = world.write("own/shell", "");
    std::fs::copy("/bin/sh", &shell).unwrap();
    let script = world.write("writable/run", &format!("#!{}\nexec cat\n", shell.display()));
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let file = world.path("mgp.toml").to_str().unwrap().to_owned();
    let report = world.command(&["doctor", "--config", &file]).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout);
    assert!(report.contains("its interpreter `") && report.contains("own/shell`"), "{report}");
}

#[tokio::test]
async fn a_package_that_may_not_connect_is_named_before_it_fails() {
    let world =
        World::new("[[servers]]\nid = 'near'\ncommand = 'npx'\nargs = ['-y', 'near@1.0.0']\n");
    write_npx(&world, "#!/bin/sh\nexit 1\n");
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    let file = world.path("mgp.toml").to_str().unwrap().to_owned();
    let confine = ["servers", "confine", "near", "--config", &file];
    for (rights, is_named) in [(&[][..], true), (&["--connect", "443"][..], false)] {
        let confined = world.command(&[&confine[..], rights].concat()).output().unwrap();
        let stderr = String::from_utf8(confined.stderr).unwrap();
        assert!(!confined.status.success(), "{stderr}");
        assert_eq!(stderr.contains("add `--connect 443`"), is_named, "{stderr}");
    }
    host.close().await;
}

#[tokio::test]
async fn the_private_folder_of_a_confined_server_is_removed_with_it() {
    if !can_confine() {
        return;
    }
    let world = world("");
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(1).await;
    assert_eq!(attempt(&host, "temporary", "").await, "ok");
    let private = world.path("state/confined/tries");
    assert!(private.join("tmp").is_dir());
    let file = world.path("mgp.toml").to_str().unwrap().to_owned();
    world.json(&["servers", "rm", "tries", "--config", &file]);
    assert!(!private.exists());
    host.close().await;
}
