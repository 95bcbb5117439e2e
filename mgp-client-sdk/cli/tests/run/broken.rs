//! Test of many servers (two hundred in the acceptance check), most of which are broken in one of fifteen ways. The
//! other servers must work, and `mgp doctor` must name a remedy for each broken server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chaos::{A_CHECK, rounds};
use crate::program::program;
use crate::world::{Host, World, text, within, within_time};

/// Returns the number of broken servers of each kind: few in an ordinary test run, ten in the acceptance check.
fn of_a_kind() -> usize {
    if rounds() < A_CHECK { 3 } else { 10 }
}

/// Returns the number of working servers.
fn work() -> usize {
    of_a_kind() * WORK
}

/// The number of working servers for each broken server of one kind. Their ids are short, because the kernel could
/// refuse long ids that look alike.
const WORK: usize = 5;

/// The kinds of broken servers, with their configuration entries.
const BROKEN: [(&str, &str); 15] = [
    ("nowhere", r#"command = "no-such-program-of-ours""#),
    ("path", r#"command = "/no/such/program""#),
    ("plain", r#"command = "FOLDER/plain.txt""#),
    ("folder", r#"command = "/tmp""#),
    ("ends", r#"command = "false""#),
    (
        "dies",
        r#"command = "sh"
args = ["-c", "echo there is no token >&2; exit 3"]"#,
    ),
    (
        "hangs",
        r#"command = "sleep"
args = ["600"]"#,
    ),
    (
        "garbage",
        r#"command = "sh"
args = ["-c", "echo Welcome; echo '{]'; exec sleep 600"]"#,
    ),
    ("parrot", r#"command = "cat""#),
    (
        "refuses",
        r#"command = "sh"
args = ["-c", "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"no licence\"}}'; exec sleep 600"]"#,
    ),
    (
        "unset",
        r#"command = "sh"
env = { KEY = "${NOT_SET_ANYWHERE_OF_OURS}" }"#,
    ),
    (
        "cwd",
        r#"command = "cat"
cwd = "/no/such/folder""#,
    ),
    ("url", r#"url = "http://127.0.0.1:9/mcp""#),
    ("typo", r#"comand = "cat""#),
    (
        "both",
        r#"command = "cat"
url = "http://127.0.0.1:9/mcp""#,
    ),
];

/// Writes a configuration with all servers, in mixed order.
fn configured(world: &World) {
    fs::write(world.folder.join("plain.txt"), "no program").unwrap();
    let echo = program("echo");
    let folder = world.folder.display().to_string();
    let mut config = String::new();
    for number in 0..of_a_kind() {
        for (kind, entry) in BROKEN {
            let entry = entry.replace("FOLDER", &folder);
            let _ = write!(config, "[[servers]]\nid = \"{kind}-{number}\"\n{entry}\n\n");
        }
        for work in 0..WORK {
            let id = WORK * number + work;
            let _ = write!(
                config,
                "[[servers]]\nid = \"ok{id}\"\ncommand = \"{echo}\"\n[servers.mgp]\ndefault_policy = \"opt-out\"\n\n",
            );
        }
    }
    world.config(&config);
}

fn broken() -> BTreeSet<String> {
    let ids = BROKEN.iter().map(|(kind, _)| kind);
    ids.flat_map(|kind| (0..of_a_kind()).map(move |number| format!("{kind}-{number}"))).collect()
}

fn works() -> BTreeSet<String> {
    (0..work()).map(|id| format!("ok{id}")).collect()
}

#[test]
fn working_servers_work_beside_broken_ones_and_doctor_names_the_broken_ones() {
    let world = World::empty();
    configured(&world);
    let ready = world.ready_file();
    let begun = Instant::now();
    let mut host = Host::standalone(&world, &["--ready-file", ready.to_str().unwrap()]);
    world.ready();
    let served = begun.elapsed();
    let mut operator = world.operator();
    let connected = within_time(Duration::from_mins(1), || {
        let listed = operator.ask("mgp/kernel/servers", &json!({})).unwrap();
        let all = listed["servers"].as_array().unwrap().iter();
        let there = all.filter(|server| server["status"] == "connected" && server["tools"] == 1);
        let there: BTreeSet<_> = there.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        (there.len() >= work()).then_some(there)
    });
    let all = begun.elapsed();
    assert_eq!(connected, works());
    for id in works() {
        let asked = json!({"name": format!("{id}.echo"), "arguments": {"message": id}});
        assert_eq!(host.call("mgp_tools_call", &asked).unwrap(), id);
    }
    let asked = json!({"server_id": "dies-0"});
    let why = within(|| {
        let reply = operator.ask("mgp/kernel/servers", &asked).unwrap();
        reply["servers"][0]["error"].as_str().map(str::to_owned)
    });
    assert!(why.contains("code 3"), "{why}");
    assert_eq!(host.leave().code(), Some(0));
    let (report, took) = doctor(&world);
    println!(
        "{} servers: served after {served:?}, the {} that work were there after {all:?}; doctor named {} in {took:?}",
        works().len() + broken().len(),
        work(),
        broken().len(),
    );
    let bound = Duration::from_secs(if rounds() < A_CHECK { 20 } else { 2 });
    assert!(served < bound, "{served:?}");
    let (all, ill) = (works().len() + broken().len(), broken().len());
    assert_eq!((&report["servers"], &report["broken"]), (&json!(all), &json!(ill)), "{report}");
    let checks = report["checks"].as_array().unwrap();
    let mut named = BTreeSet::new();
    for check in checks.iter().filter(|check| check["level"] == "fail") {
        let fix = check["fix"].as_str().unwrap_or_default();
        assert!(!fix.is_empty(), "no remedy: {check}");
        named.insert(check["server"].as_str().unwrap().to_owned());
    }
    assert_eq!(named, broken());
    assert!(took < Duration::from_mins(1), "{took:?}");
}

fn doctor(world: &World) -> (Value, Duration) {
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_mgp"))
        .args(["doctor", "--json", "--timeout", "8s", "--config"])
        .arg(world.config_file())
        .arg("--state")
        .arg(world.state())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), begun.elapsed())
}
