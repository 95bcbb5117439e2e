//! Test of the cost of open console pages: the CPU time of calls, the time until a page shows a change, and the
//! kernel's memory.
//!
//! The environment variables `MGP_CONSOLE_PAGES` and `MGP_CONSOLE_SECONDS` set the size of the test. From 50 pages on,
//! the test is the acceptance check and enforces its bounds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use std::{env, fs};

use mgp_testkit::{process_memory, until_blocking};
use tokio::time::Instant;

use crate::console::{Browser, TIMEOUT};
use crate::program::program;
use crate::served_console::{key, served};
use crate::world::Home;

/// The maximum number of tool calls that all callers together make in a second.
const CALLS_PER_SECOND: u32 = 1000;
/// The number of connections over which the tool calls are made.
const CALLERS: u32 = 4;

/// From this number of open pages on, the test compares its figures with their bounds.
const FULL: u64 = 50;

/// The maximum CPU time of a call while pages are open, as a multiple of its CPU time without pages.
const MAX_CPU_RATIO: f64 = 1.05;

/// The maximum time until an open page shows a change.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// The maximum memory of the kernel at the end, as a multiple of its memory after the first changes with open pages.
const MAX_MEMORY_RATIO: f64 = 1.1;

/// The maximum time for which the CPU time of calls is measured.
const MAX_MEASURED: Duration = Duration::from_mins(1);

/// The number of changes after which the memory is measured for the first time.
const FIRST_CHANGES: usize = 8;

fn size(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Calls a tool over one connection for the time `lasts`, with at most its share of `CALLS_PER_SECOND`; returns the
/// number of calls.
fn call(address: &str, key: &str, lasts: Duration) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let body = "{\"message\":\"x\"}";
    let request = format!(
        "POST /tools/free.echo HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (start, gap) = (Instant::now(), Duration::from_secs(1) * CALLERS / CALLS_PER_SECOND);
    let mut calls = 0;
    while start.elapsed() < lasts {
        stream.write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        calls += 1;
        let due = start + gap * u32::try_from(calls).unwrap();
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    calls
}

/// Runs calls for the time `lasts`; returns the CPU time of the kernel for each call, in microseconds.
fn cpu_of_calls(pid: u32, address: &str, key: &str, lasts: Duration) -> f64 {
    let before = ticks(pid);
    let calls: u64 = thread::scope(|scope| {
        let callers: Vec<_> =
            (0..CALLERS).map(|_| scope.spawn(|| call(address, key, lasts))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    let spent = f64::from(u32::try_from(ticks(pid) - before).unwrap());
    let calls = f64::from(u32::try_from(calls).unwrap());
    // A tick of the CPU time is 10 ms, i.e. 10,000 µs.
    spent * 10_000.0 / calls
}

/// Returns the CPU time of a process in ticks.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut words = text.rsplit(')').next().unwrap().split_whitespace().skip(11);
    let mut next = || words.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}

/// Returns the lowest resident memory of a process during a second, in KiB. The lowest value counts, because each
/// change makes all pages load again, and the kernel frees the memory for that a moment later.
fn memory(pid: u32) -> f64 {
    let samples = (0..10).map(|_| {
        thread::sleep(Duration::from_millis(100));
        process_memory(pid, "VmRSS").unwrap() >> 10
    });
    f64::from(u32::try_from(samples.min().unwrap()).unwrap())
}

/// The paths of the pages that the test keeps open. If it opens more pages, it begins again with the first path.
const PATHS: [&str; 5] = ["", "/servers", "/record", "/access", "/search"];

/// Keeps a page open as a browser does, and loads it again after each event. After each load that follows a change of
/// the pending approvals, sends the time of this load to `seen`.
fn open_page(browser: &Browser, path: &str, seen: &Sender<Instant>, is_over: &AtomicBool) {
    let page = browser.get(path).body;
    let (_, content) = page.split_once("id=\"content\"").unwrap();
    let query = if content.contains("data-live") { "?changes=1" } else { "" };
    let mut stream = TcpStream::connect(&browser.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (base, cookie, host) = (&browser.base, &browser.cookie, &browser.address);
    write!(stream, "GET {base}/events{query} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n")
        .unwrap();
    let (mut reader, mut line) = (BufReader::new(stream), String::new());
    let mut is_question = false;
    while !is_over.load(Ordering::Relaxed) {
        match reader.read_line(&mut line) {
            Ok(0) => panic!("the events ended"),
            Ok(_) if line.starts_with("event:") => is_question = line.contains("waiting"),
            Ok(_) if line.starts_with("data:") => {
                assert_eq!(browser.get(path).status, 200);
                if is_question {
                    seen.send(Instant::now()).unwrap();
                }
            }
            _ => {}
        }
        if line.ends_with('\n') {
            line.clear();
        }
    }
}

/// The measured times and memory while an operator denies calls that wait for an approval.
struct Changes {
    /// The times from a denial until a page showed it, for each denial and page.
    delays: Vec<Duration>,
    /// The memory of the kernel after the first denials, and after the last one, in KiB.
    memory: [f64; 2],
}

/// For the time `lasts`, makes calls that wait for an approval, and denies each of them on a page.
fn change(
    home: &Home,
    browser: &Browser,
    pages: u64,
    lasts: Duration,
    seen: &Receiver<Instant>,
) -> Changes {
    let (mut delays, start) = (Vec::new(), Instant::now());
    let pid = browser.console.as_ref().unwrap().id();
    let mut first = f64::NAN;
    let gap = (lasts / 60).clamp(Duration::from_millis(600), Duration::from_secs(10));
    for change in 0.. {
        if change == FIRST_CHANGES {
            first = memory(pid);
        }
        if change > 0 && start.elapsed() >= lasts {
            break;
        }
        thread::sleep(gap);
        while seen.try_recv().is_ok() {}
        // Each call has different arguments, because for a while a decision also applies to identical calls.
        let arguments = serde_json::json!({ "message": change.to_string() });
        let mut waiting = crate::console::calling(home, &arguments);
        let id = crate::console::waiting(home);
        thread::sleep(Duration::from_millis(900));
        while seen.try_recv().is_ok() {}
        let begin = Instant::now();
        let denied = browser.post("/decide", &[("id", &id), ("answer", "deny")]);
        assert_eq!(denied.status, 303, "{}", denied.body);
        for _ in 0..pages {
            delays.push(seen.recv_timeout(TIMEOUT).unwrap().duration_since(begin));
        }
        let _ = waiting.wait().unwrap();
    }
    delays.sort();
    Changes { delays, memory: [first, memory(pid)] }
}

/// A guard whose drop, even by a panic, makes all pages and callers end.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn open_pages_cost_calls_little_and_show_changes_soon() {
    let (pages, seconds) = (size("MGP_CONSOLE_PAGES", 5), size("MGP_CONSOLE_SECONDS", 0));
    let lasts = Duration::from_millis((seconds * 1000).max(200));
    let measured = lasts.min(MAX_MEASURED);
    let home = &Home::new();
    let free = format!(
        "[[servers]]\nid = 'free'\ncommand = '{}'\n[servers.mgp]\ndefault_policy = 'opt-out'\n",
        program("echo")
    );
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (_, agent) = key(home, &["bob"]);
    let (mut browser, _) = served(home, &free);
    until_blocking("both servers list their tools", || {
        let servers = home.json("servers-ls", &["servers", "ls"]);
        servers.as_array().unwrap().iter().all(|server| server["tools"].as_u64() >= Some(1))
    });
    browser.log_in(&[("key", &admin)]);
    let (pid, address) = (browser.console.as_ref().unwrap().id(), browser.address.clone());
    cpu_of_calls(pid, &address, &agent, measured / 4);
    let alone = cpu_of_calls(pid, &address, &agent, measured);
    let is_over = AtomicBool::new(false);
    let (sender, seen) = channel();
    let (with_pages, changes) = thread::scope(|scope| {
        let end = End(&is_over);
        for path in PATHS.iter().cycle().take(pages.try_into().unwrap()) {
            let (one, sender, is_over) =
                (browser.with_cookie(&browser.cookie), sender.clone(), &is_over);
            scope.spawn(move || open_page(&one, path, &sender, is_over));
        }
        for _ in 0..pages {
            seen.recv_timeout(TIMEOUT).expect("each page gets its first event");
        }
        let with_pages = cpu_of_calls(pid, &address, &agent, measured);
        let caller = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                call(&address, &agent, Duration::from_millis(200));
            }
        });
        let changes = change(home, &browser, pages, lasts, &seen);
        drop(end);
        caller.join().unwrap();
        (with_pages, changes)
    });
    let Changes { delays, memory: [first, last] } = changes;
    let p99 = delays[(delays.len() * 99).div_ceil(100) - 1];
    println!(
        "console load: {pages} pages: {alone:.0} µs of CPU for a call without, {with_pages:.0} µs with ({:.3}); \
         a page shows a change after {} ms (p99); memory {first:.0} KiB, then {last:.0}",
        with_pages / alone,
        p99.as_millis()
    );
    if pages >= FULL {
        assert!(with_pages / alone <= MAX_CPU_RATIO, "{alone} µs without pages, {with_pages} with");
        assert!(p99 <= MAX_DELAY, "{p99:?}");
        assert!(last / first <= MAX_MEMORY_RATIO, "{first} KiB, then {last}");
    }
}
