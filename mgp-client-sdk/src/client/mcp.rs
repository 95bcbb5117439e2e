//! Typed methods for the parts of MCP other than lists, tasks and calls of tools.

use std::collections::BTreeMap;

use mgp_types::dialect::codomyrmex;
use mgp_types::mcp::{
    CompleteArgument, CompleteContext, CompleteParams, CompleteReference, Completion,
    DiscoverParams, EmptyParams, Era, GetPromptParams, GetPromptResult, ListenParams, ListenResult,
    LogLevel, ReadResourceParams, ReadResourceResult, SetLevelParams, SubscribeParams,
    SubscriptionFilter, ValidateToolParams, ValidateToolResult,
};
use mgp_types::method::{
    CompletionComplete, LoggingSetLevel, Ping, PromptsGet, ResourcesRead, ResourcesSubscribe,
    ResourcesUnsubscribe, RootsListChanged, ServerDiscover, SubscriptionsListen, ToolsValidate,
};
use mgp_types::{RawObject, RpcError};
use serde::Serialize;

use super::Client;
use crate::error::Error;

impl Client {
    /// Pings the server: with `ping`, or in 2026-07-28, which has no ping, with `server/discover`.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn ping(&self) -> Result<(), Error> {
        match self.0.facts.era {
            Era::Legacy => self.request::<Ping>(&EmptyParams::new()).await.map(drop),
            Era::Modern => self.request::<ServerDiscover>(&DiscoverParams::new()).await.map(drop),
        }
    }

    // === Tools ===

    /// Checks arguments against the input schema of a tool, without calling the tool.
    ///
    /// # Errors
    /// See [`Client::request`]; also code 4001 (tool not found) if this caller has no such tool.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn validate<T: Serialize + ?Sized>(
        &self,
        tool: &str,
        arguments: &T,
    ) -> Result<ValidateToolResult, Error> {
        let mut params = ValidateToolParams::new(tool);
        params.arguments = Some(RawObject::of(arguments)?);
        self.request::<ToolsValidate>(&params).await
    }

    /// Makes a tool call that is given in the format of Codomyrmex, and returns its result or error in the same format.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn call_codomyrmex(&self, call: &codomyrmex::ToolCall) -> codomyrmex::ToolResult {
        let called = self.call_tool(call.tool_name.as_str(), &call.arguments).await;
        match called {
            Ok(result) => codomyrmex::ToolResult::from_mcp(&result),
            Err(Error::Call(error)) => call.failure(&error),
            Err(error) => {
                codomyrmex::ToolResult::from_error(&RpcError::internal(error.to_string()))
            }
        }
    }

    // === Resources ===

    /// Reads a resource. If a server of 2026-07-28 asks questions before it answers, the client's handlers answer them.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        self.request::<ResourcesRead>(&ReadResourceParams::new(uri)).await
    }

    /// Subscribes to a resource; changes are reported to [`on_change`](crate::ClientBuilder::on_change).
    ///
    /// With a server of 2026-07-28, the client replaces its stream of changes by a stream that includes the resource.
    ///
    /// # Errors
    /// See [`Client::request`]. Also, with a server of 2026-07-28: code −32601 (method not found) if it does not offer
    /// subscriptions, and code −32602 (invalid params) if it does not accept this resource.
    ///
    /// # Cancel safety
    /// In the legacy era, dropping the future cancels the request; in the modern era, the subscription may remain.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Error> {
        if let Some(change_stream) = &self.0.change_stream {
            return Ok(change_stream.subscribe(uri).await?);
        }
        self.request::<ResourcesSubscribe>(&SubscribeParams::new(uri)).await.map(drop)
    }

    /// Unsubscribes from a resource.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// In the legacy era, dropping the future cancels the request; in the modern era, the subscription ends a little
    /// later, or remains if another change of subscriptions was still running.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        if let Some(change_stream) = &self.0.change_stream {
            return Ok(change_stream.unsubscribe(uri).await?);
        }
        self.request::<ResourcesUnsubscribe>(&SubscribeParams::new(uri)).await.map(drop)
    }

    /// Opens a stream of notifications (2026-07-28) and waits, without a time-out, until the server ends it.
    ///
    /// The notifications are passed to the hooks; poll the future concurrently with calls, and drop it to close the
    /// stream. Changes of lists and resources do not need this method: [`on_change`](crate::ClientBuilder::on_change)
    /// and [`subscribe`](Self::subscribe) open their own stream.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<ListenResult, Error> {
        self.request::<SubscriptionsListen>(&ListenParams::new(filter)).await
    }

    // === Prompts and completion ===

    /// Gets a prompt. If a server of 2026-07-28 asks questions before it answers, the client's handlers answer them.
    ///
    /// For a prompt without arguments, pass `None::<(&str, &str)>`.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Result<GetPromptResult, Error> {
        let arguments: BTreeMap<_, _> =
            arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut params = GetPromptParams::new(name);
        params.arguments = (!arguments.is_empty()).then_some(arguments);
        self.request::<PromptsGet>(&params).await
    }

    /// Completes an argument of a prompt or a template; `known` contains the values of the other arguments, or is
    /// `None::<(&str, &str)>`.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn complete<K: Into<String>, V: Into<String>>(
        &self,
        reference: CompleteReference,
        argument: &str,
        typed: &str,
        known: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Completion, Error> {
        let mut params = CompleteParams::new(reference, CompleteArgument::new(argument, typed));
        let known: BTreeMap<_, _> =
            known.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !known.is_empty() {
            let mut context = CompleteContext::new();
            context.arguments = Some(known);
            params.context = Some(context);
        }
        Ok(self.request::<CompletionComplete>(&params).await?.completion)
    }

    // === Logging and roots ===

    /// Sets the minimum level of log messages that the server sends (2025-11-25 and before).
    ///
    /// With a server of 2026-07-28, set it for each call: [`ToolCall::log_level`](crate::ToolCall::log_level).
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn set_level(&self, level: LogLevel) -> Result<(), Error> {
        self.request::<LoggingSetLevel>(&SetLevelParams::new(level)).await.map(drop)
    }

    /// Notifies a server of 2025-11-25 or before that the roots changed. A server of 2026-07-28 requests the roots
    /// whenever it needs them, so it is not notified.
    ///
    /// # Errors
    /// Code 2000 (server not ready) if the connection is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the notification may or may not have been sent.
    pub async fn roots_changed(&self) -> Result<(), Error> {
        match self.0.facts.era {
            Era::Legacy => self.notify::<RootsListChanged>(&EmptyParams::new()).await,
            Era::Modern => Ok(()),
        }
    }
}
