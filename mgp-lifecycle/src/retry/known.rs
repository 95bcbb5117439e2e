//! What is known of tools that matters for calling them again or in place of another.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::time::Duration;

use mgp_types::Lenient;
use mgp_types::mcp::{ListToolsResult, Tool};
use mgp_types::mgp::{RiskLevel, ToolSecurity};
use mgp_types::service::Reply;
use tokio::time::Instant;

/// Whether a tool may be called twice for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// It reads only, or twice is the same as once.
    Freely,
    /// Only where the call never started; also a tool nobody knows.
    Unstarted,
    /// It is dangerous and cannot be undone: only where the caller says so.
    Asked,
}

/// What is known of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownTool {
    /// Whether it may be called twice.
    pub repeat: Repeat,
    /// Its effective risk.
    pub risk: RiskLevel,
    /// Whether its definition says anything of its risk.
    pub(super) is_declared: bool,
}

impl KnownTool {
    /// Reads a definition; `risk` is what is thought of it, whatever it says of itself.
    #[must_use]
    pub fn of(tool: &Tool, risk: RiskLevel) -> Self {
        let security = tool.find_security();
        let security = security.as_ref().and_then(Lenient::valid);
        let hints = tool.annotations.as_ref();
        let hint = |said: Option<bool>| said == Some(true);
        let destroys = hints.is_some_and(|hints| hint(hints.destructive_hint));
        let says_so = hints.is_some_and(|hints| hint(hints.read_only_hint))
            || security.is_some_and(|security| security.risk_level == RiskLevel::Safe);
        // What is found dangerous does not read only, whatever it says.
        let reads = says_so && risk < RiskLevel::Dangerous;
        let idempotent = hints.is_some_and(|hints| hint(hints.idempotent_hint));
        let irreversible = security.is_some_and(is_irreversible);
        let repeat = if irreversible && risk >= RiskLevel::Dangerous {
            Repeat::Asked
        } else if idempotent || reads && !destroys && !irreversible {
            Repeat::Freely
        } else {
            Repeat::Unstarted
        };
        let hinted =
            hints.is_some_and(|hints| hints.read_only_hint.or(hints.destructive_hint).is_some());
        let is_declared = security.is_some() || hinted;
        Self { repeat, risk, is_declared }
    }

    /// How dangerous a tool may be that is called in its place.
    ///
    /// One that says nothing of itself is taken for dangerous, but that is no word for another one.
    pub(super) fn vouches_for(&self) -> RiskLevel {
        let most = if self.is_declared { RiskLevel::Dangerous } else { RiskLevel::Moderate };
        self.risk.clone().min(most)
    }

    /// What a definition says of its own risk; without a word, or with two that do not agree, it is dangerous.
    pub(super) fn declared_risk(tool: &Tool) -> RiskLevel {
        let security = tool.find_security();
        let declared = security.as_ref().and_then(Lenient::valid);
        let hints = tool.annotations.as_ref();
        let hinted = hints.map(|hints| (hints.read_only_hint, hints.destructive_hint));
        match (declared, hinted) {
            (Some(security), _) if is_irreversible(security) => RiskLevel::Dangerous,
            (_, Some((_, Some(true)))) => RiskLevel::Dangerous,
            (Some(security), _) => security.risk_level.clone().min(RiskLevel::Dangerous),
            (None, Some((Some(true), _))) => RiskLevel::Safe,
            (None, Some((_, Some(false)))) => RiskLevel::Moderate,
            (None, _) => RiskLevel::Dangerous,
        }
    }
}

fn is_irreversible(security: &ToolSecurity) -> bool {
    security.reversible == Some(false)
}

/// How many tools of a server are kept; of further ones nothing is known.
const TOOLS_MAX: usize = 4096;
/// The longest name of a tool that is kept, and that is taken for a fallback.
pub(super) const NAME_MAX: usize = 256;
/// How long nobody asks a server for its tools again that did not tell them.
const PAUSE: Duration = Duration::from_mins(1);

/// The tools of one server, from the lists that passed.
#[derive(Debug, Default)]
pub(super) struct Learned {
    tools: HashMap<Box<str>, KnownTool>,
    /// Whether a list passed since the server said that it changed.
    listed: bool,
    asked: Option<Instant>,
}

impl Learned {
    pub(super) fn get(&self, name: &str) -> Option<&KnownTool> {
        self.tools.get(name)
    }

    /// Takes over a page; the first one begins a new list.
    pub(super) fn take(&mut self, reply: &Reply, page: Page, risk: impl Fn(&Tool) -> RiskLevel) {
        // A list that cannot be read is the reader's to refuse.
        let Ok(list) = reply.get::<ListToolsResult>() else { return };
        if page == Page::First {
            self.forget();
        }
        self.listed = true;
        for tool in list.tools {
            let known = KnownTool::of(&tool, risk(&tool));
            if tool.name.len() <= NAME_MAX && self.tools.len() < TOOLS_MAX {
                self.tools.insert(tool.name.into(), known);
            }
        }
    }

    /// Forgets everything: the server said that its tools changed.
    pub(super) fn forget(&mut self) {
        self.tools.clear();
        (self.listed, self.asked) = (false, None);
    }

    /// Whether the server is to be asked for its tools; whoever hears yes asks.
    pub(super) fn wants_list(&mut self, now: Instant) -> bool {
        let wants =
            !self.listed && self.asked.is_none_or(|at| now.saturating_duration_since(at) > PAUSE);
        if wants {
            self.asked = Some(now);
        }
        wants
    }
}

/// Which page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    First,
    Further,
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[track_caller]
    fn check(rest: &str, risk: RiskLevel, expected: Repeat) {
        let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!(KnownTool::of(&tool, risk).repeat, expected, "{text}");
    }

    #[test]
    fn what_a_definition_says_about_a_second_call() {
        use Repeat::{Asked, Freely, Unstarted};
        use RiskLevel::{Dangerous, Moderate, Safe};

        check("", Dangerous, Unstarted);
        check(r#","annotations":{"readOnlyHint":true}"#, Safe, Freely);
        check(r#","annotations":{"readOnlyHint":true}"#, Dangerous, Unstarted);
        check(
            r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#,
            Dangerous,
            Unstarted,
        );
        check(r#","annotations":{"readOnlyHint":false}"#, Moderate, Unstarted);
        check(
            r#","annotations":{"idempotentHint":true,"destructiveHint":true}"#,
            Dangerous,
            Freely,
        );
        check(r#","security":{"risk_level":"safe"}"#, Safe, Freely);
        check(r#","security":{"risk_level":"moderate"}"#, Moderate, Unstarted);
        check(r#","security":{"risk_level":"dangerous","reversible":true}"#, Dangerous, Unstarted);
        check(r#","security":{"risk_level":"dangerous","reversible":false}"#, Dangerous, Asked);
        let both = r#","annotations":{"idempotentHint":true},"security":{"risk_level":"dangerous","reversible":false}"#;
        check(both, Dangerous, Asked);
        check(r#","security":{"risk_level":"safe","reversible":false}"#, Safe, Unstarted);
        check(r#","security":{"risk_level":"safe","reversible":false}"#, Dangerous, Asked);
        // What is malformed says nothing.
        check(r#","security":{"risk_level":7}"#, Dangerous, Unstarted);
    }

    #[track_caller]
    fn declares(rest: &str, expected: &RiskLevel) {
        let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!(&KnownTool::declared_risk(&tool), expected, "{text}");
    }

    #[test]
    fn a_definition_without_a_word_on_it_is_dangerous() {
        use RiskLevel::{Dangerous, Moderate, Safe};

        declares("", &Dangerous);
        declares(r#","annotations":{"readOnlyHint":true}"#, &Safe);
        declares(r#","annotations":{"destructiveHint":false}"#, &Moderate);
        declares(r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#, &Dangerous);
        declares(r#","security":{"risk_level":"moderate"}"#, &Moderate);
        declares(r#","security":{"risk_level":"safe","reversible":false}"#, &Dangerous);
        declares(r#","security":{"risk_level":"unheard_of"}"#, &Dangerous);
        let both = r#","security":{"risk_level":"safe"},"annotations":{"destructiveHint":true}"#;
        declares(both, &Dangerous);
    }

    fn list(names: &[&str]) -> Reply {
        let tools = names.iter().map(|name| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#));
        let tools = tools.collect::<Vec<_>>().join(",");
        Reply::raw(Payload::parse(format!(r#"{{"tools":[{tools}]}}"#)).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_learned_page_by_page_and_bounded() {
        let mut learned = Learned::default();
        assert!(learned.wants_list(Instant::now()));
        assert!(!learned.wants_list(Instant::now()), "one call asks");
        tokio::time::advance(PAUSE * 2).await;
        assert!(learned.wants_list(Instant::now()));
        let risk = |_: &Tool| RiskLevel::Safe;
        learned.take(&list(&["a"]), Page::First, risk);
        learned.take(&list(&["b"]), Page::Further, risk);
        assert!(learned.get("a").is_some() && learned.get("b").is_some());
        assert!(!learned.wants_list(Instant::now()));
        learned.take(&Reply::empty(), Page::First, risk);
        assert!(learned.get("a").is_some(), "that was no list");
        learned.take(&list(&["c"]), Page::First, risk);
        assert!(learned.get("a").is_none() && learned.get("c").is_some());
        learned.forget();
        assert!(learned.get("c").is_none() && learned.wants_list(Instant::now()));

        let names: Vec<_> = (0..TOOLS_MAX + 9).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        learned.take(&list(&names), Page::First, risk);
        assert_eq!(learned.tools.len(), TOOLS_MAX);
        learned.take(&list(&[&"x".repeat(NAME_MAX + 1)]), Page::First, risk);
        assert_eq!(learned.tools.len(), 0);
    }
}
