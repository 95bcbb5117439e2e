//! The properties of tools that determine whether they can be retried or used as a fallback.

use std::collections::HashMap;
use std::time::Duration;

use mgp_types::Lenient;
use mgp_types::mcp::{ListToolsResult, Tool};
use mgp_types::mgp::{RiskLevel, ToolSecurity};
use mgp_types::service::Reply;
use tokio::time::Instant;

/// The conditions under which a tool is allowed to run a second time for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepeatPolicy {
    /// Always, because the tool only reads, or because a second run has no further effect.
    Always,
    /// Only if the call did not start. This also applies to unknown tools.
    IfNotStarted,
    /// Only if the caller allows it, because the tool is dangerous and irreversible.
    OnRequest,
}

/// The properties of a tool on which the decision about a retry depends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRetryInfo {
    /// The conditions under which the tool is allowed to run a second time.
    pub repeat: RepeatPolicy,
    /// The effective risk of the tool.
    pub risk: RiskLevel,
    /// `true` if the tool's definition declares a risk, with `security` or with annotations.
    pub(super) is_declared: bool,
}

impl ToolRetryInfo {
    /// Reads the properties from a definition; `risk` is the effective risk, whatever the definition declares.
    #[must_use]
    pub fn of(tool: &Tool, risk: RiskLevel) -> Self {
        let security = tool.find_security();
        let security = security.as_ref().and_then(Lenient::valid);
        let hints = tool.annotations.as_ref();
        let is_set = |hint: Option<bool>| hint == Some(true);
        let destroys = hints.is_some_and(|hints| is_set(hints.destructive_hint));
        let declares_reading = hints.is_some_and(|hints| is_set(hints.read_only_hint))
            || security.is_some_and(|security| security.risk_level == RiskLevel::Safe);
        // A tool that is found to be dangerous does not count as read-only, whatever it declares.
        let reads = declares_reading && risk < RiskLevel::Dangerous;
        let idempotent = hints.is_some_and(|hints| is_set(hints.idempotent_hint));
        let irreversible = security.is_some_and(is_irreversible);
        let repeat = if irreversible && risk >= RiskLevel::Dangerous {
            RepeatPolicy::OnRequest
        } else if idempotent || reads && !destroys && !irreversible {
            RepeatPolicy::Always
        } else {
            RepeatPolicy::IfNotStarted
        };
        let hinted =
            hints.is_some_and(|hints| hints.read_only_hint.or(hints.destructive_hint).is_some());
        let is_declared = security.is_some() || hinted;
        Self { repeat, risk, is_declared }
    }

    /// Returns the highest risk that a fallback for this tool is allowed to have.
    ///
    /// A tool that declares no risk counts as dangerous, but only a tool of at most moderate risk can replace it.
    pub(super) fn max_fallback_risk(&self) -> RiskLevel {
        let max = if self.is_declared { RiskLevel::Dangerous } else { RiskLevel::Moderate };
        self.risk.clone().min(max)
    }

    /// Returns the risk that a definition declares: dangerous if the definition declares no risk or contradicts itself.
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

/// The maximum number of tools stored per server; further tools count as unknown.
const MAX_TOOLS: usize = 4096;
/// Maximum length, in bytes, of a tool name that is stored or called as a fallback.
pub(super) const MAX_NAME_BYTES: usize = 256;
/// The time after which the layer requests the tool list again from a server that did not list its tools.
const LIST_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// The tools of one server, read from the lists that passed through the layer.
#[derive(Debug, Default)]
pub(super) struct ToolTable {
    tools: HashMap<Box<str>, ToolRetryInfo>,
    /// `true` if a list was read up to its last page since the server last reported a change.
    listed: bool,
    asked: Option<Instant>,
    /// The number of changes that the server reported. A list that was requested before the last change is not used.
    changes: u64,
}

impl ToolTable {
    pub(super) fn get(&self, name: &str) -> Option<&ToolRetryInfo> {
        self.tools.get(name)
    }

    /// Returns the number of changes that the server reported so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Stores the tools on a page of a list that was requested after the server had reported this number of changes;
    /// the first page replaces the tools that were stored before. Returns the cursor of the next page.
    pub(super) fn store_page(
        &mut self,
        reply: &Reply,
        page: ListPage,
        changes: u64,
        risk: impl Fn(&Tool) -> RiskLevel,
    ) -> Option<String> {
        if changes != self.changes {
            return None;
        }
        // An invalid list is ignored here; the caller gets an error when it parses the reply.
        let list: ListToolsResult = reply.get().ok()?;
        if page == ListPage::First {
            self.tools.clear();
        }
        // Many legacy servers send an empty cursor with the last page, so an empty cursor counts as none.
        let next = list.next_cursor.filter(|cursor| !cursor.is_empty());
        self.listed = next.is_none();
        for tool in list.tools {
            let known = ToolRetryInfo::of(&tool, risk(&tool));
            if tool.name.len() <= MAX_NAME_BYTES && self.tools.len() < MAX_TOOLS {
                self.tools.insert(tool.name.into(), known);
            }
        }
        next
    }

    /// Removes all tools, because the server reported a change.
    pub(super) fn clear(&mut self) {
        self.tools.clear();
        (self.listed, self.asked) = (false, None);
        self.changes += 1;
    }

    /// Returns `true` if the list of tools must be requested now. The caller of this method must then request it; for
    /// other callers, the method returns `false` for a while.
    pub(super) fn begin_listing(&mut self, now: Instant) -> bool {
        let begins = !self.listed
            && self.asked.is_none_or(|at| now.saturating_duration_since(at) > LIST_RETRY_INTERVAL);
        if begins {
            self.asked = Some(now);
        }
        begins
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListPage {
    First,
    Next,
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[track_caller]
    fn check(rest: &str, risk: RiskLevel, expected: RepeatPolicy) {
        let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!(ToolRetryInfo::of(&tool, risk).repeat, expected, "{text}");
    }

    #[test]
    fn a_definition_decides_about_a_second_call() {
        use RepeatPolicy::{Always, IfNotStarted, OnRequest};
        use RiskLevel::{Dangerous, Moderate, Safe};

        check("", Dangerous, IfNotStarted);
        check(r#","annotations":{"readOnlyHint":true}"#, Safe, Always);
        check(r#","annotations":{"readOnlyHint":true}"#, Dangerous, IfNotStarted);
        check(
            r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#,
            Dangerous,
            IfNotStarted,
        );
        check(r#","annotations":{"readOnlyHint":false}"#, Moderate, IfNotStarted);
        check(
            r#","annotations":{"idempotentHint":true,"destructiveHint":true}"#,
            Dangerous,
            Always,
        );
        check(r#","security":{"risk_level":"safe"}"#, Safe, Always);
        check(r#","security":{"risk_level":"moderate"}"#, Moderate, IfNotStarted);
        check(
            r#","security":{"risk_level":"dangerous","reversible":true}"#,
            Dangerous,
            IfNotStarted,
        );
        check(r#","security":{"risk_level":"dangerous","reversible":false}"#, Dangerous, OnRequest);
        let both = r#","annotations":{"idempotentHint":true},"security":{"risk_level":"dangerous","reversible":false}"#;
        check(both, Dangerous, OnRequest);
        check(r#","security":{"risk_level":"safe","reversible":false}"#, Safe, IfNotStarted);
        check(r#","security":{"risk_level":"safe","reversible":false}"#, Dangerous, OnRequest);
        // A malformed declaration is ignored.
        check(r#","security":{"risk_level":7}"#, Dangerous, IfNotStarted);
    }

    #[track_caller]
    fn declares(rest: &str, expected: &RiskLevel) {
        let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!(&ToolRetryInfo::declared_risk(&tool), expected, "{text}");
    }

    #[test]
    fn a_definition_without_a_declared_risk_is_dangerous() {
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
        let mut tools = ToolTable::default();
        assert!(tools.begin_listing(Instant::now()));
        assert!(!tools.begin_listing(Instant::now()), "only one call asks");
        tokio::time::advance(LIST_RETRY_INTERVAL * 2).await;
        assert!(tools.begin_listing(Instant::now()));
        let risk = |_: &Tool| RiskLevel::Safe;
        tools.store_page(&list(&["a"]), ListPage::First, 0, risk);
        tools.store_page(&list(&["b"]), ListPage::Next, 0, risk);
        assert!(tools.get("a").is_some() && tools.get("b").is_some());
        assert!(!tools.begin_listing(Instant::now()));
        tools.store_page(&Reply::empty(), ListPage::First, 0, risk);
        assert!(tools.get("a").is_some(), "an invalid list changes nothing");
        tools.store_page(&list(&["c"]), ListPage::First, 0, risk);
        assert!(tools.get("a").is_none() && tools.get("c").is_some());
        tools.clear();
        tools.store_page(&list(&["c"]), ListPage::First, 0, risk);
        assert!(tools.get("c").is_none(), "the list was requested before the change");
        assert!(tools.begin_listing(Instant::now()));

        // A list that was not read to its end is requested again after a while.
        let page = r#"{"tools":[],"nextCursor":"2"}"#.to_owned();
        tools.store_page(&Reply::raw(Payload::parse(page).unwrap()), ListPage::First, 1, risk);
        assert!(!tools.begin_listing(Instant::now()));
        tokio::time::advance(LIST_RETRY_INTERVAL * 2).await;
        assert!(tools.begin_listing(Instant::now()));

        let names: Vec<_> = (0..MAX_TOOLS + 9).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        tools.store_page(&list(&names), ListPage::First, 1, risk);
        assert_eq!(tools.tools.len(), MAX_TOOLS);
        tools.store_page(&list(&[&"x".repeat(MAX_NAME_BYTES + 1)]), ListPage::First, 1, risk);
        assert_eq!(tools.tools.len(), 0);
    }
}
