//! Rate limits of tool calls (MGP §14.3: 3000).

mod bucket;
mod keys;
mod layer;
mod round;
mod table;

use std::fmt;
use std::time::Duration;

use mgp_types::Object;

use super::per;
pub use layer::{RateLayer, RateService};

/// Rate limit: the number of calls allowed per window, and the keys that are counted separately.
///
/// The limit is an average rate: after a pause, up to a [burst](Self::burst) of calls can be made immediately one after
/// another. So any window contains at most the limit plus one burst.
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
    /// The number of calls that are allowed in a window.
    calls: u32,
    window: Duration,
    burst: u32,
    keys: Keys,
}

/// The keys of the counts of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateKey {
    /// The agent of a subject: each subject has one count for each agent, and one count for its calls without an agent.
    Agent,
    /// The name of the agent: all subjects of a tenant that use this agent share one count. The calls of one subject
    /// without an agent also share one count.
    AgentName,
    /// The subject, i.e. a user, an API key or a client id.
    Subject,
    /// The called tool. Each tool has its own count.
    Tool,
    /// The called server, on an outbound stack; a server's own stack has only one server.
    Server,
}

/// The use of a limit at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateUse {
    /// The number of calls that are allowed in a window.
    pub limit: u32,
    /// The number of calls that are counted now.
    pub used: u32,
    /// The time until the count is zero again, if no further call is made.
    pub free_in: Duration,
    /// The time until the next call is allowed, in whole milliseconds; zero if it is allowed now, and `None` if no call
    /// will ever be allowed.
    pub next_in: Option<Duration>,
}

/// A set of keys; the tenant is included unless the set has the flag [`Keys::ACROSS_TENANTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keys(u8);

impl RateLimit {
    /// Creates a limit of calls per second.
    pub const fn per_second(calls: u32) -> Self {
        Self::every(Duration::from_secs(1), calls)
    }

    /// Creates a limit of calls per minute.
    pub const fn per_minute(calls: u32) -> Self {
        Self::every(Duration::from_mins(1), calls)
    }

    /// Creates a limit of calls per hour.
    pub const fn per_hour(calls: u32) -> Self {
        Self::every(Duration::from_hours(1), calls)
    }

    /// Creates a limit of calls per window. A limit of zero refuses all calls.
    ///
    /// Without a [key](Self::by), all calls of a tenant are counted together. The calls of different tenants are
    /// counted separately, unless the limit is [across tenants](Self::across_tenants).
    pub const fn every(window: Duration, calls: u32) -> Self {
        Self { calls, window, burst: calls, keys: Keys(0) }
    }

    /// Sets how many calls can be made immediately one after another after a pause; the default is the limit. A burst
    /// of zero refuses all calls.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }

    /// Adds a key; calls with different keys are counted separately. With agent and tool, for example, each agent has
    /// its own count for each tool.
    pub const fn by(mut self, key: RateKey) -> Self {
        self.keys = Keys(self.keys.0 | 1 << key as u8);
        self
    }

    /// Counts the calls of all tenants together, e.g. because they use the same account of a server. Keys with equal
    /// names, e.g. of two agents, are then the same key although they belong to different tenants.
    pub const fn across_tenants(mut self) -> Self {
        self.keys = Keys(self.keys.0 | Keys::ACROSS_TENANTS);
        self
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.calls == 1 { "call" } else { "calls" };
        write!(f, "{} {noun} {} by {}", self.calls, per(self.window), self.keys)
    }
}

impl RateKey {
    const ALL: [Self; 5] = [Self::Agent, Self::AgentName, Self::Subject, Self::Tool, Self::Server];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::AgentName => "agent name",
            Self::Subject => "subject",
            Self::Tool => "tool",
            Self::Server => "server",
        }
    }
}

impl Keys {
    /// The flag of a limit that counts the calls of all tenants together; the keys use the lower bits.
    const ACROSS_TENANTS: u8 = 1 << 7;

    const fn has(self, key: RateKey) -> bool {
        self.0 & (1 << key as u8) != 0
    }

    const fn are_across_tenants(self) -> bool {
        self.0 & Self::ACROSS_TENANTS != 0
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = RateKey::ALL.iter().filter(|key| self.has(**key));
        let Some(first) = words.next() else {
            return f.write_str(if self.are_across_tenants() { "all tenants" } else { "tenant" });
        };
        f.write_str(first.as_str())?;
        words.try_for_each(|key| write!(f, " and {}", key.as_str()))
    }
}

/// A refusal of a call that exceeded a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimited {
    limit: RateLimit,
    /// The number of calls that the limit counts at present.
    current: u32,
    /// The time until the next call is allowed; `None` if no call will ever be allowed.
    wait: Option<Duration>,
}

impl RateLimited {
    /// Returns the time until a call is allowed; `None` if no call will ever be allowed.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns the wait in whole milliseconds, rounded up.
    pub(crate) fn wait_ms(&self) -> Option<u64> {
        self.wait.map(whole_ms)
    }

    /// Returns the structured details of the refusal (MGP §14.5).
    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("limit", &self.limit.calls)
            .with("window_secs", &self.limit.window.as_secs())
            .with("burst", &self.limit.burst)
            .with("current", &self.current)
            .with("by", &self.limit.keys.to_string())
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate limited: more than {}", self.limit)?;
        match self.wait_ms() {
            Some(ms) => {
                let wait = mgp_types::duration_words(Duration::from_millis(ms));
                write!(f, "; try again in {wait}")
            }
            None => f.write_str("; no call is allowed"),
        }
    }
}

impl std::error::Error for RateLimited {}

/// Returns a time in whole milliseconds, rounded up.
fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
