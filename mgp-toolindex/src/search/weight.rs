//! How much each kind of evidence counts (MGP §16.5).
//!
//! Chosen by the mean over seven labelled sets, with two embedders; `docs/tool-ranking.md` has the figures. Evidence is
//! added up as it is, not scaled to the best of its list: the sum of a long query's words grows with the query, so that
//! words count more where there are many and meaning where there are few.
//!
//! Applies to: inbound.

/// How much each kind of evidence counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// BM25 over all words of a tool.
    pub(super) words: f32,
    /// BM25 over the words of its name.
    pub(super) name: f32,
    /// The cosine of query and tool.
    pub(super) meaning: f32,
    /// The cosine of query and server.
    pub(super) server: f32,
}

impl Weights {
    pub(super) const HYBRID: Self = Self { words: 1.0, name: 0.25, meaning: 26.0, server: 2.0 };
    pub(super) const KEYWORD: Self = Self { meaning: 0.0, server: 0.0, ..Self::HYBRID };
    pub(super) const SEMANTIC: Self = Self { words: 0.0, name: 0.0, ..Self::HYBRID };
}

/// How much of the whole query's evidence counts for a clause too.
pub(super) const CONTEXT: f32 = 0.3;

/// What the best clause counts where the whole query counts the rest.
pub(super) const CLAUSE: f32 = 0.8;

/// How much a clause is measured by the strongest one instead of by itself, so that a weak clause counts less.
pub(super) const STRONGEST: f32 = 0.3;

/// The evidence that makes a score a good half of what it can be.
pub(super) const HALF: f32 = 12.0;

/// What a score of words and meaning can be at most; above it are tools that were asked for by name.
pub(super) const MOST: f32 = 0.9;

/// What a name within one or two letters counts as evidence where no word occurs.
pub(super) const SPELLED: f32 = 12.0;

/// So many tools make the catalogue's mean half sure.
pub(super) const FEW_TOOLS: f32 = 200.0;

/// The share of what a score can be, from the evidence for the best tool.
pub(super) fn confidence(evidence: f32) -> f32 {
    1.0 - (-evidence.max(0.0) * std::f32::consts::LN_2 / HALF).exp()
}
