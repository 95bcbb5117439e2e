//! What a configuration has the kernel offer to models beside finding and calling: asking for tools, and having them made
//! (MGP §16.6, C38).
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_discovery::Config;
use mgp_toolindex::{Create, Creating, MetaTool, MetaTools, Wanted};
use mgp_types::mgp::Extension;
use mgp_types::service::{BoxFuture, Context};

/// What is in force of it; a cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offers(Arc<Said>);

#[derive(Debug, Default)]
struct Said {
    /// The tool that asks for tools is listed to all.
    request: AtomicBool,
    /// Agents may have tools made.
    creation: AtomicBool,
}

impl Offers {
    pub(crate) fn of(config: &Config) -> Self {
        let offers = Self::default();
        offers.set(config);
        offers
    }

    /// Has another configuration hold from the next call on; `true` when lists are others by that.
    pub(crate) fn set(&self, config: &Config) -> bool {
        self.0.creation.store(config.tool_creation.enabled, Ordering::Relaxed);
        let now = config.kernel.tools_request;
        self.0.request.swap(now, Ordering::Relaxed) != now
    }

    /// The tools to find tools that a caller is listed: who negotiated `tool_discovery` knows what it is to ask for some.
    pub(crate) fn meta(&self, cx: &Context) -> MetaTools {
        let all = MetaTools::new();
        if self.0.request.load(Ordering::Relaxed) || cx.caller.has(Extension::ToolDiscovery) {
            all
        } else {
            all.without(MetaTool::Request)
        }
    }
}

impl Create for Offers {
    fn create(&self, _: Context, _: Wanted) -> BoxFuture<'static, Creating> {
        // What is made is registered `sandboxed`, and no judge of registrations can read code yet.
        let why = if self.0.creation.load(Ordering::Relaxed) {
            "there is no code safety to judge it yet; ask an operator to register a server that has it"
        } else {
            "`tool_creation` is not enabled"
        };
        Box::pin(std::future::ready(Creating::Refused(why.to_owned())))
    }
}
