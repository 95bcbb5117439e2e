//! Tests of one kernel that many hosts share.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::{Host, World, exists, kill, lives, rss, within};

#[test]
fn hosts_that_start_together_share_one_kernel_which_stops_after_them() {
    let world = World::new("");
    let mut hosts: Vec<Host> = (0..4).map(|_| Host::start(&world, &["--linger", "1"])).collect();
    for host in &mut hosts {
        host.hello();
    }
    let kernel = world.kernel().unwrap();
    for host in &mut hosts {
        host.echoes("hello");
    }
    // All hosts share one kernel, which has started the server once.
    assert_eq!(world.kernel(), Some(kernel));
    let keepers =
        world.marked().iter().filter(|pid| crate::world::stat(**pid).unwrap().1 == kernel).count();
    assert_eq!(keepers, 1);
    let socket = fs::metadata(world.socket()).unwrap().permissions().mode();
    let folder = fs::metadata(world.state()).unwrap().permissions().mode();
    assert_eq!((socket & 0o777, folder & 0o777), (0o600, 0o700));
    for host in hosts {
        assert_eq!(host.leave().code(), Some(0));
    }
    within(|| (!lives(kernel)).then_some(()));
    assert!(!exists(&world.socket()));
    world.nothing_is_left();
}

#[test]
fn a_connected_agent_is_known_to_commands() {
    let world = World::new("");
    let mut host = world.host(&["--agent", "eve"]);
    host.echoes("hello");
    let notes = |agent: &str| {
        let mut why = Command::new(env!("CARGO_BIN_EXE_mgp"));
        why.env("HOME", &world.folder).env_remove("MGP_CONFIG_PATH");
        why.arg("--state").arg(world.state()).args(["why", agent, "echo.echo"]);
        let output = why.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(notes("bob").contains("no agent `bob` is known yet"));
    assert!(!notes("eve").contains("is known yet"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_active_host_leaves_the_state_folder_to_the_service_that_replaces_its_kernel() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "30"]);
    host.echoes("before");
    // As in a real system, the service manager starts the service some time after the kernel has stopped.
    let service = world.service();
    let words = std::iter::once(service.get_program()).chain(service.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let start = format!("(sleep 0.5; exec {}) < /dev/null > /dev/null 2>&1 &", words.join(" "));
    let manager = world.folder.join("systemctl");
    fs::write(&manager, format!("#!/bin/sh\ncase \"$*\" in *restart*) {start} ;; esac\n")).unwrap();
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&world.program);
        command.env("HOME", &world.folder).env_remove("XDG_CONFIG_HOME");
        command.env("PATH", format!("{}:/usr/bin:/bin", world.folder.display()));
        command.env_remove("MGP_CONFIG_PATH").stdin(Stdio::null());
        let output = command.arg("--state").arg(world.state()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let ends = AtomicBool::new(false);
    let installed = thread::scope(|scope| {
        let calls = scope.spawn(|| {
            while !ends.load(Ordering::Acquire) {
                host.echoes("during");
            }
        });
        let file = world.config_file();
        let installed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&["service", "install", "--config", file.to_str().unwrap()])
        }));
        ends.store(true, Ordering::Release);
        calls.join().unwrap();
        installed.unwrap()
    });
    assert!(installed.contains("service: running"), "{installed}");
    host.echoes("after");
    let kernel = world.kernel().unwrap();
    let command = fs::read_to_string(format!("/proc/{kernel}/cmdline")).unwrap();
    assert!(command.contains("--service"), "{command:?}");
    assert_eq!(host.leave().code(), Some(0));
    let marker = world.state().join("service");
    assert!(marker.exists());
    run(&["stop"]);
    assert!(!marker.exists(), "a host starts the next kernel at once");
}

#[test]
fn a_host_that_connects_while_the_kernel_stops_gets_another_kernel() {
    let world = World::new("");
    for round in 0..5 {
        let mut host = world.host(&["--linger", "0"]);
        host.echoes(&round.to_string());
        assert_eq!(host.leave().code(), Some(0));
    }
}

#[test]
fn the_kernel_does_not_end_with_the_host_that_started_it() {
    let world = World::new("");
    let first = world.host(&["--linger", "30"]);
    let kernel = world.kernel().unwrap();
    let mut second = world.host(&["--linger", "30"]);
    drop(first);
    second.echoes("still here");
    assert_eq!(world.kernel(), Some(kernel));
    kill("-TERM", kernel);
    within(|| (!lives(kernel)).then_some(()));
    second.echoes("with the next kernel");
    assert!(world.kernel().is_some_and(|next| next != kernel));
}

#[test]
fn an_invalid_first_line_is_refused_with_the_right_one() {
    let world = World::new("");
    let _host = world.host(&[]);
    let check = |preface: &str, expected: &str| {
        let printed = world.connect(preface).err().unwrap();
        assert_eq!((&printed["mgp"], &printed["ok"]), (&json!(1), &json!(false)), "{printed}");
        assert!(printed["error"].as_str().unwrap().contains(expected), "{printed}");
    };
    check("GET / HTTP/1.1\n", "write one line first");
    check("{\"mgp\":7,\"as\":\"operator\"}\n", "revision 1");
    check("{\"mgp\":1,\"as\":\"root\"}\n", "not a hello");
    check(&("x".repeat(20_000) + "\n"), "too long");
}

#[test]
fn connections_above_the_limit_are_refused_with_the_reason() {
    let world = World::new("");
    let _host = world.host(&[]);
    let line = "{\"mgp\":1,\"as\":\"agent\"}\n";
    let mut wires = Vec::new();
    let refused = loop {
        match world.connect(line) {
            Ok(wire) => wires.push(wire),
            Err(refused) => break refused,
        }
        assert!(wires.len() < 300);
    };
    assert_eq!(wires.len(), 239);
    assert!(refused["error"].as_str().unwrap().contains("limit of connections"));
    wires.truncate(10);
    within(|| world.connect(line).ok());
}

#[test]
fn connections_that_send_no_first_line_do_not_keep_others_out() {
    let world = World::new("");
    let _host = world.host(&[]);
    let silent: Vec<_> = (0..300).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    let line = "{\"mgp\":1,\"as\":\"agent\"}\n";
    let refused = world.connect(line).err();
    assert!(refused.is_none(), "{refused:?}");
    drop(silent);
}

/// Sends a request over HTTP; returns the status and the whole response.
fn post(address: &str, key: Option<&str>) -> (u16, String) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let key = key.map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\n{key}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

fn address(ready: &Value) -> String {
    let url = ready["http"].as_str().unwrap();
    url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned()
}

#[test]
fn a_kernel_at_an_address_writes_its_ready_file_and_serves_hosts_too() {
    let world = World::new("");
    let file = world.ready_file();
    let options = ["--http", "127.0.0.1:0", "--no-auth", "--ready-file", file.to_str().unwrap()];
    let mut kernel = world.mgp(&options).stderr(Stdio::piped()).spawn().unwrap();
    let ready = world.ready();
    assert_eq!(ready["pid"], kernel.id());
    assert_eq!(ready["socket"], world.socket().to_str().unwrap());
    assert_eq!(ready["servers"], json!(["echo"]));
    let (status, answer) = post(&address(&ready), None);
    assert!(status == 200 || status == 400, "{answer}");
    let mut host = world.host(&[]);
    host.echoes("over the socket of the same kernel");
    if let Some((all, own)) = rss(kernel.id()) {
        println!("kernel at an address: {all} KiB, {own} KiB of its own");
    }
    assert_eq!(host.leave().code(), Some(0));
    kill("-TERM", kernel.id());
    assert_eq!(kernel.wait().unwrap().code(), Some(0));
    assert!(!exists(&file) && !exists(&world.socket()));
    world.nothing_is_left();
}

#[test]
fn callers_without_a_key_are_refused_at_an_address() {
    let world = World::new("");
    let file = world.ready_file();
    let options = ["--http", "127.0.0.1:0", "--ready-file", file.to_str().unwrap()];
    let mut kernel = world.mgp(&options).stderr(Stdio::piped()).spawn().unwrap();
    let address = address(&world.ready());
    assert_eq!(post(&address, None).0, 401);
    assert_eq!(post(&address, Some("mgp_0011223344556677_nothing-that-was-issued")).0, 401);
    kill("-INT", kernel.id());
    assert_eq!(kernel.wait().unwrap().code(), Some(0));
    let mut printed = String::new();
    kernel.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    let remedy = format!("run `mgp keys add AGENT --state {}`", world.state().display());
    assert!(printed.contains(&remedy), "{printed}");
}

#[test]
fn a_shim_reports_the_kernel_it_found() {
    let world = World::new("");
    let _first = world.host(&[]);
    let other = world.folder.join("other.toml");
    fs::write(&other, "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    let mut shim = command
        .args(["serve", "--stdio", "--ready-file"])
        .arg(world.ready_file())
        .arg("--config")
        .arg(&other)
        .arg("--state")
        .arg(world.state())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = world.ready();
    assert_eq!(ready["pid"], world.kernel().unwrap());
    assert_eq!(ready["servers"], json!(["echo"]));
    drop(shim.stdin.take());
    let mut printed = String::new();
    shim.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("configuration ignored"), "{printed}");
    assert_eq!(shim.wait().unwrap().code(), Some(0));
    assert!(!exists(&world.ready_file()));
}

#[test]
fn a_host_that_still_writes_when_its_kernel_ends_is_served_by_the_next_one() {
    let world = World::new("");
    let _first = world.host(&[]);
    let mut command = world.mgp(&["--stdio"]);
    let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (shim.stdin.take().unwrap(), shim.stdout.take().unwrap());
    let printed = Arc::new(AtomicUsize::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let (counts, ends) = (Arc::clone(&printed), Arc::clone(&is_over));
    let speaks = thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
            counts.fetch_add(1, Ordering::Relaxed);
        }
        input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").unwrap();
        input
    });
    // The test does not read the output of `mgp serve --stdio`, so its buffers fill up and the writes of the host
    // block.
    let mut before = 0;
    within(|| {
        thread::sleep(Duration::from_millis(200));
        let now = printed.load(Ordering::Relaxed);
        (now > 0 && std::mem::replace(&mut before, now) == now).then_some(())
    });
    let ended = world.kernel().unwrap();
    kill("-KILL", ended);
    let reads = thread::spawn(move || {
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        lines.any(|line| line.contains("\"id\":2"))
    });
    within(|| world.kernel().filter(|pid| *pid != ended));
    is_over.store(true, Ordering::Relaxed);
    let input = speaks.join().unwrap();
    assert!(reads.join().unwrap(), "the next kernel answers");
    drop(input);
    assert_eq!(shim.wait().unwrap().code(), Some(0));
}

#[test]
fn a_large_message_is_relayed_whole_both_ways() {
    let world = World::new("[kernel.results]\nmax_text = 0\n");
    let mut host = world.host(&[]);
    host.echoes("small");
    let large = "0123456789abcdef".repeat(40_000);
    let repeated = thread::scope(|scope| {
        let call = scope.spawn(|| host.call("echo", &json!({"message": large})));
        call.join().unwrap()
    });
    assert_eq!(repeated.unwrap().len(), large.len());
}

#[test]
fn a_kernel_at_an_address_takes_over_from_the_kernel_of_an_active_host() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "30"]);
    host.echoes("before");
    let first = world.kernel().unwrap();
    let ends = AtomicBool::new(false);
    let serving = thread::scope(|scope| {
        // The host sends requests all the time, so its shim would start the next kernel immediately.
        let calls = scope.spawn(|| {
            while !ends.load(Ordering::Acquire) {
                host.echoes("during");
            }
        });
        let serving = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Serving::start(&world, &["--no-auth"])
        }));
        ends.store(true, Ordering::Release);
        calls.join().unwrap();
        serving.unwrap()
    });
    within(|| (!lives(first)).then_some(()));
    host.echoes("after");
    assert_eq!(world.kernel(), Some(serving.kernel.id()));
    // A second kernel does not replace a kernel that a person started.
    let refused = world.output(&["--http", "127.0.0.1:0", "--no-auth"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && error.contains("already uses"), "{error}");
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_service_takes_over_from_the_kernel_of_a_host() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "30"]);
    host.echoes("before");
    let mut service = world.service().spawn().unwrap();
    within(|| (world.kernel() == Some(service.id())).then_some(()));
    host.echoes("after");
    assert_eq!(host.leave().code(), Some(0));
    kill("-TERM", service.id());
    assert_eq!(service.wait().unwrap().code(), Some(0));
}

#[test]
fn a_kernel_that_could_not_serve_does_not_stop_the_kernel_of_a_host() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "30"]);
    host.echoes("before");
    let first = world.kernel();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    for address in [&*taken, "0.0.0.0:0"] {
        let refused = world.output(&["--http", address, "--no-auth"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        host.echoes(address);
        assert_eq!(world.kernel(), first);
    }
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_kernel_whose_folder_was_removed_ends_and_leaves_the_next_one_its_socket() {
    let world = World::new("");
    let mut first = Serving::start(&world, &["--no-auth"]);
    let ready = fs::read_to_string(world.ready_file()).unwrap();
    within(|| fs::remove_dir_all(world.state()).ok());
    let mut host = world.host(&["--linger", "30"]);
    let ended = within(|| first.kernel.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
    assert_ne!(fs::read_to_string(world.ready_file()).ok(), Some(ready));
    host.echoes("with the next kernel");
    assert!(exists(&world.socket()));
    drop(world.operator());
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_host_whose_state_folder_was_removed_is_served_by_a_kernel_in_a_new_folder() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "30"]);
    host.echoes("before");
    let first = world.kernel().unwrap();
    within(|| fs::remove_dir_all(world.state()).ok());
    within(|| (!lives(first)).then_some(()));
    host.echoes("after");
    assert!(world.kernel().is_some_and(|next| next != first));
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_kernel_whose_socket_was_removed_serves_new_hosts_at_a_new_one() {
    let world = World::new("");
    let mut host = world.host(&[]);
    host.echoes("before");
    let kernel = world.kernel();
    fs::remove_file(world.socket()).unwrap();
    let mut other = world.host(&[]);
    other.echoes("new");
    host.echoes("old");
    assert_eq!(world.kernel(), kernel);
    drop(world.operator());
}

/// This test takes about 50 seconds, in which it only waits: a kernel that stops may finish its calls first.
#[test]
fn a_host_gets_a_reason_although_the_process_that_uses_the_folder_never_serves() {
    let world = World::new("");
    assert_eq!(world.host(&["--linger", "0"]).leave().code(), Some(0));
    within(|| world.kernel().is_none().then_some(()));
    let lock = world.state().join("kernel.lock");
    fs::write(&lock, std::process::id().to_string()).unwrap();
    let held = fs::File::open(&lock).unwrap();
    within(|| held.try_lock().ok());
    let reason = format!("process {} uses the state folder", std::process::id());
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_mgp"));
    doctor.args(["doctor", "--no-start", "--config"]).arg(world.config_file());
    let report = doctor.arg("--state").arg(world.state()).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&report).contains(&reason));
    let refused = world.output(&["--stdio"]);
    let shown = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(3) && shown.contains(&reason), "{shown}");
}
