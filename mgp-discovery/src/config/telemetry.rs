//! `[kernel.telemetry]`: the export of traces and metrics to an OpenTelemetry collector.

use std::time::Duration;

use super::audit::SinkHeaders;
use super::table_reader::Reader;

/// The table `[kernel.telemetry]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// The base URL of the collector; `None` disables the export.
    pub otlp: Option<String>,
    /// HTTP headers sent to the collector.
    pub headers: SinkHeaders,
    /// The interval between two exports of metrics.
    pub interval: Duration,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, headers: SinkHeaders::default(), interval: Duration::from_secs(10) }
    }
}

/// Reads `[kernel.telemetry]`.
pub(super) fn telemetry(reader: &mut Reader<'_, '_, '_>) -> TelemetryConfig {
    let default = TelemetryConfig::default();
    TelemetryConfig {
        otlp: reader.url("otlp"),
        headers: SinkHeaders(reader.headers()),
        interval: reader
            .duration("interval")
            .map_or(default.interval, |interval| interval.max(Duration::from_secs(1))),
    }
}
