//! How much a request about tools may ask (MGP §16.5, §16.6).
//!
//! Applies to: inbound.

use mgp_types::mgp::{
    DiscoverToolsFilter, EvictParams, RequestToolsParams, RiskLevel, SearchStrategy, ServerState,
};

use crate::error::RequestError;
use crate::meta::brief;
use crate::search::Filter;

/// The longest query, in bytes; how much of it is read is said in the answer.
const QUERY_MAX: usize = 64 << 10;
/// The longest context, in bytes.
const TEXT_MAX: usize = 4096;
/// The longest word: a capability, a category, a type, a name.
const WORD_MAX: usize = 256;
/// The most words of one list of a filter or of requirements.
const WORDS_MAX: usize = 32;
/// The most capabilities of a request: each is a search.
const CAPABILITIES_MAX: usize = 16;
/// The most tools of one eviction.
const EVICTED_MAX: usize = 512;

/// The members of a filter.
const FILTERS: &str =
    "categories, risk_level_max, status, servers, permissions, input_types, output_types";

pub(super) fn query(text: &str) -> Result<(), RequestError> {
    at_most("query", "bytes", QUERY_MAX, text.len())
}

fn at_most(
    member: &'static str,
    what: &'static str,
    most: usize,
    count: usize,
) -> Result<(), RequestError> {
    if count > most { Err(RequestError::TooMuch { member, what, most, count }) } else { Ok(()) }
}

fn words(member: &'static str, most: usize, words: &[String]) -> Result<(), RequestError> {
    at_most(member, "words", most, words.len())?;
    words.iter().try_for_each(|word| at_most(member, "bytes a word", WORD_MAX, word.len()))
}

fn known(words: impl Iterator<Item = impl ToString>) -> String {
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) fn strategy(strategy: Option<&SearchStrategy>) -> Result<(), RequestError> {
    match strategy {
        Some(word) if !word.is_known() => Err(RequestError::UnknownWord {
            what: "strategy",
            word: brief(word.as_str()),
            known: known(SearchStrategy::KNOWN.iter()),
        }),
        _ => Ok(()),
    }
}

pub(super) fn risk(risk: Option<&RiskLevel>) -> Result<(), RequestError> {
    match risk {
        Some(word) if !word.is_known() => Err(RequestError::UnknownWord {
            what: "risk level",
            word: brief(word.as_str()),
            known: known(RiskLevel::KNOWN.iter()),
        }),
        _ => Ok(()),
    }
}

/// Reads a filter; a member or word nobody knows is refused, because the caller meant to narrow the search.
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
    if let Some(status) = given.status.as_ref().filter(|status| !status.is_known()) {
        return Err(RequestError::UnknownWord {
            what: "status",
            word: brief(status.as_str()),
            known: known(ServerState::KNOWN.iter()),
        });
    }
    words("filter.categories", WORDS_MAX, &given.categories)?;
    words("filter.servers", WORDS_MAX, &given.servers)?;
    words("filter.input_types", WORDS_MAX, &given.input_types)?;
    words("filter.output_types", WORDS_MAX, &given.output_types)?;
    let permissions = given.permissions;
    if let Some(permissions) = &permissions {
        at_most("filter.permissions", "words", WORDS_MAX * 4, permissions.len())?;
        for permission in permissions {
            at_most("filter.permissions", "bytes a word", WORD_MAX, permission.as_str().len())?;
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
    Ok(filter)
}

pub(super) fn request(params: &RequestToolsParams) -> Result<(), RequestError> {
    let wanted = &params.requirements;
    if wanted.capabilities.iter().all(|capability| capability.trim().is_empty()) {
        return Err(RequestError::NoCapability);
    }
    words("requirements.capabilities", CAPABILITIES_MAX, &wanted.capabilities)?;
    words("requirements.input_types", WORDS_MAX, &wanted.input_types)?;
    words("requirements.output_types", WORDS_MAX, &wanted.output_types)?;
    risk(wanted.preferred_risk_level.as_ref())?;
    at_most("context", "bytes", TEXT_MAX, params.context.as_ref().map_or(0, String::len))?;
    let reason = params.reason.as_ref().map_or(0, |reason| reason.as_str().len());
    at_most("reason", "bytes", WORD_MAX, reason)?;
    let trace = params.task_trace_id.as_ref().map_or(0, String::len);
    at_most("task_trace_id", "bytes", WORD_MAX, trace)
}

pub(super) fn evict(params: &EvictParams) -> Result<(), RequestError> {
    words("tools", EVICTED_MAX, &params.tools)
}
