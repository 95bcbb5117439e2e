//! Counts the calls and units of each hour and day for quotas (MGP §14.3: code 3002, quota exceeded). The counts
//! survive a restart.
//!
//! The kernel stores the count of a call before it runs the call. So even if the kernel is killed, no call that ran is
//! missing in the counts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_discovery::{CallLimits, Config};
use mgp_types::service::Principal;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError, Timestamp};
use serde::{Deserialize, Serialize};

use super::limit_table::LimitTable;

const SPACE: &str = "kernel.usage";

/// The maximum number of counts of current periods. Beyond it, all further agents and servers share one hourly and one
/// daily count.
const MAX_COUNTS: usize = 20_000;

/// The counts of all agents and servers that have quotas. This handle is cheap to clone.
#[derive(Clone)]
pub(super) struct Usage(Arc<UsageState>);

struct UsageState {
    store: Arc<dyn Store>,
    counts: Mutex<HashMap<String, Count>>,
}

/// The number of calls and units of one agent or server in an hour or a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    /// The number of this hour or day, counted from the beginning of 1970.
    period: u64,
    calls: u64,
    units: u64,
}

/// An agent or server whose calls a quota counts, with its limits and the configuration table that sets them.
pub(super) struct Counted<'a> {
    pub(super) who: String,
    pub(super) limits: &'a CallLimits,
    pub(super) table: &'a LimitTable,
}

/// The calls and units of an agent or a server in the current hour or day, compared with their quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaCount {
    /// The name of the agent or the id of the server whose calls are counted.
    pub name: String,
    /// `true` for a server, whose quotas all agents share.
    pub is_server: bool,
    /// The length of the period: `hour` or `day`.
    pub period: &'static str,
    /// The number of calls in this period.
    pub calls: u64,
    /// The number of units that calls were charged in this period.
    pub units: u64,
    /// The maximum number of calls in this period; `None` if it is not limited.
    pub max_calls: Option<u64>,
    /// The maximum number of units in this period; `None` if it is not limited.
    pub max_units: Option<u64>,
}

/// Reads the counts for the quotas of a configuration from the store of a kernel: the counts of the configured agents,
/// of other agents that have called, and of servers. Agents of tenants other than `local` are left out.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
///
/// # Cancel safety
/// The future can be dropped at any time, because it only reads.
pub async fn quota_counts(
    store: &dyn Store,
    config: &Config,
) -> Result<Vec<QuotaCount>, StoreError> {
    let tenant = Principal::local().tenant().to_string();
    let counts = load_counts(store).await?;
    let called = counts.keys().filter_map(|name| {
        let agent = name.split_once('/')?.1.strip_prefix("agent/")?.strip_prefix(&*tenant)?;
        agent.strip_prefix('/').map(str::to_owned)
    });
    let agents: BTreeSet<String> = called.chain(config.agents.keys().cloned()).collect();
    let agents = agents.into_iter().map(|agent| {
        let own = config.agents.get(&agent).map(|own| own.limits.or(&config.limits));
        let who = format!("agent/{tenant}/{agent}");
        (agent, false, who, own.unwrap_or_else(|| config.limits.clone()))
    });
    let servers = config.servers.iter().map(|server| {
        let id = server.id.to_string();
        let who = server_key(&id);
        (id, true, who, server.limits.calls.clone())
    });
    let now = now();
    let mut listed = Vec::new();
    for (name, is_server, who, limits) in agents.chain(servers) {
        for window in windows(&limits) {
            let count = count_of(&counts, &format!("{}/{who}", window.name), &window, now);
            listed.push(QuotaCount {
                name: name.clone(),
                is_server,
                period: window.name,
                calls: count.calls,
                units: count.units,
                max_calls: window.calls,
                max_units: window.units,
            });
        }
    }
    Ok(listed)
}

/// Reads the stored counts of calls and units, by the names of the counts. A damaged count is an error: if the kernel
/// ignored it, a quota that is used up would allow calls again.
async fn load_counts(store: &dyn Store) -> Result<HashMap<String, Count>, StoreError> {
    let mut counts = HashMap::new();
    for record in store.load(SPACE).await?.records {
        let Some(value) = record.value else { continue };
        let count = value.get::<Count>().map_err(|error| {
            StoreError::Unreadable(format!(
                "`{}` in `{SPACE}` is damaged ({error}); restore a backup",
                record.key
            ))
        })?;
        counts.insert(record.key, count);
    }
    Ok(counts)
}

/// Returns a server's name in the table of counts.
pub(super) fn server_key(id: &str) -> String {
    format!("limits of server {id}")
}

/// A period (hour or day) with its quotas of calls and units.
struct Window {
    name: &'static str,
    seconds: u64,
    calls: Option<u64>,
    units: Option<u64>,
}

impl Usage {
    pub(super) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let counts = Mutex::new(load_counts(&*store).await?);
        Ok(Self(Arc::new(UsageState { store, counts })))
    }

    /// Counts a call and its units for all of the given agents and servers. If a quota refuses the call, counts it for
    /// none of them. Waits until the counts are stored.
    pub(super) async fn charge(&self, all: &[Counted<'_>], units: u64) -> Result<(), RpcError> {
        let stored = {
            let now = now();
            let mut counts = self.0.counts.lock();
            let mut change = Change::new();
            if counts.len() >= MAX_COUNTS {
                change = remove_past(&mut counts, now, change);
            }
            for (name, count) in charged(&counts, all, units, now)? {
                change = change.put(SPACE, name.as_str(), Payload::of(&count)?);
                counts.insert(name, count);
            }
            if change.is_empty() {
                return Ok(());
            }
            // Send the change to the store while the counts are locked, so that the store receives all changes in
            // order.
            self.0.store.commit(change)
        };
        stored.await?;
        Ok(())
    }

    /// Returns the error if a quota would refuse a call of this cost; `None` if all quotas allow the call. Counts
    /// nothing.
    pub(super) fn refusal(&self, all: &[Counted<'_>], units: u64) -> Option<RpcError> {
        charged(&self.0.counts.lock(), all, units, now()).err()
    }

    /// Describes how much of each quota is used, and names the configuration key of the quota. Adds the error if the
    /// quota would refuse a call of this cost. Counts nothing.
    pub(super) fn describe(
        &self,
        all: &[Counted<'_>],
        units: u64,
    ) -> Vec<(String, Option<RpcError>)> {
        let (counts, now) = (self.0.counts.lock(), now());
        let mut described = Vec::new();
        for one in all {
            for window in windows(one.limits) {
                let name = record_name(&counts, &one.who, window.name);
                let count = count_of(&counts, &name, &window, now);
                let (period, resets_at) = (window.name, window.resets_at(count.period));
                for quota in window.quotas(count, units) {
                    let Quota { of, max, used, refuses } = quota;
                    let key = one.table.key(&quota.key(period));
                    let words =
                        format!("{used} of {max} {of} per {period}, reset at {resets_at}: {key}");
                    let refusal = refuses.then(|| window.exceeded(&quota, count, one.table));
                    described.push((words, refusal));
                }
            }
        }
        described
    }

    /// Adds units to the counts of a call that has already run. If the counts then exceed a quota, the quota refuses
    /// the next call.
    pub(super) async fn add(&self, all: &[Counted<'_>], units: u64) -> Result<(), RpcError> {
        let stored = {
            let now = now();
            let (mut counts, mut change) = (self.0.counts.lock(), Change::new());
            for one in all {
                for window in windows(one.limits) {
                    let name = record_name(&counts, &one.who, window.name);
                    let mut count = count_of(&counts, &name, &window, now);
                    count.units = count.units.saturating_add(units);
                    change = change.put(SPACE, name.as_str(), Payload::of(&count)?);
                    counts.insert(name, count);
                }
            }
            if change.is_empty() {
                return Ok(());
            }
            self.0.store.commit(change)
        };
        stored.await?;
        Ok(())
    }
}

/// A quota of an hour or a day, how much of it is used, and whether it refuses the next call.
struct Quota {
    /// The counted quantity: `calls` or `units`.
    of: &'static str,
    max: u64,
    used: u64,
    /// `true` if the quota refuses the call.
    refuses: bool,
}

impl Quota {
    /// Returns the name of the quota's key in its configuration table.
    fn key(&self, period: &str) -> String {
        format!("{}_per_{period}", self.of)
    }
}

impl Window {
    /// Returns the quotas of this period for a call that costs these units.
    fn quotas(&self, count: Count, units: u64) -> impl Iterator<Item = Quota> {
        let (used, sum) = (count.calls, count.units.saturating_add(units));
        let calls = self.calls.map(|max| Quota { of: "calls", max, used, refuses: used >= max });
        let used = count.units;
        let units = self.units.map(|max| Quota { of: "units", max, used, refuses: sum > max });
        calls.into_iter().chain(units)
    }

    /// Returns a count with one more call and its units added, or the refusal if that exceeds a quota.
    fn charge(&self, mut count: Count, units: u64, table: &LimitTable) -> Result<Count, RpcError> {
        if let Some(quota) = self.quotas(count, units).find(|quota| quota.refuses) {
            return Err(self.exceeded(&quota, count, table));
        }
        count.calls = count.calls.saturating_add(1);
        count.units = count.units.saturating_add(units);
        Ok(count)
    }

    /// Returns the end of a period, when the next calls are allowed again.
    fn resets_at(&self, period: u64) -> Timestamp {
        let end = Duration::from_secs(period.saturating_add(1).saturating_mul(self.seconds));
        Timestamp::from(UNIX_EPOCH.checked_add(end).unwrap_or(UNIX_EPOCH))
    }

    fn exceeded(&self, quota: &Quota, count: Count, table: &LimitTable) -> RpcError {
        let Self { name, seconds, .. } = self;
        let Quota { of, max, used, .. } = quota;
        let (key, resets_at) = (quota.key(name), self.resets_at(count.period));
        let message = format!(
            "the quota of {max} {of} per {name} is used up; it is reset at {resets_at}; \
             an operator can raise {}",
            table.quote(&key)
        );
        let mut details = Object::new();
        // Ignore the result, because encoding numbers and strings cannot fail.
        drop(details.encode("quota", max));
        drop(details.encode("used", used));
        drop(details.encode("of", of));
        drop(details.encode("period_secs", seconds));
        drop(details.encode("resets_at", &resets_at));
        drop(details.encode("key", &table.key(&key)));
        let hints = Recovery::default_for(ErrorCode::QUOTA_EXCEEDED).unwrap_or_default();
        RpcError::new(ErrorCode::QUOTA_EXCEEDED, message).recovery(hints.details(details))
    }
}

/// Returns the periods (hour, day) that have a quota in the limits.
fn windows(limits: &CallLimits) -> impl Iterator<Item = Window> {
    let hour = (limits.calls_per_hour, limits.units_per_hour);
    let day = (limits.calls_per_day, limits.units_per_day);
    let all = [("hour", 3600, hour), ("day", 86_400, day)];
    let all = all.map(|(name, seconds, (calls, units))| Window { name, seconds, calls, units });
    all.into_iter().filter(|window| window.calls.is_some() || window.units.is_some())
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the counts with one more call of this cost added, or the refusal if that exceeds a quota.
fn charged(
    counts: &HashMap<String, Count>,
    all: &[Counted<'_>],
    units: u64,
    now: u64,
) -> Result<Vec<(String, Count)>, RpcError> {
    let mut charged = Vec::new();
    for one in all {
        for window in windows(one.limits) {
            let name = record_name(counts, &one.who, window.name);
            let count = count_of(counts, &name, &window, now);
            charged.push((name, window.charge(count, units, one.table)?));
        }
    }
    Ok(charged)
}

fn record_name(counts: &HashMap<String, Count>, who: &str, window: &str) -> String {
    let name = format!("{window}/{who}");
    if counts.contains_key(&name) || counts.len() < MAX_COUNTS {
        name
    } else {
        format!("{window}/")
    }
}

/// Returns the count of the current period. If the clock was set back, this is the count of a later period, so that a
/// quota that is used up stays so, but not for longer than until the end of the next period.
fn count_of(counts: &HashMap<String, Count>, name: &str, window: &Window, now: u64) -> Count {
    let period = now / window.seconds;
    match counts.get(name).filter(|count| count.period >= period) {
        Some(count) => Count { period: count.period.min(period + 1), ..*count },
        None => Count { period, ..Count::default() },
    }
}

fn remove_past(counts: &mut HashMap<String, Count>, now: u64, mut change: Change) -> Change {
    let is_past = |name: &str, count: &Count| {
        count.period < now / if name.starts_with("hour") { 3600 } else { 86_400 }
    };
    let past = counts.extract_if(|name, count| is_past(name, count));
    for (name, _) in past {
        change = change.remove(SPACE, name);
    }
    change
}

#[cfg(test)]
mod tests {
    use mgp_types::store::MemoryStore;

    use super::*;

    fn limits(calls: u64, units: u64) -> CallLimits {
        let mut limits = CallLimits::default();
        (limits.calls_per_day, limits.units_per_hour) = (Some(calls), Some(units));
        limits
    }

    fn one<'a>(who: &str, limits: &'a CallLimits, table: &'a LimitTable) -> Counted<'a> {
        Counted { who: who.to_owned(), limits, table }
    }

    #[tokio::test]
    async fn counts_outlive_the_kernel_and_a_refused_call_costs_nothing() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (ann, tools) = (limits(3, 10), limits(100, 12));
        let table = LimitTable::new("limits");
        for round in 0..2 {
            // Begin each round with the stored counts, as a kernel does after the previous one was killed.
            let usage = Usage::load(Arc::clone(&store)).await.unwrap();
            let all = [one("ann", &ann, &table), one("tools", &tools, &table)];
            let charged = usage.charge(&all, 6).await;
            if round == 0 {
                charged.unwrap();
                continue;
            }
            let refused = charged.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::QUOTA_EXCEEDED);
            assert!(refused.message().contains("`limits.units_per_hour`"), "{refused}");
            usage.charge(&all, 4).await.unwrap();
            usage.charge(&all, 0).await.unwrap();
            let refused = usage.charge(&all, 0).await.unwrap_err();
            assert!(refused.message().contains("3 calls per day"), "{refused}");
            usage.charge(&[one("tools", &tools, &table)], 2).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_damaged_count_does_not_make_a_quota_free_again() {
        let store = MemoryStore::new();
        let damaged = Payload::from_trusted(r#"{"period":2}"#);
        store.commit(Change::new().put(SPACE, "day/ann", damaged)).await.unwrap();
        let refused = Usage::load(Arc::new(store)).await.err().unwrap().to_string();
        assert!(refused.contains("`day/ann` in `kernel.usage` is damaged"), "{refused}");
    }

    #[tokio::test]
    async fn a_quota_that_is_used_up_stays_so_if_the_clock_is_set_back() {
        let store = MemoryStore::new();
        let tomorrow = Count { period: now() / 86_400 + 1, calls: 1, units: 0 };
        let tomorrow = Payload::of(&tomorrow).unwrap();
        store.commit(Change::new().put(SPACE, "day/ann", tomorrow)).await.unwrap();
        let usage = Usage::load(Arc::new(store)).await.unwrap();
        let (ann, table) = (limits(1, 10), LimitTable::new("limits"));
        let refused = usage.charge(&[one("ann", &ann, &table)], 0).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::QUOTA_EXCEEDED);
    }

    #[tokio::test]
    async fn each_quota_is_described_with_its_used_part_and_its_refusal() {
        let usage = Usage::load(Arc::new(MemoryStore::new())).await.unwrap();
        let (ann, table) = (limits(1, 10), LimitTable::new("agents.ann.limits"));
        let all = [one("ann", &ann, &table)];
        usage.charge(&all, 6).await.unwrap();
        let begins = ["6 of 10 units per hour, reset at ", "1 of 1 calls per day, reset at "];
        let keys = [": agents.ann.limits.units_per_hour", ": agents.ann.limits.calls_per_day"];
        for (units, refuses) in [(5, [true, true]), (4, [false, true])] {
            let described = usage.describe(&all, units);
            assert_eq!(described.len(), 2, "{described:?}");
            for (at, (words, refusal)) in described.iter().enumerate() {
                let is_described = words.starts_with(begins[at]) && words.ends_with(keys[at]);
                assert!(is_described && refusal.is_some() == refuses[at], "{described:?}");
            }
        }
    }
}
