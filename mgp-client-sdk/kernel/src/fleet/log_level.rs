//! The log level that the kernel requests from a server (MCP logging).

use futures_util::future::join_all;
use mgp_types::service::Principal;

use super::context::FleetContext;
use super::log_messages::request_level;
use super::managed_server::ManagedServer;

impl ManagedServer {
    /// Requests log messages from each instance of the server at the lowest level that any of its clients wants, if
    /// this level has changed. The clients of a shared instance are all that see the server; those of a principal's
    /// instance are the principal's own.
    ///
    /// While no client wants log messages, the kernel requests no level, and each server sends messages at a level of
    /// its own choice.
    pub(crate) async fn request_log_level(&self, context: &FleetContext) {
        let notifier = context.notifier(self.id().clone());
        let Some(lowest) = notifier.wanted_level(None) else { return };
        let is_known = self.log_level().lock().replace(lowest) == Some(lowest);
        let wanted = |owner: Option<&Principal>| match owner {
            None => (!is_known).then_some(lowest),
            owner => notifier.wanted_level(owner),
        };
        let clients = self.clients_by_owner().into_iter();
        let levels = clients.filter_map(|(owner, client)| Some((wanted(owner.as_ref())?, client)));
        // Send the requests at the same time, so that an instance that does not answer does not delay the others.
        let sent = levels.map(|(level, client)| async move {
            request_level(&client, self.id(), level).await;
        });
        join_all(sent).await;
    }

    /// Forgets the requested log level after a restart of the server, so that the kernel requests it again.
    pub(super) fn forget_log_level(&self) {
        *self.log_level().lock() = None;
    }
}
