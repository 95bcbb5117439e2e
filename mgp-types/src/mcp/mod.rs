//! Messages of MCP, revisions 2024-11-05 to 2026-07-28; unknown members are preserved (MGP §1.1).

mod capability;
mod completion;
mod content;
mod elicitation;
mod handshake;
mod input;
mod legacy_schema;
mod logging;
mod meta;
mod progress;
mod prompt;
mod reordered;
mod resource;
mod revision;
mod roots;
mod sampling;
mod shared;
mod skill;
mod subscription;
mod task;
mod tool;
mod ui;
mod wrapped;

pub use capability::{
    ClientCapabilities, ElicitationCapability, ListChanged, MgpPlaces, ResourcesCapability,
    SamplingCapability, ServerCapabilities, TasksCapability,
};
pub use completion::{
    CompleteArgument, CompleteContext, CompleteParams, CompleteReference, CompleteResult,
    Completion, PromptReference, ResourceReference,
};
pub use content::{
    Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent,
    ResourceContents, ResourceLink, Role, TextContent, ToolResultContent, ToolUseContent,
};
pub use elicitation::{
    ElicitAction, ElicitMode, ElicitParams, ElicitResult, ElicitationCompleteParams,
    UrlElicitationRequiredData,
};
pub use handshake::{
    DiscoverParams, DiscoverResult, EmptyParams, EmptyResult, Implementation, InitializeParams,
    InitializeResult, UnsupportedVersionData,
};
pub use input::{
    InputElicitation, InputRequest, InputRequests, InputRequiredResult, InputRoots, InputSampling,
};
pub use legacy_schema::{is_of_objects, legacy_output_schema};
pub use logging::{LogLevel, LogMessageParams, SetLevelParams};
pub use meta::{Meta, key};
pub use progress::{CancelledParams, ProgressParams};
pub use prompt::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use reordered::differ_only_in_order;
pub use resource::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult,
    Resource, ResourceTemplate, ResourceUpdatedParams, SubscribeParams,
};
pub use revision::{Era, Revision};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, ModelHint, ModelPreferences, SamplingMessage,
    ToolChoice,
};
pub use shared::{
    CacheScope, InputResponses, ListParams, NextCursor, ResultType, TaskAugmentation,
};
pub use skill::{
    GetSkillParams, GetSkillResult, ListSkillsResult, ReadDirectoryParams, ReadDirectoryResult,
    Skill, SkillResource, SkillResources, SkillsCapability,
};
pub use subscription::{
    ListenParams, ListenResult, SubscriptionFilter, SubscriptionsAcknowledgedParams,
};
pub use task::{
    CancelTaskResult, CreateTaskResult, LegacyCreateTaskResult, ListTasksResult, Task, TaskParams,
    TaskStatus, UpdateTaskParams,
};
pub use tool::{
    ArgumentError, CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool,
    ToolAnnotations, ToolExecution, ToolIdempotency, ValidateToolParams, ValidateToolResult,
};
pub use ui::{UI_MIME_TYPE, UiAudience, UiCapability, UiCsp, UiResourceMeta, UiToolMeta};
pub use wrapped::differ_only_in_wrapping;
