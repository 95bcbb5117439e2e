//! Why a server has no tools, or lacks some: one short reason for an operator.
//!
//! Applies to: inbound.

use std::collections::HashMap;

use mgp_discovery::Reach;
use mgp_security::NameFlaw;
use mgp_types::mgp::{KernelServer, ServerState};
use mgp_types::service::ServerId;

use crate::fleet::Node;
use crate::handle::Kernel;

impl Kernel {
    /// The servers as an operator sees them, with what keeps their tools away.
    pub(crate) fn all_described(&self) -> Vec<KernelServer> {
        // Once for all of them: there may be hundreds.
        let mut held = HashMap::new();
        for waiting in self.governance().definitions().waiting().unwrap_or_default() {
            *held.entry(waiting.server).or_insert(0) += 1;
        }
        let all = self.0.fleet.all();
        let described = all.values().map(|node| {
            let mut server = self.0.fleet.describe(node);
            server.lacks = self.lacks(node, &server, &held);
            server
        });
        described.collect()
    }

    fn lacks(
        &self,
        node: &Node,
        server: &KernelServer,
        held: &HashMap<ServerId, usize>,
    ) -> Option<String> {
        if let Some(&held) = held.get(node.id()) {
            let (are, id) =
                (if held == 1 { "definition waits" } else { "definitions wait" }, node.id());
            return Some(format!(
                "{held} {are} for an operator; see `mgp tools ls {id} --waiting`"
            ));
        }
        let refused = self.governance().definitions().refused(node.id());
        if refused > 0 {
            // Where its id is what is wrong, nothing of it is taken.
            if let Some(flaw) = self.flaw_of(node) {
                return Some(flaw);
            }
            let are = if refused == 1 { "definition" } else { "definitions" };
            return Some(format!("{refused} {are} cannot be used; its author must mend them"));
        }
        (server.tools == 0).then(|| self.has_none(node, server))
    }

    /// What is wrong with the id of a server; it is compared with all others, so not for each that is only broken.
    fn flaw_of(&self, node: &Node) -> Option<String> {
        Some(match self.governance().definitions().flaw(node.id())? {
            NameFlaw::LooksLike { like, .. } => {
                format!("its id looks like `{like}`; give it another")
            }
            NameFlaw::Reserved(_) => "its id is reserved; give it another".to_owned(),
            flaw => format!("its id cannot be used: {flaw}"),
        })
    }

    /// Why a server has no tools at all, where nothing is wrong with what it lists.
    fn has_none(&self, node: &Node, server: &KernelServer) -> String {
        let is_known = self.0.fleet.is_known(node);
        match &server.status {
            ServerState::Error | ServerState::Restarting => match node.config().reach {
                Reach::Url { .. } => "it cannot be reached".to_owned(),
                _ => "it does not start".to_owned(),
            },
            ServerState::Connected | ServerState::Registered | ServerState::Disconnected
                if let Some(flaw) = self.flaw_of(node) =>
            {
                flaw
            }
            _ if is_known => "it lists no tools".to_owned(),
            ServerState::Connected => {
                "what it lists is not known yet; if that stays so, see `mgp doctor`".to_owned()
            }
            ServerState::Registered | ServerState::Disconnected => {
                format!("it does not run, and never told; see `mgp servers start {}`", node.id())
            }
            state => format!("it is {}", state.as_str()),
        }
    }
}
