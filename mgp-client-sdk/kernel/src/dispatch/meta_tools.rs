//! The meta tools (tools about tools): the settings for `mgp_tools_request` and for the creation of tools (MGP §16.6),
//! and calls of the kernel's own tools through `mgp_tools_call`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_discovery::Config;
use mgp_toolindex::{MetaTool, MetaTools};
use mgp_types::mcp::CallToolParams;
use mgp_types::method::{READ_MORE, find_kernel_tool};
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, Context, Params};

/// The configuration of the meta tools. This handle is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetaToolConfig(Arc<MetaToolSwitches>);

#[derive(Debug, Default)]
struct MetaToolSwitches {
    /// `true` if the tool that requests tools is in the lists of all callers.
    lists_request: AtomicBool,
    /// `true` if agents are allowed to request the creation of tools.
    allows_creation: AtomicBool,
}

impl MetaToolConfig {
    pub(crate) fn new(config: &Config) -> Self {
        let this = Self::default();
        this.set(config);
        this
    }

    /// Applies a new configuration to the calls from now on. Returns `true` if this changes the tool lists of callers.
    pub(crate) fn set(&self, config: &Config) -> bool {
        self.0.allows_creation.store(config.tool_creation.enabled, Ordering::Relaxed);
        let lists_request = config.kernel.tools_request;
        self.0.lists_request.swap(lists_request, Ordering::Relaxed) != lists_request
    }

    /// Returns whether the list of a caller contains the tool that requests tools.
    pub(super) fn lists_request(&self, cx: &Context) -> bool {
        self.0.lists_request.load(Ordering::Relaxed) || cx.caller.has(Extension::ToolDiscovery)
    }

    /// Returns whether agents are allowed to create tools that no server has.
    pub(super) fn allows_creation(&self) -> bool {
        self.0.allows_creation.load(Ordering::Relaxed)
    }

    pub(crate) fn listed(&self, cx: &Context) -> MetaTools {
        let all = MetaTools::new();
        if self.lists_request(cx) { all } else { all.without(MetaTool::Request) }
    }
}

/// Returns the meta tool that a call names; `None` if the call names any other tool.
pub(super) fn meta_tool(call: &Call) -> Option<MetaTool> {
    call.tool().and_then(|tool| MetaTool::of(tool.name))
}

/// Turns a call of `mgp_tools_call` whose arguments name a kernel method or `mgp_read_more` into a direct call of that
/// tool.
pub(crate) fn unwrap_kernel_tool(call: &mut Call) {
    if meta_tool(call) == Some(MetaTool::Call)
        && let Ok(named) = call.tool_arguments().get::<CallToolParams>()
        // A nested `mgp_tools_call` stays as it is, because it is neither a method nor `mgp_read_more`.
        && find_kernel_tool(&named.name)
            .is_some_and(|tool| tool.method.is_some() || tool.name == READ_MORE)
    {
        let arguments = named.arguments.unwrap_or_default().into();
        *call.params_mut() = Params::tool(&named.name, &arguments);
    }
}
