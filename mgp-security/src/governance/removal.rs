//! The removal of a server that is no longer registered (MGP §15.5), and of a tenant that has left.

use mgp_types::RpcError;
use mgp_types::service::{Principal, ServerId, TenantId};

use super::Governance;
use crate::access::AdminCheck;

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

    /// Removes what operators decided for a tenant, so that a later tenant with the same name does not inherit it: its
    /// access entries, permissions, approvals and open questions. Its groups stay, because they come from the program's
    /// configuration.
    ///
    /// Revoke the credentials of the tenant's callers first: without a removed denial, they might have access to a
    /// tool.
    ///
    /// ```
    /// use mgp_security::Governance;
    /// use mgp_types::mgp::{AccessGrantParams, AccessQueryParams};
    /// use mgp_types::service::Principal;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let (governance, ann) = (Governance::builder().build(), Principal::local().operator());
    /// let [acme, beta] = ["acme", "beta"].map(|tenant| Principal::new(tenant, "boss").operator());
    /// for boss in [&acme, &beta] {
    ///     governance.access().grant(boss, AccessGrantParams::allow("ada", "files")).await.unwrap();
    /// }
    /// governance.remove_tenant(&acme, beta.tenant()).await.unwrap_err();
    /// governance.remove_tenant(&ann, acme.tenant()).await.unwrap();
    ///
    /// let entries = async |boss: &Principal| {
    ///     let query = AccessQueryParams::new("ada", "files");
    ///     governance.access().query(boss, query).await.unwrap().entries.len()
    /// };
    /// assert_eq!((entries(&acme).await, entries(&beta).await), (0, 1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// Code 1000 (permission denied) unless `by` is an operator of the tenant `local`; code −32602 (invalid params) for
    /// the tenant `local`; another code if a part could not be removed. The method can be called again.
    ///
    /// # Cancel safety
    /// If the future is dropped, some parts may remain.
    pub async fn remove_tenant(&self, by: &Principal, tenant: &TenantId) -> Result<(), RpcError> {
        self.admit(AdminCheck::without_call(by), None, "remove_tenant").await?;
        if tenant == Principal::local().tenant() {
            return Err(RpcError::invalid_params("the tenant `local` cannot be removed"));
        }
        let books = &*self.0;
        if let Some(inbox) = &books.inbox {
            inbox.forget_tenant(by, tenant).await?;
            inbox.calls().forget_tenant(by, tenant).await?;
        }
        books.permissions.remove_tenant(by, tenant).await?;
        books.access.remove_tenant(by, tenant).await
    }
}
