//! Tests of a kernel in a container of which `mgp serve` is the first process.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::world::{Host, World, kill, stat, within};

/// The options with which `unshare` runs a program as the first process of a namespace, as in a container.
const NAMESPACE: [&str; 6] =
    ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Returns whether this system permits such namespaces; with `MGP_STRICT=1`, fails if it does not.
fn permits_namespaces() -> bool {
    let tried = Command::new("unshare").args(NAMESPACE).arg("true").stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) {
        return true;
    }
    let strict = std::env::var("MGP_STRICT").is_ok_and(|strict| strict == "1");
    assert!(!strict, "`unshare` creates no namespace and MGP_STRICT is set");
    // Write to stderr directly, because the test harness would capture the output of `eprintln!`.
    let output = b"SKIPPED: `unshare` creates no namespace; a container was not tested\n";
    std::io::stderr().write_all(output).unwrap();
    false
}

/// Starts a standalone kernel as the first process of a namespace. Returns its host and two process ids: that of the
/// first process, and that of the kernel.
fn start(world: &World) -> (Host, u32, u32) {
    let serve = world.mgp(&["--stdio", "--standalone"]);
    let mut command = Command::new("unshare");
    command.args(NAMESPACE).arg("--").arg(serve.get_program()).args(serve.get_args());
    for (name, _) in serve.get_envs() {
        command.env_remove(name);
    }
    let mut host = Host::spawn(command);
    host.hello();
    host.echoes("there");
    let first = only_child(host.child.id());
    (host, first, only_child(first))
}

/// Returns the children of a process, also those that are zombies.
fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

#[track_caller]
fn only_child(parent: u32) -> u32 {
    let children = children(parent);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

#[test]
fn the_first_process_of_a_container_reaps_orphans_and_forwards_signals() {
    if !permits_namespaces() {
        return;
    }
    let world = World::new("");
    let (mut host, first, kernel) = start(&world);
    let keeper = only_child(kernel);
    let server = only_child(keeper);
    // Without its keeper, the server becomes an orphan and ends.
    kill("-KILL", keeper);
    within(|| stat(server).is_none().then_some(()));
    host.echoes("again");
    assert_eq!(only_child(first), kernel);
    kill("-TERM", first);
    assert_eq!(host.wait().code(), Some(0));
}

#[test]
fn the_first_process_of_a_container_ends_like_its_kernel() {
    if !permits_namespaces() {
        return;
    }
    let world = World::new("");
    let (mut host, _, kernel) = start(&world);
    kill("-KILL", kernel);
    assert_eq!(host.wait().code(), Some(128 + 9));
}
