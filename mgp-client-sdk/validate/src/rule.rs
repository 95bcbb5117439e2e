//! Rules as data: each has a name, a section, a level, the connection that it needs, and a function that checks it.

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::json::Wrong;
use crate::session::{Answer, Options, Session, Setup};

/// The level of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    /// A peer that breaks the rule fails.
    Must,
    /// A peer that breaks the rule still passes, and the report has a warning.
    Should,
}

/// The group of a rule: MCP itself, or one of the tiers of MGP, which the adoption guide of later revisions defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The rules of MCP.
    Mcp,
    /// The negotiation, and the absence of MGP messages where MGP was not negotiated.
    Tier1,
    /// Security metadata, permissions, access and audit.
    Tier2,
    /// Lifecycle, streaming, events, callbacks and errors.
    Tier3,
    /// Discovery of servers and of tools.
    Tier4,
}

impl Tier {
    /// All tiers, in order.
    pub const ALL: [Self; 5] = [Self::Mcp, Self::Tier1, Self::Tier2, Self::Tier3, Self::Tier4];

    /// Returns the name of the tier for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Mcp => "MCP",
            Self::Tier1 => "MGP 1: negotiation",
            Self::Tier2 => "MGP 2: security and audit",
            Self::Tier3 => "MGP 3: lifecycle, streams, events, errors",
            Self::Tier4 => "MGP 4: discovery",
        }
    }
}

/// The reason why a rule is broken, or was not checked.
#[derive(Debug)]
pub(crate) enum Outcome {
    Failed(Wrong),
    Skipped(String),
}

impl From<Wrong> for Outcome {
    fn from(wrong: Wrong) -> Self {
        Self::Failed(wrong)
    }
}

impl From<&str> for Outcome {
    fn from(wrong: &str) -> Self {
        Self::Failed(wrong.to_owned())
    }
}

/// The result of a rule's function.
pub(crate) type Check = Result<(), Outcome>;

/// Returns the outcome of a rule that does not apply.
pub(crate) fn skip(reason: &str) -> Outcome {
    Outcome::Skipped(reason.to_owned())
}

/// Fails a rule unless a condition holds.
pub(crate) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Outcome::Failed(wrong())) }
}

impl Options {
    /// Returns whether the rule with this name is to be checked.
    pub(crate) fn selects(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| id.starts_with(only.as_str()))
    }
}

impl Answer {
    /// Checks that the answer is an error with one of these codes; `what` describes the request.
    pub(crate) fn check_error(self, what: &str, codes: &[i64]) -> Check {
        self.error(what, codes)?;
        Ok(())
    }
}

/// Skips a rule if the server declares no tools.
pub(crate) fn needs_tools(session: &Session) -> Check {
    match session.capability("tools") {
        Some(_) => Ok(()),
        None => Err(skip("the server declares no tools")),
    }
}

/// Returns a tool that the judge is allowed to call, and its arguments; skips the rule if there is none.
pub(crate) async fn callable_tool(session: &mut Session) -> Result<(String, Value), Outcome> {
    let callable = session.callable().await?;
    callable.ok_or_else(|| skip("no tool may be called: name one with `--tool`"))
}

/// A rule about servers.
pub(crate) struct Rule {
    pub(crate) info: RuleInfo,
    pub(crate) setup: Setup,
    /// The extension of MGP that the rule is about; if it is not active, the rule is skipped.
    pub(crate) extension: Option<&'static str>,
    /// `true` if the rule needs a separate connection, because it ends or disturbs its connection.
    pub(crate) is_alone: bool,
    pub(crate) play: for<'a> fn(&'a mut Session) -> BoxFuture<'a, Check>,
}

/// The description of a rule.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct RuleInfo {
    /// The name, e.g. `mgp.health.ping`.
    pub id: &'static str,
    /// The section of the specification, e.g. `MGP §11.3`.
    pub section: &'static str,
    /// The level: a peer that breaks the rule fails (`Must`), or only gets a warning (`Should`).
    pub level: RuleLevel,
    /// The group of the rule: MCP, or a tier of MGP.
    pub tier: Tier,
    /// The rule as a sentence.
    pub text: &'static str,
}

macro_rules! server_rules {
    ($tier:ident; $(
        $id:literal, $section:literal, $level:ident, $setup:ident $([$extension:literal])? $($alone:ident)?,
        $text:literal => $play:ident $($at_once:ident)?;
    )+) => {
        pub(crate) static RULES: &[$crate::rule::Rule] = &[$(
            $crate::rule::Rule {
                info: $crate::rule::RuleInfo {
                    id: $id,
                    section: $section,
                    level: $crate::rule::RuleLevel::$level,
                    tier: $crate::rule::Tier::$tier,
                    text: $text,
                },
                setup: $crate::session::Setup::$setup,
                extension: $crate::rule::server_rules!(@extension $($extension)?),
                is_alone: $crate::rule::server_rules!(@alone $($alone)?),
                play: $crate::rule::server_rules!(@play $play $($at_once)?),
            },
        )+];
    };
    (@extension) => { None };
    (@extension $extension:literal) => { Some($extension) };
    (@play $play:ident) => { |session| Box::pin($play(session)) };
    (@play $play:ident at_once) => { |session| Box::pin(std::future::ready($play(session))) };
    (@alone) => { false };
    (@alone alone) => { true };
}

pub(crate) use server_rules;

/// Returns all rules about servers.
pub fn rules() -> impl Iterator<Item = &'static RuleInfo> {
    std::iter::once(&crate::server::CONNECTS).chain(crate::rules::all().map(|rule| &rule.info))
}
