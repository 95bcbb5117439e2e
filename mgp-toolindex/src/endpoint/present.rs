//! Found tools as they are told: lean, and never more than their reserve (MGP §16.5, §16.8).
//!
//! Of a tool everything is told that a call needs. One that is much larger than others is told with shorter texts and
//! fewer details, and marked; found alone it gets all the room there is. One that does not fit at all is left out, and
//! the list goes on behind it.
//!
//! Applies to: outbound.

use std::fmt::Write as _;

use mgp_types::Number;
use mgp_types::mgp::{ContextBudget, DiscoverToolsResult, FoundTool, ToolSecurity};

use crate::catalog::Listed;
use crate::search::{Found, Hit, READ_MAX, Reason};
use crate::session::{Fitted, fit};
use crate::tokens::tokens_at_most;

/// The most tokens of one tool among others: more than four of five real tools need, a tenth of the reserve.
const FAIR: u32 = 300;
/// The least tokens a tool is told in; with less left the list ends.
const LEAST: u32 = 24;
/// What the place where two tools meet may cost.
const SEAM: u32 = 8;

/// Tells what was found, within the reserve of a budget; `most` is how many tools were asked for.
///
/// What is counted is the whole answer, envelope included.
///
/// ```
/// use mgp_toolindex::{Everything, Query, ServerEntry, ToolIndex, default_budget, present};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
///
/// let index = ToolIndex::new();
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tool(tool)).unwrap();
/// let found = index.search(&Query::new("read a file"), &Everything).unwrap();
/// let told = present(&found, &default_budget(), 5);
/// assert_eq!(told.tools[0].name, "read_file");
/// assert!(told.omitted.is_none());
/// ```
#[must_use]
pub fn present(found: &Found, budget: &ContextBudget, most: usize) -> DiscoverToolsResult {
    present_as(found, budget, most, |tool| {
        found.hits.iter().filter(|hit| hit.tool.name() == tool.name()).nth(1).is_none()
    })
}

/// The same, where `is_clear` says whether a tool's name alone says which tool is meant.
pub(super) fn present_as(
    found: &Found,
    budget: &ContextBudget,
    most: usize,
    is_clear: impl Fn(&Listed) -> bool,
) -> DiscoverToolsResult {
    let mut result = DiscoverToolsResult::new(Vec::new());
    result.total_available = Some(found.total_available as u64);
    result.search_strategy = Some(found.ran.clone());
    result.query_time_ms = Some(milliseconds(found.took));
    if let Some(fallback) = &found.fallback {
        result.fallback_strategy = Some(found.ran.clone());
        result.fallback_reason = Some(fallback.reason.to_string());
    }
    if found.unread > 0 {
        result.notes = vec![format!(
            "only the first {READ_MAX} bytes of the query were read; ask for one step at a time"
        )]
        .into();
    }
    result.omitted = Some(found.hits.len() as u64);
    let envelope = serde_json::to_string(&result).map_or(0, |text| tokens_at_most(&text));
    let hits = found.hits.iter().map(|hit| Told::hit(hit, is_clear(&hit.tool)));
    let (tools, omitted) = tell(hits, room(budget, envelope), most);
    result.tools = tools;
    result.omitted = Some(omitted).filter(|omitted| *omitted > 0);
    result
}

/// Tools that were asked for, told in what is left of the reserve.
pub(super) fn loaded<'a>(
    tools: impl Iterator<Item = (&'a Listed, bool)>,
    budget: &ContextBudget,
    envelope: u32,
) -> Vec<FoundTool> {
    let told = tools.map(|(tool, is_clear)| Told { tool, score: None, reason: None, is_clear });
    tell(told, room(budget, envelope), usize::MAX).0
}

fn room(budget: &ContextBudget, envelope: u32) -> u32 {
    let reserve = budget.discovery_reserve.min(budget.max_tokens);
    u32::try_from(reserve).unwrap_or(u32::MAX).saturating_sub(envelope)
}

/// What is told of one tool.
struct Told<'a> {
    tool: &'a Listed,
    score: Option<f32>,
    reason: Option<String>,
    is_clear: bool,
}

impl<'a> Told<'a> {
    fn hit(hit: &'a Hit, is_clear: bool) -> Self {
        let reason = hit.reason.as_ref().map(words);
        Self { tool: &hit.tool, score: Some(hit.score), reason, is_clear }
    }

    /// The tool in so many tokens, and how many it costs.
    fn within(&self, most: u32) -> Option<(FoundTool, u32)> {
        let tool = self.tool;
        let mut told = FoundTool::new(tool.name(), tool.server_id(), mgp_types::RawObject::empty());
        told.relevance_score = self.score.map(hundredths);
        told.security = Some(security(tool).into());
        told.tool_id = (!self.is_clear).then(|| tool.tool_id());
        told.reason.clone_from(&self.reason);
        // With the mark, so that there is room for it.
        told.trimmed = Some(true);
        let beside = beside(&told);
        let fits = |end: u32| {
            let fitted = fit(tool, most.checked_sub(beside.saturating_add(end))?)?;
            (signs_at_end(&fitted) <= end).then_some((fitted, end))
        };
        // Few schemas end in many brackets.
        let (fitted, end) = [8, 40, 160].into_iter().find_map(fits)?;
        told.trimmed = fitted.is_trimmed.then_some(true);
        told.description = fitted.description;
        told.input_schema = fitted.schema;
        Some((told, fitted.tokens + beside + end))
    }
}

/// How many signs a schema ends in: they join those that follow, and may be a token each.
fn signs_at_end(fitted: &Fitted) -> u32 {
    let schema = fitted.schema.as_payload().as_str();
    let signs = schema.bytes().rev().take_while(u8::is_ascii_punctuation).count();
    u32::try_from(signs).unwrap_or(u32::MAX)
}

/// Tells tools one after the other as long as there is room; how many were left out.
fn tell<'a>(
    tools: impl Iterator<Item = Told<'a>>,
    room: u32,
    most: usize,
) -> (Vec<FoundTool>, u64) {
    let (mut all, mut omitted, mut left) = (Vec::new(), 0, room);
    // One tool alone gets all the room there is.
    let fair = if most == 1 { room } else { FAIR };
    for tool in tools {
        let fits = (left >= LEAST).then(|| tool.within(fair.min(left))).flatten();
        match fits {
            Some((tool, tokens)) => {
                left = left.saturating_sub(tokens);
                all.push(tool);
            }
            None => omitted += 1,
        }
    }
    (all, omitted)
}

/// What is told of a tool beside the three members whose tokens are known, counted from above.
///
/// Each part is counted as it stands between two runs of signs, where the encoding divides a text anyway; so the sum
/// is never lower than what the whole costs.
fn beside(told: &FoundTool) -> u32 {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let server = format!("server_id\":{},\"", quoted(&told.server_id));
    let score = told.relevance_score.as_ref();
    let score = score.map(|score| format!("relevance_score\":{score},\"")).unwrap_or_default();
    let security = serde_json::to_string(&told.security).unwrap_or_default();
    let mut end = format!(",\"security\":{security}");
    for (name, text) in [("tool_id", &told.tool_id), ("reason", &told.reason)] {
        if let Some(text) = text {
            let _ = write!(end, ",\"{name}\":{}", quoted(text));
        }
    }
    end.push_str(",\"trimmed\":true}");
    [server, score, end].iter().map(|text| tokens_at_most(text)).fold(SEAM, u32::saturating_add)
}

/// What of the security of a tool matters to whoever may call it.
fn security(tool: &Listed) -> ToolSecurity {
    let mut told = ToolSecurity::new(tool.risk());
    if let Some(known) = tool.security() {
        if !known.permissions_required.is_empty() {
            told.permissions_required = known.permissions_required.clone();
        }
        told.validator.clone_from(&known.validator);
        told.confirmation_required = known.confirmation_required.filter(|required| *required);
    }
    told
}

/// Why a tool was found, in words.
fn words(reason: &Reason) -> String {
    let mut parts = Vec::new();
    if !reason.words.is_empty() {
        parts.push(format!("words {}", reason.words.join(", ")));
    }
    for (what, how) in
        [("meaning", reason.meaning), ("server", reason.server), ("past calls", reason.history)]
    {
        parts.extend(how.map(|how| format!("{what} {how:.2}")));
    }
    parts.extend(reason.clause.as_ref().map(|clause| format!("for `{clause}`")));
    parts.join("; ")
}

fn hundredths(score: f32) -> Number {
    Number::from((f64::from(score) * 100.0).round() / 100.0)
}

fn milliseconds(took: std::time::Duration) -> Number {
    Number::from((took.as_secs_f64() * 100_000.0).round() / 100.0)
}
