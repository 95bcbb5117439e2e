//! The weights of the ranking (MGP §16.5).
//!
//! The weights were chosen for the best mean quality over seven labelled sets of queries, with two embedders;
//! `docs/tool-ranking.md` has the figures. The scores by words and by meaning are added without normalisation. The sum
//! of the word scores grows with the length of the query, so words count more in long queries, and meaning counts more
//! in short queries.
//!
//! *Evidence* is a number without upper limit that measures how well a tool fits the query or a clause. The *share* of
//! a tool is its evidence relative to the evidence of the best tool. *Hints* are the words that tools use for everyday
//! words, e.g. `weather` for `umbrella`.

use mgp_types::mgp::SearchStrategy;

/// The weight of each kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// The weight of BM25 over all words of a tool.
    pub(super) words: f32,
    /// The weight of BM25 over the words of the tool's name.
    pub(super) name: f32,
    /// The weight of the cosine between query and tool.
    pub(super) meaning: f32,
    /// The weight of the cosine between query and server.
    pub(super) server: f32,
}

impl Weights {
    pub(super) const HYBRID: Self = Self { words: 1.0, name: 0.25, meaning: 26.0, server: 2.0 };
    pub(super) const KEYWORD: Self = Self { meaning: 0.0, server: 0.0, ..Self::HYBRID };
    pub(super) const SEMANTIC: Self = Self { words: 0.0, name: 0.0, ..Self::HYBRID };

    pub(super) fn of(strategy: &SearchStrategy) -> Self {
        match strategy {
            SearchStrategy::Keyword => Self::KEYWORD,
            SearchStrategy::Semantic => Self::SEMANTIC,
            _ => Self::HYBRID,
        }
    }
}

// === Words added to a query ===

/// The weight of the most closely related word that is added for a word of the query.
pub(super) const RELATED_WEIGHT: f32 = 0.5;

/// The weight of each further related word, relative to the weight of the related word before it.
pub(super) const NEXT_RELATED_WEIGHT: f32 = 0.7;

/// The weight of a translated query's original words; its English words have weight 1.
pub(super) const ORIGINAL_WORD_WEIGHT: f32 = 0.2;

// === Hints ===

/// The weight of the likeliest hint for an everyday word or pair that rarely means anything else.
pub(super) const CERTAIN_HINT_WEIGHT: f32 = 0.9;

/// The weight of the likeliest hint for any other pair of everyday words.
pub(super) const PAIR_HINT_WEIGHT: f32 = 0.8;

/// The weight of the likeliest hint for any other single everyday word.
pub(super) const WORD_HINT_WEIGHT: f32 = 0.5;

/// The weight of the cosine between a tool and the hints for everyday words that rarely mean anything else.
pub(super) const HINT_MEANING_WEIGHT: f32 = 8.0;

/// While the evidence for the best tool is at most this, hints have their full weight. Above it, their weight falls
/// linearly, to 0 at [`NO_HINTS_EVIDENCE`].
const FULL_HINTS_EVIDENCE: f32 = 24.0;

/// If the evidence for the best tool is at least this, hints have no weight, because a query that fits a tool by its
/// own words needs no hints.
const NO_HINTS_EVIDENCE: f32 = 40.0;

// === Clauses and requests ===

/// The weight of the evidence for the whole query when it is added to the evidence for each clause.
pub(super) const QUERY_WEIGHT_IN_CLAUSE: f32 = 0.4;

/// The weight of a tool's best clause in its share; the whole query has the remaining weight up to 1.
pub(super) const BEST_CLAUSE_WEIGHT: f32 = 0.9;

/// The weight of the strongest clause in the divisor of the evidence. The evidence for a clause is divided by the
/// evidence of the clause's best tool, mixed with the evidence of the strongest clause's best tool. So the best tool of
/// a weak clause gets a smaller share.
pub(super) const STRONGEST_CLAUSE_WEIGHT: f32 = 0.3;

// === Confidence and scores ===

/// The evidence for the best tool at which the confidence is one half.
pub(super) const HALF_CONFIDENCE_EVIDENCE: f32 = 12.0;

/// The maximum score by words and meaning; only tools that the query names can have a higher score.
pub(super) const MAX_UNNAMED_SCORE: f32 = 0.9;

/// The minimum score of a tool that the query names without a typing error.
pub(super) const MIN_NAMED_SCORE: f32 = 0.99;

/// The weight of the nearness of a name with typing errors, added to [`MAX_UNNAMED_SCORE`]: the fewer errors, the
/// higher the score.
pub(super) const MISSPELLED_NAME_WEIGHT: f32 = 0.08;

/// The weight of further differences between named tools in their scores: how exactly the query agrees with the name,
/// if it has no typing error, and the evidence by words and meaning.
pub(super) const NAMED_EVIDENCE_WEIGHT: f32 = 0.01;

// === Factors ===
//
// The factors that lower the scores of tools, in the order in which they are applied; `rank.rs` has the steps between
// them. A factor never omits a tool, because a query can be misunderstood.

/// The factor for each further tool of the same request, if a query has several requests. Each further tool gets the
/// factor once more, so that the first results serve different requests.
pub(super) const NEXT_TOOL_FACTOR: f32 = 0.9;

/// The factor for a tool that deletes things, if the query does not request a deletion: `remember this` rarely means
/// `delete_note`.
pub(super) const UNASKED_DELETION_FACTOR: f32 = 0.8;

/// The factor for a tool that changes things, if the query only requests to see or to delete things:
/// `show this folder` rarely means `create_folder`.
pub(super) const UNASKED_CHANGE_FACTOR: f32 = 0.9;

/// The factor for a tool that only shows things, if the query only requests a change: `write a letter` rarely means
/// `read_file`.
pub(super) const UNASKED_READ_FACTOR: f32 = 0.9;

/// The factor for a tool whose description states that it is deprecated; usually another tool replaces it.
pub(super) const DEPRECATED_FACTOR: f32 = 0.85;

/// The factor for a tool whose server the query excludes: `create an issue, but not on GitHub`.
pub(super) const EXCLUDED_SERVER_FACTOR: f32 = 0.5;

/// The factor for a tool whose name has a verb that the query negates: `archive it, do not delete it`.
pub(super) const NEGATED_VERB_FACTOR: f32 = 0.8;

// === Categories ===

/// The weight of a category's name in the score of the category; its best tool has the remaining weight up to 1.
pub(super) const CATEGORY_NAME_WEIGHT: f32 = 0.5;

/// In a search by category, the weight of the category in the score of a tool; the tool's own score has the remaining
/// weight up to 1.
pub(super) const CATEGORY_WEIGHT: f32 = 0.7;

/// The score of a tool that the query does not find, but whose category it names.
pub(super) const NAMED_CATEGORY_SCORE: f32 = 0.35;

// === Corrections of the evidence ===

/// The evidence for a tool whose name differs from the query by one or two letters, if no tool contains a word of the
/// query.
pub(super) const SIMILAR_NAME_EVIDENCE: f32 = 12.0;

/// The number of tools for which half of their mean vector is treated as common to all of them; see `CommonPart`.
pub(super) const HALF_COMMON_TOOLS: f32 = 200.0;

// === Weak results ===

/// The minimum number of a caller's tools for a result to be called weak; with fewer tools, scores vary too much.
const MIN_TOOLS: usize = 10;

/// The number of tools of the catalogue for which the minimum scores of requested tools were chosen.
const USUAL_TOOLS: usize = 527;

/// The minimum score of a tool in a weak result, relative to the best tool.
pub(super) const WEAK_SHARE: f32 = 0.6;

/// The minimum score of a tool in a weak result; only the best tool may have a lower score.
pub(super) const MIN_WEAK_SCORE: f32 = 0.2;

/// Returns the minimum score of the best tool in a result that is not weak. In a weak result, probably no tool does
/// what the query requests.
///
/// A rare word counts more among more tools, so scores grow with the logarithm of the number of tools.
#[expect(clippy::cast_precision_loss, reason = "how many tools there are needs no more digits")]
pub(super) fn weak_score(tools: usize) -> f32 {
    if tools < MIN_TOOLS { 0.0 } else { 0.16 + 0.055 * (tools as f32).ln() }
}

/// Returns the amount by which the scores among few tools are lower than the scores among some hundred tools.
pub(crate) fn lower_scores(tools: usize) -> f32 {
    if tools < MIN_TOOLS {
        return 0.0;
    }
    (weak_score(USUAL_TOOLS) - weak_score(tools)).max(0.0)
}

// === Functions of the evidence ===

/// Returns the confidence, 0 to 1, that follows from the evidence for the best tool.
pub(super) fn confidence(evidence: f32) -> f32 {
    1.0 - (-evidence.max(0.0) * std::f32::consts::LN_2 / HALF_CONFIDENCE_EVIDENCE).exp()
}

/// Returns the factor for hints, 0 to 1, given the evidence that the best tool has without them.
pub(super) fn hint_share(evidence: f32) -> f32 {
    ((NO_HINTS_EVIDENCE - evidence) / (NO_HINTS_EVIDENCE - FULL_HINTS_EVIDENCE)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_about(value: f32, expected: f32) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn evidence_gives_confidence() {
        assert_about(confidence(-1.0), 0.0);
        assert_about(confidence(0.0), 0.0);
        assert_about(confidence(HALF_CONFIDENCE_EVIDENCE), 0.5);
        assert_about(confidence(2.0 * HALF_CONFIDENCE_EVIDENCE), 0.75);
    }

    #[test]
    fn more_tools_need_a_higher_score() {
        assert_about(weak_score(9), 0.0);
        assert_about(lower_scores(9), 0.0);
        assert!((0.28..0.30).contains(&weak_score(12)), "{}", weak_score(12));
        assert!((0.50..0.51).contains(&weak_score(525)), "{}", weak_score(525));
        assert!((0.20..0.21).contains(&lower_scores(12)), "{}", lower_scores(12));
        assert_about(lower_scores(5000), 0.0);
    }

    #[test]
    fn hints_count_less_with_more_evidence() {
        assert_about(hint_share(0.0), 1.0);
        assert_about(hint_share(24.0), 1.0);
        assert_about(hint_share(32.0), 0.5);
        assert_about(hint_share(40.0), 0.0);
        assert_about(hint_share(100.0), 0.0);
    }
}
