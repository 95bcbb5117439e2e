//! Quotas: limits on how much a principal can use in a period (MGP §14.3: 3002).

mod charge;
mod counters;
mod layer;

use std::fmt;
use std::time::Duration;

use mgp_types::service::Context;
use mgp_types::{Object, RpcError, Timestamp};

pub(super) use charge::UnstartedGuard;
pub use layer::{QuotaLayer, QuotaService, never_ran};

use self::charge::Charge;
use super::per;
use crate::error::LifecycleError;

/// A limit on the number of calls that a principal makes in a period, and optionally on the units that it uses. Tools
/// define what a unit is.
///
/// Periods are the same for all principals: an hour begins at the full hour, a day at midnight UTC,
/// any other period at a multiple of its length since 1970.
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
    /// The maximum number of principals whose calls are counted separately.
    callers: usize,
}

impl Quota {
    /// Creates a quota of calls per hour.
    pub const fn per_hour(calls: u64) -> Self {
        Self::every(Duration::from_hours(1), calls)
    }

    /// Creates a quota of calls per day.
    pub const fn per_day(calls: u64) -> Self {
        Self::every(Duration::from_hours(24), calls)
    }

    /// Creates a quota of calls per period, which must be at least a second long. A quota of zero refuses all calls.
    pub const fn every(period: Duration, calls: u64) -> Self {
        Self { calls, units: None, period, callers: 65_536 }
    }

    /// Limits units as well, e.g. tokens or bytes. Tools [charge](Self::charge) a call for the units that it used.
    pub const fn units(mut self, units: u64) -> Self {
        self.units = Some(units);
        self
    }

    /// Limits how many principals are counted separately in a period. Beyond this number, further principals share one
    /// quota. Default: 65,536.
    pub const fn callers(mut self, callers: usize) -> Self {
        self.callers = callers;
        self
    }

    /// Charges the principal of a call for units; does nothing if the call passed no `QuotaLayer`. If the quota has no
    /// limit on units, they are only counted.
    ///
    /// A handler that asks its caller questions is run again from the start in each round. Units that it charged in an
    /// earlier round are not charged a second time.
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
    /// Returns 3002 (quota exceeded) if the units would exceed the quota; nothing is charged in that case.
    pub fn charge(cx: &Context, units: u64) -> Result<(), RpcError> {
        match cx.extensions.get_shared::<Charge>() {
            Some(charge) => {
                charge.add(units).map_err(|exceeded| LifecycleError::from(exceeded).into())
            }
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
        write!(f, " {}", per(self.period))
    }
}

/// The amount that a principal has used in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaUse {
    /// The number of calls in the current period of the quota.
    pub calls: u64,
    /// The number of units that tools charged to the principal in the current period.
    pub units: u64,
    /// The time when the counts of the quota are reset.
    pub resets_at: Timestamp,
}

/// A refusal of a call, or of units, that exceeded a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    kind: &'static str,
    quota: u64,
    used: u64,
    period: Duration,
    resets_at: Timestamp,
}

impl QuotaExceeded {
    /// Returns the structured details of the refusal (MGP §14.5).
    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("quota", &self.quota)
            .with("used", &self.used)
            .with("of", self.kind)
            .with("period_secs", &self.period.as_secs())
            .with("resets_at", &self.resets_at)
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, quota, period, resets_at, .. } = self;
        let per = per(*period);
        write!(f, "the quota of {quota} {kind} {per} is used up; it is reset at {resets_at}")
    }
}

impl std::error::Error for QuotaExceeded {}
