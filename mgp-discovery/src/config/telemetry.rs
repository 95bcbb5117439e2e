//! `[kernel.telemetry]`: a collector of traces and metrics (OpenTelemetry).

use std::time::Duration;

use super::audit::SinkHeaders;
use super::reader::Reader;

/// `[kernel.telemetry]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// The base URL of the collector; `None` exports nothing.
    pub otlp: Option<String>,
    /// HTTP headers sent to the collector.
    pub headers: SinkHeaders,
    /// The time between two exports of figures.
    pub interval: Duration,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, headers: SinkHeaders::default(), interval: Duration::from_secs(10) }
    }
}

/// Reads the table.
pub(super) fn telemetry(reader: &mut Reader<'_, '_, '_>) -> TelemetryConfig {
    let default = TelemetryConfig::default();
    TelemetryConfig {
        otlp: reader.text("otlp"),
        headers: SinkHeaders(reader.map("headers")),
        interval: reader
            .duration("interval")
            .map_or(default.interval, |interval| interval.max(Duration::from_secs(1))),
    }
}
