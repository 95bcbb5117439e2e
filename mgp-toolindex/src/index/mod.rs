//! A stand-in until the index is merged.
//!
//! Applies to: both.
use crate::catalog::{Allowed, Listed, ServerEntry};
use crate::catalog::{CategoryNode, CategoryTree, Decided, Entry, LabelMaker, Server, Text};
use crate::{Found, Hit, IndexError, Query};
use mgp_types::mgp::SearchStrategy;
use std::sync::{Arc, Mutex, atomic::AtomicU32};
/// x
#[derive(Debug, Clone, Default)]
pub struct ToolIndex(Arc<Mutex<Vec<Listed>>>);
/// x
#[derive(Debug, Clone)]
pub enum Resolved {
    /// x
    One(Listed),
    /// x
    Ambiguous(Vec<String>),
    /// x
    Unknown,
}
/// x
#[derive(Debug, Clone)]
pub struct Put {
    /// x
    pub added: usize,
}
/// x
#[derive(Debug, Clone)]
pub struct Stats {
    /// x
    pub tools: usize,
    /// x
    pub servers: usize,
}
impl ToolIndex {
    /// x
    pub fn new() -> Self {
        Self::default()
    }
    /// x
    pub fn put(&self, s: ServerEntry) -> Result<Put, IndexError> {
        let mut all = self.0.lock().unwrap();
        all.retain(|t| t.server_id() != s.id);
        let server = Arc::new(Server {
            number: 0,
            id: s.id.clone().into(),
            name: None,
            description: None,
            categories: LabelMaker::new().list(&[""; 0]),
        });
        let mut added = 0;
        for t in s.tools {
            let d = serde_json::to_string(&t.tool).unwrap();
            let tokens = crate::tokens_at_most(&crate::tokens::lean::lean(&d));
            let mut hash = [0; 16];
            hash.copy_from_slice(&blake3::hash(d.as_bytes()).as_bytes()[..16]);
            added += 1;
            let sec = t
                .security
                .clone()
                .or_else(|| t.tool.find_security().and_then(|s| s.valid().cloned()));
            all.push(Listed(Arc::new(Entry {
                name: Text::Own(t.tool.name.clone().into()),
                description: t.tool.description.clone().map(|x| Text::Own(x.into())),
                definition: d.into(),
                server: server.clone(),
                security: sec.map(Arc::new),
                decided: Decided::Here,
                categories: LabelMaker::new().list(&t.categories),
                keywords: LabelMaker::new().list(&[""; 0]),
                hash,
                tokens: AtomicU32::new(tokens),
            })));
        }
        Ok(Put { added })
    }
    /// x
    pub fn remove(&self, s: &str) -> Result<usize, IndexError> {
        self.0.lock().unwrap().retain(|t| t.server_id() != s);
        Ok(0)
    }
    /// x
    pub fn get(&self, s: &str, n: &str) -> Option<Listed> {
        self.0.lock().unwrap().iter().find(|t| t.server_id() == s && t.name() == n).cloned()
    }
    /// x
    pub fn resolve(&self, n: &str) -> Resolved {
        let all = self.0.lock().unwrap();
        if let Some(t) = all.iter().find(|t| t.tool_id() == n) {
            return Resolved::One(t.clone());
        }
        let m: Vec<_> = all.iter().filter(|t| t.name() == n).collect();
        match m.len() {
            0 => Resolved::Unknown,
            1 => Resolved::One(m[0].clone()),
            _ => Resolved::Ambiguous(m.iter().map(|t| t.tool_id()).collect()),
        }
    }
    /// x
    pub fn stats(&self) -> Stats {
        let a = self.0.lock().unwrap();
        let s: std::collections::HashSet<_> = a.iter().map(|t| t.server_id().to_owned()).collect();
        Stats { tools: a.len(), servers: s.len() }
    }
    /// x
    pub(crate) fn seen(&self, a: &dyn Allowed) -> (usize, CategoryTree) {
        let mut m: std::collections::BTreeMap<String, usize> = Default::default();
        for t in self.0.lock().unwrap().iter().filter(|t| a.allows(t.server_id(), t.name())) {
            for c in t.categories() {
                *m.entry(c.to_owned()).or_default() += 1;
            }
        }
        let mut roots: Vec<CategoryNode> = m
            .into_iter()
            .map(|(path, tools)| CategoryNode { path, tools, below: vec![] })
            .collect();
        roots.sort_by(|a, b| b.tools.cmp(&a.tools));
        (self.listed(a).len(), CategoryTree { roots })
    }
    /// x
    pub fn listed(&self, a: &dyn Allowed) -> Vec<Listed> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|t| a.allows(t.server_id(), t.name()))
            .cloned()
            .collect()
    }
    /// x
    pub fn generation(&self) -> u64 {
        0
    }
    /// x
    pub fn search(&self, q: &Query, a: &dyn Allowed) -> Result<Found, IndexError> {
        let words: Vec<String> = q
            .text()
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|w| w.len() > 2)
            .map(str::to_owned)
            .collect();
        let all: Vec<Listed> = self
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|t| a.allows(t.server_id(), t.name()))
            .filter(|t| q.filter.risk_level_max.as_ref().is_none_or(|m| t.risk() <= *m))
            .cloned()
            .collect();
        let mut hits: Vec<Hit> = all
            .iter()
            .map(|t| {
                let d = t.definition().to_lowercase();
                let n = words.iter().filter(|w| d.contains(w.as_str())).count();
                Hit {
                    tool: t.clone(),
                    score: if words.is_empty() { 1.0 } else { n as f32 / words.len() as f32 },
                    reason: None,
                }
            })
            .filter(|h| h.score > 0.0)
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(q.most);
        Ok(Found {
            hits,
            total_available: all.len(),
            ran: SearchStrategy::Keyword,
            fallback: None,
            took: std::time::Duration::from_millis(1),
        })
    }
}
