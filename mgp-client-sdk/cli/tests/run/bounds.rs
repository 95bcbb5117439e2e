//! Tests of limits. An agent that calls without a pause must not slow down the calls of another agent much. Several
//! agents together must not spend more units than a quota permits. HTTP connections are limited.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mgp_testkit::Stopwatch;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use crate::reach;
use crate::serving::Serving;
use crate::world::{Host, World, kill, lives, stat, within};

/// A shell script of a server whose tool takes a tenth of a second; its calls run at the same time.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"work","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}\n' "$id" ;;
    *'"tools/call"'*) { sleep 0.1; printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}\n' "$id"; } & ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
  esac
done
"#;

/// The number of hosts with which the greedy agent calls at the same time. The server may run only four calls at the
/// same time.
const GREEDY: usize = 10;
const CALLS: usize = 60;

/// Returns the 99th percentile of the durations of a host's calls.
fn p99(host: &mut Host) -> Duration {
    let mut times: Vec<_> = (0..CALLS)
        .map(|_| {
            let begun = Stopwatch::start();
            host.call("work", &json!({})).unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[(CALLS * 99).div_ceil(100) - 1]
}

#[test]
fn a_greedy_agent_at_most_doubles_the_p99_of_another() {
    let world = World::empty();
    let folder = world.folder.display();
    fs::write(world.folder.join("server.sh"), SERVER).unwrap();
    let server = world.server("slow", &format!("exec sh {folder}/server.sh"));
    let limits = "[servers.limits]\nrunning = 4\n";
    world.config(&(server.trim_end().to_owned() + "\ntrust_level = \"trusted\"\n" + limits));
    let mut ann = world.host(&["--agent", "ann"]);
    within(|| ann.call("work", &json!({})).ok());
    let alone = p99(&mut ann);

    let stops = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..GREEDY {
        let mut greedy = world.host(&["--agent", "greedy"]);
        let stops = Arc::clone(&stops);
        threads.push(thread::spawn(move || {
            let mut calls = 0;
            while !stops.load(Ordering::Relaxed) && calls < 10_000 {
                greedy.call("work", &json!({})).unwrap();
                calls += 1;
            }
            calls
        }));
    }
    // Other tests slow down an unoptimised build, so it has a wider bound and may measure several times; the acceptance
    // check `reach.bounds` measures a release build.
    let (most, tries) = if cfg!(debug_assertions) { (alone * 4, 3) } else { (alone * 2, 1) };
    let mut beside = p99(&mut ann);
    for _ in 1..tries {
        if beside > most {
            beside = p99(&mut ann);
        }
    }
    stops.store(true, Ordering::Relaxed);
    let calls: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("p99 alone {alone:?}, beside {calls} calls of a greedy agent {beside:?}");
    assert!(calls > CALLS && beside <= most, "{alone:?} {beside:?}");
}

/// The units that all agents together may spend in the test below; each call costs one unit.
const UNITS: usize = 60;
const SPENDERS: usize = 6;

#[test]
fn agents_that_spend_at_once_never_exceed_a_limit_even_if_the_kernel_is_killed() {
    let limit = format!("[servers.limits]\nunits_per_day = {UNITS}\n");
    let world = reach::world(&[("log", reach::text("a"))], &limit);
    let hosts = (0..SPENDERS).map(|n| reach::agent(&world, &format!("agent{n}")));
    let mut hosts: Vec<Host> = hosts.collect();
    within(|| hosts[0].call("log", &json!({})).ok());
    let answered = AtomicUsize::new(1);
    thread::scope(|scope| {
        for host in &mut hosts {
            scope.spawn(|| {
                // Make more calls than the quota permits, because calls that run while the kernel is killed fail. The
                // host's next calls reach the next kernel.
                for _ in 0..4 * UNITS {
                    match host.call("log", &json!({})) {
                        Ok(_) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        Err(error) if error.to_string().contains("units_per_day") => return,
                        Err(_) => thread::sleep(Duration::from_millis(20)),
                    }
                }
                panic!("no limit");
            });
        }
        within(|| (answered.load(Ordering::Relaxed) > UNITS / 3).then_some(()));
        kill("-KILL", world.kernel().unwrap());
    });
    let (ran, answered) = (reach::calls(&world), answered.into_inner());
    println!("{ran} calls ran of {UNITS}, {answered} were answered");
    assert!(ran <= UNITS, "{ran} calls ran");
    assert!(answered + SPENDERS >= UNITS, "charged more than the calls in flight: {answered}");
}

/// The number of files that the kernel of the next test may open. The number of idle connections that the test tries to
/// open is larger.
const FILES: usize = 256;
const IDLE: usize = 300;

#[test]
fn idle_connections_leave_descriptors_for_servers() {
    let world = World::new("");
    let file = world.ready_file();
    let options = ["--http", "127.0.0.1:0", "--ready-file", file.to_str().unwrap()];
    let mut kernel = world.mgp_after(&format!("ulimit -n {FILES}"), &options);
    let mut kernel = kernel.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let url = world.ready()["http"].as_str().unwrap().to_owned();
    let mut host = world.host(&[]);
    host.echoes("before");
    // Open as many idle connections as possible; the first connection that the kernel does not accept ends the loop.
    let address: SocketAddr = address(&url).parse().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok();
    let idle: Vec<_> = (0..IDLE).map_while(connect).collect();
    assert!(idle.len() > FILES / 4, "{}", idle.len());
    thread::sleep(Duration::from_millis(500));
    let both = world.marked();
    let server = both.into_iter().find(|pid| stat(*pid).is_some_and(|(_, of)| of != kernel.id()));
    kill("-KILL", server.unwrap());
    within(|| (!lives(server.unwrap())).then_some(()));
    host.echoes("after");
    let mut status = Command::new(env!("CARGO_BIN_EXE_mgp"));
    status.arg("status").arg("--state").arg(world.state()).stdin(Stdio::null());
    let status = status.output().unwrap();
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    drop(idle);
    kill("-TERM", kernel.id());
    assert_eq!(kernel.wait().unwrap().code(), Some(0));
}

/// The number of files that the programs of the next test may open, unless they raise this limit themselves.
const FEW_FILES: usize = 40;

/// Returns a process's limit of open files; `None` if the process has ended.
fn open_files(pid: u32) -> Option<usize> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[test]
fn a_kernel_may_open_more_files_than_its_servers() {
    let world = World::new("");
    let file = world.ready_file();
    let options = ["--http", "127.0.0.1:0", "--ready-file", file.to_str().unwrap()];
    let mut kernel = world.mgp_after(&format!("ulimit -S -n {FEW_FILES}"), &options);
    let mut kernel = kernel.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.ready();
    let mut host = world.host(&[]);
    host.echoes("hello");
    assert!(open_files(kernel.id()).unwrap() > FEW_FILES);
    // The limits of the server and of its keeper, which the kernel must not raise.
    let limits: Vec<_> = world.marked().into_iter().filter_map(open_files).collect();
    assert!(!limits.is_empty() && limits.iter().all(|most| *most == FEW_FILES), "{limits:?}");
    kill("-TERM", kernel.id());
    assert_eq!(kernel.wait().unwrap().code(), Some(0));
}

#[test]
fn a_kernel_whose_files_may_not_grow_refuses_calls_until_they_may() {
    let world = World::new("");
    let mut serving = Serving::start(&world, &["--no-auth"]);
    let mut host = world.host(&[]);
    host.echoes("before");
    let pid = Pid::from_child(&serving.kernel);
    let before = getrlimit(Resource::Fsize);
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(1024), ..before }).unwrap();
    within(|| host.call("echo", &json!({"message": "full"})).err());
    assert!(serving.kernel.try_wait().unwrap().is_none(), "the limit ended the kernel");
    prlimit(Some(pid), Resource::Fsize, before).unwrap();
    host.echoes("after");
    kill("-TERM", serving.kernel.id());
    assert_eq!(serving.kernel.wait().unwrap().code(), Some(0));
}

#[test]
fn connections_of_an_address_are_limited_by_its_key() {
    let world = World::new("[kernel.http]\nconnections_per_address = 3\n");
    let serving = Serving::start(&world, &[]);
    let url = serving.url();
    let ask = || {
        let mut stream = TcpStream::connect(address(&url)).unwrap();
        let request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        // Ignore an error: the kernel may close a refused connection before the request is written.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let mut idle: Vec<_> = (0..3).map(|_| TcpStream::connect(address(&url)).unwrap()).collect();
    assert_eq!(ask(), "429");
    idle.pop();
    within(|| (ask() == "200").then_some(()));
}

fn address(url: &str) -> &str {
    url.trim_start_matches("http://").trim_end_matches("/mcp")
}
