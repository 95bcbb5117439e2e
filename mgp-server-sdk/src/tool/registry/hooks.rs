//! The hooks with which governance observes and restricts the tools of a server.

use std::sync::{Arc, OnceLock};

use mgp_types::service::{Call, Context};
use mgp_types::{RpcError, mcp};

use super::Tools;

/// The hooks of a governed server. On any other server they are not set.
#[derive(Default)]
pub(super) struct Hooks {
    /// Receives the definitions after each change.
    observer: OnceLock<Box<ObserveFn>>,
    /// Checks the rights of a call again if the call had to wait after it was admitted.
    recheck: OnceLock<Box<RecheckFn>>,
    /// Returns whether a caller has access to a tool.
    access: OnceLock<Box<AccessFn>>,
}

type ObserveFn = dyn Fn(&[Arc<mcp::Tool>]) + Send + Sync;
type RecheckFn = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;
type AccessFn = dyn Fn(&Context, &str) -> bool + Send + Sync;

mgp_types::opaque_debug!(Hooks);

impl Hooks {
    /// Returns whether a caller has access to a tool; on a server that is not governed, every caller has.
    pub(super) fn has_access(&self, cx: &Context, tool: &str) -> bool {
        self.access.get().is_none_or(|has_access| has_access(cx, tool))
    }
}

impl Tools {
    /// Sets the function that receives the tools' definitions; returns `false` if one is already set.
    pub(crate) fn observe_definitions(
        &self,
        observe: impl Fn(&[Arc<mcp::Tool>]) + Send + Sync + 'static,
    ) -> bool {
        let is_first = self.0.hooks.observer.set(Box::new(observe)).is_ok();
        self.report_definitions();
        is_first
    }

    /// Sets the function that checks the rights of a call again if the call had to wait after it was admitted.
    pub(crate) fn set_recheck(
        &self,
        check: impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + 'static,
    ) {
        // The result is ignored, because `into_stack` reports an error if a server is governed twice.
        let _ = self.0.hooks.recheck.set(Box::new(check));
    }

    /// Sets the function that returns whether a caller has access to a tool.
    pub(crate) fn set_access(
        &self,
        has_access: impl Fn(&Context, &str) -> bool + Send + Sync + 'static,
    ) {
        // The result is ignored, because `into_stack` reports an error if a server is governed twice.
        let _ = self.0.hooks.access.set(Box::new(has_access));
    }

    /// Refuses a call that waited and is no longer allowed.
    pub(crate) fn recheck(&self, call: &Call) -> Result<(), RpcError> {
        self.0.hooks.recheck.get().map_or(Ok(()), |check| check(call))
    }

    pub(super) fn report_definitions(&self) {
        let Some(observe) = self.0.hooks.observer.get() else { return };
        loop {
            let snapshot = self.snapshot();
            let all: Vec<_> =
                snapshot.entries.iter().map(|entry| Arc::clone(&entry.definition)).collect();
            observe(&all);
            // If the tools changed meanwhile, report them again: another thread may have reported the newer definitions
            // before this thread reported the older ones. A lock would prevent this, but the observer runs hooks of the
            // author, which may change tools.
            if Arc::ptr_eq(&snapshot, &self.snapshot()) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::sync::Mutex;

    use super::super::super::Tool;
    use super::*;

    #[test]
    fn an_observer_may_change_the_tools_and_receives_the_newest_definitions_last() {
        let (tools, seen) = (Tools::default(), Arc::new(Mutex::new(Vec::new())));
        let (weak, counts) = (tools.downgrade(), Arc::clone(&seen));
        tools.observe_definitions(move |all| {
            counts.lock().push(all.len());
            if all.len() == 1 {
                weak.upgrade().unwrap().add(Tool::new("b", "B", || async { "" }));
            }
        });
        tools.add(Tool::new("a", "A", || async { "" }));
        assert_eq!(*seen.lock(), [0, 1, 2, 2]);
    }

    #[test]
    fn an_observer_receives_the_same_definition_of_a_tool_until_that_tool_is_replaced() {
        let (tools, seen) = (Tools::default(), Arc::new(Mutex::new(Vec::<Arc<_>>::new())));
        let received = Arc::clone(&seen);
        tools.observe_definitions(move |all| received.lock().extend(all.first().cloned()));
        let add = |name: &str| tools.add(Tool::new(name, "A tool", || async { "" }));
        add("a");
        add("b");
        assert!(tools.disable("b"));
        add("a");
        let seen = seen.lock();
        let is_same: Vec<_> = seen.windows(2).map(|two| Arc::ptr_eq(&two[0], &two[1])).collect();
        assert_eq!(is_same, [true, true, false]);
    }
}
