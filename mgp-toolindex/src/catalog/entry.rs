//! A tool in the index (MGP §16.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytestring::ByteString;
use mgp_types::mgp::{RiskLevel, ToolSecurity};

use super::labels::Labels;
use super::tool_feature::ToolFeatures;
use crate::tokens;

/// The top bit of a stored token count, which is set if the count is exact.
const EXACT: u32 = 1 << 31;

/// The data of a server that all its tools share.
#[derive(Debug)]
pub(crate) struct Server {
    /// The server's number. It is stable while the server is in the index, and can be reused after the server is
    /// removed.
    pub(crate) number: u32,
    pub(crate) id: Box<str>,
    /// The display name of the server.
    pub(crate) name: Option<Box<str>>,
    pub(crate) description: Option<Box<str>>,
    /// The categories that apply to tools of the server without categories of their own.
    pub(crate) categories: Labels,
}

/// A text of a definition. If the definition contains the text without escapes, only its position is stored.
#[derive(Debug)]
pub(crate) enum Text {
    /// The position and length of the text in the definition, in bytes.
    Within(u32, u32),
    /// A copy of the text, because the definition contains it only with escapes.
    Own(Box<str>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) definition: ByteString,
    pub(crate) server: Arc<Server>,
    pub(crate) name: Text,
    pub(crate) description: Option<Text>,
    pub(crate) security: Option<Arc<ToolSecurity>>,
    pub(crate) security_source: SecuritySource,
    pub(crate) features: ToolFeatures,
    pub(crate) categories: Labels,
    pub(crate) keywords: Labels,
    pub(crate) hash: [u8; 16],
    /// The token count of the definition; zero if not computed yet. It is exact if the bit [`EXACT`] is set, and
    /// otherwise an upper bound.
    pub(crate) tokens: AtomicU32,
}

/// The source of a tool's security metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecuritySource {
    /// The kernel decided the security metadata of the tool.
    Kernel,
    /// The server claims the security metadata of the tool.
    Server,
}

impl Text {
    /// Creates a text from its position in the definition, or a copy if the definition does not contain it literally.
    pub(crate) fn of(text: &str, definition: &str) -> Self {
        // Name and description are usually near the beginning, so the search is short.
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
    /// Returns the id of the tool: `{server}.{name}`.
    pub(crate) fn tool_id(&self) -> String {
        format!("{}.{}", self.server.id, self.name())
    }

    pub(crate) fn name(&self) -> &str {
        self.name.get(&self.definition)
    }

    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_ref().map(|text| text.get(&self.definition))
    }

    /// Returns the effective risk: the risk that the kernel decided, else the higher of the two risks that the server
    /// claims. If neither is known, the risk is `dangerous`.
    pub(crate) fn risk(&self) -> RiskLevel {
        let Some(security) = &self.security else { return RiskLevel::Dangerous };
        match (&security.effective_risk_level, self.security_source) {
            (Some(effective), SecuritySource::Kernel) => effective.clone(),
            (Some(effective), SecuritySource::Server) => {
                effective.clone().max(security.risk_level.clone())
            }
            (None, _) => security.risk_level.clone(),
        }
    }

    /// Returns the number of tokens of the definition, or an upper bound, which is computed when it is first needed.
    pub(crate) fn tokens(&self) -> u32 {
        let known = self.tokens.load(Ordering::Relaxed);
        if known != 0 {
            return known & !EXACT;
        }
        let bound = tokens::max_tokens_of_definition(&self.definition) & !EXACT;
        // If another thread has stored a count meanwhile, keep that count, because it might be exact.
        match self.tokens.compare_exchange(0, bound, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => bound,
            Err(known) => known & !EXACT,
        }
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.tokens.load(Ordering::Relaxed) & EXACT != 0
    }

    pub(crate) fn count(&self, tokens: u32) {
        self.tokens.store(tokens | EXACT, Ordering::Relaxed);
    }
}
