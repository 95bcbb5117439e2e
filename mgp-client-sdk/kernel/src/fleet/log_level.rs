//! The log level that the kernel requests from a server (MCP logging).

use futures_util::future::join_all;
use mgp_types::service::Principal;

use super::log_messages::request_level;
use super::managed_server::ManagedServer;

impl ManagedServer {
    /// Requests log messages from each instance of the server, at the lowest level that any client of the instance
    /// wants. Skips the shared instance if its level has not changed. The clients of the shared instance are all
    /// clients that see the server; the clients of a principal's instance are those of the principal.
    ///
    /// While no client wants log messages, the kernel requests no level. Each server then chooses a level itself.
    pub(crate) async fn request_log_level(&self) {
        let notifier = self.notifier();
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

    /// Forgets the level that was last requested, because the server was restarted. So the kernel requests the level
    /// again.
    pub(super) fn forget_log_level(&self) {
        *self.log_level().lock() = None;
    }
}
