//! Fits search results into the tokens that a budget reserves for them (MGP §16.5, §16.8).
//!
//! The reserve is the number of tokens for a result. If all definitions fit into it, the result contains everything
//! that is needed to call each tool. Otherwise large definitions are shortened and marked as trimmed, beginning with
//! the last tools. A tool that does not fit at all is omitted, but smaller tools after it might still be listed.

use std::fmt::Write as _;

use mgp_types::Number;
use mgp_types::mgp::{
    ContextBudget, DiscoverExtension, DiscoverToolsResult, FoundTool, QueryPart, ToolSecurity,
};

use crate::catalog::IndexedTool;
use crate::search::{Hit, MAX_QUERY_BYTES, Reason, SearchResult};
use crate::session::{Fitted, fit};
use crate::tokens::max_tokens_of;

/// While a tool is rendered, tokens are kept free for each later tool; this is the maximum for one of them. Four of
/// five real tools need fewer tokens; the value is a tenth of the default reserve.
const KEPT_TOKENS: u32 = 300;
/// The number of tokens that are kept free for a later tool's members that are not in its definition, e.g. its score.
const MEMBER_TOKENS: u32 = 60;
/// The minimum number of tokens for a tool; if fewer tokens are left, all further tools are omitted.
const MIN_TOOL_TOKENS: u32 = 24;
/// The maximum number of bytes that the result repeats of each request, if a query consists of several requests.
const MAX_PART_BYTES: usize = 80;
/// The note in a result whose tools fit the query badly. It makes a model ask a person or search again, instead of
/// calling a wrong tool.
const WEAK_NOTE: &str = "probably no tool does this: those found fit the query only weakly \
    and may do something else; search again in different words, or ask the user";
/// The note in a result without tools, if no tool fits the query.
const NOTHING_NOTE: &str = "no tool fits the query";
/// The maximum number of additional tokens where a tool's text and the text around it meet.
const JOINT_TOKENS: u32 = 8;

/// Renders a search result within the reserve of a budget.
///
/// The reserve limits the whole result: the tokens of its other members count in addition to the tokens of its tools.
///
/// ```
/// use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex, default_budget, render_results};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
///
/// let index = ToolIndex::new();
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tool(tool)).unwrap();
/// let found = index.search(&Query::new("read a file"), &AllTools).unwrap();
/// let result = render_results(&found, &default_budget());
/// assert_eq!(result.tools[0].name, "read_file");
/// assert!(result.omitted.is_none());
/// ```
#[must_use]
pub fn render_results(found: &SearchResult, budget: &ContextBudget) -> DiscoverToolsResult {
    present_as(found, budget, Vec::new(), |tool| {
        found.hits.iter().filter(|hit| hit.tool.name() == tool.name()).nth(1).is_none()
    })
}

/// Renders a search result with these notes. `is_clear` returns whether the name of a tool is unique,
/// so that the tool can be named without its server.
pub(super) fn present_as(
    found: &SearchResult,
    budget: &ContextBudget,
    notes: Vec<String>,
    is_clear: impl Fn(&IndexedTool) -> bool,
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
            "only the first {MAX_QUERY_BYTES} bytes of the query were read; ask for one step at a time"
        )]
        .into();
    }
    if found.is_weak {
        let note = if found.hits.is_empty() { NOTHING_NOTE } else { WEAK_NOTE };
        result.notes.push(note.to_owned());
    }
    result.notes.extend(notes);
    result.omitted = Some(found.hits.len() as u64);
    result.mgp = parts(found, &is_clear, &|_| true);
    let envelope = |result: &DiscoverToolsResult| {
        serde_json::to_string(result).map_or(0, |text| max_tokens_of(&text))
    };
    let render = |result: &DiscoverToolsResult| {
        let hits = found.hits.iter().map(|hit| RenderedTool::hit(hit, is_clear(&hit.tool)));
        render_all(hits.collect(), room(budget, envelope(result)))
    };
    let (mut tools, omitted) = render(&result);
    let is_whole = !tools.is_empty() && tools.iter().all(|tool| tool.trimmed != Some(true));
    if !is_whole && let [hit] = &found.hits[..] {
        // If only one tool was found and it is too large, add a note that no other search shows more of it.
        let tool = RenderedTool::hit(hit, is_clear(&hit.tool));
        result.notes.push(too_large(&tool, budget));
        match render(&result) {
            (again, 0) => tools = again,
            // Keep the note: it fits, and dropping it would not make room for the tool.
            _ if tools.is_empty() && room(budget, envelope(&result)) > 0 => {}
            // Drop the note: the tool fits only without it.
            _ => drop(result.notes.pop()),
        }
    }
    let is_rendered = |hit: &Hit| {
        tools
            .iter()
            .any(|tool| tool.name == hit.tool.name() && tool.server_id == hit.tool.server_id())
    };
    result.mgp = parts(found, &is_clear, &is_rendered);
    result.tools = tools;
    result.omitted = Some(omitted).filter(|omitted| *omitted > 0);
    result
}

/// Returns the names of the tools for each request in the query; `None` if the query has only one request.
fn parts(
    found: &SearchResult,
    is_clear: &dyn Fn(&IndexedTool) -> bool,
    is_rendered: &dyn Fn(&Hit) -> bool,
) -> Option<DiscoverExtension> {
    let part = |(number, text): (usize, &String)| {
        let hits = found.hits.iter().filter(|hit| hit.request == Some(number) && is_rendered(hit));
        let names = hits.map(|hit| {
            if is_clear(&hit.tool) { hit.tool.name().to_owned() } else { hit.tool.tool_id() }
        });
        let mut part = QueryPart::new(mgp_types::clip(text, MAX_PART_BYTES));
        part.tools = names.collect();
        part
    };
    let mut extension = DiscoverExtension::new();
    extension.parts = found.requests.iter().enumerate().map(part).collect();
    (!found.requests.is_empty()).then_some(extension)
}

/// Renders the tools that a request loaded. `envelope` is the number of tokens of the answer without these tools.
pub(super) fn loaded<'a>(
    tools: impl Iterator<Item = (&'a IndexedTool, bool)>,
    budget: &ContextBudget,
    envelope: u32,
) -> Vec<FoundTool> {
    let tools =
        tools.map(|(tool, is_clear)| RenderedTool { tool, score: None, reason: None, is_clear });
    render_all(tools.collect(), room(budget, envelope)).0
}

/// Returns a note about a tool that is too large for any answer.
fn too_large(tool: &RenderedTool<'_>, budget: &ContextBudget) -> String {
    let name = mgp_types::clip(tool.tool.name(), MAX_PART_BYTES);
    // Count the other members too, because e.g. a long list of permissions can be larger than the definition.
    let tokens = tool.tool.tokens().saturating_add(other_tokens(&tool.members()));
    format!(
        "`{name}` needs {tokens} tokens, more than an answer has room for (`discovery_reserve` is {}); an operator can \
         raise it",
        reserve(budget)
    )
}

/// Returns the maximum number of tokens of an answer.
fn reserve(budget: &ContextBudget) -> u64 {
    budget.discovery_reserve.min(budget.max_tokens)
}

fn room(budget: &ContextBudget, envelope: u32) -> u32 {
    u32::try_from(reserve(budget)).unwrap_or(u32::MAX).saturating_sub(envelope)
}

/// A tool to render. `is_clear` is `true` if its name alone identifies it, so that it can be named without its server.
struct RenderedTool<'a> {
    tool: &'a IndexedTool,
    score: Option<f32>,
    reason: Option<String>,
    is_clear: bool,
}

impl<'a> RenderedTool<'a> {
    fn hit(hit: &'a Hit, is_clear: bool) -> Self {
        let reason = hit.reason.as_ref().map(words);
        Self { tool: &hit.tool, score: Some(hit.score), reason, is_clear }
    }

    /// Returns the members of the tool except its description and its schema. The mark `trimmed` is set, so that its
    /// tokens are counted in case it is needed.
    fn members(&self) -> FoundTool {
        let tool = self.tool;
        let mut members =
            FoundTool::new(tool.name(), tool.server_id(), mgp_types::RawObject::empty());
        members.relevance_score = self.score.map(hundredths);
        members.security = Some(security(tool).into());
        members.tool_id = (!self.is_clear).then(|| tool.tool_id());
        members.reason.clone_from(&self.reason);
        members.trimmed = Some(true);
        members
    }

    /// Renders the tool in at most `max` tokens; returns the rendered tool with its number of tokens, or `None` if it
    /// does not fit.
    fn render(&self, max: u32) -> Option<(FoundTool, u32)> {
        let (tool, mut rendered) = (self.tool, self.members());
        let other = other_tokens(&rendered);
        let fits = |end: u32| {
            let fitted = fit(tool, max.checked_sub(other.saturating_add(end))?)?;
            (signs_at_end(&fitted) <= end).then_some((fitted, end))
        };
        // Reserve tokens for the punctuation at the end of the schema (see `signs_at_end`). Try few tokens first,
        // because few schemas end in many brackets, then more.
        let (fitted, end) = [8, 40, 160].into_iter().find_map(fits)?;
        rendered.trimmed = fitted.is_trimmed.then_some(true);
        rendered.description = fitted.description;
        rendered.input_schema = fitted.schema;
        Some((rendered, fitted.tokens + other + end))
    }
}

/// Returns the number of punctuation signs at the end of a schema. Each sign can form a token with the text that
/// follows, so the sum of the token counts of the parts can be too low by one per sign.
fn signs_at_end(fitted: &Fitted) -> u32 {
    let schema = fitted.schema.as_payload().as_str();
    let signs = schema.bytes().rev().take_while(u8::is_ascii_punctuation).count();
    u32::try_from(signs).unwrap_or(u32::MAX)
}

/// Renders the tools in order while there is room; also returns the number of omitted tools.
///
/// Each tool can use all tokens that are left, except the tokens kept free for the tools after it. So no tool is
/// trimmed unnecessarily.
fn render_all(tools: Vec<RenderedTool<'_>>, room: u32) -> (Vec<FoundTool>, u64) {
    let (mut all, mut omitted, mut left) = (Vec::new(), 0, room);
    let kept =
        |tool: &RenderedTool<'_>| tool.tool.tokens().saturating_add(MEMBER_TOKENS).min(KEPT_TOKENS);
    let mut later = tools.iter().map(kept).fold(0, u32::saturating_add);
    for tool in tools {
        later = later.saturating_sub(kept(&tool));
        let max = left.saturating_sub(later).max(KEPT_TOKENS).min(left);
        let fits = (left >= MIN_TOOL_TOKENS).then(|| tool.render(max)).flatten();
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

/// Returns an upper bound of the tokens of all members except the name, the description and the schema.
///
/// The parts are counted separately. Each part begins and ends at punctuation, where the tokenizer splits a text
/// anyway, so the sum of the counts is never lower than the count of the whole text.
fn other_tokens(rendered: &FoundTool) -> u32 {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let server = format!("server_id\":{},\"", quoted(&rendered.server_id));
    let score = rendered.relevance_score.as_ref();
    let score = score.map(|score| format!("relevance_score\":{score},\"")).unwrap_or_default();
    let security = serde_json::to_string(&rendered.security).unwrap_or_default();
    let mut end = format!(",\"security\":{security}");
    for (name, text) in [("tool_id", &rendered.tool_id), ("reason", &rendered.reason)] {
        if let Some(text) = text {
            let _ = write!(end, ",\"{name}\":{}", quoted(text));
        }
    }
    end.push_str(",\"trimmed\":true}");
    [server, score, end]
        .iter()
        .map(|text| max_tokens_of(text))
        .fold(JOINT_TOKENS, u32::saturating_add)
}

/// Returns the part of a tool's security metadata that matters to a caller.
fn security(tool: &IndexedTool) -> ToolSecurity {
    let mut rendered = ToolSecurity::new(tool.risk());
    if let Some(known) = tool.security() {
        if !known.permissions_required.is_empty() {
            rendered.permissions_required = known.permissions_required.clone();
        }
        rendered.side_effects = known.side_effects.clone();
        rendered.validator.clone_from(&known.validator);
        // Omit `reversible: true` and `confirmation_required: false`, because they change nothing for a caller.
        rendered.reversible = known.reversible.filter(|reversible| !reversible);
        rendered.confirmation_required = known.confirmation_required.filter(|required| *required);
    }
    rendered
}

/// Returns the reason why a tool was found as a text for the model.
fn words(reason: &Reason) -> String {
    let mut parts = Vec::new();
    if reason.is_named {
        parts.push("the query names it".to_owned());
    }
    if !reason.words.is_empty() {
        parts.push(format!("has the words {}", reason.words.join(", ")));
    }
    parts.extend(reason.meaning.map(|cosine| format!("{} in meaning ({cosine:.2})", near(cosine))));
    parts.extend(
        reason
            .server
            .filter(|cosine| *cosine >= 0.2)
            .map(|cosine| format!("its server is {} ({cosine:.2})", near(cosine))),
    );
    parts.extend(reason.history.map(|share| format!("called after such searches ({share:.2})")));
    parts
        .extend(reason.action.map(|factor| format!("does something else than asked (× {factor})")));
    parts.extend(reason.is_deprecated.then(|| "is deprecated".to_owned()));
    parts.extend(reason.clause.as_ref().map(|clause| format!("for `{clause}`")));
    parts.join("; ")
}

/// Returns a word for the similarity of two texts whose vectors have this cosine.
fn near(cosine: f32) -> &'static str {
    match cosine {
        0.6.. => "very close",
        0.4.. => "close",
        0.2.. => "rather close",
        _ => "not close",
    }
}

fn hundredths(score: f32) -> Number {
    Number::from((f64::from(score) * 100.0).round() / 100.0)
}

/// Returns whole milliseconds, rounded up, because some implementations of MGP read only integers here.
fn milliseconds(took: std::time::Duration) -> Number {
    Number::from(u64::try_from(took.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}
