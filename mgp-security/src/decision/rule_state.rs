//! The state that decisions read. [`Sources`] has a handle for each group of rules; through these, [`RuleState`] reads
//! the state of the rules for one call.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::Permission;
use mgp_types::service::{Context, Principal, ServerId};
use mgp_types::{Payload, mcp};

use super::{CallFacts, ConfirmedTool};
use crate::access::{Access, AccessView};
use crate::approval::{CallApproval, CalledTool};
use crate::definition::{DefinitionState, Definitions, KnownTool, ServerTools, Tools};
use crate::permission::{PermissionView, Permissions};
use crate::policy::{Policies, ServerPolicy};
use crate::scope::HeldScopes;
use crate::tool::{Assess, Assessment, Confirmations, NamedTool, Validators, with_reference};

/// The origin of the tools that are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolOrigin {
    /// Tools of this process; their definitions are trusted and not pinned.
    Own,
    /// Tools of another server; their definitions are pinned and checked.
    Foreign,
}

/// The rule for determining which server's tools are called.
#[derive(Clone, Debug)]
pub(crate) enum ServerName {
    /// Always this id; a server in the call's context is ignored.
    Always(ServerId),
    /// The server in the call's context, or this id if the context has none.
    Default(Option<ServerId>),
}

/// The rules that decide about calls, one member per group. A group that is `None` is not applied.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) server: ServerName,
    pub(crate) origin: ToolOrigin,
    pub(crate) policies: Policies,
    pub(crate) access: Option<Access>,
    /// The rules about definitions. If they are present, tools are assessed by their definitions.
    pub(crate) definitions: Option<Definitions>,
    /// The definitions of the server, if all calls go to the same server.
    pub(crate) server_tools: Option<Arc<ServerTools>>,
    /// The source of assessments if `definitions` is `None`.
    pub(crate) tools: Option<Arc<dyn Assess>>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) validators: Option<Validators>,
    pub(crate) confirmations: Option<Confirmations>,
}

impl Sources {
    /// Creates sources without any rules, so that every call is allowed.
    pub(crate) fn new(policies: Policies) -> Self {
        Self {
            server: ServerName::Default(None),
            origin: ToolOrigin::Foreign,
            policies,
            access: None,
            definitions: None,
            server_tools: None,
            tools: None,
            permissions: None,
            validators: None,
            confirmations: None,
        }
    }

    /// Returns the server to which a call goes, or `None` if that server has no id.
    #[inline]
    pub(crate) fn server_of<'a>(&'a self, cx: &'a Context) -> Option<&'a ServerId> {
        match &self.server {
            ServerName::Always(server) => Some(server),
            ServerName::Default(server) => cx.server.as_ref().or(server.as_ref()),
        }
    }

    #[inline]
    fn tools_of(&self, server: Option<&ServerId>) -> Option<Arc<Tools>> {
        match (self.definitions.as_ref()?, &self.server_tools) {
            (definitions, Some(tools)) => definitions.tools_in(tools),
            (definitions, None) => definitions.tools(server),
        }
    }

    /// Returns the source of assessments of tools, if any.
    pub(crate) fn assess(&self) -> Option<&dyn Assess> {
        match (&self.definitions, &self.tools) {
            (Some(definitions), _) => Some(definitions),
            (None, tools) => tools.as_deref(),
        }
    }

    /// Returns whether any rules other than the access rules decide about calls.
    pub(crate) fn decides_beyond_access(&self) -> bool {
        self.definitions.is_some()
            || self.permissions.is_some()
            || self.validators.is_some()
            || self.confirmations.is_some()
    }

    /// Returns the current time, against which expiries are compared.
    pub(crate) fn now(&self) -> SystemTime {
        self.access.as_ref().map_or_else(SystemTime::now, Access::now)
    }
}

mgp_types::opaque_debug!(Sources { server, origin });

/// The state of the rules that decide about one call. Not all of it is read at the same moment.
///
/// The caller's access entries and the known tools of the server are read when this value is created. The server's
/// policy and the approvals of permissions are read when a check first needs them. Each of these is read at most once,
/// so all checks see the same. Everything else is read at the moment when a check needs it:
///
/// - access: the validity of the credentials, and the entries for the agents on whose behalf the call is made;
/// - definitions: whether the pins can be read, the number of changes that the server has announced, the assessment of
///   a tool that the server does not list, and the definition with which a confirmation is compared;
/// - permissions: those that the server declared for all of its tools, and those that the approver's configuration
///   grants;
/// - confirmations: the approvals of later calls, and entries that name the tool in other sources than the above.
pub(super) struct RuleState<'a> {
    pub(super) sources: &'a Sources,
    server: Option<&'a ServerId>,
    pub(super) access: Option<AccessView<'a>>,
    pub(super) tools: Option<Arc<Tools>>,
    // The policy and the permissions are read on demand, because most calls need neither.
    policy: OnceCell<Arc<ServerPolicy>>,
    permissions: OnceCell<PermissionView<'a>>,
}

impl<'a> RuleState<'a> {
    #[inline]
    pub(super) fn of(
        sources: &'a Sources,
        principal: &'a Principal,
        server: Option<&'a ServerId>,
    ) -> Self {
        Self {
            sources,
            server,
            access: sources.access.as_ref().map(|access| access.view(principal)),
            tools: sources.tools_of(server),
            policy: OnceCell::new(),
            permissions: OnceCell::new(),
        }
    }

    pub(super) fn policy(&self) -> Arc<ServerPolicy> {
        Arc::clone(self.policy.get_or_init(|| self.sources.policies.get(self.server)))
    }

    /// Returns the entry of a tool in the table of known tools, or `None` if the tool is not known.
    #[inline]
    pub(super) fn known(&self, tool: &str) -> Option<&Arc<KnownTool>> {
        self.tools.as_ref()?.get(tool)
    }

    /// Returns the definition of a tool as its server lists it.
    pub(super) fn definition(&self, tool: &str) -> Option<&mcp::Tool> {
        self.known(tool)?.definition()
    }

    /// Returns the name of the state of a tool's definition, for explanations.
    pub(super) fn definition_state(&self, server: &ServerId, tool: &str) -> &'static str {
        let is_pinned = || self.sources.definitions.as_ref()?.is_pinned(server, tool).then_some(());
        match (&self.tools, self.sources.origin) {
            (_, ToolOrigin::Own) => "own",
            (Some(tools), _) if *tools.state(tool) != DefinitionState::Unseen => {
                tools.state(tool).as_str()
            }
            _ if is_pinned().is_some() => DefinitionState::Pinned.as_str(),
            _ => DefinitionState::Unseen.as_str(),
        }
    }

    /// Returns whether a check of the call needs the assessment of the tool.
    pub(super) fn assesses(&self, facts: &CallFacts<'_>) -> bool {
        let Sources { permissions, validators, confirmations, .. } = self.sources;
        permissions.is_some()
            || validators.is_some()
            || confirmations.is_some()
            || facts.call.cx().extensions.get::<HeldScopes>().is_some()
    }

    /// Returns the assessment of a tool: the risk, permissions and checks of its calls.
    #[inline]
    pub(super) fn assessment(&self, tool: &str, known: Option<&Arc<KnownTool>>) -> Arc<Assessment> {
        if let Some(known) = known {
            return Arc::clone(known.assessment());
        }
        match (&self.sources.definitions, &self.sources.tools) {
            (Some(definitions), _) => definitions.unlisted(self.server, tool),
            (None, Some(tools)) => tools.assessment(self.server, tool),
            (None, None) => Arc::new(Assessment::unknown()),
        }
    }

    pub(super) fn permissions(&self) -> Option<&PermissionView<'a>> {
        let permissions = self.sources.permissions.as_ref()?;
        Some(self.permissions.get_or_init(|| permissions.view()))
    }

    /// Returns the state that decides about the permissions of a call, or `None` if the call needs no permission, which
    /// is the usual case.
    pub(super) fn permissions_for(&self, needed: &[Permission]) -> Option<&PermissionView<'a>> {
        let permissions = self.sources.permissions.as_ref()?;
        let needs_any = !needed.is_empty()
            || permissions.declares(self.server)
            || !self.policy().permissions_required.is_empty();
        needs_any.then(|| self.permissions())?
    }

    /// Returns the definition and the risk of the called tool; a confirmation of the call is valid only for these.
    pub(super) fn confirmable(
        &self,
        facts: &CallFacts<'_>,
        assessment: &Assessment,
    ) -> ConfirmedTool {
        let tools = self.sources.assess();
        ConfirmedTool {
            definition: tools.and_then(|tools| tools.definition(facts.server, facts.tool)),
            risk: assessment.effective_risk.clone(),
        }
    }

    /// Returns an approval of an earlier call that also covers this call and for which `is_enough` returns `true`, if
    /// any.
    pub(super) fn approved(
        &self,
        facts: &CallFacts<'_>,
        is_enough: impl Fn(&CallApproval) -> bool,
    ) -> Option<Arc<CallApproval>> {
        let CallFacts { server, tool, arguments, at, .. } = *facts;
        let by = &facts.call.cx().principal;
        let referring = with_reference(facts.call);
        let arguments = referring.as_ref().map(Payload::as_str).or(arguments);
        let call = CalledTool { tool, arguments, definition: self.definition(tool) };
        self.sources.confirmations.as_ref()?.approved(by, server, &call, at.get(), is_enough)
    }

    /// Returns the access entry or permission approval with which an operator named the called tool. If there are
    /// several, returns the entry or approval that exempts more calls from confirmation.
    pub(super) fn naming(&self, facts: &CallFacts<'_>) -> Option<NamedTool> {
        let CallFacts { server, tool, at, .. } = *facts;
        let cx = facts.call.cx();
        let by_access = || self.access.as_ref()?.naming(server, tool, at);
        let by_permission = || {
            let view = self.permissions()?;
            let policy = self.policy();
            Some(view.names_tool(&cx.principal, server, tool, &policy, at.get())?.naming())
        };
        let by_others = || self.sources.confirmations.as_ref()?.naming(cx, server, tool);
        let namings = [by_access(), by_permission(), by_others()];
        namings.into_iter().flatten().reduce(NamedTool::stronger)
    }
}
