//! Methods that read events (MGP §13).

use mgp_types::RpcError;
use mgp_types::mgp::{
    KernelEventsParams, KernelEventsResult, KernelWebhooksParams, KernelWebhooksResult,
};
use mgp_types::service::Context;

use crate::handle::Kernel;

pub(super) async fn recent(
    kernel: Kernel,
    _: Context,
    params: KernelEventsParams,
) -> Result<KernelEventsResult, RpcError> {
    kernel.0.fleet.context().events.hub().recent(&params)
}

pub(super) async fn webhooks(
    kernel: Kernel,
    _: Context,
    _: KernelWebhooksParams,
) -> Result<KernelWebhooksResult, RpcError> {
    let context = kernel.0.fleet.context();
    let mut result = KernelWebhooksResult::new();
    result.webhooks = context.events.deliveries.list(&**context.governance.store()).await?;
    Ok(result)
}
