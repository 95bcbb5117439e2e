//! The other methods of MCP, typed.
//!
//! Applies to: outbound.

use std::collections::BTreeMap;

use mgp_types::RawObject;
use mgp_types::mcp::{
    CancelTaskResult, CompleteArgument, CompleteContext, CompleteParams, CompleteReference,
    Completion, DiscoverParams, EmptyParams, Era, GetPromptParams, GetPromptResult, InputResponses,
    ListParams, ListTasksResult, ListenParams, ListenResult, LogLevel, ReadResourceParams,
    ReadResourceResult, SetLevelParams, SubscribeParams, SubscriptionFilter, Task, TaskParams,
    UpdateTaskParams,
};
use mgp_types::method::{
    CompletionComplete, LoggingSetLevel, Ping, PromptsGet, ResourcesRead, ResourcesSubscribe,
    ResourcesUnsubscribe, RootsListChanged, ServerDiscover, SubscriptionsListen, TasksCancel,
    TasksGet, TasksList, TasksResult, TasksUpdate,
};

use super::Client;
use crate::error::Error;

/// All of them fail as [`Client::request`] does, and dropping one cancels it at the server.
impl Client {
    /// Asks for a sign of life: `ping`, or `server/discover` in the modern era, which has no ping.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn ping(&self) -> Result<(), Error> {
        match self.0.facts.era {
            Era::Legacy => self.request::<Ping>(&EmptyParams::new()).await.map(drop),
            Era::Modern => self.request::<ServerDiscover>(&DiscoverParams::new()).await.map(drop),
        }
    }

    // === Resources ===

    /// Reads a resource; questions of a modern server go to the handlers.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        self.request::<ResourcesRead>(&ReadResourceParams::new(uri)).await
    }

    /// Watches a resource; changes reach [`on_change`](crate::ClientBuilder::on_change).
    ///
    /// In the modern era it joins the stream the client listens to, which is opened anew with it.
    ///
    /// # Errors
    /// As [`Client::request`]; in the modern era −32601 where the server offers no watching, −32602 where it does not
    /// watch this resource.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request of the legacy era; in the modern one the resource may stay watched.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Error> {
        if let Some(listening) = &self.0.listening {
            return Ok(listening.watch(uri).await?);
        }
        self.request::<ResourcesSubscribe>(&SubscribeParams::new(uri)).await.map(drop)
    }

    /// Stops watching a resource.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request of the legacy era; in the modern one it is done a little later.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        if let Some(listening) = &self.0.listening {
            return Ok(listening.unwatch(uri).await?);
        }
        self.request::<ResourcesUnsubscribe>(&SubscribeParams::new(uri)).await.map(drop)
    }

    /// Listens for notifications in the modern era, until the server ends it; it has no time-out.
    ///
    /// The notifications reach the hooks; run the future beside the calls and drop it to stop.
    /// For changes of lists and resources nobody needs it: [`on_change`](crate::ClientBuilder::on_change) and
    /// [`subscribe`](Self::subscribe) listen by themselves.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future stops listening.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<ListenResult, Error> {
        self.request::<SubscriptionsListen>(&ListenParams::new(filter)).await
    }

    // === Prompts and completion ===

    /// Fills in a prompt; questions of a modern server go to the handlers.
    ///
    /// # Errors
    /// As [`Client::request`].
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

    /// Completes an argument of a prompt or a template, given the others that are known.
    ///
    /// # Errors
    /// As [`Client::request`].
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

    /// Sets the least grave level of log messages to send (legacy).
    ///
    /// A modern client says so in each call: [`ToolCall::log_level`](crate::ToolCall::log_level).
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn set_level(&self, level: LogLevel) -> Result<(), Error> {
        self.request::<LoggingSetLevel>(&SetLevelParams::new(level)).await.map(drop)
    }

    /// Tells a legacy server that the roots changed; a modern one asks each time, so nothing is sent.
    ///
    /// # Errors
    /// 2000 when the connection is gone.
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have told it.
    pub async fn roots_changed(&self) -> Result<(), Error> {
        match self.0.facts.era {
            Era::Legacy => self.notify::<RootsListChanged>(&EmptyParams::new()).await,
            Era::Modern => Ok(()),
        }
    }

    // === Tasks ===

    /// Asks how far a task is.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn get_task(&self, task_id: &str) -> Result<Task, Error> {
        self.request::<TasksGet>(&TaskParams::new(task_id)).await
    }

    /// Waits for the result of a task (2025-11-25; in the modern era the task itself has it).
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn task_result(&self, task_id: &str) -> Result<RawObject, Error> {
        self.request::<TasksResult>(&TaskParams::new(task_id)).await
    }

    /// Lists a page of the tasks (2025-11-25).
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn list_tasks_page(&self, cursor: Option<&str>) -> Result<ListTasksResult, Error> {
        let mut params = ListParams::new();
        params.cursor = cursor.map(str::to_owned);
        self.request::<TasksList>(&params).await
    }

    /// Gives a task what it waits for (modern).
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, not the task.
    pub async fn update_task(&self, task_id: &str, answers: InputResponses) -> Result<(), Error> {
        self.request::<TasksUpdate>(&UpdateTaskParams::new(task_id, answers)).await.map(drop)
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have cancelled the task.
    pub async fn cancel_task(&self, task_id: &str) -> Result<CancelTaskResult, Error> {
        self.request::<TasksCancel>(&TaskParams::new(task_id)).await
    }
}
