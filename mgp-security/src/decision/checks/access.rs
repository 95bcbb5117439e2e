//! The check of the caller's access (§5), also for messages that are not calls of tools.

use std::iter::once_with;

use mgp_types::mgp::DefaultPolicy;
use mgp_types::service::{Context, Hidden, ServerId};

use crate::access::{
    Access, AccessDenied, AccessView, Credentials, Delegation, MAX_NAME, Moment, Need, hidden,
    name_of,
};
use crate::decision::{CallDecision, CallFacts, Passed, Sources, Stage, Steps, Stopped};
use crate::definition::{Definitions, why_not_callable};
use crate::error::{LongName, Refusal};

impl<const EXPLAINS: bool> CallDecision<'_, '_, EXPLAINS> {
    /// Checks the access of the caller, and of the agents on whose behalf the call is made.
    #[inline]
    pub(in crate::decision) fn check_access(&mut self) -> Result<Passed, Stopped<Refusal>> {
        let Self { facts, state, .. } = *self;
        let (Some(access), Some(view)) = (&state.sources.access, &state.access) else {
            return Ok(Passed::NO_RULE);
        };
        let CallFacts { server, tool, at, .. } = *facts;
        let cx = facts.call.cx();
        let default = || state.policy().default_for(cx.principal.tenant().as_str());
        let check = AccessCheck { cx, server, tool: Some(tool), at };
        let passed = check.run(view, default, &mut self.steps)?;
        let Some(delegation) = cx.extensions.get::<Delegation>() else { return Ok(passed) };
        for principal in delegation.principals() {
            let mut cx = cx.clone();
            cx.principal = principal.clone();
            let check = AccessCheck { cx: &cx, ..check };
            check.run(&access.view(principal), default, &mut self.steps)?;
        }
        Ok(passed)
    }
}

/// Checks a caller's access to a tool, or to a whole server if `tool` is `None`.
///
/// # Errors
/// The [`Refusal`] for a caller without access.
pub(crate) fn admit(sources: &Sources, cx: &Context, tool: Option<&str>) -> Result<(), Refusal> {
    let Some(access) = &sources.access else { return Ok(()) };
    let clock = || sources.now();
    let (server, at) = (sources.server_of(cx), Moment::of(&clock));
    let default = || sources.policies.get(server).default_for(cx.principal.tenant().as_str());
    let check = AccessCheck { cx, server, tool, at: &at };
    let steps = &mut Steps::<false>::default();
    check.run(&access.view(&cx.principal), default, steps).map(drop).map_err(Stopped::into_inner)
}

/// Checks whether a caller is allowed to see a tool, by the rules of access and definition only; asks no questions.
///
/// # Errors
/// [`Hidden`], with the rule that hides the tool.
pub(crate) fn see(
    access: &Access,
    definitions: &Definitions,
    cx: &Context,
    server: Option<&str>,
    tool: &str,
) -> Result<(), Hidden> {
    let clock = || access.now();
    let (view, at) = (access.view(&cx.principal), Moment::of(&clock));
    let default = || access.default_policy(server.map(ServerId::from).as_ref(), &cx.principal);
    let need = Need::See(tool);
    hidden(view.judge(Credentials::of(cx), server, Some(tool), need, &at, default))?;
    match definitions.tools_of(server) {
        Some(tools) if !tools.state(tool).is_callable() => {
            Err(Hidden::new(why_not_callable(tools.state(tool))))
        }
        _ => Ok(()),
    }
}

/// The check of a caller's access to a tool, or to a whole server if `tool` is `None`.
struct AccessCheck<'a> {
    cx: &'a Context,
    server: Option<&'a ServerId>,
    tool: Option<&'a str>,
    at: &'a Moment<'a>,
}

impl AccessCheck<'_> {
    #[inline]
    fn run<const EXPLAINS: bool>(
        &self,
        view: &AccessView<'_>,
        default: impl FnOnce() -> DefaultPolicy,
        steps: &mut Steps<EXPLAINS>,
    ) -> Result<Passed, Stopped<Refusal>> {
        let Self { cx, server, tool, at } = *self;
        // An access entry cannot contain a name longer than `MAX_NAME`, so no entry can allow such a tool. The refusal
        // does not repeat the name.
        if let Some(long) = tool.map(str::len).filter(|length| *length > MAX_NAME) {
            let rule = once_with(|| format!("a name of {long} bytes"));
            return Err(steps.refuse_by(Stage::Access, rule, LongName::new(long, MAX_NAME)));
        }
        // Credentials that permit only some of a server's tools do not permit using the server as a whole, so a message
        // that names no tool needs the permission for the whole server.
        let need = tool.map_or(Need::Server, Need::Call);
        let (credentials, id) = (Credentials::of(cx), server.map(ServerId::as_str));
        let ruling = view.judge(credentials, id, tool, need, at, default);
        let ruling = ruling.map_err(|ended| steps.refuse(Stage::Access, ended))?;
        let rule = once_with(|| ruling.to_decision().rule().as_str().to_owned());
        if ruling.is_allowed() {
            return Ok(steps.pass(Stage::Access, rule));
        }
        let agent = name_of(&cx.principal);
        let denied = AccessDenied::new(agent, server, tool, &ruling.to_decision());
        Err(steps.refuse_by(Stage::Access, rule, denied))
    }
}
