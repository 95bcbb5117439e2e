//! The permission flow of one connection: it gets decisions about the permissions a server needs, and notifies the
//! server of them (MGP §3.4–§3.6).
//!
//! A legacy server is notified by requests: before `initialized`, and after each change. A modern server is notified by
//! the same requests before the first call, and also gets its grants in the `_meta` of each request; it requests
//! further permissions by `input_required`. The notifications only inform the server: permissions are enforced on the
//! client's side.

mod negotiate;
mod notice;
mod request_meta;
mod requests;
mod updates;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mcp::{Era, ServerCapabilities};
use mgp_types::mgp::{Extension, PermissionDecision};
use mgp_types::service::{BoxFuture, Context, PeerInfo, PermissionAuthority, ServerId};
use mgp_types::sync::Mutex;
use tokio::sync::watch;

use self::notice::{GrantNotice, RequestedPermissions};
use self::request_meta::GrantCache;

/// The maximum time for a server to acknowledge a notification.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// The permission flow of one connection; a handle that is cheap to clone.
///
/// It is stored in the [`HandshakeState`](super::HandshakeState) of the connection if [`connect`](super::connect) was
/// given a [`PermissionAuthority`]. The driver of the connection must run [`follow`](Self::follow), and must call
/// [`answer`](Self::answer) for the server's own requests.
#[derive(Clone)]
pub struct PermissionFlow(Arc<FlowShared>);

struct FlowShared {
    server: ServerId,
    grantor: Arc<dyn PermissionAuthority>,
    changes: watch::Receiver<u64>,
    /// The time limit of a decision about permissions; after it, the permissions count as deferred.
    limit: Duration,
    state: Mutex<FlowState>,
}

#[derive(Default)]
struct FlowState {
    /// The permission names that the server declared or requested.
    requested: RequestedPermissions,
    /// The methods that notify the server; `None` if it receives no such requests.
    dialect: Option<Dialect>,
    /// The number of names that `next_name` has returned; each name contains its number.
    number: u64,
    /// The latest notification that the server acknowledged.
    last: GrantNotice,
    /// A decision that was not made within the time limit. It can still be made later, and the server is then notified
    /// of it.
    late: Option<BoxFuture<'static, PermissionDecision>>,
    open_requests: usize,
    grant_cache: GrantCache,
}

/// The names and the form of the methods that notify a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// `mgp/permission/request` and `mgp/permission/response`: a decision is a single word (§3.5, §3.6).
    Seed,
    /// `mgp/permission/await` and `mgp/permission/grant`: a decision can have limits.
    Later,
}

impl Dialect {
    /// Returns the dialect of a server: `Later` if it is modern or named the extension `permissions` explicitly,
    /// `None` if it did not negotiate permissions.
    fn of(facts: &PeerInfo, capabilities: &ServerCapabilities) -> Option<Self> {
        if !facts.has(Extension::Permissions) {
            return None;
        }
        if facts.era == Era::Modern {
            return Some(Self::Later);
        }
        let found = capabilities.find_mgp();
        let names = found.as_ref().and_then(mgp_types::Lenient::valid).map(|mgp| &mgp.extensions);
        let is_later = names
            .is_some_and(|names| names.iter().any(|name| name == Extension::Permissions.as_str()));
        Some(if is_later { Self::Later } else { Self::Seed })
    }
}

impl PermissionFlow {
    pub(super) fn new(
        server: ServerId,
        grantor: Arc<dyn PermissionAuthority>,
        limit: Duration,
    ) -> Self {
        let changes = grantor.changes();
        Self(Arc::new(FlowShared { server, grantor, changes, limit, state: Mutex::default() }))
    }

    /// Stores the permissions and the dialect that the server declared in the handshake.
    fn read_handshake(&self, facts: &PeerInfo) {
        let capabilities: ServerCapabilities =
            facts.capabilities.as_ref().and_then(|all| all.get().ok()).unwrap_or_default();
        let named = facts.permissions_required.iter().map(|name| name.as_str().into());
        let mut state = self.0.state.lock();
        state.requested = RequestedPermissions::of(named);
        state.dialect = Dialect::of(facts, &capabilities);
    }

    /// Returns a notification that contains the current decisions.
    fn current_notice(&self, cx: &Context) -> GrantNotice {
        let requested = self.0.state.lock().requested.clone();
        let standing = self.0.grantor.standing(cx, &self.0.server, &requested.decidable());
        GrantNotice::of(&standing, &requested, SystemTime::now())
    }
}

mgp_types::opaque_debug!(PermissionFlow);
