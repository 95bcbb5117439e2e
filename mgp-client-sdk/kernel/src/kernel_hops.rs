//! Limits for kernels that are servers of other kernels: the kernel refuses calls that run in a circle, and kernels do
//! not start each other endlessly.
//!
//! In requests to another kernel, each kernel writes into `_meta` how many kernels the call has passed. For the
//! programs that a kernel starts, an environment variable contains how many kernels have started each other.

use super::error::KernelError;
use mgp_types::mcp::{Meta, Tool};
use mgp_types::service::{Call, Context, Kind, MetaKey, PeerInfo};
use mgp_types::{Payload, RpcError};
use serde::Deserialize;

/// The maximum number of kernels that a call can pass. Also the maximum length of a chain of kernels in which each has
/// started the next.
const MAX_HOPS: u32 = 8;

/// The maximum number of further kernels between this kernel and the server of a listed tool.
const MAX_LEVELS: u32 = 3;

/// The member of `_meta` that contains the number of kernels that a call has passed.
const MEMBER: &str = "dev.cloto/hops";

/// The environment variable that contains the number of kernels that have started each other.
pub(super) const VARIABLE: &str = "MGP_HOPS";

/// The name of kernels in `serverInfo`.
pub(super) const KERNEL_NAME: &str = "mgp";

/// The number of kernels that a call has passed, stored in the context of the call.
#[derive(Clone, Copy, Debug)]
struct Hops(u32);

/// Returns the number of kernels that started each other before this kernel; 0 if the variable is not set.
pub(super) fn depth() -> u32 {
    let depth = std::env::var(VARIABLE).ok().and_then(|depth| depth.parse().ok());
    depth.unwrap_or(0)
}

/// Returns an error, so that this kernel does not start, if too many kernels have started each other.
///
/// # Errors
/// [`KernelError::TooDeep`] with the number of these kernels.
pub(super) fn check_depth() -> Result<(), KernelError> {
    let depth = depth();
    if depth >= MAX_HOPS { Err(KernelError::TooDeep(depth)) } else { Ok(()) }
}

/// Reads how many kernels a call has passed, and stores the number in the call's context for later layers.
///
/// # Errors
/// −32602 (invalid params) if the call has passed too many kernels, or if the member is not a number of kernels.
pub(super) fn check(call: &mut Call) -> Result<(), RpcError> {
    if call.kind() == Kind::Request
        && let Some(passed) = passed(call)?
    {
        if passed >= MAX_HOPS {
            return Err(too_many_hops());
        }
        call.cx_mut().extensions.insert(Hops(passed));
    }
    Ok(())
}

/// Returns the number of passed kernels that a call states; `None` if it states none.
fn passed(call: &Call) -> Result<Option<u32>, RpcError> {
    let hops = call.params().meta_member(MetaKey::Hops).map(str::parse::<u32>).transpose();
    hops.map_err(|_| {
        RpcError::invalid_params(format!(
            "`_meta`: `{MEMBER}` must be the number of kernels that the call has passed, an integer from 0 to {}",
            MAX_HOPS - 1
        ))
    })
}

fn too_many_hops() -> RpcError {
    RpcError::invalid_params(format!(
        "the call has passed {MAX_HOPS} kernels: one of them has itself among its servers; \
         find it with `mgp doctor` and remove it from the configuration"
    ))
}

/// In a request to another kernel, writes the number of kernels that the call has passed, including this kernel.
pub(super) fn count(call: &mut Call, callee: &PeerInfo) {
    if call.kind() == Kind::Request && is_kernel(callee) {
        let passed = call.cx().extensions.get::<Hops>().map_or(0, |hops| hops.0);
        let passed = Payload::from_trusted(passed.saturating_add(1).to_string());
        call.hop_mut().meta.push((MEMBER.into(), passed));
    }
}

/// Returns whether the caller is itself a kernel. Such a caller has a tool index of its own, so it receives all tools.
pub(super) fn is_from_kernel(cx: &Context) -> bool {
    cx.extensions.get::<Hops>().is_some()
}

/// If the server is itself a kernel, increments the number of kernels in each of its tools, and drops a tool if a call
/// of it would pass too many kernels.
///
/// Without this limit, the lists of two kernels that are servers of each other would grow without end.
pub(super) fn nested_tools(tools: Vec<Tool>, callee: &PeerInfo) -> Vec<Tool> {
    if !is_kernel(callee) {
        return tools;
    }
    let nested = |mut tool: Tool| {
        tool.meta = Some(add_level(tool.meta.take())?);
        Some(tool)
    };
    tools.into_iter().filter_map(nested).collect()
}

/// Increments the number of kernels in the `_meta` of an entry; returns `None` if the number becomes too large.
pub(super) fn add_level(meta: Option<Meta>) -> Option<Meta> {
    let mut meta = meta.unwrap_or_default();
    let levels = meta.get(MEMBER).and_then(|levels| levels.get::<u32>().ok()).unwrap_or(0);
    if levels >= MAX_LEVELS {
        return None;
    }
    meta.encode(MEMBER, &(levels + 1)).ok()?;
    Some(meta)
}

/// Returns whether a server identifies itself as a kernel.
pub(super) fn is_kernel(callee: &PeerInfo) -> bool {
    #[derive(Deserialize)]
    struct Info<'a> {
        #[serde(borrow)]
        name: std::borrow::Cow<'a, str>,
    }
    // Search the text before parsing it, because this runs for each call, and few servers mention the name.
    let Some(info) = callee.info.as_ref().filter(|info| info.as_str().contains("\"mgp\"")) else {
        return false;
    };
    serde_json::from_str::<Info<'_>>(info.as_str()).is_ok_and(|info| info.name == KERNEL_NAME)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mgp_types::service::{Reply, Stack, mock};

    use super::*;
    use crate::Kernel;

    /// The test runs this program again, with the environment of a process that the last permitted kernel has started.
    #[tokio::test]
    async fn a_kernel_at_the_end_of_a_chain_of_too_many_kernels_is_not_built() {
        if depth() < MAX_HOPS {
            let name = "kernel_hops::tests::\
                        a_kernel_at_the_end_of_a_chain_of_too_many_kernels_is_not_built";
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", name]).env(VARIABLE, MAX_HOPS.to_string());
            let ended = again.output().unwrap();
            let printed = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        let folder = mgp_testkit::temp_dir();
        let stored = Kernel::builder().in_folder(folder.path().join("state")).await;
        for built in [Kernel::builder().build().await, stored] {
            assert!(matches!(built, Err(KernelError::TooDeep(MAX_HOPS))), "{built:?}");
        }
    }

    #[tokio::test]
    async fn a_call_that_has_passed_too_many_kernels_is_refused() {
        let mut client = mock::client(Stack::from_fn(|mut call: Call| async move {
            check(&mut call)?;
            let passed = call.cx().extensions.get::<Hops>().map_or(0, |hops| hops.0);
            Reply::of(&passed)
        }));
        for (meta, expected) in [
            ("{}", Ok("0")),
            (r#"{"dev.cloto/hops":1}"#, Ok("1")),
            (r#"{"dev.cloto/hops":7}"#, Ok("7")),
            (r#"{"dev.cloto/hops":8}"#, Err("passed 8 kernels")),
            (r#"{"dev.cloto/hops":99999999999}"#, Err("an integer from 0 to 7")),
            (r#"{"dev.cloto/hops":-1}"#, Err("an integer from 0 to 7")),
            (r#"{"dev.cloto/hops":"x"}"#, Err("an integer from 0 to 7")),
        ] {
            let params = format!(r#"{{"name":"a","_meta":{meta}}}"#);
            let outcome = client.request("tools/call", &params).await;
            match expected {
                Ok(expected) => assert_eq!(outcome.unwrap().as_str(), expected, "{meta}"),
                Err(expected) => {
                    let error = outcome.unwrap_err();
                    assert!(error.message().contains(expected), "{meta}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_server_whose_info_only_mentions_the_name_of_kernels_is_not_one() {
        for (info, expected) in [
            (r#"{"name":"mgp","version":"1"}"#, true),
            (r#"{ "version": "1", "name" : "mgp" }"#, true),
            (r#"{"name":"files","version":"1","icons":[{"name":"mgp"}]}"#, false),
            (r#"{"name":"files","title":"\"name\":\"mgp\""}"#, false),
            (r#"{"name":"files","title":"mgp"}"#, false),
        ] {
            let mut facts = PeerInfo::default();
            facts.info = Some(Payload::from_trusted(info.to_owned()));
            assert_eq!(is_kernel(&facts), expected, "{info}");
        }
    }
}
