//! What lookups read: the tools of each server, by name.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::mcp;
use mgp_types::service::ServerId;

use super::Standing;
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
pub(super) type Tools = HashMap<Box<str>, Arc<Known>>;

/// What is known of one tool.
#[derive(Debug)]
pub(super) struct Known {
    /// The definition as last listed.
    pub(super) tool: Arc<mcp::Tool>,
    /// What follows from it.
    pub(super) assessment: Arc<Assessment>,
    /// Whether it may be used.
    pub(super) standing: Standing,
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
        self.of(server)?.get(tool)
    }
}
