//! Tests that a kernel, its servers and their child processes end, by whatever cause.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use mgp_security::Governance;
use mgp_testkit::{KilledChild, Stopwatch};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::program::program;
use crate::serving::Serving;
use crate::world::{Host, World, exists, kill, lives, rss, stat, within};

/// Returns the script of a server with three child processes. Some of them leave its process group, its session, or
/// their parent.
fn stubborn() -> String {
    format!("setsid sleep 301 & (setsid sleep 302 &) ; sleep 303 & exec {}", program("echo"))
}

/// Creates a world whose configuration has a server with the script of [`stubborn`].
fn grown() -> World {
    let world = World::empty();
    world.config(&world.server("echo", &stubborn()));
    world
}

/// The number of processes for each server: the server, its three child processes, and its keeper (a process between
/// kernel and server).
const ALL: usize = 5;

fn all(world: &World) -> Vec<u32> {
    within(|| Some(world.marked()).filter(|all| all.len() == ALL))
}

/// Returns two process ids: that of the keeper (the process between kernel and server), and that of the server.
fn keeper(world: &World, kernel: u32) -> (u32, u32) {
    let all = all(world);
    let parent = |pid: u32| stat(pid).map(|(_, parent)| parent);
    let keeper = *all.iter().find(|pid| parent(**pid) == Some(kernel)).unwrap();
    let is_server = |pid: &&u32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("echo"))
    };
    (keeper, *all.iter().find(is_server).unwrap())
}

#[test]
fn nothing_outlives_a_kernel_that_is_killed() {
    let world = grown();
    let mut host = world.host(&["--standalone"]);
    host.echoes("there");
    let kernel = host.child.id();
    let (keeper, server) = keeper(&world, kernel);
    let (all_of_it, own) = rss(keeper).unwrap();
    println!("a keeper: {all_of_it} KiB, {own} KiB of its own");
    let descriptors = fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().count();
    assert_eq!(descriptors, 4, "the standard ones, and the wire to the kernel");
    let (wires, others) = (sockets(keeper), sockets(server));
    assert!(wires.len() == 1 && !others.contains(&wires[0]), "{wires:?} {others:?}");
    let begun = Stopwatch::start();
    kill("-KILL", kernel);
    world.nothing_is_left();
    println!("nothing was left after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

fn sockets(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let open = open.map(|to| to.to_string_lossy().into_owned());
    open.filter(|to| to.starts_with("socket:")).collect()
}

#[test]
fn a_shared_kernel_that_is_killed_leaves_nothing_and_its_host_gets_another() {
    let world = grown();
    let mut host = world.host(&[]);
    host.echoes("there");
    let kernel = world.kernel().unwrap();
    all(&world);
    kill("-KILL", kernel);
    world.nothing_is_left();
    assert!(exists(&world.socket()), "it is stale now");
    host.echoes("again");
    assert_ne!(world.kernel(), Some(kernel));
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_shim_whose_standard_error_is_closed_survives_its_kernel() {
    let world = World::new("");
    let mut host = world.host(&[]);
    host.echoes("there");
    drop(host.child.stderr.take());
    kill("-KILL", world.kernel().unwrap());
    host.echoes("again");
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_kernel_whose_standard_error_is_closed_answers_calls_that_it_denies() {
    let world = World::empty();
    let server = world.server("echo", &format!("exec {}", program("echo")));
    world.config(&server.replace("opt-out", "opt-in"));
    // With `-v`, the kernel logs each denial.
    let mut life = Serving::start_with(&world, &["--no-auth", "-v"], Stdio::piped());
    drop(life.kernel.stderr.take());
    post(&life.url(), "/tools/echo.echo", "", r#"{"message":"x"}"#, "HTTP/1.1 403");
}

/// Sends a request until its answer contains the expected text, because the kernel answers differently until it knows
/// the tools of the server.
fn post(url: &str, path: &str, headers: &str, body: &str, expected: &str) {
    let host = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    within(|| {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.contains(expected).then_some(())
    });
}

#[test]
fn a_call_whose_kernel_is_killed_is_answered_and_the_lists_are_reported_as_changed() {
    let world = World::new("");
    let mut host = world.host(&[]);
    host.echoes("there");
    let kernel = world.kernel().unwrap();
    for pid in world.marked() {
        // Suspend the server and its keeper, so that the next call gets no response.
        kill("-STOP", pid);
    }
    let killing = std::thread::spawn(move || {
        // Wait until the kernel has received the call.
        std::thread::sleep(Duration::from_secs(3));
        kill("-KILL", kernel);
    });
    let error = host.call("echo", &serde_json::json!({"message": "lost"})).unwrap_err();
    killing.join().unwrap();
    assert!(error.to_string().contains("may have run"), "{error}");
    host.echoes("again");
    assert_ne!(world.kernel(), Some(kernel));
    let changed = host.notified();
    for list in ["tools", "prompts", "resources"] {
        assert!(changed.contains(&format!("notifications/{list}/list_changed")), "{changed:?}");
    }
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_kernel_that_an_operator_stopped_starts_again_when_its_host_needs_it() {
    let world = World::new("");
    let mut host = world.host(&[]);
    host.echoes("there");
    let kernel = world.kernel().unwrap();
    kill("-TERM", kernel);
    within(|| (!lives(kernel)).then_some(()));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(world.kernel(), None, "nobody needs it");
    host.echoes("again");
    assert!(world.kernel().is_some_and(|next| next != kernel));
}

#[test]
fn a_configuration_that_broke_is_named_to_each_call_and_the_host_goes_on_once_it_is_corrected() {
    let world = World::new("");
    let mut host = world.host(&[]);
    host.echoes("there");
    let good = fs::read_to_string(world.config_file()).unwrap();
    world.config(&format!("{good}\n[[servers]\n"));
    let kernel = world.kernel().unwrap();
    kill("-KILL", kernel);
    within(|| (!lives(kernel)).then_some(()));
    for message in ["one", "two"] {
        // The killed kernel may have received the first call. In this case, the error states that the call may have
        // run, and the test calls again.
        let error = within(|| {
            let call = host.call("echo", &serde_json::json!({ "message": message }));
            Some(call.unwrap_err().to_string()).filter(|error| !error.contains("may have run"))
        });
        assert!(error.contains("mgp.toml:") && error.contains("mgp doctor"), "{error}");
    }
    // The kernel refuses each of several calls that wait at the same time.
    let answers = host.calls_at_once(&["three", "four", "five"]);
    assert!(answers.iter().all(|answer| answer["error"].is_object()), "{answers:?}");
    world.config(&good);
    host.echoes("again");
    assert_eq!(host.leave().code(), Some(0));
}

#[tokio::test]
async fn a_signal_or_the_end_of_input_stops_the_kernel_in_order() {
    for how in ["-TERM", "-INT", "-HUP", "input"] {
        // Skip SIGHUP if the test process ignores it, e.g. under `nohup`, because its children then ignore it too.
        if how == "-HUP" && ignores_hangup() {
            continue;
        }
        let world = grown();
        let file = world.ready_file();
        let mut host = world.host(&["--standalone", "--ready-file", file.to_str().unwrap()]);
        assert_eq!(world.ready()["http"], serde_json::Value::Null);
        host.echoes("there");
        all(&world);
        let begun = Instant::now();
        let ended = match how {
            "input" => host.leave(),
            signal => {
                kill(signal, host.child.id());
                host.wait()
            }
        };
        assert_eq!(ended.code(), Some(0), "{how}");
        println!("{how}: {:?}", begun.elapsed());
        // The test does not wait here, because everything must have ended before the kernel exits.
        assert!(world.marked().is_empty(), "{how}");
        assert!(!exists(&file) && !exists(&world.socket()), "{how}");
        assert!(Governance::verify(world.state()).await.unwrap() > 0, "{how}");
    }
}

#[test]
fn a_service_fails_while_another_kernel_uses_its_folder_so_that_it_is_started_again() {
    let world = World::new("");
    // The kernel of a service replaces a kernel that several hosts share, but not a kernel that belongs to a single
    // host.
    let mut host = Host::standalone(&world, &[]);
    host.echoes("there");
    assert_eq!(world.service().status().unwrap().code(), Some(1));
    host.echoes("still there");
    assert_eq!(host.leave().code(), Some(0));
}

/// Returns whether this process ignores SIGHUP.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn a_kernel_under_nohup_goes_on_after_a_hangup() {
    let world = World::new("");
    let mut host = Host::spawn(world.mgp_after("trap '' HUP", &["--stdio", "--standalone"]));
    host.hello();
    host.echoes("there");
    kill("-HUP", host.child.id());
    std::thread::sleep(Duration::from_millis(300));
    host.echoes("still there");
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_slow_stop() {
    let world = World::empty();
    let echo = program("echo");
    world.config(
        &world.server("echo", &format!("trap '' TERM; {echo} ; while :; do sleep 1; done")),
    );
    let mut host = world.host(&["--standalone"]);
    host.echoes("there");
    let kernel = host.child.id();
    let begun = Instant::now();
    kill("-TERM", kernel);
    // A signal that is repeated within a second counts as one.
    within(|| (!exists(&world.socket()) && begun.elapsed() > Duration::from_secs(2)).then_some(()));
    kill("-TERM", kernel);
    assert_eq!(host.wait().code(), Some(128 + 15));
    world.nothing_is_left();
}

#[test]
fn two_signals_at_once_count_as_one() {
    let world = World::empty();
    // The server ends a second after its input, so that the second signal arrives while the kernel stops.
    world.config(&world.server("echo", &format!("{} ; sleep 1", program("echo"))));
    let ends_well = |second: &str| {
        let mut host = world.host(&["--standalone"]);
        host.echoes("there");
        let kernel = host.child.id();
        let begun = Stopwatch::start();
        kill("-TERM", kernel);
        // Wait between the signals, because the system merges two equal pending signals.
        within(|| (!exists(&world.socket())).then_some(()));
        kill(second, kernel);
        let between = begun.elapsed();
        let ended = host.wait().code();
        world.nothing_is_left();
        // The signals count as two only if a second passed between them, e.g. because the machine was suspended.
        let was_late = between + begun.paused() > Duration::from_millis(500);
        assert!(ended == Some(0) || was_late, "{second}: {ended:?} after {between:?}");
        ended == Some(0)
    };
    for second in ["-TERM", "-INT"] {
        assert!((0..4).any(|_| ends_well(second)), "{second}");
    }
}

/// The shell script of a legacy server. The server leaves each call unanswered, and sends a question for it. If `$1` is
/// `lifecycle`, the server also agrees to stop, but continues until its input ends.
const ASKER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"mgp":{"version":"0.3.0","extensions":["%s"]}},"serverInfo":{"name":"asker","version":"1"}}}\n' "$id" "$1" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}\n' "$id" ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":900,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}' ;;
    *'/shutdown"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"accepted":true}}\n' "$id" ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
  esac
done
"#;

fn serve_asker(world: &World, extension: &str) -> Serving {
    let folder = world.folder.display();
    fs::write(world.folder.join("server.sh"), ASKER).unwrap();
    let server = world.server("asker", &format!("exec sh {folder}/server.sh {extension}"));
    world.config(&(server.trim_end().to_owned() + "\ntrust_level = \"trusted\"\n"));
    Serving::start(world, &["--no-auth"])
}

/// Makes a call as a modern client, whose answer is the question of the server. The client does not answer it.
fn leave_question(url: &str) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "asker.ask", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        },
    }});
    let headers = "accept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: asker.ask\r\n";
    post(url, "/mcp", headers, &body.to_string(), "input_required");
}

/// Regression test: the stop waited 30 seconds for such calls.
#[test]
fn a_question_that_a_client_left_open_does_not_delay_the_stop() {
    let world = World::empty();
    let mut serving = serve_asker(&world, "idempotency");
    leave_question(&serving.url());
    let begun = Instant::now();
    world.operator().ask("mgp/kernel/stop", &json!({})).unwrap();
    assert_eq!(serving.kernel.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Regression test: each server got 30 seconds, whatever time the operator gave.
#[test]
fn the_time_that_the_operator_gives_limits_the_stop_of_servers() {
    let world = World::empty();
    let mut serving = serve_asker(&world, "lifecycle");
    leave_question(&serving.url());
    let begun = Instant::now();
    world.operator().ask("mgp/kernel/stop", &json!({"timeout_ms": 2000})).unwrap();
    assert_eq!(serving.kernel.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_keeper_that_is_killed_takes_its_server_with_it() {
    let world = World::new("");
    let mut host = world.host(&["--standalone"]);
    host.echoes("there");
    let kernel = host.child.id();
    let both = within(|| Some(world.marked()).filter(|both| both.len() == 2));
    let keeper = *both.iter().find(|pid| stat(**pid).unwrap().1 == kernel).unwrap();
    kill("-KILL", keeper);
    within(|| (!both.iter().any(|pid| lives(*pid))).then_some(()));
    host.echoes("again");
    assert_eq!(host.leave().code(), Some(0));
    world.nothing_is_left();
}

#[test]
fn orphans_of_a_server_are_reaped_while_it_runs() {
    let world = World::empty();
    let script = format!("for n in 1 2 3 4 5 6 7 8; do (true &); done; exec {}", program("echo"));
    world.config(&world.server("echo", &script));
    let mut host = world.host(&["--standalone"]);
    host.echoes("there");
    let kernel = host.child.id();
    let both = within(|| Some(world.marked()).filter(|both| both.len() == 2));
    let keeper = *both.iter().find(|pid| stat(**pid).unwrap().1 == kernel).unwrap();
    let zombies = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        all.filter(|pid: &u32| {
            stat(*pid).is_some_and(|(state, parent)| {
                state == 'Z' && (parent == keeper || parent == kernel)
            })
        })
        .count()
    };
    within(|| (zombies() == 0).then_some(()));
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_command_whose_kernel_stops_before_it_answers_reports_that() {
    let world = World::empty();
    let server = world.server("slow", "exec sleep 1000");
    world.config(&server.replace("env = ", "start_timeout = \"5m\"\nenv = "));
    let mut life = Serving::start(&world, &["--no-auth"]);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&world.program);
        command.args(arguments).arg("--state").arg(world.state()).stdin(Stdio::null());
        command
    };
    let mut start = command(&["servers", "start", "slow"]);
    let mut start = KilledChild(start.stderr(Stdio::piped()).spawn().unwrap());
    let mut printed = BufReader::new(start.stderr.take().unwrap()).lines();
    assert_eq!(printed.next().unwrap().unwrap(), "mgp: still waiting for slow");
    assert!(command(&["stop", "--timeout", "1s"]).status().unwrap().success());
    let last = printed.map_while(Result::ok).last().unwrap();
    assert_eq!(start.wait().unwrap().code(), Some(3), "{last}");
    let (stopped, reason) = last.split_once("have been made: ").unwrap();
    assert!(stopped.starts_with("mgp: the kernel stopped"), "{last}");
    assert!(!reason.is_empty());
    assert!(life.kernel.wait().unwrap().success());
}

/// Serves one connection as the kernel with this process id, which ends before it answers a request.
fn end_before_answer(mut stream: UnixStream, pid: u32) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let _hello = lines.next();
    let reply = json!({"mgp": 1, "ok": true, "version": "0.1.0", "pid": pid});
    let _ = writeln!(stream, "{reply}");
    for line in lines {
        let message: Value = serde_json::from_str(&line).unwrap();
        let (id, method) = (&message["id"], message["method"].as_str().unwrap());
        let answer = match method {
            "initialize" => {
                let version = &message["params"]["protocolVersion"];
                let info = json!({"name": "mgp", "version": "0.1.0"});
                let result = json!(
                    {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
                );
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            }
            "server/discover" => {
                let error = json!({"code": -32601, "message": "unknown method"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
            _ if id.is_null() => continue,
            _ => return,
        };
        let _ = writeln!(stream, "{answer}");
    }
}

#[test]
fn a_command_reports_the_stop_of_its_kernel_although_another_process_uses_the_folder() {
    let world = World::empty();
    fs::create_dir(world.state()).unwrap();
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
    let pid = std::process::id();
    let lock = world.state().join("kernel.lock");
    fs::write(&lock, pid.to_string()).unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let listener = UnixListener::bind(world.socket()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            end_before_answer(stream.unwrap(), pid + 1);
        }
    });
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&world.program);
        command.args(arguments).arg("--state").arg(world.state()).stdin(Stdio::null());
        let ended = command.output().unwrap();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{arguments:?}: {printed}");
        assert!(printed.contains("the kernel stopped before the request ended"), "{printed}");
        printed
    };
    let uncertain = "so a change may or may not have been made";
    assert!(run(&["permissions", "reset", "echo", "shell.execute"]).contains(uncertain));
    for reading in [&["permissions", "ls"][..], &["access", "query", "ada", "echo"], &["status"]] {
        assert!(!run(reading).contains(uncertain), "{reading:?}");
    }
    world.config(&world.server("echo", "exec true"));
    let file = world.config_file();
    let printed = run(&["servers", "rm", "echo", "--config", file.to_str().unwrap()]);
    assert!(printed.starts_with("mgp: `echo` was removed from the configuration"), "{printed}");
    assert!(!fs::read_to_string(file).unwrap().contains("servers"));
}

#[test]
fn a_missing_program_is_logged() {
    let world = World::empty();
    world.config("[[servers]]\nid = \"nowhere\"\ncommand = \"/no/such/program\"\n");
    let mut run = world
        .mgp(&["--stdio", "--standalone", "-vv"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(run.stderr.take().unwrap());
    let (sender, found) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if line.contains("No such file or directory") {
                let _ = sender.send(());
            }
        }
    });
    found.recv_timeout(Duration::from_secs(30)).unwrap();
    kill("-TERM", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(0));
    reading.join().unwrap();
}
