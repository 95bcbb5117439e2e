//! A tool as the index keeps it: its text once, and little beside it (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytestring::ByteString;
use mgp_types::mgp::{RiskLevel, ToolSecurity};

use super::labels::Labels;
use crate::tokens;

/// The top bit of a token count: it is exact.
const EXACT: u32 = 1 << 31;

/// A server as its tools know it.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its number: stable while it is in the index, given to another one after.
    pub(crate) number: u32,
    /// Names it.
    pub(crate) id: Box<str>,
    /// Its name for people.
    pub(crate) name: Option<Box<str>>,
    /// What it is for.
    pub(crate) description: Option<Box<str>>,
    /// The categories of tools that have none of their own.
    pub(crate) categories: Labels,
}

/// A piece of text: where the definition has it unescaped, only the place.
#[derive(Debug)]
pub(crate) enum Text {
    /// There, as it stands.
    Within(u32, u32),
    /// Elsewhere, because the definition has it escaped.
    Own(Box<str>),
}

/// A tool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) definition: ByteString,
    pub(crate) server: Arc<Server>,
    pub(crate) name: Text,
    pub(crate) description: Option<Text>,
    pub(crate) security: Option<Arc<ToolSecurity>>,
    pub(crate) decided: Decided,
    pub(crate) categories: Labels,
    pub(crate) keywords: Labels,
    pub(crate) hash: [u8; 16],
    /// Zero where nobody asked yet.
    pub(crate) tokens: AtomicU32,
}

/// Whose word the security metadata of a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// Whoever put it into the index.
    Here,
    /// Its server.
    Claimed,
}

impl Text {
    /// Finds the text in the definition.
    pub(crate) fn of(text: &str, definition: &str) -> Self {
        // A short name is found in the first bytes, and a description soon after it, so this search is brief.
        match definition.find(text).map(|at| (u32::try_from(at), u32::try_from(text.len()))) {
            Some((Ok(at), Ok(length))) => Self::Within(at, length),
            _ => Self::Own(text.into()),
        }
    }

    fn get<'a>(&'a self, definition: &'a str) -> &'a str {
        match self {
            Self::Within(at, length) => {
                let at = *at as usize;
                &definition[at..at + *length as usize]
            }
            Self::Own(text) => text,
        }
    }
}

impl Entry {
    pub(crate) fn name(&self) -> &str {
        self.name.get(&self.definition)
    }

    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_ref().map(|text| text.get(&self.definition))
    }

    /// The effective risk: what was decided here, else the worse of what the server claims, else dangerous.
    pub(crate) fn risk(&self) -> RiskLevel {
        let Some(security) = &self.security else { return RiskLevel::Dangerous };
        match (&security.effective_risk_level, self.decided) {
            (Some(effective), Decided::Here) => effective.clone(),
            (Some(effective), Decided::Claimed) => {
                effective.clone().max(security.risk_level.clone())
            }
            (None, _) => security.risk_level.clone(),
        }
    }

    /// How many tokens the definition costs, or a bound above it, which is worked out when somebody asks first.
    pub(crate) fn tokens(&self) -> u32 {
        let known = self.tokens.load(Ordering::Relaxed);
        if known != 0 {
            return known & !EXACT;
        }
        let bound = tokens::bound(&self.definition) & !EXACT;
        // An exact count that came meanwhile stays.
        match self.tokens.compare_exchange(0, bound, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => bound,
            Err(known) => known & !EXACT,
        }
    }

    /// Whether the tokens were counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.tokens.load(Ordering::Relaxed) & EXACT != 0
    }

    /// Keeps an exact count.
    pub(crate) fn count(&self, tokens: u32) {
        self.tokens.store(tokens | EXACT, Ordering::Relaxed);
    }
}
