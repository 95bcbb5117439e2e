//! The removal of a server that is no longer registered (MGP §15.5).

use mgp_types::RpcError;
use mgp_types::service::ServerId;

use super::Governance;

impl Governance {
    /// Removes everything about a server that is no longer registered: its policy, access entries, permissions,
    /// definitions and open questions. Checks no authority: the caller of this method must have done that.
    ///
    /// ```
    /// use mgp_security::{Governance, PermissionChange};
    /// use mgp_types::mgp::{AccessGrantParams, AccessQueryParams, Permission};
    /// use mgp_types::service::Principal;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let (governance, ann) = (Governance::builder().build(), Principal::new("acme", "ann").operator());
    /// for server in ["made", "files"] {
    ///     let change = PermissionChange::of(server, [Permission::FilesystemRead]);
    ///     governance.permissions().approve(&ann, change).await.unwrap();
    ///     governance.access().grant(&ann, AccessGrantParams::allow("ada", server)).await.unwrap();
    /// }
    /// governance.remove_server(&"made".into()).await.unwrap();
    ///
    /// let entries = async |server: &str| {
    ///     let query = AccessQueryParams::new("ada", server);
    ///     governance.access().query(&ann, query).await.unwrap().entries.len()
    /// };
    /// assert_eq!((entries("made").await, entries("files").await), (0, 1));
    /// let left = governance.permissions().list(&ann, None).await.unwrap();
    /// assert_eq!(left[0].server.as_deref(), Some("files"));
    /// assert_eq!(left.len(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    /// An error if a part could not be removed; the method can be called again.
    ///
    /// # Cancel safety
    /// If the future is dropped, some parts may remain.
    pub async fn remove_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let books = &*self.0;
        books.access.remove_server(server).await?;
        books.permissions.remove_server(server).await?;
        if let Some(inbox) = &books.inbox {
            inbox.forget_server(server).await?;
            inbox.calls().forget_server(server).await?;
        }
        books.definitions.remove_server(server).await?;
        // Remove the policy last, so that its rules apply until everything else is removed.
        books.policies.remove(server);
        Ok(())
    }
}
