//! The tables of limits, e.g. `[limits]` and `[servers.results]`: for calls, for results, and for the tools that are
//! listed to agents.

use std::collections::BTreeMap;
use std::time::Duration;

use super::table_reader::Reader;

/// `[kernel.results]`, `[servers.results]` and `[agents.NAME.results]`: the limits on how much of a tool result reaches
/// a model.
///
/// A limit that is `None` is not set; a limit of zero means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultLimits {
    /// The maximum size of text in a tool result, in bytes.
    pub max_text: Option<u64>,
    /// The maximum size of structured content in a tool result, in bytes.
    pub max_structured: Option<u64>,
    /// The maximum size of images, audio and other encoded data, in bytes.
    pub max_data: Option<u64>,
}

/// The table `[kernel.results]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultsConfig {
    /// The limits for agents and servers that have no limits of their own.
    pub limits: ResultLimits,
    /// The time during which the omitted part of a result can still be fetched.
    pub keep: Duration,
}

impl Default for ResultsConfig {
    fn default() -> Self {
        let limits = ResultLimits {
            max_text: Some(32 << 10),
            max_structured: Some(256 << 10),
            max_data: Some(4 << 20),
        };
        Self { limits, keep: Duration::from_hours(1) }
    }
}

impl ResultLimits {
    /// Returns the limits for the calls of one agent to one server: each is the lower of the agent's and the server's
    /// limit, or the kernel's limit if neither is set.
    #[must_use]
    pub fn combine(kernel: &Self, agent: &Self, server: &Self) -> Self {
        let lower = |pick: fn(&Self) -> Option<u64>| {
            let own = [pick(agent), pick(server)];
            // Zero means unlimited, so it must count as the highest limit. `wrapping_sub(1)` turns zero into the
            // highest number.
            own.into_iter().flatten().min_by_key(|max| max.wrapping_sub(1)).or(pick(kernel))
        };
        Self {
            max_text: lower(|limits| limits.max_text),
            max_structured: lower(|limits| limits.max_structured),
            max_data: lower(|limits| limits.max_data),
        }
    }

    /// Returns the lowest limit that is set; limits of zero are ignored, because they mean unlimited.
    #[must_use]
    pub fn lowest(&self) -> Option<u64> {
        let all = [self.max_text, self.max_structured, self.max_data];
        all.into_iter().flatten().filter(|max| *max > 0).min()
    }
}

/// The tools that are listed to an agent (`surface`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Surface {
    /// All tools while their definitions are short, otherwise the tools of [`Search`](Self::Search).
    #[default]
    Auto,
    /// The tools that find and call other tools, the pinned tools, and the tools in use.
    Search,
    /// Only the tools that find and call other tools; the description of the tool that finds others lists all
    /// categories.
    Categories,
    /// Only the tools that find and call other tools.
    Find,
    /// All tools, however long their definitions are.
    Direct,
}

impl Surface {
    pub(super) fn read(reader: &mut Reader<'_, '_, '_>) -> Option<Self> {
        Some(match reader.text("surface")?.as_str() {
            "search" => Self::Search,
            "categories" => Self::Categories,
            "find" => Self::Find,
            "direct" => Self::Direct,
            _ => Self::Auto,
        })
    }
}

pub(super) fn result_limits(reader: &mut Reader<'_, '_, '_>) -> ResultLimits {
    ResultLimits {
        max_text: reader.number("max_text"),
        max_structured: reader.number("max_structured"),
        max_data: reader.number("max_data"),
    }
}

/// Reads `[kernel.results]`.
pub(super) fn results(reader: &mut Reader<'_, '_, '_>) -> ResultsConfig {
    let default = ResultsConfig::default();
    let own = result_limits(reader);
    let limits = ResultLimits::combine(&default.limits, &own, &ResultLimits::default());
    ResultsConfig { limits, keep: reader.duration("keep").unwrap_or(default.keep) }
}

/// The limits of calls: the tables `[limits]` and `[agents.NAME.limits]`, and the same keys in `[servers.limits]`.
/// `None` means unlimited, unless the comment of the field names a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The maximum number of calls in a minute.
    pub calls_per_minute: Option<u64>,
    /// The maximum number of calls in an hour, counted from the full hour.
    pub calls_per_hour: Option<u64>,
    /// The maximum number of calls in a day, counted from midnight UTC.
    pub calls_per_day: Option<u64>,
    /// The maximum number of cost units that calls may use in an hour.
    pub units_per_hour: Option<u64>,
    /// The maximum number of cost units that calls may use in a day.
    pub units_per_day: Option<u64>,
    /// The maximum number of calls that run at the same time; further calls wait.
    pub running: Option<u64>,
    /// The maximum size of the arguments of a call, in bytes.
    pub max_arguments: Option<u64>,
    /// The maximum size of all chunks of a call together, in bytes; `None` for 16 MiB.
    pub max_stream_bytes: Option<u64>,
}

/// The table `[servers.limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The limits of calls to the server; the calls of all agents are counted together.
    pub calls: CallLimits,
    /// The maximum size of a message from the server, in bytes; `None` for 16 MiB.
    pub max_message: Option<u64>,
    /// The cost units of a call; `None` for one unit.
    pub units: Option<u64>,
    /// The cost units of a call, by tool name, for tools that differ from `units`.
    pub tool_units: BTreeMap<String, u64>,
    /// The maximum number of calls to a tool in a minute, by tool name; the calls of all agents are counted together.
    pub tool_calls_per_minute: BTreeMap<String, u64>,
    /// The maximum size of all chunks of a call together, in bytes, by tool name.
    pub tool_max_stream_bytes: BTreeMap<String, u64>,
}

impl CallLimits {
    /// Returns these limits; a limit that is not set is taken from `others`.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self {
            calls_per_minute: self.calls_per_minute.or(others.calls_per_minute),
            calls_per_hour: self.calls_per_hour.or(others.calls_per_hour),
            calls_per_day: self.calls_per_day.or(others.calls_per_day),
            units_per_hour: self.units_per_hour.or(others.units_per_hour),
            units_per_day: self.units_per_day.or(others.units_per_day),
            running: self.running.or(others.running),
            max_arguments: self.max_arguments.or(others.max_arguments),
            max_stream_bytes: self.max_stream_bytes.or(others.max_stream_bytes),
        }
    }

    /// Returns whether none of the limits is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ServerLimits {
    /// Returns the units that a call of a tool costs; `None` if the configuration does not set them.
    #[must_use]
    pub fn units_of(&self, tool: &str) -> Option<u64> {
        self.tool_units.get(tool).copied().or(self.units)
    }
}

pub(super) fn call_limits(reader: &mut Reader<'_, '_, '_>) -> CallLimits {
    CallLimits {
        calls_per_minute: reader.number("calls_per_minute"),
        calls_per_hour: reader.number("calls_per_hour"),
        calls_per_day: reader.number("calls_per_day"),
        units_per_hour: reader.number("units_per_hour"),
        units_per_day: reader.number("units_per_day"),
        running: reader.number("running"),
        max_arguments: reader.number("max_arguments"),
        max_stream_bytes: reader.number("max_stream_bytes"),
    }
}

pub(super) fn server_limits(reader: &mut Reader<'_, '_, '_>) -> ServerLimits {
    ServerLimits {
        calls: call_limits(reader),
        max_message: reader.number("max_message"),
        units: reader.number("units"),
        tool_units: reader.numbers("tool_units"),
        tool_calls_per_minute: reader.numbers("tool_calls_per_minute"),
        tool_max_stream_bytes: reader.numbers("tool_max_stream_bytes"),
    }
}
