//! The index as one caller sees it, and what its tools cost (MGP §16.3, §16.8).
//!
//! Applies to: inbound.

use std::sync::Arc;

use super::tool_index::ToolIndex;
use crate::catalog::{Allowed, CategoryTree, Entry, Listed};
use crate::search::Filter;
use crate::tokens::{Exactness, TokenCounter, lean};

/// How many tools are counted between two looks at the index, so that texts of a million tools are not copied at once.
const BATCH: usize = 10_000;

/// With more tools than this, or larger ones, a search takes longer than a change of threads.
const MANY: usize = 2000;
const LARGE: u64 = 8 << 20;

/// What became of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// So many tools were counted; there may be more.
    Some(usize),
    /// All tools were counted before.
    All,
    /// It cannot be done now.
    Failed,
}

impl ToolIndex {
    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.snapshot().catalog.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a search of it takes so long that other work should not wait behind it.
    pub(crate) fn is_large(&self) -> bool {
        let now = self.shared.snapshot();
        now.catalog.len() > MANY || now.catalog.bytes() > LARGE
    }

    /// All tools that a caller may call, server by server.
    #[must_use]
    pub fn listed(&self, allowed: &dyn Allowed) -> Vec<Listed> {
        let now = self.shared.snapshot();
        let is_allowed = |tool: &Listed| allowed.allows(tool.server_id(), tool.name());
        let slots =
            now.catalog.servers().flat_map(|(_, server)| now.catalog.slots_of(&server.server.id));
        slots.filter_map(|slot| now.catalog.listed(*slot)).filter(is_allowed).collect()
    }

    /// How many tools a caller may call, and their categories.
    pub(crate) fn seen(&self, allowed: &dyn Allowed) -> (usize, Arc<CategoryTree>) {
        let now = self.shared.snapshot();
        let Ok(within) = self.shared.within(&now, &Filter::new(), allowed) else {
            return (0, Arc::default());
        };
        let tools = within.as_ref().map_or(now.catalog.len(), |within| within.count());
        (tools, self.shared.trees.of(&now, within.as_ref()))
    }

    /// How much of what a text says these words of it are, 0 to 1: rare words say more, unknown ones most.
    pub(crate) fn coverage(&self, text: &str, words: &[String]) -> f32 {
        let now = self.shared.snapshot();
        let Some(reader) = &now.keywords else { return 0.0 };
        let asked = self.shared.analyzer.query(text);
        let said = |word: &str| words.iter().any(|said| said == word);
        let (mut covered, mut all) = (0.0, f32::MIN_POSITIVE);
        let mut weigh = |is_said: bool, stem: &str| {
            let weight = reader.idf(stem);
            all += weight;
            covered += if is_said { weight } else { 0.0 };
        };
        if asked.raw.is_empty() {
            asked.terms.iter().for_each(|term| weigh(said(&term.text), &term.text));
        } else {
            asked.raw.iter().for_each(|word| weigh(said(word), &self.shared.analyzer.stem(word)));
        }
        covered / all
    }

    /// Counts the tokens of the tools that nobody counted yet, and says how many these were.
    ///
    /// It blocks, for 100 ms and more, and takes 50 MB while it runs; if all are counted it costs a look at each.
    /// Until then tools have a bound in place of a count. Without feature `tokens` it does nothing.
    #[expect(clippy::must_use_candidate, reason = "the number is for whoever logs it")]
    pub fn count_tokens(&self) -> usize {
        let mut counted = 0;
        while let Counted::Some(tools) = self.count_some() {
            counted += tools;
        }
        counted
    }

    /// Counts the tokens of some tools that nobody counted yet.
    pub(crate) fn count_some(&self) -> Counted {
        if !cfg!(feature = "tokens") {
            return Counted::Failed;
        }
        let tools = self.uncounted();
        if tools.is_empty() {
            return Counted::All;
        }
        let texts: Vec<String> = tools.iter().map(|tool| lean::lean(tool.definition())).collect();
        let (counts, exactness) = TokenCounter::count_all(&texts);
        // A bound that is taken for a count would never be counted.
        if exactness != Exactness::Exact {
            return Counted::Failed;
        }
        tools.iter().zip(counts).for_each(|(tool, tokens)| tool.0.count(tokens));
        let many = tools.len();
        self.counted(tools);
        Counted::Some(many)
    }

    /// Keeps counts where the index is kept.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(clippy::unused_self, reason = "an index in memory keeps counts with its tools")
    )]
    pub(crate) fn counted(&self, tools: Vec<Listed>) {
        #[cfg(feature = "sqlite")]
        self.shared.keep_counts(tools);
        #[cfg(not(feature = "sqlite"))]
        drop(tools);
    }

    fn uncounted(&self) -> Vec<Listed> {
        let now = self.shared.snapshot();
        let is_uncounted = |entry: &&Arc<Entry>| !entry.is_counted();
        let entries = now.catalog.records().map(|(_, record)| &record.entry);
        entries.filter(is_uncounted).take(BATCH).map(|entry| Listed(entry.clone())).collect()
    }
}
