//! The index as one caller sees it, and what its tools cost (MGP §16.3, §16.8).
//!
//! Applies to: inbound.

use super::tool_index::ToolIndex;
use crate::catalog::{Allowed, CategoryTree, Entry, Listed, Slot};
use crate::search::Filter;
use crate::tokens::{TokenCounter, lean};

/// How many tools are counted between two looks at the index, so that texts of a million tools are not copied at once.
const BATCH: usize = 10_000;

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
    pub(crate) fn seen(&self, allowed: &dyn Allowed) -> (usize, CategoryTree) {
        let now = self.shared.snapshot();
        let Ok(within) = self.shared.within(&now, &Filter::new(), allowed) else {
            return (0, CategoryTree::default());
        };
        let tools = within.as_ref().map_or(now.catalog.len(), |within| within.count());
        (tools, CategoryTree::of(&now.catalog, within.as_deref()))
    }

    /// All tools that a name may stand for, `name` or `server.name`, whoever may use them.
    #[must_use]
    pub fn meant(&self, name: &str) -> Vec<Listed> {
        let now = self.shared.snapshot();
        let splits = name.match_indices('.').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let mut slots: Vec<Slot> =
            splits.filter_map(|(server, tool)| now.catalog.find(server, tool)).collect();
        if slots.is_empty() {
            slots.extend(now.catalog.by_name(name));
        }
        slots.into_iter().filter_map(|slot| now.catalog.listed(slot)).collect()
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
        while cfg!(feature = "tokens") {
            let tools = self.uncounted();
            if tools.is_empty() {
                break;
            }
            let texts: Vec<String> =
                tools.iter().map(|tool| lean::lean(tool.definition())).collect();
            for (tool, tokens) in tools.iter().zip(TokenCounter::count_all(&texts)) {
                tool.0.count(tokens);
            }
            counted += tools.len();
            self.counted(tools);
        }
        counted
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
        let is_uncounted = |entry: &&std::sync::Arc<Entry>| !entry.is_counted();
        let entries = now.catalog.records().map(|(_, record)| &record.entry);
        entries.filter(is_uncounted).take(BATCH).map(|entry| Listed(entry.clone())).collect()
    }
}
