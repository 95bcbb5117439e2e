//! A client for tests of servers, which connects in memory and panics on failure.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::Location;

use mgp_lifecycle::EraChoice;
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::CallToolResult;
use mgp_types::service::{Principal, Stack};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::ClientBuilder;
use crate::client::Client;
use crate::error::Error;
use crate::result::ToolResult;

/// A client of a server in the same process. Its methods panic on failure, and the message names the line of the test.
///
/// A test client dereferences to [`Client`], whose methods return errors.
///
/// ```
/// use mgp_client_sdk::TestClient;
/// use mgp_server_sdk::{Server, Tool};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = || Server::new("clock", "1.0").tool(Tool::new("now", "The time", || async { "noon" }));
/// for client in [TestClient::legacy(server()).await, TestClient::modern(server()).await] {
///     assert_eq!(client.text("now", ()).await, "noon");
///     assert_eq!(client.refusal("later", ()).await.code().0, 4001);
/// }
/// # });
/// ```
#[derive(Clone)]
pub struct TestClient(Client);

/// Unwraps a result; panics with the caller's location.
macro_rules! loud {
    ($at:ident, $result:expr, $($what:tt)+) => {
        match $result {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}, at {}", format_args!($($what)+), $at),
        }
    };
}

impl TestClient {
    /// Connects to a server, or to any stack, in the newest era it supports, with all MGP extensions that both offer.
    ///
    /// # Panics
    /// If the server cannot be built or the handshake fails.
    #[track_caller]
    pub fn new<S>(server: S) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        Self::with_builder(server, Client::builder("test", "1.0"))
    }

    /// Connects in the legacy era, with `initialize`.
    ///
    /// # Panics
    /// If the server cannot be built or the handshake fails.
    #[track_caller]
    pub fn legacy<S>(server: S) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        Self::with_builder(server, Client::builder("test", "1.0").era(EraChoice::Legacy))
    }

    /// Connects in the modern era only.
    ///
    /// # Panics
    /// If the server cannot be built or the handshake fails.
    #[track_caller]
    pub fn modern<S>(server: S) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        Self::with_builder(server, Client::builder("test", "1.0").era(EraChoice::Modern))
    }

    /// Connects with a given client builder, e.g. with handlers or limits.
    ///
    /// # Panics
    /// If the server cannot be built or the handshake fails.
    #[track_caller]
    pub fn with_builder<S>(server: S, builder: ClientBuilder) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        Self::connect(server, builder, Principal::local())
    }

    /// Connects as a principal, e.g. as an operator or an agent. The other functions connect as the local principal,
    /// because the stack of a server does not contain the principal that `Server::principal` sets.
    ///
    /// ```
    /// use mgp_client_sdk::TestClient;
    /// use mgp_client_sdk::types::service::Principal;
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let caller = |principal: Principal| async move { principal.name().to_owned() };
    /// let server = Server::new("names", "1.0").tool(Tool::new("whoami", "The caller", caller));
    /// let client = TestClient::with_principal(server, Principal::local().agent("editor")).await;
    /// assert_eq!(client.text("whoami", ()).await, "editor");
    /// # });
    /// ```
    ///
    /// # Panics
    /// If the server cannot be built or the handshake fails.
    #[track_caller]
    pub fn with_principal<S>(server: S, principal: Principal) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        Self::connect(server, Client::builder("test", "1.0"), principal)
    }

    #[track_caller]
    fn connect<S>(
        server: S,
        builder: ClientBuilder,
        principal: Principal,
    ) -> impl Future<Output = Self>
    where
        S: TryInto<Stack, Error: fmt::Display>,
    {
        let at = Location::caller();
        async move {
            let stack = loud!(at, server.try_into(), "the server cannot be built");
            let (here, there) = duplex();
            let connection = Connection::new(there.reader, there.writer, stack);
            tokio::spawn(connection.principal(principal).run());
            let client = builder.connect(here.reader, here.writer).await;
            Self(loud!(at, client, "the handshake failed"))
        }
    }

    /// Calls a tool and returns its result.
    ///
    /// # Panics
    /// If the call or the tool fails.
    #[track_caller]
    pub fn result<A: Serialize>(
        &self,
        tool: &str,
        arguments: A,
    ) -> impl Future<Output = CallToolResult> {
        let (at, call) = (Location::caller(), self.made(tool, arguments));
        async move {
            let (tool, outcome) = call.await;
            loud!(at, outcome, "`{tool}` must succeed")
        }
    }

    /// Calls a tool and returns its text.
    ///
    /// # Panics
    /// If the call or the tool fails.
    #[track_caller]
    pub fn text<A: Serialize>(&self, tool: &str, arguments: A) -> impl Future<Output = String> {
        let result = self.result(tool, arguments);
        async move { result.await.to_text() }
    }

    /// Calls a tool and decodes its data.
    ///
    /// # Panics
    /// If the call or the tool fails, or the data has another type.
    #[track_caller]
    pub fn get<T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: impl Serialize,
    ) -> impl Future<Output = T> {
        let (at, call) = (Location::caller(), self.made(tool, arguments));
        async move {
            let (tool, outcome) = call.await;
            let result = loud!(at, outcome, "`{tool}` must succeed");
            loud!(at, result.get(), "the data of `{tool}`")
        }
    }

    /// Calls a tool that must fail and returns the error.
    ///
    /// # Panics
    /// If the tool succeeds.
    #[track_caller]
    pub fn refusal<A: Serialize>(&self, tool: &str, arguments: A) -> impl Future<Output = Error> {
        let (at, call) = (Location::caller(), self.made(tool, arguments));
        async move {
            let (tool, outcome) = call.await;
            match outcome {
                Ok(result) => panic!("`{tool}` must fail, but gave {result:?}, at {at}"),
                Err(error) => error,
            }
        }
    }

    fn made<A: Serialize>(
        &self,
        tool: &str,
        arguments: A,
    ) -> impl Future<Output = (String, Result<CallToolResult, Error>)> + use<A> {
        let call = self.0.call(tool).args(arguments);
        let tool = tool.to_owned();
        async move {
            let outcome = call.await.and_then(ToolResult::into_result);
            (tool, outcome)
        }
    }
}

impl Deref for TestClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
