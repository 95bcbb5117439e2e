//! The source of the assessments of tools (MGP §4).

use std::sync::Arc;

use mgp_types::Sha256Hash;
use mgp_types::service::ServerId;

use super::assessment::Assessment;

/// Assesses tools; a closure of server and tool implements it.
///
/// Implementations read a snapshot and never wait.
pub trait Assess: Send + Sync {
    /// Returns the assessment of a tool; [`Assessment::unknown`] if its definition was never seen.
    fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment>;

    /// Returns the hash of the definition, if one is known: a confirmation holds for this definition only.
    fn definition(&self, _server: Option<&ServerId>, _tool: &str) -> Option<Sha256Hash> {
        None
    }
}

impl<F> Assess for F
where
    F: Fn(Option<&ServerId>, &str) -> Arc<Assessment> + Send + Sync,
{
    fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        self(server, tool)
    }
}
