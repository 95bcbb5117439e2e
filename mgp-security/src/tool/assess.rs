//! Where layers learn what a tool needs (MGP §4).

use std::sync::Arc;

use mgp_types::Hash;
use mgp_types::service::ServerId;

use super::assessment::Assessment;

/// Knows the assessments of tools; a closure of server and tool is one.
///
/// It reads a snapshot and never waits.
pub trait Assess: Send + Sync {
    /// The assessment of a tool; [`Assessment::unknown`] where its definition was never seen.
    fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment>;

    /// The hash of the definition, where one is known: a confirmation holds for this definition only.
    fn definition(&self, _server: Option<&ServerId>, _tool: &str) -> Option<Hash> {
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
