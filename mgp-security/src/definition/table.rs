//! What lookups read: the tools of each server, by name.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mgp_types::mcp;
use mgp_types::service::ServerId;

use super::Standing;
use crate::policy::ServerPolicy;
use crate::tool::Assessment;

/// Everything that is known of tools.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The tools of the party itself.
    pub(super) own: Arc<Tools>,
    /// The tools of others.
    pub(super) servers: HashMap<ServerId, Arc<Tools>>,
}

/// The tools of one server.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) named: HashMap<Box<str>, Arc<Known>>,
    /// What holds for all names that are not there.
    pub(super) others: Standing,
    /// Whether the server says that its list has changed since.
    pub(super) stale: bool,
    /// The operator's word that the assessments were made with.
    pub(super) policy: Option<Arc<ServerPolicy>>,
}

/// What is known of one tool.
#[derive(Debug)]
pub(super) struct Known {
    /// The definition as last listed; none where it could not be read, or is known from its pin only.
    pub(super) tool: Option<Arc<mcp::Tool>>,
    /// What follows from it.
    pub(super) assessment: Arc<Assessment>,
    /// Whether it may be used.
    pub(super) standing: Standing,
    /// Set where the operator replaced its risk and no event tells of it yet.
    pub(super) untold: AtomicBool,
}

impl Table {
    /// The tools of a server.
    pub(super) fn of(&self, server: Option<&ServerId>) -> Option<&Arc<Tools>> {
        match server {
            Some(server) => self.servers.get(server),
            None => Some(&self.own),
        }
    }

    /// One tool.
    pub(super) fn get(&self, server: Option<&ServerId>, tool: &str) -> Option<&Arc<Known>> {
        self.of(server)?.named.get(tool)
    }
}
