//! The trait [`Assess`], with which confirmations look up an assessment; `assessment.rs` computes it (MGP §4).

use std::sync::Arc;

use mgp_types::Sha256Hash;
use mgp_types::service::ServerId;

use super::assessment::Assessment;

/// A source of tool assessments. Closures that take a server and a tool implement this trait.
///
/// Implementations must not block; they read a snapshot.
pub trait Assess: Send + Sync {
    /// Returns the assessment of a tool, or [`Assessment::unknown`] if this source does not know the definition of the
    /// tool.
    fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment>;

    /// Returns the hash of the tool's definition if it is known; a confirmation is valid only for that definition.
    /// `None` by default.
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
