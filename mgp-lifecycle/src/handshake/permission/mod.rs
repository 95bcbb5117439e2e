//! The permission flow of one connection: what the server needs is decided, and it is told what stands (MGP §3.4–§3.6).
//!
//! A legacy server is told by requests, before `initialized` and whenever something changes.
//! A modern server is told with each request, in `_meta`, and asks by `input_required` for what it misses.
//! Either way it is only told: what it may do is enforced on our side of the wire.
//!
//! Applies to: outbound.

mod answer;
mod carry;
mod follow;
mod shake;
mod told;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use mgp_types::mcp::{Era, ServerCapabilities, key};
use mgp_types::mgp::{Extension, PermissionDecision};
use mgp_types::service::{BoxFuture, Context, Facts, Grantor, ServerId};
use tokio::sync::watch;

use self::carry::Carried;
use self::told::{Told, Wanted};

/// How long a server may take to acknowledge what it is told; then it is told no more of it.
const ANSWER: Duration = Duration::from_secs(5);

/// The permission flow of one connection; cheap to clone.
///
/// It stands in the [`Session`](super::Session) of the connection once [`connect`](super::connect) was given a
/// [`Grantor`]; whoever drives the connection lets it [`follow`](Self::follow) what changes, and has it
/// [`answer`](Self::answer) what the server asks for itself.
#[derive(Clone)]
pub struct PermissionFlow(Arc<Inner>);

struct Inner {
    server: ServerId,
    grantor: Arc<dyn Grantor>,
    changes: watch::Receiver<u64>,
    /// How long a decision may take before it counts as deferred.
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The names the server declared or asked for, in its own words.
    wanted: Wanted,
    /// Whether it is told by requests, and in which words.
    spelling: Option<Spelling>,
    /// Whether it reads `dev.cloto/mgp/grants`.
    reads_old_key: bool,
    /// How many requests were made of it.
    number: u64,
    /// What it was told last.
    last: Told,
    /// A decision that took too long and may still come.
    late: Option<BoxFuture<'static, PermissionDecision>>,
    /// What it asked for itself and waits for.
    asking: usize,
    carried: Carried,
}

/// The words in which a legacy server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// `mgp/permission/request` and `mgp/permission/response`, with words for decisions (§3.5, §3.6).
    Seed,
    /// `mgp/permission/await` and `mgp/permission/grant`, where decisions may have limits.
    Later,
}

impl Spelling {
    /// The later one where the server named the extension `permissions` itself (checklist C5, C48).
    fn of(facts: &Facts, capabilities: &ServerCapabilities) -> Option<Self> {
        if facts.era != Era::Legacy || !facts.has(Extension::Permissions) {
            return None;
        }
        let found = capabilities.find_mgp();
        let names = found.as_ref().and_then(mgp_types::Lenient::valid).map(|mgp| &mgp.extensions);
        let is_later = names
            .is_some_and(|names| names.iter().any(|name| name == Extension::Permissions.as_str()));
        Some(if is_later { Self::Later } else { Self::Seed })
    }
}

impl PermissionFlow {
    /// A flow for a server of this configured id.
    pub(super) fn new(server: ServerId, grantor: Arc<dyn Grantor>, limit: Duration) -> Self {
        let changes = grantor.changes();
        Self(Arc::new(Inner { server, grantor, changes, limit, state: Mutex::default() }))
    }

    /// Takes note of what the server said in the handshake.
    fn meet(&self, facts: &Facts) {
        let capabilities: ServerCapabilities =
            facts.capabilities.as_ref().and_then(|all| all.get().ok()).unwrap_or_default();
        let named = facts.permissions_required.iter().map(|name| name.as_str().into());
        let mut state = self.state();
        state.wanted = Wanted::of(named);
        state.spelling = Spelling::of(facts, &capabilities);
        let extensions = capabilities.extensions.as_ref();
        state.reads_old_key = extensions.is_some_and(|all| all.get(key::MGP_GRANTS).is_some());
    }

    /// What the server is to be told now.
    fn told(&self, cx: &Context) -> Told {
        let standing = self.0.grantor.standing(cx, &self.0.server);
        Told::of(&standing, &self.state().wanted, SystemTime::now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PermissionFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermissionFlow({})", self.0.server)
    }
}
