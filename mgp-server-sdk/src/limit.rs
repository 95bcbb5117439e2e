//! Rates, quotas and sizes of tool calls (MGP §14.3: 3000–3003).

use mgp_lifecycle::{QuotaLayer, RateLayer, RateLimit, SizeConfig, SizeLayer, Timeouts};

use crate::server::Server;
use crate::stack::Gate;

/// The limits of a server besides concurrency and time.
#[derive(Debug, Default)]
pub(crate) struct CallLimits {
    rates: Vec<RateLimit>,
    quotas: Vec<QuotaLayer>,
    max_arguments: Option<usize>,
    max_result: Option<usize>,
}

impl CallLimits {
    /// Returns the layers, innermost first.
    ///
    /// The cheapest refusal is outermost: a call that is too large does not count for a rate, and one over its rate
    /// is not charged to a quota. A limit that is not set adds no layer.
    pub(crate) fn gates(
        self,
        is_tool: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> impl Iterator<Item = Gate> {
        let rate =
            (!self.rates.is_empty()).then(|| Gate::new(RateLayer::of(self.rates).tools(is_tool)));
        let size = (self.max_arguments.is_some() || self.max_result.is_some()).then(|| {
            let mut config = SizeConfig::default();
            config.arguments = self.max_arguments.unwrap_or(usize::MAX);
            config.result = self.max_result.unwrap_or(usize::MAX);
            Gate::new(SizeLayer::new(config))
        });
        self.quotas.into_iter().map(Gate::new).chain(rate).chain(size)
    }
}

impl Server {
    /// Limits the rate of tool calls; several limits hold together.
    ///
    /// Refused calls fail with code 3000 and the time after which to retry.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{RateKey, RateLimit};
    ///
    /// let server = Server::new("clock", "1.0")
    ///     .tool(Tool::new("now", "The time", || async { "noon" }))
    ///     .rate(RateLimit::per_minute(60).burst(10).by(RateKey::Agent))
    ///     .rate(RateLimit::per_hour(1_000).by(RateKey::Subject));
    /// # drop(server);
    /// ```
    pub fn rate(mut self, limit: RateLimit) -> Self {
        self.bounds.rates.push(limit);
        self
    }

    /// Gives each caller a quota of calls in a period; once it is used up, calls fail with code 3002.
    ///
    /// A [`QuotaLayer`] reports what was used; tools charge units of their own with
    /// [`Quota::charge`](mgp_lifecycle::Quota::charge).
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{Quota, QuotaLayer};
    ///
    /// let quota = QuotaLayer::new(Quota::per_day(1_000).units(100_000));
    /// let tell = Tool::new("tell", "Tells a story", |cx: Context| async move {
    ///     Quota::charge(&cx, 250)?;
    ///     Ok::<_, RpcError>("Once upon a time")
    /// });
    /// let server = Server::new("stories", "1.0").tool(tell).quota(quota.clone());
    /// # drop(server);
    /// ```
    pub fn quota(mut self, quota: impl Into<QuotaLayer>) -> Self {
        self.bounds.quotas.push(quota.into());
        self
    }

    /// Limits the arguments of a tool call, in bytes of JSON; larger ones fail with code 3001, and the tool does not
    /// run.
    pub fn max_arguments(mut self, bytes: usize) -> Self {
        self.bounds.max_arguments = Some(bytes);
        self
    }

    /// Limits the result of a tool call, in bytes of JSON, and separately the sum of its chunks;
    /// in place of a larger one the caller receives code 3001 and the size.
    pub fn max_result(mut self, bytes: usize) -> Self {
        self.bounds.max_result = Some(bytes);
        self
    }

    /// Sets the time limits of each kind of call.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }
}
