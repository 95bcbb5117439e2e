//! How many tool calls may come in a time (MGP §14.3: 3000).
//!
//! Applies to: both.

mod bucket;
mod layer;
mod table;

use std::fmt;
use std::time::Duration;

use mgp_types::Object;

pub use layer::{Rate, RateLayer};

/// How many calls may come in a time, and who shares that.
///
/// Turns to call come evenly, and unused ones gather: at most a [burst](Self::burst) of them.
/// So any stretch of a window's length holds at most the limit and one burst.
///
/// ```
/// use mgp_lifecycle::{RateKey, RateLimit};
///
/// let limit = RateLimit::per_minute(60).burst(10).by(RateKey::Agent);
/// assert_eq!(limit.to_string(), "60 calls a minute by agent");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct RateLimit {
    limit: u32,
    window: Duration,
    burst: u32,
    by: Keys,
}

/// What calls are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateKey {
    /// The agent of a subject; calls of a subject without one count together.
    Agent,
    /// The subject: a person, a key, a client id.
    Subject,
    /// The tool.
    Tool,
    /// The server, on an outbound stack; a server's own stack has one.
    Server,
}

/// A set of keys; the tenant is always one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keys(u8);

impl RateLimit {
    /// So many calls a second.
    pub const fn per_second(limit: u32) -> Self {
        Self::every(Duration::from_secs(1), limit)
    }

    /// So many calls a minute.
    pub const fn per_minute(limit: u32) -> Self {
        Self::every(Duration::from_mins(1), limit)
    }

    /// So many calls an hour.
    pub const fn per_hour(limit: u32) -> Self {
        Self::every(Duration::from_hours(1), limit)
    }

    /// So many calls in a time; none at all where the limit is zero.
    ///
    /// All calls of a tenant count together until it is said [by](Self::by) what they are counted.
    pub const fn every(window: Duration, limit: u32) -> Self {
        Self { limit, window, burst: limit, by: Keys(0) }
    }

    /// How many may come at once after a quiet time; as many as the limit without it, and none with zero.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }

    /// Counts by this, besides what was said before: by agent and tool, each agent has its share of each tool.
    pub const fn by(mut self, key: RateKey) -> Self {
        self.by = Keys(self.by.0 | 1 << key as u8);
        self
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = if self.limit == 1 { "call" } else { "calls" };
        write!(f, "{} {calls} ", self.limit)?;
        match (self.window.as_secs(), self.window.subsec_nanos()) {
            (1, 0) => f.write_str("a second")?,
            (60, 0) => f.write_str("a minute")?,
            (3600, 0) => f.write_str("an hour")?,
            _ => write!(f, "in {:?}", self.window)?,
        }
        write!(f, " by {}", self.by)
    }
}

impl RateKey {
    const ALL: [Self; 4] = [Self::Agent, Self::Subject, Self::Tool, Self::Server];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Subject => "key",
            Self::Tool => "tool",
            Self::Server => "server",
        }
    }
}

impl Keys {
    const fn has(self, key: RateKey) -> bool {
        self.0 & (1 << key as u8) != 0
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = RateKey::ALL.iter().filter(|key| self.has(**key));
        let Some(first) = words.next() else { return f.write_str("tenant") };
        f.write_str(first.as_str())?;
        words.try_for_each(|key| write!(f, " and {}", key.as_str()))
    }
}

/// A call that came too soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimited {
    limit: RateLimit,
    /// Calls that are counted at the moment.
    current: u32,
    /// How long until the next may come; none where none may.
    wait: Option<Duration>,
}

impl RateLimited {
    /// How long until a call may come; none where none may.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The same in whole milliseconds, after which it is not too soon.
    pub(crate) fn wait_ms(&self) -> Option<u64> {
        let wait = self.wait?;
        let ms = wait.as_nanos().div_ceil(1_000_000);
        Some(u64::try_from(ms).unwrap_or(u64::MAX))
    }

    /// The facts of the refusal (§14.5).
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        // Numbers and words can always be written.
        drop(details.encode("limit", &self.limit.limit));
        drop(details.encode("window_secs", &self.limit.window.as_secs()));
        drop(details.encode("burst", &self.limit.burst));
        drop(details.encode("current", &self.current));
        drop(details.encode("by", &self.limit.by.to_string()));
        details
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate limited: more than {}", self.limit)?;
        match self.wait_ms() {
            Some(ms) => write!(f, "; try again in {:?}", Duration::from_millis(ms)),
            None => f.write_str("; no call may come"),
        }
    }
}

impl std::error::Error for RateLimited {}
