//! `mgp serve`.
//!
//! Applies to: inbound.

use mgp_client_sdk::Kernel;
use mgp_client_sdk::types::service::Principal;
use mgp_discovery::Sources;

use crate::cli::{Global, Serve};
use crate::exit::Ended;
use crate::state;

pub(crate) async fn run(global: &Global, serve: Serve) -> Ended {
    let folder = state::folder(global)?;
    let sources = serve.config.map_or_else(Sources::of_process, Sources::given);
    let kernel = Kernel::builder().sources(sources).in_folder(folder).await?;
    let _ = Principal::local();
    if serve.stdio {
        kernel.server().serve_stdio().await?;
    } else if let Some(address) = serve.http {
        kernel.server().http(address).no_auth().serve().await?;
    }
    kernel.stop().await;
    Ok(())
}
