//! What an operator does with a server, and sees of it.
//!
//! Applies to: both.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::{Origin, Reach, Server, clear_secrets};
use mgp_toolindex::Listed;
use mgp_types::mcp::Era;
use mgp_types::mgp::{KernelServer, MgpVersion, ServerState, ShutdownReason};
use mgp_types::service::shown_url;
use tokio::task::JoinHandle;

use super::node::Node;
use super::servers::Fleet;

/// How long a start is waited for before its state is told as it is.
const STARTS: Duration = Duration::from_secs(10);

/// How long an end is waited for before its state is told as it is.
const STOPS: Duration = Duration::from_mins(1);

/// How many letters of a command line are shown.
const SHOWN: usize = 400;

impl Fleet {
    /// Starts a server, unless it runs.
    pub(crate) async fn start(node: &Node, at_most: Option<Duration>) -> ServerState {
        node.hold().set(false);
        let started = tokio::time::timeout(at_most.unwrap_or(STARTS), node.start());
        let _ = started.await;
        node.state()
    }

    /// Lets a server finish and stops it; it stays down until somebody starts it.
    pub(crate) async fn halt(node: &Arc<Node>, at_most: Option<Duration>) -> ServerState {
        let stopped = Self::halting(node, ShutdownReason::OperatorRequest);
        let _ = tokio::time::timeout(at_most.unwrap_or(STOPS), stopped).await;
        node.state()
    }

    /// The same without waiting for its end. Whoever asked may go; it stops all the same.
    pub(super) fn halting(node: &Arc<Node>, reason: ShutdownReason) -> JoinHandle<()> {
        node.hold().set(true);
        let stopping = Arc::clone(node);
        tokio::spawn(async move { stopping.stop(reason).await })
    }

    /// Lets a server finish, and starts it anew.
    pub(crate) async fn renew(node: &Arc<Node>, at_most: Option<Duration>) -> ServerState {
        node.hold().set(false);
        let renewing = Arc::clone(node);
        let renewed = tokio::spawn(async move {
            let of_principals = renewing.stop_own(&ShutdownReason::OperatorRequest);
            tokio::join!(of_principals, renewing.client().restart());
            // It may have been stopped or taken out meanwhile.
            if renewing.hold().is_set() {
                return renewing.stop(ShutdownReason::OperatorRequest).await;
            }
            // The order is taken before the state moves.
            let _ = renewing.client().ready().await;
        });
        let _ = tokio::time::timeout(at_most.unwrap_or(STARTS), renewed).await;
        node.state()
    }

    /// A server as an operator sees it.
    pub(crate) fn describe(&self, node: &Node) -> KernelServer {
        let (ground, config) = (self.ground(), node.config());
        let tools = ground.index.tools_of(node.id().as_str());
        let tokens = tools.iter().map(Listed::tokens).map(u64::from).sum::<u64>();
        let mut server = KernelServer::new(
            node.id().as_str(),
            node.state(),
            reach(&config),
            ground.governance.policies().of(Some(node.id())).trust.clone(),
            node.client().restarts(),
            match config.origin {
                _ if node.approved().is_some() => "registered".to_owned(),
                _ if matches!(config.reach, Reach::Within) => "within this process".to_owned(),
                Origin::Project | Origin::User | Origin::Given => config.file.display().to_string(),
                _ => "registered".to_owned(),
            },
        );
        (server.tools, server.tokens) = (tools.len() as u64, tokens);
        (server.since, server.error) = node.diary().standing();
        if let Ok(client) = node.client().client() {
            let facts = client.server();
            server.era =
                Some(if facts.era == Era::Modern { "modern" } else { "legacy" }.to_owned());
            server.protocol_version = Some(facts.revision.to_string());
            server.mgp_version = facts.speaks_mgp().then(MgpVersion::default);
            server.pid = client.pid();
            if let Some(info) = client.server_info() {
                (server.name, server.version) = (Some(info.name), Some(info.version));
            }
        }
        server
    }
}

/// How it is reached, as it is written: variables are not filled in, and what a URL has that may be secret is left out.
fn reach(server: &Server) -> String {
    let mut text = match &server.reach {
        Reach::Program { command, args, .. } => {
            let mut line = command.clone();
            let secrets = clear_secrets(server);
            for (at, arg) in args.iter().enumerate() {
                line.push(' ');
                let place = format!("args[{at}]");
                if secrets.iter().any(|secret| secret.place == place) {
                    line.push('…');
                } else if arg.is_empty() || arg.contains(char::is_whitespace) {
                    let _ = write!(line, "{arg:?}");
                } else {
                    line.push_str(arg);
                }
            }
            line
        }
        Reach::Url { url, .. } => shown_url(url),
        _ => "within this process".to_owned(),
    };
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push('…');
    }
    text
}
