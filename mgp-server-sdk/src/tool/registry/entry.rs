//! A registered tool, with what each call needs from its definition.

use std::sync::Arc;

use mgp_security::Grants;
use mgp_types::RpcError;
use mgp_types::mcp::{self, Era, TaskSupport};
use mgp_types::mgp::Permission;
use mgp_types::proposal::{MediaSignature, check_input_size};
use mgp_types::service::{Call, Context, HeaderParams, HeaderPlan, Stack};

#[cfg(feature = "schemas")]
use super::super::argument_schema;
use super::super::extract::admit;
use super::super::{Tool, definition_check, version};

/// A registered tool.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) tool: Arc<Tool>,
    pub(super) definition: Arc<mcp::Tool>,
    /// The permissions that a call needs, by their standard names.
    pub(super) permissions: Arc<[Permission]>,
    /// The arguments that HTTP callers must repeat in headers.
    pub(super) headers: HeaderPlan,
    /// The declared maximum size of the input, in bytes.
    pub(super) max_input: Option<u64>,
    /// The tool with its own layers around it; `None` if it has no layers.
    pub(super) wrapped: Option<Stack>,
    pub(super) is_enabled: bool,
}

impl Entry {
    /// Creates an entry. This runs the tool's layers, which are code of the author, so the registry must not be locked.
    pub(super) fn new(tool: Tool, is_enabled: bool) -> Arc<Self> {
        let mut definition = tool.definition.clone();
        mgp_security::derive_hints(&mut definition);
        let permissions = definition_check::permissions(&definition).into();
        // The headers are valid, because `check` has refused any tool whose header annotations cannot be parsed.
        let headers = HeaderPlan::of(&definition.input_schema).unwrap_or_default();
        let max_input =
            MediaSignature::of(&definition).and_then(|media| media.max_input_size_bytes);
        let (tool, definition) = (Arc::new(tool), Arc::new(definition));
        let wrapped = tool.layers.wrap(&tool, &definition);
        Arc::new(Self { tool, definition, permissions, headers, max_input, wrapped, is_enabled })
    }

    /// Checks whether a call of this tool may run. Checks the permissions before the arguments, so that a caller
    /// without the permissions gets no errors about the schema of the arguments.
    pub(super) fn check(
        &self,
        call: &Call,
        #[cfg(feature = "schemas")] checks_arguments: bool,
    ) -> Result<(), RpcError> {
        if !self.headers.is_empty() {
            self.check_headers(call)?;
        }
        if !self.permissions.is_empty() {
            let name = &self.definition.name;
            admit(&Grants::from_context(call.cx()), name, &self.permissions)?;
        }
        self.check_arguments(
            call,
            #[cfg(feature = "schemas")]
            checks_arguments,
        )
    }

    /// Checks whether the arguments of a call, and the version that it names, fit this tool.
    pub(super) fn check_arguments(
        &self,
        call: &Call,
        #[cfg(feature = "schemas")] checks_schema: bool,
    ) -> Result<(), RpcError> {
        let (definition, arguments) = (&*self.definition, call.params().arguments());
        if arguments.is_some_and(|text| !text.starts_with('{')) {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        version::check(call.params(), definition)?;
        #[cfg(feature = "schemas")]
        if checks_schema {
            argument_schema::refuse_arguments(definition, arguments.unwrap_or("{}"))?;
        }
        if let Some(max) = self.max_input {
            check_input_size(definition, arguments.unwrap_or_default(), max)?;
        }
        Ok(())
    }

    /// Checks the headers of a call that repeat arguments: they must be equal to the arguments, because a proxy might
    /// route by them.
    fn check_headers(&self, call: &Call) -> Result<(), RpcError> {
        let cx = call.cx();
        if cx.caller.era == Era::Modern
            && let Some(headers) = cx.extensions.get::<HeaderParams>()
        {
            self.headers.check(call.params().arguments().unwrap_or("{}"), headers)?;
        }
        Ok(())
    }

    /// Returns whether the tool exists for a caller.
    pub(super) fn is_visible_to(&self, cx: &Context) -> bool {
        self.tool.audience.as_ref().is_none_or(|is_visible| is_visible(cx))
    }

    /// Returns the task support that the definition declares. Default: forbidden.
    pub(super) fn task_support(&self) -> TaskSupport {
        let execution = self.definition.execution.as_ref();
        execution
            .and_then(|execution| execution.task_support.clone())
            .unwrap_or(TaskSupport::Forbidden)
    }
}
