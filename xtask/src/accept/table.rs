//! The table of acceptance checks: each has a name, a sentence, and steps that are test binaries or functions.

use super::{
    Check, Step,
    Step::{Program, Tests as TestStep},
    binaries::{LIBRARY, Tests},
    console, contract, day, ext, faults, fresh, gov, index, install, ping, real, rows, sdk, setup,
    spec, stream, upgrade, wire,
};
use crate::{bench, conformance, interop};

const CLIENT: &str = "mgp-client-sdk";
const KERNEL: &str = "mgp-kernel";
const LIFECYCLE: &str = "mgp-lifecycle";
const MGP: &str = "mgp";
const SECURITY: &str = "mgp-security";
const SERVER: &str = "mgp-server-sdk";
const STREAM: &str = "mgp-stream";
const TRANSPORT: &str = "mgp-transport";
const VALIDATORS: &str = "mgp-validators";

const fn check(name: &'static str, about: &'static str, steps: &'static [Step]) -> Check {
    Check { name, about, steps }
}

/// All acceptance checks, in the order in which `accept` lists them.
pub(super) const CHECKS: &[Check] = &[
    check(
        "core.fresh",
        "a fresh clone with only the Rust toolchain runs the two README commands",
        &[Program(|_| fresh::core_fresh())],
    ),
    check(
        "core.spec",
        "the examples of the specification are read, and damaged copies are refused",
        &[Program(|_| spec::core_spec())],
    ),
    check(
        "core.service",
        "order, requests over a hop, one stack for all callers, scopes, tasks, outlets",
        &[TestStep(&[Tests::of(CLIENT, "core_service")])],
    ),
    check(
        "core.cleanup",
        "dropped calls, slow readers, faulty children and a killed parent leave nothing behind",
        &[TestStep(&[
            Tests::of(SERVER, "core_cleanup"),
            Tests::of(TRANSPORT, "connection_ends"),
            Tests::of(TRANSPORT, "child"),
        ])],
    ),
    check(
        "core.wire",
        "broken input: the labelled corpus, and ten million mutated lines",
        &[Program(|_| wire::core_wire())],
    ),
    check(
        "core.stdio-kinds",
        "real Node and Python parents over pipes, sockets, files and a terminal",
        &[TestStep(&[
            Tests::of(SERVER, "stdio_kinds").needs(&["node", "python3"]),
            Tests::of(TRANSPORT, "stdio_kinds_raw"),
        ])],
    ),
    check(
        "core.bench",
        "the stdio budgets against rmcp and the bare loop",
        &[Program(|options| bench::core_bench(options.rigour))],
    ),
    check(
        "sdk.cells",
        "the four cells with real peers; every method with its extension on and off",
        &[
            TestStep(&[Tests::of(SERVER, "extensions")]),
            Program(|options| interop::verdict(options.rigour)),
        ],
    ),
    check(
        "sdk.lifecycle",
        "the messages of the handshake's document, revisions, pings, timeouts, both sides",
        &[
            TestStep(&[Tests::of(SERVER, "sdk_lifecycle"), Tests::of(CLIENT, "client")]),
            Program(|options| sdk::document(options.rigour)),
        ],
    ),
    check(
        "sdk.first-server",
        "the README's server is short and compiles elsewhere; the macro costs nothing",
        &[Program(|options| sdk::first_server(options.rigour))],
    ),
    check(
        "sdk.first-client",
        "the README's client is short and calls that server",
        &[Program(|_| sdk::first_client())],
    ),
    check(
        "sdk.docs",
        "all public items are documented, guides compile, examples are run by tests",
        &[Program(|_| sdk::docs())],
    ),
    check(
        "sdk.bench",
        "the budgets of the core hold with checked arguments and typed results",
        &[Program(|options| sdk::bench(options.rigour))],
    ),
    check(
        "mcp.required",
        "everything the official suite requires of both revisions, of server and client",
        &[Program(|_| conformance::required())],
    ),
    check(
        "faults.security",
        "what a hostile reading found does no harm: servers and agents that act as operators, foreign folders, forged records",
        &[TestStep(&[
            Tests::of(MGP, "operator"),
            Tests::of(MGP, "commands").each(&["hostile::"]),
            Tests::of(MGP, "refusals").each(&["word::", "escalation::", "project::"]),
            Tests::of(SECURITY, LIBRARY).each(&["permission::scope", "audit::log::tests::tamper"]),
            Tests::of("mgp-discovery", LIBRARY).each(&["registration::", "source::"]),
            Tests::of(TRANSPORT, LIBRARY).each(&["http::server::load"]),
        ])],
    ),
    check(
        "faults.rows",
        "each row of the specification that was wrong or incomplete, by the tests that show it mended",
        &[TestStep(rows::ROWS)],
    ),
    check(
        "faults.peers",
        "what the official suite requires of servers, through a kernel in front of servers on three SDKs",
        &[Program(|_| conformance::peers())],
    ),
    check(
        "mcp.tasks",
        "the suite's optional scenarios: tasks, headers, schemas, credentials, old servers",
        &[Program(|_| conformance::extensions())],
    ),
    check(
        "mcp.http-wire",
        "broken requests over HTTP: the labelled corpus",
        &[Program(|_| wire::http_wire())],
    ),
    check(
        "mcp.faults",
        "cuts, floods, slow and foreign clients over HTTP, a line for each fault",
        &[
            TestStep(&[
                Tests::of(SERVER, "http_faults").each(&[
                    "client_gone::",
                    "idle_sessions::",
                    "slow_clients::",
                    "large_bodies::",
                    "sealed_state::",
                    "other_audience::",
                    "two_chats::",
                    "other_tenant::",
                    "stream_cancel::",
                    "credentials::",
                    "dropped_calls::",
                    "noise::",
                ]),
                Tests::of(CLIENT, "http_cuts"),
                Tests::of(SERVER, "carriers"),
            ]),
            Program(|_| faults::all()),
        ],
    ),
    check(
        "mcp.interop",
        "foreign clients and servers over HTTP in every mode, and the Inspector",
        &[Program(|options| interop::over_http(options.rigour))],
    ),
    check(
        "mcp.bench",
        "the HTTP budgets against rmcp and bare hyper, and idle sessions per GiB",
        &[Program(|options| bench::mcp_bench(options.rigour))],
    ),
    check(
        "stream.stories",
        "streamed results by rule, transport and era, directly and behind a hop; random orders of their ends",
        &[TestStep(&[
            Tests::of(CLIENT, "stream_stories").env(&[("STREAM_SEEDS", "2000")]),
            Tests::of(MGP, "commands").each(&["streams::"]),
        ])],
    ),
    check(
        "stream.bulk",
        "1,024 calls of 1 MiB through two kernels to a slow reader; 100,000 events to 100 subscribers, one stuck; kills",
        &[
            Program(|_| stream::bulk()),
            TestStep(&[
                Tests::of(STREAM, LIBRARY).each(&["one_of_a_hundred_subscribers"]).release(),
                Tests::of(STREAM, "kills")
                    .release()
                    .env(&[("KILLS", "1000")])
                    .prints(&["1000 kills:"])
                    .bound("no acknowledged event lost, none read twice"),
                Tests::of(MGP, "run").each(&["events::"]),
            ]),
        ],
    ),
    check(
        "stream.cost",
        "the instructions of a chunk from its tool to its reader, directly and through a kernel",
        &[
            Program(|options| stream::cost(options.rigour)),
            TestStep(&[Tests::of(STREAM, LIBRARY)
                .each(&["an_event_that_matches_no_subscription"])
                .release()
                .prints(&["an event that matches none of 10,000"])
                .bound("2 µs")]),
        ],
    ),
    check(
        "stream.concurrency",
        "models of the shared tables; random orders of production, cancellation and disconnection; a faulty transport",
        &[TestStep(&[
            Tests::of(STREAM, LIBRARY).each(&["model::"]).env(&[("MODEL_ROUNDS", "5")]),
            Tests::of(CLIENT, "stream_stories")
                .each(&["faulty::", "interleavings::"])
                .env(&[("STREAM_SEEDS", "2000")]),
        ])],
    ),
    check(
        "gov.world",
        "lists and calls agree in random worlds; only an operator changes permissions",
        &[TestStep(&[Tests::of(SECURITY, "access_worlds"), Tests::of(SECURITY, "access_attack")])],
    ),
    check(
        "gov.lies",
        "the claims of a sandboxed server about its tools change no decision",
        &[TestStep(&[Tests::of(SECURITY, "lies")])],
    ),
    check(
        "gov.audit",
        "every change of a log is found, and no acknowledged event is lost to a kill",
        &[
            Program(|_| gov::audit()),
            TestStep(&[
                Tests::of(SECURITY, "kills").env(&[("KILLS", "1000")]),
                Tests::of(SECURITY, "audit_cancel"),
            ]),
        ],
    ),
    check(
        "gov.cost",
        "the instructions of a governed echo, the time of a decision and a revocation",
        &[
            Program(|options| gov::cost(options.rigour)),
            TestStep(&[Tests::of(SECURITY, "two_processes")]),
        ],
    ),
    check(
        "gov.alone",
        "one layer of governance alone, on a client and on a server",
        &[TestStep(&[Tests::of(CLIENT, "layers"), Tests::of(SERVER, "alone")])],
    ),
    check(
        "gov.tooldef",
        "definitions that attack, change or imitate: the labelled corpus",
        &[Program(|_| gov::tooldef())],
    ),
    check(
        "valid.corpora",
        "commands, targets, calls and code: the labelled corpora, and the cases of the repository",
        &[TestStep(&[Tests::of(VALIDATORS, "cases")]), Program(|_| gov::corpora())],
    ),
    check(
        "valid.cost",
        "commands, URLs and code are judged within their bounds",
        &[TestStep(&[Tests::of(VALIDATORS, "cost")
            .prints(&["cost:"])
            .bound("p99 200 µs for 1 KiB of a command, 2 ms for 10 KB of code")
            .release()])],
    ),
    check(
        "valid.hostile",
        "deep nesting, garbage, and 50 million fuzzed bytes for each parser",
        &[TestStep(&[Tests::of(VALIDATORS, "bounds")
            .env(&[("MGP_FUZZ_BYTES", "50000000")])
            .prints(&["fuzzed:"])
            .bound("50 ms for each input")
            .release()])],
    ),
    check(
        "valid.create",
        "a tool is created from a request to a call, and each guardrail is broken once",
        &[TestStep(&[Tests::of(MGP, "flow")
            .any(&["a_missing_tool_is_created", "each_guardrail"])
            .needs(&["python3"])])],
    ),
    check(
        "valid.correct-itself",
        "a scripted agent corrects its code by the body of the rejection alone",
        &[TestStep(&[Tests::of(MGP, "flow").any(&["corrects_its_script"]).needs(&["python3"])])],
    ),
    check(
        "valid.real",
        "real servers of files, git, pages and a shell: ordinary calls pass, attacks do not reach them",
        &[Program(real::valid_real)],
    ),
    check(
        "valid.review",
        "the review of definitions: our own sets of attacks and harmless ones, and real tools",
        &[TestStep(&[Tests::of(SECURITY, "review")]), Program(|_| gov::review())],
    ),
    check(
        "life.rules",
        "every rule of supervision in virtual time, and laws over random events",
        &[TestStep(&[Tests::of(LIFECYCLE, "supervise_rules")])],
    ),
    check(
        "life.ping",
        "pings of a server with a thousand calls in flight and a thread blocked",
        &[Program(|_| ping::ping())],
    ),
    check(
        "life.drain",
        "a thousand servers end under load: no accepted call is lost, no late call is accepted",
        &[TestStep(&[Tests::of(SERVER, "drain")
            .env(&[("DRAINS", "1000")])
            .prints(&["1000 drains:", "idle:"])
            .bound("no accepted call lost, none accepted late, idle p99 50 ms")])],
    ),
    check(
        "life.kills",
        "a real child killed a thousand times, and children that misbehave",
        &[TestStep(&[Tests::of(CLIENT, "supervised").env(&[("KILLS", "1000")])])],
    ),
    check(
        "life.retry",
        "retried calls: their traffic, and servers that ask for too many retries",
        &[TestStep(&[Tests::of(CLIENT, "retry")])],
    ),
    check(
        "life.alone",
        "one lifecycle layer alone, on a client and on a server",
        &[TestStep(&[
            Tests::of(CLIENT, "layers").each(&["life::"]),
            Tests::of(CLIENT, "limits").each(&["alone"]),
            Tests::of(CLIENT, "supervised").each(&["alone"]),
        ])],
    ),
    check(
        "index.quality",
        "seven labelled sets, one configuration: the share of the needed tools that is found",
        &[Program(index::quality)],
    ),
    check(
        "index.laws",
        "hybrid loses to neither half; exact and mistyped names; the gain by history",
        &[Program(index::laws)],
    ),
    check(
        "index.speed",
        "searches among 3 thousand, 100 thousand and a million tools; changes, opening, memory",
        &[Program(|options| bench::index_speed(options.data.clone()))],
    ),
    check(
        "index.tokens",
        "the cost of a request against all definitions, and no budget is exceeded",
        &[Program(index::tokens)],
    ),
    check(
        "index.tough",
        "kills, searches during server changes, a million changes, hostile definitions",
        &[TestStep(&[Tests::of("mgp-toolindex", "tough")
            .release()
            .env(&[("KILLS", "100"), ("CHANGES", "1000000"), ("ROUNDS", "500"), ("STEPS", "20000")])
            .prints(&["tough: "; 5])
            .bound("5 reports, all passed")])],
    ),
    check(
        "find.languages",
        "wishes in thirteen languages among the tools of seventy real servers",
        &[Program(index::languages)],
    ),
    check(
        "find.speed",
        "the first search with a foreign word, which loads the lexicon, and the later ones",
        &[Program(index::speed)],
    ),
    check(
        "find.spread",
        "wishes that need tools of several servers find all of them",
        &[Program(index::spread)],
    ),
    check(
        "find.learns",
        "use improves the searches for what was used, and no other; an adversary moves nobody else's results",
        &[Program(index::learns)],
    ),
    check(
        "house.verdict",
        "in random worlds the list, the preview, the gate and the check after a wait agree",
        &[TestStep(&[Tests::of(SECURITY, "verdict")
            .env(&[("WORLDS", "10000")])
            .prints(&["10000 worlds agree"])
            .bound("10,000 worlds agree")])],
    ),
    check(
        "kernel.demo",
        "a fresh clone with only the Rust toolchain builds and shows the demonstration",
        &[Program(|_| fresh::kernel_demo())],
    ),
    check(
        "kernel.interop",
        "foreign clients use five foreign servers through the kernel, with all features of MCP",
        &[Program(|options| interop::through_the_kernel(options.rigour))],
    ),
    check(
        "stream.peers",
        "a server of an older MGP streams, is cancelled, asks back and publishes events through the kernel",
        &[Program(|options| interop::older_peers(options.rigour))],
    ),
    check(
        "kernel.refusals",
        "refusals with reason and remedy for the caller and in the log; an agent tries everything",
        &[TestStep(&[Tests::of(MGP, "refusals"), Tests::of(KERNEL, "admin")])],
    ),
    check(
        "kernel.tenants",
        "two hosts, one child, equal ids and tokens: no message crosses",
        &[TestStep(&[Tests::of(KERNEL, "route").each(&["tenants"])])],
    ),
    check(
        "kernel.chaos",
        "kills of kernel and child under load; 200 servers, most of them broken",
        &[TestStep(&[Tests::of(MGP, "run")
            .any(&["chaos::", "broken::"])
            .env(&[("ROUNDS", "200")])
            .prints(&["200 rounds:", "200 servers:"])
            .bound(
                "nothing acknowledged lost, ready again p99 2 s, nothing left; 50 of 200 work",
            )])],
    ),
    check(
        "kernel.first-ten-minutes",
        "every first mistake is answered in one line with the fix",
        &[TestStep(&[
            Tests::of(MGP, "run").each(&["first::"]),
            Tests::of(MGP, "commands").each(&["begin::"]),
        ])],
    ),
    check(
        "kernel.flows",
        "a model that sees only tools/list finds a tool, and requests one it lacks",
        &[TestStep(&[Tests::of(MGP, "flow")])],
    ),
    check(
        "day.again",
        "ten servers of npm and PyPI behind mgp by one command: plain, own certificates, a proxy, slow starts",
        &[Program(day::day_again)],
    ),
    check(
        "day.upgrade",
        "a server of npm gets newer behind the kernel: one review, one command",
        &[Program(|_| upgrade::day_upgrade())],
    ),
    check(
        "reach.bounds",
        "limits hold across a reload, a restart and a kill; a greedy agent does not slow another one",
        &[TestStep(&[Tests::of(MGP, "run")
            .each(&["reach::limits_hold", "bounds::"])
            .prints(&["p99 alone"])
            .release()])],
    ),
    check(
        "reach.learns",
        "an agent finds first what it used after similar queries, and no other agent does",
        &[TestStep(&[Tests::of(MGP, "run").each(&["exports::an_agent_finds"])])],
    ),
    check(
        "reach.login",
        "a login at a protected server: expiry, refresh, revocation, one for each agent",
        &[TestStep(&[Tests::of(MGP, "commands").each(&["login::"])])],
    ),
    check(
        "kernel.bench",
        "the cost of a hop through the kernel, its start and its memory",
        &[Program(|options| bench::kernel_bench(options.rigour))],
    ),
    check(
        "ext.rows",
        "every extension beyond MGP: its own tests, and once through the program over stdio and HTTP in both eras",
        ext::ROWS,
    ),
    check(
        "ext.matrix",
        "each extension with and without it at client, kernel and server; plain peers see nothing of any",
        &[TestStep(&[Tests::of(KERNEL, "extension").each(&["matrix::"])])],
    ),
    check(
        "ext.dialects",
        "the members of extensions in the places where other implementations write them",
        &[TestStep(&[Tests::of(KERNEL, "extension").each(&["dialects::"])])],
    ),
    check(
        "ext.kills",
        "kills of kernel and servers under calls with idempotency keys and transactions over three servers",
        &[TestStep(&[Tests::of(MGP, "run")
            .each(&["kills::"])
            .env(&[("KILLS", "500")])
            .prints(&["500 kills:"])
            .bound("no key ran twice; every transaction ended or waits for a person")])],
    ),
    check(
        "ext.broker",
        "1 GiB from server to server by reference; expired, changed, foreign and internal addresses are refused",
        ext::BROKER,
    ),
    check(
        "contract.rows",
        "each row about contracts and other tool protocols, by the tests that show it",
        contract::ROWS,
    ),
    check(
        "contract.openapi",
        "a generated client calls exported tools; documents of five public APIs become servers",
        contract::OPENAPI,
    ),
    check(
        "contract.semver",
        "pairs of definitions, two for each kind of change, demand the right version",
        contract::SEMVER,
    ),
    check(
        "contract.validate",
        "servers that break one rule fail that rule; our own keep all, in both eras and transports",
        contract::VALIDATE,
    ),
    check(
        "contract.lock",
        "servers of npm and PyPI whose files or definitions changed do not start, or are held",
        contract::LOCK,
    ),
    check(
        "contract.skills-apps",
        "pages and skills of several servers, and MCP Apps of npm: each host gets the right one",
        contract::SKILLS_APPS,
    ),
    check(
        "console.browser",
        "Chromium drives every page of the console: three widths, dark and light, without scripts",
        &[Program(console::browser)],
    ),
    check(
        "console.load",
        "50 open pages of the console while 1,000 calls a second pass",
        &[TestStep(&[Tests::of(MGP, "commands")
            .each(&["console_load::"])
            .env(&[("MGP_CONSOLE_PAGES", "50"), ("MGP_CONSOLE_SECONDS", "60")])
            .prints(&["console load:"])
            .bound("5 % more CPU for a call, p99 500 ms, memory flat")
            .release()])],
    ),
    check(
        "ten.install",
        "archive, wheel, npm and Debian package, installed without Rust, play the demo",
        &[Program(|_| install::ten_install())],
    ),
    check(
        "ten.setup",
        "six hosts and nine servers of npm and PyPI: one command sets them up, one restores every byte",
        &[Program(setup::ten_setup)],
    ),
    check(
        "ten.registry",
        "a registry of 2,100 servers on loopback: 50 wishes, add, update with a changed tool, bundles, an agent's request",
        &[TestStep(&[
            Tests::of(MGP, "commands")
                .each(&["registry::"])
                .env(&[("WISHES", "50")])
                .prints(&["50 wishes:"])
                .bound("40 of 50 among the first three"),
            Tests::of(MGP, "flow").each(&["published::"]),
        ])],
    ),
    check(
        "ten.upgrade",
        "new versions of the program under load from 4 clients, and a state of a newer version",
        &[TestStep(&[Tests::of(MGP, "run")
            .each(&["upgrade::"])
            .env(&[("UPGRADES", "200")])
            .prints(&["200 upgrades:"])
            .bound("no call lost or refused, no approval or grant lost")])],
    ),
];
