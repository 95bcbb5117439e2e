//! Why a server has no tools, or lacks some: one short reason for an operator.
//!
//! Applies to: inbound.

use mgp_discovery::Reach;
use mgp_security::NameFlaw;
use mgp_types::mgp::{KernelServer, ServerState};

use crate::kernel::fleet::Node;
use crate::kernel::handle::Kernel;

impl Kernel {
    /// A server as an operator sees it, with what keeps its tools away.
    pub(in crate::kernel) fn server_of(&self, node: &Node) -> KernelServer {
        let mut server = self.0.fleet.describe(node);
        server.lacks = self.lacks(node, &server);
        server
    }

    fn lacks(&self, node: &Node, server: &KernelServer) -> Option<String> {
        let definitions = self.governance().definitions();
        if let Some(flaw) = definitions.flaw(node.id()) {
            return Some(match flaw {
                NameFlaw::LooksLike { like, .. } => {
                    format!("its id looks like `{like}`; give it another")
                }
                NameFlaw::Reserved(_) => "its id is reserved; give it another".to_owned(),
                flaw => format!("its id cannot be used: {flaw}"),
            });
        }
        let waiting = definitions.waiting().unwrap_or_default();
        let held = waiting.iter().filter(|waiting| waiting.server == *node.id()).count();
        if held > 0 {
            let (are, id) =
                (if held == 1 { "definition waits" } else { "definitions wait" }, node.id());
            return Some(format!(
                "{held} {are} for an operator; see `mgp tools ls {id} --waiting`"
            ));
        }
        let refused = definitions.refused(node.id());
        if refused > 0 {
            let are = if refused == 1 { "definition" } else { "definitions" };
            return Some(format!("{refused} {are} cannot be used; its author must mend them"));
        }
        (server.tools == 0).then(|| self.has_none(node, server))
    }

    /// Why a server has no tools at all, where nothing is wrong with what it lists.
    fn has_none(&self, node: &Node, server: &KernelServer) -> String {
        let is_known = self.0.fleet.is_known(node);
        match &server.status {
            ServerState::Error | ServerState::Restarting => match node.config().reach {
                Reach::Url { .. } => "it cannot be reached".to_owned(),
                _ => "it does not start".to_owned(),
            },
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
