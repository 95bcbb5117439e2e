//! Methods that read events (MGP §13).

use mgp_types::RpcError;
use mgp_types::mgp::{KernelEventsParams, KernelEventsResult};
use mgp_types::service::Context;

use crate::handle::Kernel;

pub(super) async fn recent(
    kernel: Kernel,
    _: Context,
    params: KernelEventsParams,
) -> Result<KernelEventsResult, RpcError> {
    kernel.0.fleet.context().events.hub().recent(&params)
}
