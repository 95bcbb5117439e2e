//! `accept`: the acceptance checks, by name; without a name, the list of them.
//!
//! Each ends with `NAME: PASS|FAIL <figure> (bound <figure>)`.

mod binary;
mod fresh;
mod gov;
mod index;
mod kernel;
mod life;
mod mcp;
mod members;
mod sdk;
mod spec;
mod wire;

use crate::{
    bench, conformance,
    flags::Flags,
    interop,
    run::{Failure, Outcome, Rigour, root},
};
use std::path::PathBuf;

/// One acceptance check.
struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Asked) -> Outcome<Verdict>,
}

/// How checks are asked for.
#[derive(Debug)]
struct Asked {
    rigour: Rigour,
    /// Where the sets of the index are, unless beside the repository.
    data: Option<PathBuf>,
}

/// What a check found.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) pass: bool,
    pub(crate) figure: String,
    pub(crate) bound: String,
}

impl Verdict {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let join = |one: String, other: String| {
            if one == other { one } else { format!("{one}; {other}") }
        };
        Self {
            pass: self.pass && other.pass,
            figure: join(self.figure, other.figure),
            bound: join(self.bound, other.bound),
        }
    }
}

/// Every check, in the order of the issues that ask for them.
const CHECKS: &[Check] = &[
    Check {
        name: "core.fresh",
        about: "a fresh clone with only the Rust toolchain runs the two README commands",
        run: |_| fresh::core_fresh(),
    },
    Check {
        name: "core.spec",
        about: "the examples of the specification are read, and spoilt copies are refused",
        run: |_| spec::core_spec(),
    },
    Check {
        name: "core.service",
        about: "order, asking over a hop, one stack for all callers, scopes, tasks, outlets",
        run: |_| binary::run(&[("mgp-client-sdk", "core_service")]),
    },
    Check {
        name: "core.cleanup",
        about: "dropped calls, slow readers, bad children and a killed parent leave nothing",
        run: |_| {
            binary::run(&[
                ("mgp-server-sdk", "core_cleanup"),
                ("mgp-transport", "connection_ends"),
                ("mgp-transport", "child"),
            ])
        },
    },
    Check {
        name: "core.wire",
        about: "broken input: the labelled corpus, and ten million mutated lines",
        run: |_| wire::core_wire(),
    },
    Check {
        name: "core.stdio-kinds",
        about: "real Node and Python parents over pipes, sockets, files and a terminal",
        run: |asked| binary::stdio_kinds(asked.rigour),
    },
    Check {
        name: "core.bench",
        about: "the stdio budgets against rmcp and the bare loop",
        run: |asked| bench::core_bench(asked.rigour),
    },
    Check {
        name: "sdk.cells",
        about: "the four cells with real peers; every method with its extension on and off",
        run: |asked| {
            let cells = interop::verdict(asked.rigour)?;
            Ok(binary::run(&[("mgp-server-sdk", "extensions")])?.and(cells))
        },
    },
    Check {
        name: "sdk.lifecycle",
        about: "the handshake's own document, revisions, pings, time-outs, both sides",
        run: |asked| sdk::lifecycle(asked.rigour),
    },
    Check {
        name: "sdk.first-server",
        about: "the README's server is short and works elsewhere; the macro costs nothing",
        run: |asked| sdk::first_server(asked.rigour),
    },
    Check {
        name: "sdk.first-client",
        about: "the README's client is short and calls that server",
        run: |asked| sdk::first_client(asked.rigour),
    },
    Check {
        name: "sdk.docs",
        about: "everything public is documented, guides compile, examples are run",
        run: |asked| sdk::docs(asked.rigour),
    },
    Check {
        name: "sdk.bench",
        about: "the budgets of the core hold with checked arguments and typed results",
        run: |asked| sdk::sdk_bench(asked.rigour),
    },
    Check {
        name: "mcp.required",
        about: "everything the official suite requires of both revisions, of server and client",
        run: |_| conformance::required(),
    },
    Check {
        name: "mcp.tasks",
        about: "what the suite has beyond: tasks, headers, schemas, credentials, old servers",
        run: |_| conformance::extensions(),
    },
    Check {
        name: "mcp.http-wire",
        about: "broken requests over HTTP: the labelled corpus",
        run: |_| mcp::http_wire(),
    },
    Check {
        name: "mcp.faults",
        about: "cuts, floods, slow and foreign clients over HTTP, a line for each story",
        run: |_| mcp::faults(),
    },
    Check {
        name: "mcp.interop",
        about: "foreign clients and servers over HTTP in every mode, and the Inspector",
        run: |asked| interop::over_http(asked.rigour),
    },
    Check {
        name: "mcp.bench",
        about: "the HTTP budgets against rmcp and bare hyper, and idle sessions in a GiB",
        run: |asked| bench::mcp_bench(asked.rigour),
    },
    Check {
        name: "gov.world",
        about: "lists and calls agree in random worlds; nobody but an operator changes anything",
        run: |_| gov::world(),
    },
    Check {
        name: "gov.lies",
        about: "what a sandboxed server says of its tools changes no decision",
        run: |_| gov::lies(),
    },
    Check {
        name: "gov.audit",
        about: "every change of a log is found, and nothing acknowledged is lost to a kill",
        run: |_| gov::audit(),
    },
    Check {
        name: "gov.cost",
        about: "the instructions of a governed echo, the time of a decision and a revocation",
        run: |asked| gov::cost(asked.rigour),
    },
    Check {
        name: "gov.alone",
        about: "one layer of governance alone, on a client and on a server",
        run: |_| gov::alone(),
    },
    Check {
        name: "gov.tooldef",
        about: "definitions that attack, change or imitate: the labelled corpus",
        run: |_| gov::tooldef(),
    },
    Check {
        name: "life.rules",
        about: "every rule of supervision in virtual time, and laws for whatever happens",
        run: |_| life::rules(),
    },
    Check {
        name: "life.ping",
        about: "pings of a server with a thousand calls in flight and a thread blocked",
        run: |_| life::ping(),
    },
    Check {
        name: "life.drain",
        about: "a thousand servers end under load: nothing accepted is lost, nothing late is accepted",
        run: |_| life::drain(),
    },
    Check {
        name: "life.kills",
        about: "a real child killed a thousand times, and children with bad manners",
        run: |_| life::kills(),
    },
    Check {
        name: "life.retry",
        about: "calls that are made again: their traffic, and servers that ask for too much",
        run: |_| life::retry(),
    },
    Check {
        name: "life.alone",
        about: "one layer of the life of servers alone, on a client and on a server",
        run: |_| life::alone(),
    },
    Check {
        name: "index.quality",
        about: "seven labelled sets, one configuration: how many of the tools needed are found",
        run: index::quality,
    },
    Check {
        name: "index.laws",
        about: "hybrid loses to neither half; exact and mistyped names; what history adds",
        run: index::laws,
    },
    Check {
        name: "index.speed",
        about: "searches among 3 thousand, 100 thousand and a million tools; changes, opening, memory",
        run: index::speed,
    },
    Check {
        name: "index.tokens",
        about: "what a request costs against all definitions, and that no budget is exceeded",
        run: index::tokens,
    },
    Check {
        name: "index.tough",
        about: "kills, searches while servers come and go, a million changes, hostile definitions",
        run: |_| index::tough(),
    },
    Check {
        name: "kernel.demo",
        about: "a fresh clone with only the Rust toolchain builds and shows the demonstration",
        run: |_| fresh::kernel_demo(),
    },
    Check {
        name: "kernel.interop",
        about: "foreign clients use five foreign servers through the kernel, all that MCP has",
        run: kernel::interop,
    },
    Check {
        name: "kernel.refusals",
        about: "refusals with reason and remedy for the caller and on the record; an agent tries all",
        run: |_| kernel::refusals(),
    },
    Check {
        name: "kernel.tenants",
        about: "two hosts, one child, equal ids and tokens: no message crosses",
        run: |_| kernel::tenants(),
    },
    Check {
        name: "kernel.chaos",
        about: "kills of kernel and child under load; 200 servers, most of them broken",
        run: |_| kernel::chaos(),
    },
    Check {
        name: "kernel.first-ten-minutes",
        about: "whatever goes wrong at first is told in one line with the fix",
        run: |_| kernel::first_ten_minutes(),
    },
    Check {
        name: "kernel.flows",
        about: "a model that sees only tools/list finds a tool, and asks for one it lacks",
        run: |_| kernel::flows(),
    },
    Check {
        name: "kernel.bench",
        about: "what a hop through the kernel costs, its start and its memory",
        run: |asked| bench::kernel_bench(asked.rigour),
    },
];

/// The checks that are fast enough for every change; those of the test binaries run as tests.
const QUICK: &[&str] = &["core.spec"];

/// Runs one check, several, or lists them.
pub(crate) fn accept(flags: &Flags) -> Outcome {
    if flags.words().is_empty() {
        for check in CHECKS {
            println!("{:24} {}", check.name, check.about);
        }
        return Ok(());
    }
    let asked = Asked {
        rigour: Rigour::from_strict(flags.has("--strict")),
        data: flags.value("--data").map(PathBuf::from),
    };
    let mut failed = Vec::new();
    for name in flags.words() {
        let Some(check) = CHECKS.iter().find(|check| check.name == name) else {
            let known: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
            return Err(Failure::new(format!("unknown check {name}; known: {}", known.join(", "))));
        };
        if !check.passes(&asked) {
            failed.push(check.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join(", "))) }
}

/// The part of `accept` that belongs to `ci`.
pub(crate) fn quick() -> Outcome {
    if shared("").is_none() {
        println!("what the checks compare with is not here; passed over");
        return Ok(());
    }
    let asked = Asked { rigour: Rigour::Lenient, data: None };
    let quick = CHECKS.iter().filter(|check| QUICK.contains(&check.name));
    let failed: Vec<_> =
        quick.filter(|check| !check.passes(&asked)).map(|check| check.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join(", "))) }
}

/// A file or folder of the material that lies beside the repository, if it is there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let place = root().parent()?.join("shared").join(path);
    place.exists().then_some(place)
}

impl Check {
    /// Runs the check and prints its last line.
    fn passes(&self, asked: &Asked) -> bool {
        let verdict = (self.run)(asked).unwrap_or_else(|failure| Verdict {
            pass: false,
            figure: failure.to_string(),
            bound: "no failure".to_owned(),
        });
        let word = if verdict.pass { "PASS" } else { "FAIL" };
        println!("{}: {word} {} (bound {})", self.name, verdict.figure, verdict.bound);
        verdict.pass
    }
}
