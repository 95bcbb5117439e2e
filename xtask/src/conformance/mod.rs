//! The command `conformance`: runs the official conformance suite of MCP against our server, our client or a kernel.

mod judged;
mod kernel;
mod sets;
mod suite;

use crate::{
    accept::Verdict as Accepted,
    flags::Flags,
    run::{Failure, Outcome, Rigour, debug_programs, now, seconds, target},
    serving::Served,
};
use judged::{Judged, Verdict};
use kernel::{Kernel, Peer};
use sets::{ALL, EXTENSIONS, Requirements, Scenarios, Set, Side};
use std::path::PathBuf;
use suite::{Suite, Tried};

/// The error message if no set contains the scenario of `--only`.
const UNKNOWN: &str = "there is no such scenario in these sets";

/// Runs the sets of scenarios of one side or both; with `--only`, runs one scenario in the sets that contain it. With
/// `--through-kernel`, runs the server scenarios against a kernel instead.
pub(crate) fn conformance(flags: &Flags) -> Outcome {
    let rigour = Rigour::from_strict(flags.has("--strict"));
    let suite = match Suite::install() {
        Ok(suite) => suite,
        Err(why) => return rigour.skip("the conformance suite", &why.to_string()),
    };
    if flags.has("--through-kernel") {
        let peer = Peer::named(flags.value("--peer"))?;
        let (totals, not) = through_kernel(&suite, peer, flags.value("--only"))?;
        if totals.is_empty() {
            return Err(Failure::new(UNKNOWN));
        }
        if not.is_empty() {
            return Ok(());
        }
        println!("what the suite wrote: {}", suite.written().display());
        return Err(Failure::new(not.join("; ")));
    }
    let both = flags.has("--server") == flags.has("--client");
    let wanted = |set: &&Set| {
        both || flags.has("--server") && set.side == Side::Server
            || flags.has("--client") && set.side == Side::Client
    };
    let mut stage = Stage::new(&suite);
    let (mut wrong, mut totals) = (Vec::new(), Vec::new());
    for set in ALL.iter().filter(wanted) {
        let requirements = suite.requirements(set)?;
        let run = match flags.value("--only") {
            None => stage.run(set)?,
            Some(only) if belongs(set, &requirements, only) => vec![stage.alone(set, only)?],
            Some(_) => continue,
        };
        let bad = run.iter().filter(|judged| judged.verdict.is_bad());
        wrong.extend(bad.map(|judged| {
            format!("{} {}: {}", set.shown(), judged.scenario, judged.verdict.word())
        }));
        totals.push(Total::of(set, &requirements, &run));
    }
    if totals.is_empty() {
        return Err(Failure::new(UNKNOWN));
    }
    for total in &totals {
        println!("{}", total.shown());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    println!("what the suite wrote: {}", suite.written().display());
    Err(Failure::new(wrong.join("; ")))
}

/// The only required scenario that a kernel does not pass.
///
/// In this scenario, the client sends an answer that the server has not requested. A server is allowed to accept such
/// an answer, but the kernel forwards only answers to a question of the server: the server could not distinguish an
/// unrequested answer from an answer that a user gave.
const EARLY_ANSWERS: &str = "input-required-result-ignore-extra-params";

/// Runs the server scenarios against a kernel in front of a server; returns the totals, and the required scenarios that
/// failed.
fn through_kernel(
    suite: &Suite,
    peer: Peer,
    only: Option<&str>,
) -> Outcome<(Vec<Total>, Vec<String>)> {
    let kernel = Kernel::start(peer)?;
    let (mut totals, mut not) = (Vec::new(), Vec::new());
    for set in ALL.iter().filter(|set| set.side == Side::Server) {
        let requirements = suite.requirements(set)?;
        let (tried, start) = (kernel.tried(), now());
        let run = match only {
            None => suite.run(set, &tried)?,
            Some(only) if belongs(set, &requirements, only) => {
                vec![suite.alone(set, &tried, only)?]
            }
            Some(_) => continue,
        };
        for judged in &run {
            print(set, &requirements, judged);
            let is_required = requirements.of(set.side).contains(&judged.scenario);
            let is_known = judged.scenario == EARLY_ANSWERS && judged.verdict == Verdict::Warned;
            if is_required && !is_known && judged.verdict != Verdict::Pass {
                not.push(format!("{} {}", set.shown(), judged.scenario));
            }
        }
        let total = Total::of(set, &requirements, &run);
        let took = seconds(start.elapsed());
        println!("kernel before {}: {} in {took}", peer.shown(), total.shown());
        totals.push(total);
    }
    Ok((totals, not))
}

/// Runs the acceptance check `faults.peers`: the required scenarios of both revisions, through a kernel in front of
/// servers on three SDKs.
pub(crate) fn peers() -> Outcome<Accepted> {
    let suite = Suite::install()?;
    let (mut figures, mut pass) = (Vec::new(), true);
    for peer in Peer::ALL {
        let (totals, not) = through_kernel(&suite, peer, None)?;
        pass &= not.is_empty();
        let each: Vec<_> =
            totals.iter().map(|one| format!("{}/{}", one.required, one.of)).collect();
        figures.push(format!("{} {}", peer.shown(), each.join(" and ")));
    }
    Ok(Accepted { pass, figure: figures.join(", "), bound: "30/30 and 36/37 each".to_owned() })
}

/// Returns whether a set contains a scenario, according to the suite's list or, for a named part of the suite, to
/// `EXTENSIONS`.
fn belongs(set: &Set, requirements: &Requirements, scenario: &str) -> bool {
    match set.scenarios {
        Scenarios::Required => requirements.run(set.side).any(|known| known == scenario),
        Scenarios::Suite(_) => {
            EXTENSIONS.iter().any(|(name, known)| *name == set.shown() && known.contains(&scenario))
        }
    }
}

/// Runs the acceptance check `mcp.required`: all scenarios that the two revisions require.
pub(crate) fn required() -> Outcome<Accepted> {
    let suite = Suite::install()?;
    let mut stage = Stage::new(&suite);
    let (mut figures, mut bounds, mut pass) = (Vec::new(), Vec::new(), true);
    for set in ALL.iter().filter(|set| set.scenarios == Scenarios::Required) {
        let requirements = suite.requirements(set)?;
        let run = stage.run(set)?;
        let total = Total::of(set, &requirements, &run);
        pass &= total.required == set.required && !run.iter().any(|one| one.verdict.is_bad());
        figures.push(format!("{} {}/{}", set.shown(), total.required, set.required));
        bounds.push(format!("{0}/{0}", set.required));
    }
    Ok(Accepted { pass, figure: figures.join(", "), bound: bounds.join(", ") })
}

/// Runs the acceptance check `mcp.tasks`: the optional scenarios about tasks, headers, schemas, credentials and older
/// servers.
pub(crate) fn extensions() -> Outcome<Accepted> {
    let suite = Suite::install()?;
    let mut stage = Stage::new(&suite);
    let (mut passed, mut all, mut not) = (0, 0, Vec::new());
    for (name, scenarios) in EXTENSIONS {
        let set = Set::named(name).ok_or_else(|| Failure::new(format!("no set {name}")))?;
        for scenario in *scenarios {
            let judged = stage.alone(set, scenario)?;
            print(set, &Requirements::default(), &judged);
            all += 1;
            if judged.verdict == Verdict::Pass {
                passed += 1;
            } else {
                not.push(format!("{scenario} {}", judged.verdict.word()));
            }
        }
    }
    let faults = if not.is_empty() { String::new() } else { format!("; not: {}", not.join(", ")) };
    Ok(Accepted {
        pass: passed == all,
        figure: format!("{passed} of {all} scenarios{faults}"),
        bound: "all, each with a check that passed".to_owned(),
    })
}

/// The suite, and the server and the client that it tests. Both are prepared only when a scenario first needs them.
struct Stage<'a> {
    suite: &'a Suite,
    host: Option<Served>,
    client: Option<Tried>,
}

impl<'a> Stage<'a> {
    fn new(suite: &'a Suite) -> Self {
        Self { suite, host: None, client: None }
    }

    fn tried(&mut self, side: Side) -> Outcome<Tried> {
        match side {
            Side::Server => {
                if self.host.is_none() {
                    let words = [example("conformance_server")?, "--port".into(), "PORT".into()];
                    let log = target()?.join("conformance/server.log");
                    self.host = Some(Served::words(&words.map(PathBuf::into_os_string), &log)?);
                }
                self.host.as_ref().map(Tried::at)
            }
            Side::Client => {
                if self.client.is_none() {
                    self.client = Some(Tried::Client(example("conformance_client")?));
                }
                self.client.clone()
            }
        }
        .ok_or_else(|| Failure::new("nothing to try"))
    }

    fn run(&mut self, set: &Set) -> Outcome<Vec<Judged>> {
        let (tried, start) = (self.tried(set.side)?, now());
        let run = self.suite.run(set, &tried)?;
        let requirements = self.suite.requirements(set)?;
        for judged in &run {
            print(set, &requirements, judged);
        }
        println!("{} in {}", set.shown(), seconds(start.elapsed()));
        Ok(run)
    }

    fn alone(&mut self, set: &Set, scenario: &str) -> Outcome<Judged> {
        let tried = self.tried(set.side)?;
        self.suite.alone(set, &tried, scenario)
    }
}

/// Builds an example, and returns the path of the program.
fn example(name: &str) -> Outcome<PathBuf> {
    Ok(debug_programs(&[name])?.join("examples").join(name))
}

/// Prints the verdict on a scenario, and the reasons of a failure.
fn print(set: &Set, requirements: &Requirements, judged: &Judged) {
    let Judged { scenario, verdict, passed, faults } = judged;
    let word = verdict.word();
    let mark = if requirements.of(set.side).contains(scenario) { "required" } else { "" };
    println!("{:18} {word:8} {mark:9} {scenario:46} {passed:3} checks", set.shown());
    for fault in faults {
        println!("{:27} {fault}", "");
    }
}

struct Total {
    name: String,
    of: usize,
    /// The number of required scenarios that passed.
    required: usize,
    /// The counts of the other scenarios: passed, vacuous, and all.
    more: [usize; 3],
    checks: usize,
}

impl Total {
    fn of(set: &Set, requirements: &Requirements, run: &[Judged]) -> Self {
        let is_required = |one: &Judged| requirements.of(set.side).contains(&one.scenario);
        let is_passed = |one: &Judged| one.verdict == Verdict::Pass;
        let count = |which: &dyn Fn(&Judged) -> bool| run.iter().filter(|one| which(one)).count();
        let more = [
            count(&|one| !is_required(one) && is_passed(one)),
            count(&|one| !is_required(one) && one.verdict == Verdict::Vacuous),
            count(&|one| !is_required(one)),
        ];
        Self {
            name: set.shown(),
            of: count(&is_required),
            required: count(&|one| is_required(one) && is_passed(one)),
            more,
            checks: run.iter().map(|one| one.passed).sum(),
        }
    }

    fn shown(&self) -> String {
        let Self { name, of, required, more: [passed, vacuous, all], checks } = self;
        format!(
            "{name}: {required}/{of} required, {passed}/{all} more ({vacuous} vacuous), \
             {checks} checks"
        )
    }
}
