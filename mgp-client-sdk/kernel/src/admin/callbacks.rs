//! Methods for the questions of servers that wait for an operator (MGP §13.4).

use mgp_types::RpcError;
use mgp_types::method::{KernelCallbacksAnswer, Request as _};
use mgp_types::mgp::{
    KernelCallbackAnswerParams, KernelCallbackAnswerResult, KernelCallbacksParams,
    KernelCallbacksResult,
};
use mgp_types::service::Context;

use super::methods::record;
use crate::handle::Kernel;

pub(super) async fn list(
    kernel: Kernel,
    cx: Context,
    _: KernelCallbacksParams,
) -> Result<KernelCallbacksResult, RpcError> {
    let mut result = KernelCallbacksResult::new();
    result.callbacks = kernel.0.fleet.context().questions.list(&cx.principal);
    Ok(result)
}

pub(super) async fn answer(
    kernel: Kernel,
    cx: Context,
    params: KernelCallbackAnswerParams,
) -> Result<KernelCallbackAnswerResult, RpcError> {
    let questions = &kernel.0.fleet.context().questions;
    let (callback, answer) = questions.read(&cx.principal, &params.id, &params.response)?;
    let server = callback.server_id.as_str().into();
    record(&kernel, &cx, Some(&server), KernelCallbacksAnswer::METHOD).await?;
    questions.answer(&params.id, answer)?;
    Ok(KernelCallbackAnswerResult::new(callback))
}
