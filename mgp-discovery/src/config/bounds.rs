//! The bounds of an agent and of a server: calls, results, and listed tools.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Reader;

/// `[kernel.results]`, `[servers.results]` and `[agents.NAME.results]`: the most of a result that reaches a model.
///
/// `None` if it is not set; zero is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultLimits {
    /// The bytes of text.
    pub max_text: Option<u64>,
    /// The bytes of structured content.
    pub max_structured: Option<u64>,
    /// The bytes of images, audio and other encoded data.
    pub max_data: Option<u64>,
}

/// `[kernel.results]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultsConfig {
    /// The limits of agents and servers without their own.
    pub limits: ResultLimits,
    /// The time for which the rest of a result is kept.
    pub keep: Duration,
}

impl Default for ResultsConfig {
    fn default() -> Self {
        let limits = ResultLimits {
            max_text: Some(64 << 10),
            max_structured: Some(256 << 10),
            max_data: Some(4 << 20),
        };
        Self { limits, keep: Duration::from_hours(1) }
    }
}

impl ResultLimits {
    /// Returns the limits of one agent's calls of one server: the lower of both, and else those of the kernel.
    #[must_use]
    pub fn combine(kernel: &Self, agent: &Self, server: &Self) -> Self {
        let lower = |pick: fn(&Self) -> Option<u64>| {
            let own = [pick(agent), pick(server)];
            own.into_iter().flatten().min_by_key(|max| max.wrapping_sub(1)).or(pick(kernel))
        };
        Self {
            max_text: lower(|limits| limits.max_text),
            max_structured: lower(|limits| limits.max_structured),
            max_data: lower(|limits| limits.max_data),
        }
    }

    /// Returns the lowest limit that is set, without those that are zero.
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
    /// All tools while their definitions are short, else as [`Search`](Self::Search).
    #[default]
    Auto,
    /// The tools to find and call tools, the pinned tools and those in use.
    Search,
    /// The tools to find and call tools; the one that finds them lists all categories.
    Categories,
    /// The tools to find and call tools only.
    Find,
    /// All tools.
    Direct,
}

impl Surface {
    pub(super) const WORDS: &'static [&'static str] =
        &["auto", "search", "categories", "find", "direct"];

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

/// Reads a table of limits of results.
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

/// `[limits]`, `[agents.NAME.limits]` and the part of `[servers.limits]` that is alike; `None` is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The calls in a minute.
    pub calls_per_minute: Option<u64>,
    /// The calls in an hour, which begins at the full hour.
    pub calls_per_hour: Option<u64>,
    /// The calls in a day, which begins at midnight UTC.
    pub calls_per_day: Option<u64>,
    /// The units that calls may cost in an hour.
    pub units_per_hour: Option<u64>,
    /// The units that calls may cost in a day.
    pub units_per_day: Option<u64>,
    /// The calls that run at once; further ones wait.
    pub running: Option<u64>,
    /// The bytes of the arguments of a call.
    pub max_arguments: Option<u64>,
    /// The bytes of the chunks of a call; `None` for 16 MiB.
    pub max_stream_bytes: Option<u64>,
}

/// `[servers.limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The limits of the calls of all agents together.
    pub calls: CallLimits,
    /// The bytes of a message of the server; `None` for 16 MiB.
    pub max_message: Option<u64>,
    /// The units that a call costs; `None` for one.
    pub units: Option<u64>,
    /// The units that a call of single tools costs.
    pub tool_units: BTreeMap<String, u64>,
    /// The calls of single tools in a minute, of all agents together.
    pub tool_calls_per_minute: BTreeMap<String, u64>,
    /// The bytes of the chunks of a call of single tools.
    pub tool_max_stream_bytes: BTreeMap<String, u64>,
}

impl CallLimits {
    /// Returns these limits, with those of `others` where there are none.
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

    /// Returns whether there is no limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ServerLimits {
    /// Returns the units that a call of a tool costs; `None` if the configuration does not say so.
    #[must_use]
    pub fn units_of(&self, tool: &str) -> Option<u64> {
        self.tool_units.get(tool).copied().or(self.units)
    }
}

/// Reads limits of calls.
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

/// Reads `[servers.limits]`.
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
