//! Methods for events, and for the subscriptions of clients to them (MGP §13).

use mgp_types::method::{KernelSubscriptionsEnd, Request as _};
use mgp_types::mgp::{
    KernelEventsParams, KernelEventsResult, KernelSubscriptionEndParams,
    KernelSubscriptionEndResult, KernelSubscriptionsParams, KernelSubscriptionsResult,
    KernelWebhooksParams, KernelWebhooksResult,
};
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError};

use super::methods::record;
use crate::handle::Kernel;

pub(super) async fn recent(
    kernel: Kernel,
    _: Context,
    params: KernelEventsParams,
) -> Result<KernelEventsResult, RpcError> {
    kernel.0.fleet.context().events.hub().recent(&params)
}

pub(super) async fn subscriptions(
    kernel: Kernel,
    cx: Context,
    _: KernelSubscriptionsParams,
) -> Result<KernelSubscriptionsResult, RpcError> {
    let hub = kernel.0.fleet.context().events.hub();
    let mut result = KernelSubscriptionsResult::new();
    result.subscriptions = hub.list_subscriptions(cx.principal.tenant());
    Ok(result)
}

pub(super) async fn end_subscription(
    kernel: Kernel,
    cx: Context,
    params: KernelSubscriptionEndParams,
) -> Result<KernelSubscriptionEndResult, RpcError> {
    let hub = kernel.0.fleet.context().events.hub();
    let tenant = cx.principal.tenant();
    let mut known = hub.list_subscriptions(tenant).into_iter();
    let known = known.find(|one| one.id == params.id).ok_or_else(|| {
        let id = mgp_types::clip(&params.id, 80);
        let message =
            format!("no client has a subscription `{id}`; `mgp subscriptions` lists them");
        RpcError::new(ErrorCode::INVALID_PARAMS, message)
    })?;
    record(&kernel, &cx, None, KernelSubscriptionsEnd::METHOD).await?;
    hub.end_subscriptions(tenant, Some(&params.id)).await?;
    Ok(KernelSubscriptionEndResult::new(known))
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
