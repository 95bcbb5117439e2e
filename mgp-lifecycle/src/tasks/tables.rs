//! The tables of the tasks of several servers, to remove the tasks of a tenant from all of them.

use std::sync::{Arc, Weak};

use mgp_types::service::TenantId;
use mgp_types::sync::Mutex;

use super::table::Table;

/// The tables of tasks of the servers that a program builds, e.g. one server for each transport of a gateway. This
/// handle is cheap to clone.
#[derive(Clone, Default)]
pub struct TaskTables(Arc<Mutex<Vec<Weak<Table>>>>);

impl TaskTables {
    /// Adds the table of a server, and removes those of servers that have ended.
    pub(super) fn add(&self, table: &Arc<Table>) {
        let mut tables = self.0.lock();
        tables.retain(|known| known.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// Removes the tasks of a tenant, and stops those that run, so that a later tenant with this name does not get
    /// them.
    pub fn remove_tenant(&self, tenant: &TenantId) {
        let tables: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for table in tables {
            table.remove_tenant(tenant);
        }
    }
}

mgp_types::opaque_debug!(TaskTables);
