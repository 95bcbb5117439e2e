//! Measures the instructions, CPU time and latency that a kernel between client and server adds to a call.

use super::super::{
    Effort,
    http::run::{Ask, Form, call_instructions, drive, number},
    measure::{Lengths, echo, run},
    programs::Server,
    row::Row,
};
use super::world::{Place, World};
use crate::run::{Failure, Outcome};

/// The maximum number of instructions that the kernel may use for a call over HTTP.
const MAX_INSTRUCTIONS: f64 = 95_000.0;

/// The maximum CPU time of the kernel for a call, relative to a program that only forwards.
const MAX_CPU_RATIO: f64 = 1.5;

/// The maximum latency that the kernel adds to a call, relative to a program that only forwards.
const MAX_ADDED_RATIO: f64 = 1.3;

const FORMS: [(&str, Form); 2] = [("2026-07-28", Form::Modern), ("2025-11-25", Form::Legacy)];

/// Creates a configuration with an echo server that already listens on a port.
pub(super) fn at(world: &World, name: &str, port: u16) -> Outcome<Place> {
    let reach = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    world.known(name, &[("echo".to_owned(), reach)])
}

/// Creates a configuration with an echo server that the kernel starts.
fn of(world: &World, name: &str) -> Outcome<Place> {
    world.known(name, &[("echo".to_owned(), format!("command = {:?}", world.echo))])
}

/// Counts the kernel's instructions for a call over HTTP. The counts hardly vary, so one measurement is enough.
///
/// Stdio is not measured: the process with which a kernel runs its servers uses a system call that valgrind does not
/// support.
pub(super) fn counted(world: &World, effort: Effort) -> Outcome<Vec<Row>> {
    let lengths = match effort {
        Effort::Quick => Lengths(100, 600),
        Effort::Full | Effort::Counted => Lengths(300, 2300),
    };
    let upstream = world.upstream()?;
    let floor = world.floor_http(&upstream);
    let mut rows = Vec::new();
    for (form, ask) in FORMS {
        let ask = Ask { form: ask, connections: 1 };
        let count = |servers| call_instructions(&world.generator, servers, ask, lengths);
        let new = |name: &str| {
            let place = at(world, &format!("counted-{form}-{name}"), upstream.port())?;
            Ok::<_, Failure>(world.hop_http(&place))
        };
        let (few, many) = (new("few")?, new("many")?);
        let ours = count([&few, &many])?;
        let floor = count([&floor; 2])?;
        rows.push(
            Row::new(format!("HTTP, {form}"), "instructions", Some(ours), Some(MAX_INSTRUCTIONS))
                .beside("floor", Some(floor)),
        );
    }
    Ok(rows)
}

/// Measures CPU time and added latency over HTTP.
pub(super) fn http(world: &World, effort: Effort) -> Outcome<Vec<Row>> {
    let (rounds, calls) = match effort {
        Effort::Quick => (5, 4_000),
        Effort::Full | Effort::Counted => (11, 10_000),
    };
    let upstream = world.upstream()?;
    let direct = Server {
        name: "echo",
        command: [&*world.echo, "--http", "ADDR"].map(str::to_owned).to_vec(),
    };
    let servers =
        [world.hop_http(&at(world, "http", upstream.port())?), world.floor_http(&upstream), direct];
    let mut rows = Vec::new();
    for ((form, asked), connections) in
        FORMS.iter().flat_map(|form| [1, 16].map(|connections| (*form, connections)))
    {
        let ask = Ask { form: asked, connections };
        let [mut cpu, mut p50] = [const { [const { Vec::new() }; 3] }; 2];
        for _ in 0..rounds {
            for (place, server) in servers.iter().enumerate() {
                let figures = drive(&world.generator, server, ask.flags(calls, calls / 10))?;
                cpu[place].push(number(&figures, "server_cpu_s_per_1k")? * 1000.0);
                p50[place].push(number(&figures, "p50_us")?);
            }
        }
        let [ours, floor, _] = cpu.map(|mut times| middle(&mut times));
        let named = |what: &str| match connections {
            1 => format!("HTTP, {form}, {what}"),
            _ => format!("HTTP, {form}, {connections} connections, {what}"),
        };
        rows.push(
            Row::new(named("CPU"), "x floor", Some(ours / floor), Some(MAX_CPU_RATIO))
                .beside("us", Some(ours))
                .beside("floor", Some(floor)),
        );
        // Compares latency only for a single connection: with more calls than processors, the calls wait for each
        // other.
        if connections == 1 {
            let [ours, floor, direct] = p50.map(|mut times| middle(&mut times));
            rows.push(
                Row::new(
                    named("added p50"),
                    "x floor",
                    Some((ours - direct) / (floor - direct)),
                    Some(MAX_ADDED_RATIO),
                )
                .beside("us", Some(ours - direct))
                .beside("floor", Some(floor - direct))
                .beside("direct", Some(direct)),
            );
        }
    }
    Ok(rows)
}

/// Measures CPU time and latency over stdio, for a kernel inside the started process, and for the shim, which forwards
/// to a shared kernel.
pub(super) fn stdio(world: &World, effort: Effort) -> Outcome<Vec<Row>> {
    let (rounds, calls) = match effort {
        Effort::Quick => (5, 10_000),
        Effort::Full | Effort::Counted => (11, 30_000),
    };
    let servers = [
        world.hop_stdio(&of(world, "stdio")?),
        world.floor_stdio(),
        world.shim(&of(world, "shim")?),
    ];
    let mut rows = Vec::new();
    for depth in [1, 16] {
        let mut times = [const { Vec::new() }; 3];
        let mut p50 = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (place, server) in servers.iter().enumerate() {
                let figures = run(&world.generator, server, echo(64, depth), calls, &["--alone"])?;
                times[place].push(figures.cpu_us());
                p50[place].push(figures.p50_us());
            }
        }
        let [ours, floor, shim] = times.map(|mut times| middle(&mut times));
        let [ours_p50, floor_p50, shim_p50] = p50.map(|mut times| middle(&mut times));
        let name = format!("stdio, depth {depth}, CPU");
        rows.push(
            Row::new(name, "x floor", Some(ours / floor), Some(MAX_CPU_RATIO))
                .beside("us", Some(ours))
                .beside("floor", Some(floor))
                .beside("p50 us", Some(ours_p50))
                .beside("floor p50", Some(floor_p50)),
        );
        rows.push(
            Row::new(format!("shim, depth {depth}, CPU"), "us", Some(shim), None)
                .beside("floor", Some(floor))
                .beside("p50 us with the kernel", Some(shim_p50)),
        );
    }
    Ok(rows)
}

pub(super) fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
