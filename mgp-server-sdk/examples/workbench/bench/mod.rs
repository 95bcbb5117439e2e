//! The workbench server: its flags, its tools, and the faults that flags enable.

mod fault;
mod flow;
mod guarded;
mod plain;
mod settings;

use std::time::Duration;

use mgp_lifecycle::MgpOffer;
use mgp_server_sdk::prelude::*;

pub(crate) use settings::Settings;

pub(crate) fn server(settings: &Settings) -> Server {
    let mut server = Server::new("workbench", env!("CARGO_PKG_VERSION"))
        // Set a long limit, because tests of the time limits of kernels and clients need tools that take longer than
        // the default limit.
        .timeout(Duration::from_hours(1))
        .channel("bench.published", "An example of a channel; `publish` uses any");
    let (tools, events) = (server.tools(), server.events());
    for tool in plain::tools(&tools).into_iter().chain(flow::tools(&events)).chain(guarded::tools())
    {
        server = server.tool(tool);
    }
    let server = server.offer(|offer| {
        if let Some(extensions) = settings.extensions {
            offer.mgp = (!extensions.is_empty()).then(|| MgpOffer::new(extensions));
        }
        if let Some(mgp) = &mut offer.mgp {
            mgp.permissions_required.extend(settings.permissions.iter().cloned());
            mgp.server_id.clone_from(&settings.server_id);
        }
    });
    server.around(fault::layer(settings))
}
