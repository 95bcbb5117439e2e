//! Kernels behind kernels: calls that come back to where they were are cut, and so are kernels that start themselves.
//!
//! Each kernel counts in `_meta` what it passes on, to kernels only: others are told nothing of it.
//! A program it starts finds in its environment how many kernels started each other before it.
//!
//! Applies to: both.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::mcp::{Meta, Prompt, Resource, ResourceTemplate, Tool};
use mgp_types::service::{BoxFuture, Call, Context, Either, Facts, Kind, MgpService, Reply, Stack};
use mgp_types::{Payload, RpcError};
use serde::Deserialize;
use tower_layer::Layer;
use tower_service::Service;

use super::fleet::Kind as Of;

/// How many kernels a call passes.
const HOPS: u32 = 8;

/// How many kernels a tool is behind that is listed.
const LEVELS: u32 = 3;

/// The member of `_meta` that counts them.
const MEMBER: &str = "dev.cloto/hops";

/// The variable that counts kernels that started each other.
pub(super) const VARIABLE: &str = "MGP_HOPS";

/// How many kernels a call has passed.
#[derive(Clone, Copy, Debug)]
struct Hops(u32);

/// How many kernels started this one.
pub(super) fn depth() -> u32 {
    let said = std::env::var(VARIABLE).ok().and_then(|said| said.parse().ok());
    said.unwrap_or(0)
}

/// Whether kernels that start each other go too deep.
pub(super) fn is_too_deep(depth: u32) -> bool {
    depth >= HOPS
}

/// Reads how many kernels a call has passed, and refuses one that goes in circles.
#[derive(Clone, Copy, Debug)]
pub(super) struct CameLayer;

impl<S> Layer<S> for CameLayer {
    type Service = Came<S>;

    fn layer(&self, inner: S) -> Came<S> {
        Came(inner)
    }
}

/// Service of [`CameLayer`].
#[derive(Clone)]
pub(super) struct Came<S>(S);

impl<S: MgpService> Service<Call> for Came<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.kind() == Kind::Request
            && let Some(passed) = passed(&call)
        {
            if passed >= HOPS {
                return Either::Right { future: ready(Err(circle())) };
            }
            call.cx_mut().extensions.insert(Hops(passed));
        }
        Either::Left { future: self.0.call(call) }
    }
}

/// What a caller says; none says nothing, and nonsense is as much as can be.
fn passed(call: &Call) -> Option<u32> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "dev.cloto/hops")]
        hops: Option<u64>,
    }
    // Few calls come from kernels; the look is cheaper than the parse.
    let meta = call.params().meta_str().filter(|meta| meta.contains(MEMBER))?;
    match serde_json::from_str::<Meta>(meta) {
        Ok(meta) => meta.hops.map(|hops| u32::try_from(hops).unwrap_or(u32::MAX)),
        Err(_) => Some(u32::MAX),
    }
}

fn circle() -> RpcError {
    RpcError::invalid_params(format!(
        "the call has passed {HOPS} kernels: one of them has itself among its servers; \
         find it with `mgp doctor` and take it out of the configuration"
    ))
}

/// Writes how many kernels a call has passed, for the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoesLayer;

impl Layer<Stack> for GoesLayer {
    type Service = Goes;

    fn layer(&self, inner: Stack) -> Goes {
        Goes(inner)
    }
}

/// Service of [`GoesLayer`].
#[derive(Clone)]
pub(super) struct Goes(Stack);

impl Service<Call> for Goes {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let callee = Arc::clone(&call.cx().callee);
        mark(&mut call, &callee);
        self.0.send(call)
    }
}

/// Counts, in a request to a kernel, how many it has passed.
pub(super) fn mark(call: &mut Call, callee: &Facts) {
    if call.kind() == Kind::Request && is_kernel(callee) {
        let passed = call.cx().extensions.get::<Hops>().map_or(0, |hops| hops.0);
        let passed = Payload::from_trusted(passed.saturating_add(1).to_string());
        call.hop_mut().meta.push((MEMBER.into(), passed));
    }
}

/// Whether a kernel calls: it has an index of its own, so it is told all tools.
pub(super) fn is_from_kernel(cx: &Context) -> bool {
    cx.extensions.get::<Hops>().is_some()
}

/// The tools that a kernel lists, each with how many kernels it is behind; none that is behind too many, for two kernels
/// that list each other would never come to an end.
pub(super) fn behind(tools: Vec<Tool>, callee: &Facts) -> Vec<Tool> {
    if !is_kernel(callee) {
        return tools;
    }
    let deeper = |mut tool: Tool| {
        tool.meta = Some(one_behind(tool.meta.take())?);
        Some(tool)
    };
    tools.into_iter().filter_map(deeper).collect()
}

/// The same for an entry of its other lists.
pub(super) fn entry_behind(kind: Of, text: Payload, callee: &Facts) -> Option<Payload> {
    if !is_kernel(callee) {
        return Some(text);
    }
    match kind {
        Of::Resources => {
            let mut resource: Resource = text.get().ok()?;
            resource.meta = Some(one_behind(resource.meta.take())?);
            Payload::of(&resource).ok()
        }
        Of::Templates => {
            let mut template: ResourceTemplate = text.get().ok()?;
            template.meta = Some(one_behind(template.meta.take())?);
            Payload::of(&template).ok()
        }
        Of::Prompts => {
            let mut prompt: Prompt = text.get().ok()?;
            prompt.meta = Some(one_behind(prompt.meta.take())?);
            Payload::of(&prompt).ok()
        }
    }
}

/// Counts one kernel more; none where it would be too many.
fn one_behind(meta: Option<Meta>) -> Option<Meta> {
    let mut meta = meta.unwrap_or_default();
    let levels = meta.get(MEMBER).and_then(|said| said.get::<u32>().ok()).unwrap_or(0);
    if levels >= LEVELS {
        return None;
    }
    meta.encode(MEMBER, &(levels + 1)).ok()?;
    Some(meta)
}

/// Whether a callee says that it is a kernel.
fn is_kernel(callee: &Facts) -> bool {
    callee.info.as_ref().is_some_and(|info| info.as_str().contains(r#""name":"mgp""#))
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Router, mock};

    use super::*;

    #[tokio::test]
    async fn a_call_that_has_passed_too_many_kernels_is_cut() {
        let router = Router::new().route(
            "tools/call",
            Stack::from_fn(|call: Call| async move {
                let passed = call.cx().extensions.get::<Hops>().map_or(0, |hops| hops.0);
                Reply::of(&passed)
            }),
        );
        let mut client = mock::client(Stack::new(CameLayer.layer(router)));
        for (meta, expected) in [
            ("{}", Some("0")),
            (r#"{"dev.cloto/hops":1}"#, Some("1")),
            (r#"{"dev.cloto/hops":7}"#, Some("7")),
            (r#"{"dev.cloto/hops":8}"#, None),
            (r#"{"dev.cloto/hops":99999999999}"#, None),
            (r#"{"dev.cloto/hops":"x"}"#, None),
        ] {
            let params = format!(r#"{{"name":"a","_meta":{meta}}}"#);
            let outcome = client.request("tools/call", &params).await;
            match expected {
                Some(expected) => assert_eq!(outcome.unwrap().as_str(), expected, "{meta}"),
                None => assert!(outcome.unwrap_err().message().contains("passed 8 kernels")),
            }
        }
    }
}
