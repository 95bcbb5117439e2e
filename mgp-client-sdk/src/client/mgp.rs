//! Typed methods of MGP (MGP §3 to §16).

use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::method::{
    AccessGrant, AccessQuery, AccessRevoke, CallbackRespond, DiscoveryDeregister, DiscoveryList,
    DiscoveryRegister, EventsSubscribe, EventsUnsubscribe, HealthPing, HealthStatusGet,
    LifecycleShutdown, ManifestGet, PermissionAwait, PermissionGrant, PermissionRequest,
    PermissionResponse, PermissionsCheck, ScopesNegotiate, ScopesRevoke, ServersRecommend,
    StreamCancel, StreamPace, ToolsDiscover, ToolsRequest, ToolsSession, ToolsSessionEvict,
    TransactionBegin, TransactionCommit, TransactionRollback,
};
use mgp_types::mgp as types;
use mgp_types::proposal as proposals;
use mgp_types::proposal::{
    ManifestParams, RecommendServersParams, ServerRecommendation, ServiceManifest,
};

use super::Client;
use crate::error::Error;

/// The MGP methods of a client; see [`Client::mgp`].
///
/// If the extension of a method is not active, the client itself refuses the call with code −32601 (method not found),
/// because the server does not know the method.
///
/// ```
/// use mgp_client_sdk::TestClient;
/// use mgp_server_sdk::Server;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let client = TestClient::new(Server::new("s", "1").without_mgp()).await;
/// let error = client.mgp().health_ping().await.unwrap_err();
/// assert_eq!(
///     error.message(),
///     "`mgp/health/ping` needs the extension `lifecycle`, which the server did not negotiate"
/// );
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mgp<'a>(&'a Client);

impl Client {
    /// Returns the MGP methods of this client.
    #[must_use]
    pub fn mgp(&self) -> Mgp<'_> {
        Mgp(self)
    }

    /// Returns the manifest of the server, as this client sees it (extension `manifest`).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn manifest(&self) -> Result<ServiceManifest, Error> {
        self.request::<ManifestGet>(&ManifestParams::new()).await
    }

    /// Returns servers that could meet a need, according to the server's registry (extension `server_recommendations`).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn recommend_servers(
        &self,
        need: impl Into<String>,
    ) -> Result<Vec<ServerRecommendation>, Error> {
        let params = RecommendServersParams::new(need);
        Ok(self.request::<ServersRecommend>(&params).await?.recommendations)
    }
}

/// Defines typed methods that only send their params and return the result.
macro_rules! calls {
    ($types:ident: $( $doc:literal $name:ident = $method:ident($params:ident) -> $result:ident; )+) => {
        impl Mgp<'_> {$(
            #[doc = $doc]
            ///
            /// # Errors
            /// See [`Client::request`].
            ///
            /// # Cancel safety
            /// Dropping the future cancels the request at the server.
            pub async fn $name(&self, params: &$types::$params) -> Result<$types::$result, Error> {
                self.0.request::<$method>(params).await
            }
        )+}
    };
}

calls! { types:
    "Notifies the server that its permissions are being decided, or asks for permissions (§3.5)."
    permission_request = PermissionRequest(PermissionRequestParams) -> PermissionRequestResult;
    "Delivers the decision about permissions (§3.6)."
    permission_response = PermissionResponse(PermissionDecision) -> PermissionAck;
    "Calls the later spelling of [`permission_request`](Self::permission_request)."
    permission_await = PermissionAwait(PermissionRequestParams) -> PermissionRequestResult;
    "Calls the later spelling of [`permission_response`](Self::permission_response)."
    permission_grant = PermissionGrant(PermissionDecision) -> PermissionAck;
    "Asks whether an agent may use a tool (§5.4)."
    access_query = AccessQuery(AccessQueryParams) -> AccessQueryResult;
    "Grants or denies access (§5.4)."
    access_grant = AccessGrant(AccessGrantParams) -> AccessGrantResult;
    "Revokes access (§5.4)."
    access_revoke = AccessRevoke(AccessRevokeParams) -> AccessRevokeResult;
    "Asks a server to stop (§11.4)."
    lifecycle_shutdown = LifecycleShutdown(ShutdownParams) -> ShutdownResult;
    "Cancels a call and returns its partial result (§12.7)."
    stream_cancel = StreamCancel(CancelParams) -> CancelResult;
    "Subscribes to events (§13.2); they are passed to `ClientBuilder::on::<EventNotification>`."
    events_subscribe = EventsSubscribe(SubscribeEventsParams) -> SubscribeEventsResult;
    "Ends a subscription (§13.2)."
    events_unsubscribe = EventsUnsubscribe(UnsubscribeParams) -> UnsubscribeResult;
    "Answers a callback (§13.4)."
    callback_respond = CallbackRespond(CallbackRespondParams) -> CallbackRespondResult;
    "Lists the known servers (§15.2)."
    discovery_list = DiscoveryList(DiscoveryListParams) -> DiscoveryListResult;
    "Registers a server (§15.4)."
    discovery_register = DiscoveryRegister(RegisterParams) -> RegisterResult;
    "Removes a registered server (§15.5)."
    discovery_deregister = DiscoveryDeregister(DeregisterParams) -> DeregisterResult;
    "Finds tools (§16.5)."
    tools_discover = ToolsDiscover(DiscoverToolsParams) -> DiscoverToolsResult;
    "Requests tools in the middle of a task (§16.6)."
    tools_request = ToolsRequest(RequestToolsParams) -> RequestToolsResult;
    "Lists the tools of the session (§16.7)."
    tools_session = ToolsSession(SessionParams) -> SessionResult;
    "Drops tools from the session (§16.7)."
    tools_session_evict = ToolsSessionEvict(EvictParams) -> EvictResult;
}

impl Mgp<'_> {
    /// Pings the server (§11.3).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn health_ping(&self) -> Result<types::PingResult, Error> {
        let mut params = types::PingParams::new();
        params.timestamp = Some(Timestamp::now());
        self.0.request::<HealthPing>(&params).await
    }

    /// Requests the health of the server (§11.3).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn health_status(&self) -> Result<types::StatusResult, Error> {
        self.0.request::<HealthStatusGet>(&types::StatusParams::new()).await
    }

    /// Asks the server to finish its calls and stop within a time limit (§11.4); see
    /// [`lifecycle_shutdown`](Self::lifecycle_shutdown).
    ///
    /// Only the server's owner may request this: the client that started the server, or one with operator authority. A
    /// repeated request returns the remaining work. It can shorten the time limit, but not extend it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mgp_client_sdk::Client;
    /// use mgp_server_sdk::Server;
    /// use mgp_transport::duplex;
    /// use mgp_client_sdk::types::mgp::ShutdownReason;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (here, there) = duplex();
    /// let server = Server::new("s", "1").owned_by_peer();
    /// let serving = tokio::spawn(server.serve(there.reader, there.writer));
    /// let client = Client::builder("me", "1.0").connect(here.reader, here.writer).await.unwrap();
    ///
    /// let time = Duration::from_secs(30);
    /// let answer = client.mgp().shutdown(ShutdownReason::IdleTimeout, time).await.unwrap();
    /// assert!(answer.accepted);
    /// client.closed().await;
    /// serving.await.unwrap().unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    /// See [`Client::request`]; also code 1000 (permission denied) if this client is not the owner.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not have been sent.
    pub async fn shutdown(
        &self,
        reason: types::ShutdownReason,
        time: Duration,
    ) -> Result<types::ShutdownResult, Error> {
        let mut params = types::ShutdownParams::new();
        params.reason = Some(reason);
        params.timeout_ms = Some(mgp_types::millis(time));
        self.lifecycle_shutdown(&params).await
    }

    /// Asks the server to send chunks at a lower rate (§12.8); does nothing if streaming is not active.
    ///
    /// # Errors
    /// Code 2000 (server not ready) if the connection is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the notification may or may not have been sent.
    pub async fn stream_pace(&self, params: &types::PaceParams) -> Result<(), Error> {
        self.0.notify::<StreamPace>(params).await
    }
}

calls! { proposals:
    "Asks whether a call would be allowed, without making it (extension `scopes`)."
    check_permissions = PermissionsCheck(CheckPermissionsParams) -> CheckPermissionsResult;
    "Requests a session with scopes, or a new token for one (extension `scopes`)."
    negotiate_scopes = ScopesNegotiate(NegotiateScopesParams) -> NegotiateScopesResult;
    "Ends a session with scopes (extension `scopes`)."
    revoke_scopes = ScopesRevoke(RevokeScopesParams) -> RevokeScopesResult;
    "Begins a transaction (extension `transactions`)."
    begin_transaction = TransactionBegin(BeginTransactionParams) -> BeginTransactionResult;
    "Ends a transaction and keeps its steps (extension `transactions`)."
    commit_transaction = TransactionCommit(EndTransactionParams) -> EndTransactionResult;
    "Ends a transaction and undoes its steps in reverse order (extension `transactions`)."
    roll_back_transaction = TransactionRollback(EndTransactionParams) -> EndTransactionResult;
}
