//! Measures the start time of the kernel, and the memory of an idle kernel.

use super::super::{Effort, row::Row};
use super::hop::middle;
use super::world::{Running, World};
use crate::{
    run::{Context, Failure, Outcome, now},
    serving::memory as memory_of,
};
use std::{fs, thread, time::Duration};

/// The number of servers in the configuration of the measured kernel.
const SERVERS: usize = 5;

/// The maximum time until the kernel is ready, in milliseconds.
const MAX_READY_MS: f64 = 20.0;

/// The maximum resident memory of the kernel, in MiB.
const MAX_RESIDENT_MIB: f64 = 12.0;

/// The time without a change of its memory after which a kernel counts as idle.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time for which the benchmark waits until the kernel is idle.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the id and the command of each configured server.
pub(super) fn servers(world: &World) -> Vec<(String, String)> {
    let command = format!("command = {:?}", world.echo);
    (1..=SERVERS).map(|number| (format!("echo{number}"), command.clone())).collect()
}

/// Measures the time until a started kernel writes its ready file, with a new and with an existing state folder.
pub(super) fn start(world: &World, effort: Effort) -> Outcome<Vec<Row>> {
    let rounds = match effort {
        Effort::Quick => 7,
        Effort::Full | Effort::Counted => 25,
    };
    let servers = servers(world);
    let known = world.known("start", &servers)?;
    let [mut first, mut again] = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        // Creates a configuration with a new state folder, without any grants.
        let fresh = world.bare("start-new", &servers)?;
        first.push(world.start(&fresh)?.ready_ms);
        again.push(world.start(&known)?.ready_ms);
    }
    let row = |name, times: &mut [f64]| {
        let median = middle(times);
        Row::new(name, "ms", Some(median), Some(MAX_READY_MS))
            .beside("best", times.first().copied())
            .beside("worst", times.last().copied())
    };
    Ok(vec![
        row(format!("ready, new folder, {SERVERS} servers"), &mut first),
        row(format!("ready, known folder, {SERVERS} servers"), &mut again),
    ])
}

/// Measures the memory of the idle kernel process, and separately of one of its child processes, see [`keeper`].
pub(super) fn memory(world: &World) -> Outcome<Vec<Row>> {
    let servers = servers(world);
    let none = world.place("memory-none", &[])?;
    let five = world.place("memory", &servers)?;
    let mut rows = vec![resident("no server", &world.start(&none)?)?];
    let running = world.start_until_known(&five, SERVERS)?;
    rows.push(resident("5 servers that run", &running)?);
    rows.extend(keeper(&running)?);
    drop(running);
    rows.push(resident("5 known servers", &world.start(&five)?)?);
    Ok(rows)
}

/// Waits up to [`IDLE_TIMEOUT`] until the memory of a kernel no longer changes, and returns a row with this memory.
fn resident(what: &str, running: &Running) -> Outcome<Row> {
    let process = running.process();
    let figure = || mib(process, "VmRSS").context("memory");
    let (mut last, mut since, end) = (figure()?, now(), now() + IDLE_TIMEOUT);
    while since.elapsed() < IDLE_INTERVAL {
        thread::sleep(Duration::from_millis(100));
        let present = figure()?;
        if (present - last).abs() > 0.01 {
            (last, since) = (present, now());
        }
        if now() > end {
            return Err(Failure::new("the memory of the kernel does not become constant"));
        }
    }
    Ok(Row::new(format!("idle, {what}"), "MiB", Some(last), Some(MAX_RESIDENT_MIB))
        .beside("in no file", mib(process, "RssAnon"))
        .beside("peak", mib(process, "VmHWM")))
}

/// Measures the memory of the largest child process that the kernel uses to run servers.
fn keeper(running: &Running) -> Outcome<Option<Row>> {
    let parent = running.process().to_string();
    let mut largest: Option<(f64, f64)> = None;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if of != Some(parent.as_str()) {
            continue;
        }
        if let (Some(all), Some(own)) = (mib(process, "VmRSS"), mib(process, "RssAnon"))
            && largest.is_none_or(|(most, _)| all > most)
        {
            largest = Some((all, own));
        }
    }
    Ok(largest.map(|(all, own)| {
        Row::new("a keeper", "MiB", Some(all), None).beside("in no file", Some(own))
    }))
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52")]
fn mib(process: u32, line: &str) -> Option<f64> {
    memory_of(process, line).map(|bytes| bytes as f64 / f64::from(1 << 20))
}
