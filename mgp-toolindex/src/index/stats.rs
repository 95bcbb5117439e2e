//! Statistics of an index, and its export (MGP §16.4).

use mgp_types::Lenient;
use mgp_types::mgp::IndexEntry;

use super::tool_index::ToolIndex;
use crate::catalog::IndexedTool;
use crate::keyword::KeywordReader;
use crate::vector::VectorTable;

/// The maximum number of keywords that are exported for a tool that has no keywords of its own.
const MAX_KEYWORDS: usize = 12;

/// Statistics of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStats {
    /// The number of tools.
    pub tools: usize,
    /// The number of servers.
    pub servers: usize,
    /// The total size of all definitions, in bytes.
    pub bytes: u64,
    /// The tokens of all definitions; an upper bound unless all of them are counted.
    pub tokens_all: u64,
    /// The number of tools whose tokens are counted exactly.
    pub counted: usize,
    /// The number of changes so far.
    pub generation: u64,
    /// The name of the embedder's model, if there is an embedder.
    pub model: Option<String>,
    /// The number of tools with a vector.
    pub embedded: usize,
    /// The number of tools that wait for a vector.
    pub embedding: usize,
    /// The number of tools that the model could not embed; searches find them by words only.
    pub not_embedded: usize,
    /// The number of damaged tools in the database, which were left out.
    pub dropped: usize,
    /// The number of segments of the keyword index.
    pub segments: usize,
}

impl ToolIndex {
    /// Returns statistics. This takes longer for larger indexes, because it visits every tool.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let now = self.shared.snapshot();
        let progress = self.shared.embedding.progress().borrow().clone();
        let mut stats = IndexStats {
            tools: now.catalog.len(),
            servers: now.catalog.server_count(),
            bytes: now.catalog.bytes(),
            generation: now.generation,
            model: self.shared.embedder.as_ref().map(|embedder| embedder.model().to_owned()),
            embedded: now.vectors.as_ref().map_or(0, VectorTable::len),
            segments: now.keywords.as_ref().map_or(0, KeywordReader::segments),
            embedding: progress.waiting,
            not_embedded: progress.failed,
            ..IndexStats::default()
        };
        #[cfg(feature = "sqlite")]
        {
            stats.dropped = self.shared.dropped.load(std::sync::atomic::Ordering::Relaxed);
        }
        for (_, record) in now.catalog.records() {
            stats.tokens_all = stats.tokens_all.saturating_add(record.entry.tokens().into());
            stats.counted += usize::from(record.entry.is_counted());
        }
        stats
    }

    /// Returns all tools in the form of MGP §16.4, each with its vector if it has one.
    #[must_use]
    pub fn entries(&self) -> Vec<IndexEntry> {
        let now = self.shared.snapshot();
        let all = now.catalog.records().filter_map(|(slot, _)| {
            let tool = now.catalog.listed(slot)?;
            let mut entry = self.entry(&tool);
            let vector = now.vectors.as_ref().and_then(|vectors| vectors.vector(slot));
            entry.embedding = vector.map(|vector| vector.into_iter().map(number).collect());
            Some(entry)
        });
        all.collect()
    }

    fn entry(&self, tool: &IndexedTool) -> IndexEntry {
        let (id, server) = (tool.tool_id(), tool.server_id().to_owned());
        let mut entry = IndexEntry::new(id, server, tool.name().to_owned());
        entry.description = tool.description().map(str::to_owned);
        entry.categories = tool.categories().map(str::to_owned).collect::<Vec<_>>().into();
        let mut keywords: Vec<String> = tool.keywords().map(str::to_owned).collect();
        if keywords.is_empty() {
            let text = format!("{} {}", tool.name(), tool.description().unwrap_or_default());
            keywords = self.shared.analyzer.query(&text).raw;
            keywords.truncate(MAX_KEYWORDS);
        }
        entry.keywords = keywords.into();
        entry.security = tool.security().cloned().map(Lenient::Valid);
        entry
    }
}

/// Rounds a number to the precision of a stored vector.
fn number(value: f32) -> mgp_types::Number {
    mgp_types::Number::from((f64::from(value) * 1e5).round() / 1e5)
}
