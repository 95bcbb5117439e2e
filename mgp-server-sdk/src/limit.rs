//! Rates, quotas and sizes of tool calls (MGP §14.3: 3000–3003).

use mgp_lifecycle::{QuotaLayer, RateLayer, RateLimit, SizeConfig, SizeLayer};
use mgp_stream::EmitLayer;
use mgp_types::service::StreamLimit;

use crate::stack::Gate;

/// The limits of a server on tool calls, except those on concurrency and time.
#[derive(Debug, Default)]
pub(crate) struct CallLimits {
    pub(crate) rates: Vec<RateLimit>,
    pub(crate) quotas: Vec<QuotaLayer>,
    pub(crate) max_arguments: Option<usize>,
    pub(crate) max_result: Option<usize>,
    /// The maximum size of all chunks of a call, in bytes. The layer that sends chunks checks it, so it needs no gate.
    pub(crate) max_stream_bytes: Option<u64>,
}

impl CallLimits {
    /// Returns the layer that sends chunks, and the gates (see [`Gate`]) that check the limits, innermost first.
    ///
    /// The layer with the cheapest check is outermost. So a call that is too large does not count for a rate limit, and
    /// a call above its rate limit is not charged to a quota. A limit that is not set adds no layer.
    pub(crate) fn gates(
        self,
        is_tool: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> (EmitLayer, impl Iterator<Item = Gate>) {
        let max_stream_bytes = self.max_stream_bytes.unwrap_or(StreamLimit::DEFAULT_BYTES);
        let emit = EmitLayer::new().max_stream_bytes(max_stream_bytes);
        let rate = (!self.rates.is_empty())
            .then(|| Gate::new(RateLayer::of(self.rates).tools(is_tool).count_rounds_once()));
        let size = (self.max_arguments.is_some() || self.max_result.is_some()).then(|| {
            let mut config = SizeConfig::default();
            config.arguments = self.max_arguments.unwrap_or(usize::MAX);
            config.result = self.max_result.unwrap_or(usize::MAX);
            Gate::new(SizeLayer::new(config))
        });
        (emit, self.quotas.into_iter().map(Gate::new).chain(rate).chain(size))
    }
}
