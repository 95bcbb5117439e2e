//! The limits of requests about tools (MGP §16.5, §16.6).

use mgp_types::mgp::{
    DiscoverOrder, DiscoverToolsFilter, EvictParams, RequestToolsParams, RiskLevel, SearchStrategy,
    ServerState,
};
use mgp_types::proposal::LatencyClass;

use crate::error::RequestError;
use crate::meta::brief;
use crate::search::Filter;

/// The maximum length of a query in a request, in bytes; a longer query is refused. If a shorter query is still too
/// long to be read completely, the search reads only its beginning, and the result reports that.
const MAX_QUERY_REQUEST_BYTES: usize = 64 << 10;
/// The maximum length of the member `context` of a request for tools, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// The maximum length of a word (a capability, a category, a type, a name), in bytes.
const MAX_WORD_BYTES: usize = 256;
/// The maximum number of words in one list of a filter or of requirements.
const MAX_WORDS: usize = 32;
/// The maximum number of capabilities in a request; each capability needs a search.
const MAX_CAPABILITIES: usize = 16;
/// The maximum number of tools in one eviction request.
const MAX_EVICTED: usize = 512;

/// The names of all members of a filter, which error messages list.
const FILTERS: &str = "categories, risk_level_max, status, servers, permissions, input_types, output_types, max_cost_units, latency_max";

pub(super) fn query(text: &str) -> Result<(), RequestError> {
    check("query", "bytes", MAX_QUERY_REQUEST_BYTES, text.len())
}

fn check(
    member: &'static str,
    what: &'static str,
    most: usize,
    count: usize,
) -> Result<(), RequestError> {
    if count > most { Err(RequestError::TooMuch { member, what, most, count }) } else { Ok(()) }
}

fn words(member: &'static str, most: usize, words: &[String]) -> Result<(), RequestError> {
    check(member, "words", most, words.len())?;
    words.iter().try_for_each(|word| check(member, "bytes a word", MAX_WORD_BYTES, word.len()))
}

/// Returns an error if a word, e.g. a risk level, is not among the known words.
fn known_word<T: PartialEq + ToString>(
    what: &'static str,
    word: Option<&T>,
    known: &[T],
) -> Result<(), RequestError> {
    match word {
        Some(word) if !known.contains(word) => Err(RequestError::UnknownWord {
            what,
            word: brief(&word.to_string()),
            known: known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(()),
    }
}

pub(super) fn strategy(strategy: Option<&SearchStrategy>) -> Result<(), RequestError> {
    known_word("strategy", strategy, SearchStrategy::KNOWN)
}

pub(super) fn order(order: Option<&DiscoverOrder>) -> Result<(), RequestError> {
    known_word("order", order, DiscoverOrder::KNOWN)
}

fn risk(risk: Option<&RiskLevel>) -> Result<(), RequestError> {
    known_word("risk level", risk, RiskLevel::KNOWN)
}

/// Parses a filter. Unknown members and words are errors, because a search that ignored them would find tools that the
/// caller excluded.
pub(super) fn filter(given: Option<DiscoverToolsFilter>) -> Result<Filter, RequestError> {
    let Some(given) = given else { return Ok(Filter::new()) };
    if let Some((word, _)) = given.extra.iter().next() {
        return Err(RequestError::UnknownWord {
            what: "member of `filter`",
            word: brief(word),
            known: FILTERS.to_owned(),
        });
    }
    risk(given.risk_level_max.as_ref())?;
    known_word("status", given.status.as_ref(), ServerState::KNOWN)?;
    known_word("latency", given.latency_max.as_ref(), LatencyClass::KNOWN)?;
    words("filter.categories", MAX_WORDS, &given.categories)?;
    words("filter.servers", MAX_WORDS, &given.servers)?;
    words("filter.input_types", MAX_WORDS, &given.input_types)?;
    words("filter.output_types", MAX_WORDS, &given.output_types)?;
    let permissions = given.permissions;
    if let Some(permissions) = &permissions {
        check("filter.permissions", "words", MAX_WORDS * 4, permissions.len())?;
        for permission in permissions {
            check("filter.permissions", "bytes a word", MAX_WORD_BYTES, permission.as_str().len())?;
        }
    }
    let mut filter = Filter::new();
    filter.categories = given.categories.into_vec();
    filter.risk_level_max = given.risk_level_max;
    filter.status = given.status;
    filter.servers = given.servers.into_vec();
    filter.permissions = permissions;
    filter.input_types = given.input_types.into_vec();
    filter.output_types = given.output_types.into_vec();
    filter.max_cost_units = given.max_cost_units;
    filter.latency_max = given.latency_max;
    Ok(filter)
}

pub(super) fn request(params: &RequestToolsParams) -> Result<(), RequestError> {
    let wanted = &params.requirements;
    if wanted.capabilities.iter().all(|capability| capability.trim().is_empty()) {
        return Err(RequestError::NoCapability);
    }
    words("requirements.capabilities", MAX_CAPABILITIES, &wanted.capabilities)?;
    words("requirements.input_types", MAX_WORDS, &wanted.input_types)?;
    words("requirements.output_types", MAX_WORDS, &wanted.output_types)?;
    risk(wanted.preferred_risk_level.as_ref())?;
    check("context", "bytes", MAX_TEXT_BYTES, params.context.as_ref().map_or(0, String::len))?;
    let reason = params.reason.as_ref().map_or(0, |reason| reason.as_str().len());
    check("reason", "bytes", MAX_WORD_BYTES, reason)?;
    let trace = params.task_trace_id.as_ref().map_or(0, String::len);
    check("task_trace_id", "bytes", MAX_WORD_BYTES, trace)
}

pub(super) fn evict(params: &EvictParams) -> Result<(), RequestError> {
    words("tools", MAX_EVICTED, &params.tools)
}
