//! One measurement over HTTP: the load generator starts a server on a free port and sends calls to it.

use super::super::{
    measure::{Lengths, per_call, total_instructions},
    programs::{Generator, Server},
};
use crate::run::{Context, Failure, Outcome, Program};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
};

/// The length of the echoed message in bytes.
const PAYLOAD: &str = "64";
/// The time limits, in seconds, for a server to begin to listen and to exit; long, because the server might run under
/// valgrind.
const TIMEOUT_SECS: &str = "120";

/// The protocol revision of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Form {
    /// Revision 2025-11-25: calls follow a handshake, in a session if the server opens one.
    Legacy,
    /// Revision 2026-07-28: each call is self-contained, without a handshake.
    Modern,
}

/// The revision and the number of connections of a measurement.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Ask {
    pub(in crate::bench) form: Form,
    /// The number of keep-alive connections, each with one call in flight.
    pub(in crate::bench) connections: usize,
}

/// The connection that an idle session keeps open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Hold {
    Nothing,
    /// A connection with an open event stream (GET).
    Stream,
}

impl Ask {
    pub(in crate::bench) fn flags(self, calls: usize, warm: usize) -> Vec<String> {
        let protocol = match self.form {
            Form::Legacy => "2025-11-25",
            Form::Modern => "2026-07-28",
        };
        let [calls, warm, connections] = [calls, warm, self.connections].map(|n| n.to_string());
        let flags = [
            "http",
            "--protocol",
            protocol,
            "--n",
            &calls,
            "--warmup",
            &warm,
            "--depth",
            &connections,
            "--payload-bytes",
            PAYLOAD,
        ];
        flags.map(str::to_owned).to_vec()
    }
}

/// Counts the server's instructions for one call with callgrind.
///
/// Compares two runs of different lengths. `servers` has a separate server for each run, because a server that stores
/// its state would otherwise read the state of the first run in the second run.
pub(in crate::bench) fn call_instructions(
    generator: &Generator,
    servers: [&Server; 2],
    ask: Ask,
    lengths: Lengths,
) -> Outcome<f64> {
    let file = generator.scratch.join("callgrind.out");
    let flag = format!("--callgrind-out-file={}", file.display());
    let tool = ["valgrind", "--quiet", "--tool=callgrind", &flag];
    let [few, many] = [(servers[0], lengths.0), (servers[1], lengths.1)].map(|(server, calls)| {
        let mut watched = server.clone();
        watched.command.splice(0..0, tool.map(str::to_owned));
        // Removes the file of an earlier run, if any.
        let _ = fs::remove_file(&file);
        drive(generator, &watched, ask.flags(calls, 0))?;
        let text = fs::read_to_string(&file).context(file.display())?;
        total_instructions(&text).context(format!("{}: callgrind totals", server.name))
    });
    Ok(per_call(few?, many?, lengths))
}

/// Measures the user-space CPU time of one call in microseconds, for several servers. The servers take turns.
pub(in crate::bench) fn user_times<const N: usize>(
    generator: &Generator,
    servers: [&Server; N],
    ask: Ask,
    rounds: usize,
    calls: usize,
) -> Outcome<[f64; N]> {
    let mut sums = [0.0; N];
    for _ in 0..rounds {
        for (sum, server) in sums.iter_mut().zip(servers) {
            let figures = drive(generator, server, ask.flags(calls, calls / 20))?;
            *sum += number(&figures, "server_user_s_per_1k")? * 1000.0;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of rounds")]
    Ok(sums.map(|sum| sum / rounds as f64))
}

/// Returns the number of idle sessions for which 1 GiB of the server's memory is enough.
pub(in crate::bench) fn sessions_per_gib(
    generator: &Generator,
    server: &Server,
    hold: Hold,
    count: usize,
) -> Outcome<f64> {
    let mut flags = ["sessions", "--n", &count.to_string()].map(str::to_owned).to_vec();
    if hold == Hold::Stream {
        flags.push("--get-stream".to_owned());
    }
    let figures = drive(generator, server, flags)?;
    if figures["distinct_ids"] != count || figures["first_lives"] != true {
        return Err(Failure::new(format!("{}: not all sessions are kept: {figures}", server.name)));
    }
    number(&figures, "sessions_per_gib")
}

pub(in crate::bench) fn number(figures: &Value, key: &str) -> Outcome<f64> {
    figures[key].as_f64().context(key)
}

/// Runs the load generator against a newly started server, and returns its figures; fails if a call failed.
pub(in crate::bench) fn drive(
    generator: &Generator,
    server: &Server,
    flags: Vec<String>,
) -> Outcome<Value> {
    // Binds port 0 to find a free port. The listener is dropped immediately, so that the server can bind the port.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string();
    let mut command = Vec::new();
    if let Some(processor) = &generator.processor {
        command.extend(["taskset", "--cpu-list", processor].map(str::to_owned));
    }
    command.push(generator.program.to_string_lossy().into_owned());
    command.extend(flags);
    let url = format!("http://{address}/mcp");
    let more =
        ["--url", &url, "--startup-timeout", TIMEOUT_SECS, "--exit-grace", TIMEOUT_SECS, "--"];
    command.extend(more.map(str::to_owned));
    command.extend(server.command.iter().map(|word| word.replace("ADDR", &address)));
    // Raises the limit of open files, because thousands of connections exceed the default.
    let shell = "ulimit -n \"$(ulimit -H -n)\"; exec \"$@\"";
    let program = Program::new("sh").args(&["-c", shell, "sh"]).args(&command);
    let text = program.output().context(server.name)?;
    let figures: Value = serde_json::from_str(text.trim()).context("the load generator")?;
    let none = |key: &str| figures.get(key).is_none_or(|count| *count == 0);
    let clean = none("errors") && none("bad") && figures.get("fatal").is_none();
    if clean { Ok(figures) } else { Err(Failure::new(format!("{}: {figures}", server.name))) }
}
