//! An operator who is logged in: the connection with their rights, and the feed of changes that they may see.

use std::sync::Arc;

use mgp_client_sdk::Client;
use mgp_security::Administration;
use mgp_types::Sha256Hash;
use mgp_types::service::{Context, CredentialGrant, Peer, Principal, Scope, ScopeKind};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use super::live::Live;
use super::sessions::Found;
use super::texts::Texts;
use crate::args::Global;
use crate::control;
use crate::exit::CliResult;
use crate::served_kernel::{ServedClient, ServedKernel};

/// The size of the buffer of a connection within this process.
const BUFFER: usize = 64 << 10;

/// An operator who uses the console. All requests of their pages go through this client, and the kernel checks them
/// with the operator's rights.
pub(super) struct Operator {
    pub(super) client: Client,
    pub(super) live: Arc<Live>,
    pub(super) principal: Principal,
    /// The credentials of the operator; `None` for the operator who runs the command.
    grant: Option<CredentialGrant>,
}

impl Operator {
    pub(super) fn new(
        client: Client,
        principal: Principal,
        grant: Option<CredentialGrant>,
    ) -> Self {
        let live = Arc::new(Live::new(client.clone(), grant.clone()));
        Self { client, live, principal, grant }
    }

    /// Returns whether the credentials are still valid, and the connection is open.
    pub(super) fn is_valid(&self) -> bool {
        self.live.is_valid()
    }
}

/// The person who made a request: the token for their forms, the language of their texts, and their rights.
#[derive(Clone)]
pub(super) struct Viewer {
    token: Arc<str>,
    pub(super) texts: &'static Texts,
    pub(super) operator: Arc<Operator>,
    /// A receiver that is closed as soon as the session ends.
    session: watch::Receiver<()>,
}

impl Viewer {
    pub(super) fn new(found: Found, texts: &'static Texts) -> Self {
        let Found { token, operator, session } = found;
        Self { token, texts, operator, session }
    }

    /// Waits until the session has ended, e.g. because the person logs out on another page.
    pub(super) fn session_ended(&self) -> impl Future<Output = ()> + use<> {
        let mut session = self.session.clone();
        async move { while session.changed().await.is_ok() {} }
    }

    /// Returns whether a form contains this session's token, which protects against forged requests.
    pub(super) fn has_token(&self, token: &str) -> bool {
        !self.token.is_empty() && self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the signature of a notice, which only this session can make.
    pub(super) fn sign(&self, name: &str, text: &str) -> String {
        let token = &self.token;
        // The token is at both ends, so that the signature of a longer text cannot be computed from that of a shorter
        // one.
        Sha256Hash::digest(format!("{token}\n{name}\n{text}\n{token}").as_bytes()).to_string()
    }

    /// Returns whether this session made the signature of a notice.
    pub(super) fn has_signed(&self, name: &str, text: &str, sign: &str) -> bool {
        self.sign(name, text).as_bytes().ct_eq(sign.as_bytes()).into()
    }
}

/// The kernel that the console's pages show and control.
pub(super) enum Kernel {
    /// A kernel in another process, at its local socket.
    Socket,
    /// The kernel of this process.
    Own(ServedKernel),
}

impl Kernel {
    /// Returns whether an operator is allowed to make a change that the console makes itself, without a request to the
    /// kernel.
    pub(super) fn admits_change(&self, operator: &Operator) -> bool {
        let Self::Own(served) = self else { return true };
        let scope = Scope::new(ScopeKind::Request);
        let mut cx = Context::new(Peer::none(), scope, operator.principal.clone());
        if let Some(grant) = operator.grant.clone() {
            cx.extensions.insert(grant);
        }
        served.kernel.governance().is_operator(&cx, Administration::Changes)
    }

    /// Connects to the kernel as an agent, to search as that agent does.
    pub(super) async fn connect_as(
        &self,
        global: &Global,
        agent: &str,
        operator: &Operator,
    ) -> CliResult<Client> {
        let Self::Own(served) = self else { return control::connect_as(global, agent).await };
        let valid = operator.grant.clone();
        // Use the rights of the agent itself, because the operator's credentials may permit less, e.g. only lists, and
        // would then hide tools that the agent may call.
        let grant = CredentialGrant::new([""; 0], move || {
            valid.as_ref().is_none_or(CredentialGrant::is_valid)
        });
        connect(served, Principal::local().agent(agent), grant).await
    }
}

/// Connects to the kernel of this process, with the rights of a principal and its credentials.
pub(super) async fn connect(
    served: &ServedKernel,
    principal: Principal,
    grant: CredentialGrant,
) -> CliResult<Client> {
    let (near, far) = tokio::io::duplex(BUFFER);
    let (served, (reader, writer)) = (served.clone(), tokio::io::split(far));
    tokio::spawn(async move {
        let client = ServedClient::Console;
        let _guard = served.add_client(&principal, client);
        served.serve_connection(reader, writer, principal, Some(grant), client).await
    });
    let (reader, writer) = tokio::io::split(near);
    let builder = Client::builder("mgp console", env!("CARGO_PKG_VERSION"));
    Ok(builder.connect(reader, writer).await?)
}
