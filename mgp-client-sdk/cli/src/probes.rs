//! HTTP pages for health probes and Prometheus: `/healthz`, `/readyz` and `/metrics`.

use std::future::pending;

use http::StatusCode;
use mgp_kernel::Kernel;
use mgp_lifecycle::Drain;
use mgp_server_sdk::Pages;
use mgp_transport::http::{ConnectionLimits, listen};
use tokio::net::TcpListener;

use crate::exit::{CliResult, Failure};

/// The maximum number of open connections at the address in `kernel.metrics`.
const MAX_METRICS_CONNECTIONS: usize = 64;

/// Returns the pages for health probes, which show only whether the kernel is alive and ready.
pub(crate) fn probes(kernel: &Kernel, drain: &Drain) -> Pages {
    let (kernel, drain) = (kernel.clone(), drain.clone());
    Pages::new().page("/healthz", || (StatusCode::OK, "ok\n".to_owned())).page(
        "/readyz",
        move || {
            if drain.is_draining() {
                (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned())
            } else if kernel.is_ready() {
                (StatusCode::OK, "ready\n".to_owned())
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "reading the tools of new servers\n".to_owned())
            }
        },
    )
}

/// Serves the probes and the metrics at the address in `kernel.metrics`, until the process ends.
pub(crate) async fn serve_metrics(kernel: &Kernel, drain: &Drain) -> CliResult {
    let Some(address) = kernel.metrics_address() else { return Ok(()) };
    let listener = TcpListener::bind(&address).await.map_err(|error| {
        Failure::failed(format!(
            "`{address}` cannot be used: {error}; name another address in `kernel.metrics`"
        ))
    })?;
    tracing::info!(address, "serving metrics");
    // Call `metrics()` once now, because the kernel counts calls only after the first `metrics()`. Otherwise the calls
    // before the first scrape would be missing.
    drop(kernel.metrics());
    let read = kernel.clone();
    let pages = probes(kernel, drain).page("/metrics", move || (StatusCode::OK, read.metrics()));
    let mut limits = ConnectionLimits::default();
    limits.connections = MAX_METRICS_CONNECTIONS;
    tokio::spawn(listen(listener, pages, limits, pending()));
    Ok(())
}
