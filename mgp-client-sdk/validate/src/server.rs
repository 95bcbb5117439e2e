//! Judges a server: opens the connections that the rules need, and checks the rules on them.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::json::Wrong;
use crate::link::Target;
use crate::report::{Report, RuleResult, Status, Subject};
use crate::rule::{Outcome, Rule, RuleInfo, RuleLevel, Tier};
use crate::rules;
use crate::session::{Options, Session, Setup};

/// The rule that a connection can be opened. If [`judge_server`] finds it broken, it is the only rule in the report.
pub(crate) const CONNECTS: RuleInfo = RuleInfo {
    id: "mcp.connect",
    section: "MCP lifecycle",
    level: RuleLevel::Must,
    tier: Tier::Mcp,
    text: "the server answers `initialize` or `server/discover`",
};

/// The maximum time for one rule, so that a server that keeps sending messages does not delay the judge.
const MAX_RULE: Duration = Duration::from_mins(1);

/// Checks all rules that apply to a server, and returns the outcome of each.
///
/// Calls only the tool that [`Options::tool`] names, and tools that declare to be read-only, these without arguments or
/// with invalid ones.
///
/// # Cancel safety
/// Dropping the future ends the connections and the programs that were started.
pub async fn judge_server(target: &Target, options: &Options) -> Report {
    let mut judge =
        Judge { target, options, sessions: HashMap::new(), subject: Subject::default() };
    judge.subject.target = target.name();
    if let Some(wrong) = judge.cannot_connect().await {
        let result = RuleResult::new(CONNECTS, Status::Failed, Some(wrong), Default::default(), 0);
        return Report::new(judge.subject, vec![result]);
    }
    let mut results = Vec::new();
    if options.selects(CONNECTS.id) {
        results.push(RuleResult::new(CONNECTS, Status::Passed, None, Default::default(), 0));
    }
    for rule in rules::all().filter(|rule| options.selects(rule.info.id)) {
        results.push(judge.play(rule).await);
    }
    let sessions = judge.sessions.into_values().flatten();
    join_all(sessions.map(Session::close)).await;
    Report::new(judge.subject, results)
}

struct Judge<'a> {
    target: &'a Target,
    options: &'a Options,
    /// The connection of each kind, or the reason why there is none.
    sessions: HashMap<Setup, Result<Session, Wrong>>,
    subject: Subject,
}

impl Judge<'_> {
    /// Returns why no connection can be opened in either era; `None` if one can be opened.
    async fn cannot_connect(&mut self) -> Option<Wrong> {
        let legacy = self.session(Setup::Legacy).await.err().cloned()?;
        let modern = self.session(Setup::Modern).await.err().cloned()?;
        // A program that cannot be started fails for the same reason in both eras, so return the reason only once.
        Some(if legacy == modern { legacy } else { format!("{legacy}; {modern}") })
    }

    async fn play(&mut self, rule: &Rule) -> RuleResult {
        let start = Instant::now();
        let (status, message, evidence) = match tokio::time::timeout(MAX_RULE, self.outcome(rule))
            .await
        {
            Ok((Ok(()), evidence)) => (Status::Passed, None, evidence),
            Ok((Err(Outcome::Skipped(reason)), _)) => (Status::Skipped, Some(reason), None),
            Ok((Err(Outcome::Failed(wrong)), evidence)) => (Status::Failed, Some(wrong), evidence),
            Err(_) => {
                self.close(rule.setup).await;
                let reason = format!("the rule was given up after {} s", MAX_RULE.as_secs());
                (Status::Failed, Some(reason), None)
            }
        };
        let shown = evidence.filter(|_| status == Status::Failed).unwrap_or_default();
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        RuleResult::new(rule.info, status, message, shown, took)
    }

    async fn outcome(&mut self, rule: &Rule) -> (Result<(), Outcome>, Option<(String, String)>) {
        let speaks_mgp = if rule.setup == Setup::Bare { self.speaks_mgp().await } else { false };
        if let Some(missing) = self.missing_era(rule.setup).await {
            return (Err(missing), None);
        }
        if rule.is_alone {
            return match Session::open(self.target, rule.setup, self.options).await {
                Err(wrong) => (Err(Outcome::Failed(wrong)), None),
                Ok(mut session) => {
                    session.speaks_mgp = speaks_mgp;
                    let outcome = on(rule, &mut session).await;
                    session.close().await;
                    outcome
                }
            };
        }
        match self.session(rule.setup).await {
            Err(wrong) => (Err(Outcome::Failed(wrong.clone())), None),
            Ok(session) => on(rule, session).await,
        }
    }

    /// Returns the outcome of all rules for this setup if the server serves only the other era: the rules are skipped.
    /// Otherwise returns `None`.
    async fn missing_era(&mut self, setup: Setup) -> Option<Outcome> {
        let (base, other, era) = match setup {
            Setup::Modern | Setup::ModernMgp => {
                (Setup::Modern, Setup::Legacy, "modern era (2026-07-28)")
            }
            _ => (Setup::Legacy, Setup::Modern, "legacy era"),
        };
        if self.session(base).await.is_ok() {
            return None;
        }
        let serves_other = self.session(other).await.is_ok();
        serves_other.then(|| Outcome::Skipped(format!("the server does not serve the {era}")))
    }

    async fn speaks_mgp(&mut self) -> bool {
        matches!(self.session(Setup::LegacyMgp).await, Ok(session) if session.mgp().is_some())
    }

    /// Ends the connection for a setup, if it is open.
    async fn close(&mut self, setup: Setup) {
        if let Some(Ok(session)) = self.sessions.remove(&setup) {
            session.close().await;
        }
    }

    /// Returns the connection for a setup; opens it again if it has ended.
    async fn session(&mut self, setup: Setup) -> Result<&mut Session, &Wrong> {
        let has_ended =
            |known: &Result<Session, Wrong>| matches!(known, Ok(session) if session.end.is_some());
        if self.sessions.get(&setup).is_none_or(has_ended) {
            self.close(setup).await;
            let opened = Session::open(self.target, setup, self.options).await;
            if let Ok(session) = &opened {
                self.subject.note(session);
            }
            self.sessions.insert(setup, opened);
        }
        match self.sessions.get_mut(&setup) {
            Some(Ok(session)) => Ok(session),
            Some(Err(wrong)) => Err(wrong),
            None => Err(const { &String::new() }),
        }
    }
}

/// Checks a rule on a connection. Returns its outcome, and the last messages as evidence if the rule was not skipped
/// before its check.
pub(crate) async fn on(
    rule: &Rule,
    session: &mut Session,
) -> (Result<(), Outcome>, Option<(String, String)>) {
    if rule.setup.offers_mgp() && session.mgp().is_none() {
        return (Err(Outcome::Skipped("the server does not offer MGP".to_owned())), None);
    }
    if let Some(extension) = rule.extension
        && !session.has(extension)
    {
        let reason = format!("the server does not offer `{extension}`");
        return (Err(Outcome::Skipped(reason)), None);
    }
    let outcome = (rule.play)(session).await;
    (outcome, Some(session.evidence()))
}
