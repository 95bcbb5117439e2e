//! How much a caller may use in a period (MGP §14.3: 3002).
//!
//! Applies to: both.

mod books;
mod charge;
mod layer;

use std::fmt;
use std::time::Duration;

use mgp_types::service::Context;
use mgp_types::{Object, RpcError, Timestamp};

pub(super) use charge::Unstarted;
pub use layer::{QuotaLayer, Quotaed};

use self::charge::Charge;
use crate::error::Refusal;

/// How many calls a principal may make in a period, and how many units of a tool's own it may use.
///
/// Periods are the same for everybody: an hour begins at the full hour, a day at midnight UTC,
/// any other at a multiple of its length since 1970.
///
/// ```
/// use mgp_lifecycle::Quota;
///
/// let quota = Quota::per_day(1_000).units(50_000);
/// assert_eq!(quota.to_string(), "1000 calls and 50000 units a day");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Quota {
    calls: u64,
    units: Option<u64>,
    period: Duration,
    /// How many principals are counted apart.
    callers: usize,
}

impl Quota {
    /// So many calls an hour.
    pub const fn per_hour(calls: u64) -> Self {
        Self::every(Duration::from_hours(1), calls)
    }

    /// So many calls a day.
    pub const fn per_day(calls: u64) -> Self {
        Self::every(Duration::from_hours(24), calls)
    }

    /// So many calls in a period of at least a second; none at all where the number is zero.
    pub const fn every(period: Duration, calls: u64) -> Self {
        Self { calls, units: None, period, callers: 65_536 }
    }

    /// Bounds units as well: tokens, bytes, whatever tools [charge](Self::charge).
    pub const fn units(mut self, units: u64) -> Self {
        self.units = Some(units);
        self
    }

    /// How many principals are counted apart in a period; further ones share the quota of one. 65,536.
    pub const fn callers(mut self, callers: usize) -> Self {
        self.callers = callers;
        self
    }

    /// Charges the principal of a call for units; where nothing bounds them, nothing happens.
    ///
    /// A handler that asks its caller runs anew each round: what an earlier round was charged for is not charged again.
    ///
    /// ```
    /// use mgp_lifecycle::{Quota, QuotaLayer};
    /// use mgp_types::service::{Call, Reply, Stack, mock};
    /// use tower_layer::Layer;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let translate = Stack::from_fn(|call: Call| async move {
    ///     Quota::charge(call.cx(), 400)?;
    ///     Ok(Reply::empty())
    /// });
    /// let quota = QuotaLayer::new(Quota::per_day(100).units(1_000));
    /// let mut client = mock::client(Stack::new(quota.layer(translate)));
    /// assert!(client.request("tools/call", r#"{"name":"t"}"#).await.is_ok());
    /// assert!(client.request("tools/call", r#"{"name":"t"}"#).await.is_ok());
    ///
    /// let refused = client.request("tools/call", r#"{"name":"t"}"#).await.unwrap_err();
    /// assert_eq!(refused.code().0, 3002);
    /// # });
    /// ```
    ///
    /// # Errors
    /// 3002 where that is more than is left; then nothing is charged.
    pub fn charge(cx: &Context, units: u64) -> Result<(), RpcError> {
        match cx.extensions.get_shared::<Charge>() {
            Some(charge) => charge.add(units).map_err(|exceeded| Refusal::from(exceeded).into()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.calls)?;
        if let Some(units) = self.units {
            write!(f, " and {units} units")?;
        }
        f.write_str(&per(self.period))
    }
}

/// A period in words.
fn per(period: Duration) -> String {
    match (period.as_secs(), period.subsec_nanos()) {
        (60, 0) => " a minute".to_owned(),
        (3_600, 0) => " an hour".to_owned(),
        (86_400, 0) => " a day".to_owned(),
        _ => format!(" in {period:?}"),
    }
}

/// What a principal has used in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaUse {
    /// Calls.
    pub calls: u64,
    /// Units that tools charged.
    pub units: u64,
    /// When it starts from zero again.
    pub resets_at: Timestamp,
}

/// A call, or units of one, that no quota was left for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    kind: &'static str,
    quota: u64,
    used: u64,
    period: Duration,
    resets_at: Timestamp,
}

impl QuotaExceeded {
    /// The facts of the refusal (§14.5).
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        // Numbers and words can always be written.
        drop(details.encode("quota", &self.quota));
        drop(details.encode("used", &self.used));
        drop(details.encode("of", self.kind));
        drop(details.encode("period_secs", &self.period.as_secs()));
        drop(details.encode("resets_at", &self.resets_at));
        details
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, quota, period, resets_at, .. } = self;
        let per = per(*period);
        write!(f, "the quota of {quota} {kind}{per} is used up; it starts anew at {resets_at}")
    }
}

impl std::error::Error for QuotaExceeded {}
