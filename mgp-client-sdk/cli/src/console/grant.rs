//! The forms that grant access and permissions; if one fails, the console shows it again with its input.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use mgp_types::mgp::{AccessGrantParams, KernelPermissionChangeParams, Permission};
use std::sync::Arc;

use super::form::{self, Entered, Form};
use super::layout::{NO_ANSWER, Notice, enter_guard, plain, token, url};
use super::operator::Viewer;
use super::{Console, Shared, access, times};
use crate::backend::{Backend, PermissionDecision};
use crate::commands::access::{EntryPart, Target, check_new_entry};
use crate::commands::known_names::{NEW_AGENT, without_force};
use crate::commands::permissions::{check_permission, check_server};
use crate::exit::Failure;

/// The paths of the two forms: for access, and for permissions.
pub(super) const GRANT: &str = "/access/grant";
pub(super) const PERMIT: &str = "/access/permit";

/// The maximum length of an address that contains the input of a form, to fill in the form again after a login.
const MAX_REFILL: usize = 4096;

/// A problem of a form that was sent: of one field, or of the whole form.
pub(super) struct Problem {
    field: Option<&'static str>,
    reason: String,
}

impl Problem {
    fn of(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field: Some(field), reason: reason.into() }
    }

    fn whole(reason: impl Into<String>) -> Self {
        Self { field: None, reason: reason.into() }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::whole(failure.to_string())
    }
}

impl From<mgp_client_sdk::Error> for Problem {
    fn from(error: mgp_client_sdk::Error) -> Self {
        Self::whole(error.to_string())
    }
}

/// The values of a form, the path to which the browser sends it, and the problem if the console refused it.
pub(super) struct Filled {
    path: &'static str,
    values: Form,
    problem: Option<Problem>,
}

impl Filled {
    /// Returns the form that a link proposes, with the values in the query of the link.
    pub(super) fn from_query(query: &Form) -> Self {
        let permit = query.text("permit");
        let path = if permit.is_empty() { GRANT } else { PERMIT };
        let values = Form::of([
            ("agent", query.text("for")),
            ("server", query.text("server")),
            ("tool", query.text("name")),
            ("permissions", permit),
            ("expires", query.text("expires")),
            ("because", query.text("because")),
        ]);
        Self { path, values, problem: None }
    }

    /// Returns the address of the page with a form that has these values, as [`from_query`](Self::from_query) reads
    /// them.
    fn to_page(path: &str, values: &Form) -> String {
        let query = Form::of([
            ("for", values.text("agent")),
            ("server", values.text("server")),
            ("name", values.text("tool")),
            ("permit", values.text("permissions")),
            ("expires", values.text("expires")),
            ("because", values.text("because")),
        ]);
        let anchor = if path == GRANT { "grant" } else { "permit" };
        format!("/access?{}#{anchor}", query.to_query())
    }

    fn field(&self, path: &'static str, name: &'static str, label: &str, needed: bool) -> Markup {
        let is_this = self.path == path;
        let value = if is_this { self.values.text(name) } else { "" };
        let problem = self.problem.as_ref().filter(|one| is_this && one.field == Some(name));
        let id = format!("{}-{name}-problem", path.rsplit('/').next().unwrap_or_default());
        html! {
            div.field {
                label { span { (label) }
                    input name=(name) value=(value) required[needed] autocomplete="off" spellcheck="false"
                        aria-invalid=[problem.map(|_| "true")] aria-describedby=[problem.map(|_| &id)]
                        autofocus[problem.is_some()];
                }
                @if let Some(problem) = problem { p.problem id=(id) { (plain(&problem.reason)) } }
            }
        }
    }

    /// Returns the message about a problem of the whole form that is sent to `path`; empty if there is none.
    fn whole(&self, path: &str) -> Markup {
        let problem = self.problem.as_ref().filter(|one| self.path == path && one.field.is_none());
        html! {
            @if let Some(problem) = problem { p.failed role="alert" data-keep { (plain(&problem.reason)) } }
        }
    }
}

/// Returns the forms that grant or deny access and permissions.
pub(super) fn forms(console: &Console, viewer: &Viewer, filled: &Filled) -> Markup {
    let texts = viewer.texts;
    let access = |name, label, needed| filled.field(GRANT, name, label, needed);
    let permit = |name, label, needed| filled.field(PERMIT, name, label, needed);
    html! {
        section.card aria-labelledby="grant" {
            h2 #grant { (texts.grant_or_deny) }
            (filled.whole(GRANT))
            form.row method="post" action=(url(console, GRANT)) {
                (enter_guard(viewer))
                (token(viewer))
                (access("agent", texts.agent, true))
                (access("server", texts.server, true))
                (access("tool", texts.tool_or_all, false))
                (access("expires", texts.expires_example, false))
                (access("because", texts.reason_or_none, false))
                label.check {
                    input type="checkbox" name="new_agent" value="yes" checked[filled.values.get("new_agent").is_some()];
                    span { (texts.new_agent) }
                }
                (answers(viewer))
            }
            p.dim { (texts.grant_hint) }
        }
        section.card aria-labelledby="permit" {
            h2 #permit { (texts.grant_permission) }
            (filled.whole(PERMIT))
            form.row method="post" action=(url(console, PERMIT)) {
                (enter_guard(viewer))
                (token(viewer))
                (permit("server", texts.server, true))
                (permit("permissions", texts.permission_example, true))
                (permit("expires", texts.expires_example, false))
                (permit("because", texts.reason_or_none, false))
                (answers(viewer))
            }
            p.dim { (texts.permission_hint) }
        }
    }
}

fn answers(viewer: &Viewer) -> Markup {
    html! {
        button.main name="answer" value="allow" { (viewer.texts.grant) }
        button.bad name="answer" value="deny" { (viewer.texts.deny) }
    }
}

pub(super) async fn grant(State(console): Shared, entered: Entered) -> Response {
    let done = match own(&entered) {
        Ok(()) => grant_access(&console, &entered.viewer, &entered.form).await,
        Err(problem) => Err(problem),
    };
    answered(&console, entered, GRANT, done).await
}

/// Grants a server permissions, or denies them.
pub(super) async fn permit(State(console): Shared, entered: Entered) -> Response {
    let done = match own(&entered) {
        Ok(()) => decide_permissions(&console, &entered.viewer, &entered.form).await,
        Err(problem) => Err(problem),
    };
    answered(&console, entered, PERMIT, done).await
}

/// Refuses a form whose token is not the token of the session.
fn own(entered: &Entered) -> Result<(), Problem> {
    if entered.is_own { Ok(()) } else { Err(Problem::whole(entered.viewer.texts.form_expired)) }
}

/// Answers a browser that loads the address of a form, e.g. to reload a form that failed: redirects it to the page
/// about access.
pub(super) async fn again(State(console): Shared) -> Response {
    Redirect::to(&url(&console, "/access")).into_response()
}

/// Redirects to the page about access if the form succeeded; otherwise shows the form again with its input.
async fn answered(
    console: &Console,
    entered: Entered,
    path: &'static str,
    done: Result<String, Problem>,
) -> Response {
    let Entered { form, viewer, is_own } = entered;
    let problem = match done {
        Ok(done) => return console.done(&viewer, "/access", &Notice::Done(done)),
        Err(problem) => problem,
    };
    let filled = Filled { path, values: form, problem: Some(problem) };
    let page = access::show(console, &viewer, &Form::default(), &filled).await;
    let status = if is_own { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::FORBIDDEN };
    (status, page).into_response()
}

async fn grant_access(console: &Console, viewer: &Viewer, form: &Form) -> Result<String, Problem> {
    let (agent, server) = (needed(viewer, form, "agent")?, needed(viewer, form, "server")?);
    let mut params = match form.text("answer") {
        "allow" => AccessGrantParams::allow(agent, server),
        "deny" => AccessGrantParams::deny(agent, server),
        NO_ANSWER => return Err(Problem::whole(viewer.texts.press_button)),
        _ => return Err(Problem::whole(viewer.texts.choose_answer)),
    };
    if let Some(end) = form.get("expires") {
        params = params.until(times::future(end).map_err(|why| Problem::of("expires", why))?);
    }
    if let Some(because) = form.get("because") {
        params = params.because(because);
    }
    let backend = Backend::Kernel(viewer.operator.client.clone());
    // If the person marks the agent as new, check only the server and the tool: `*` always counts as a known agent.
    let is_new = form.get("new_agent").is_some();
    let target = Target::new(if is_new { "*" } else { agent }, server, form.get("tool"));
    let checked = check_new_entry(&console.global, &backend, &target).await;
    let Target { server, tool, .. } = checked.map_err(|(part, failure)| match part {
        Some(EntryPart::Agent) => Problem::of(
            "agent",
            failure.to_string().replace(NEW_AGENT, viewer.texts.tick_new_agent),
        ),
        Some(EntryPart::Server) => Problem::of("server", failure.to_string()),
        Some(EntryPart::Tool) => Problem::of("tool", failure.to_string()),
        None => failure.into(),
    })?;
    params.server_id.clone_from(&server);
    let mut target = server;
    if let Some(tool) = tool {
        target.extend([".", &tool]);
        params = params.tool(tool);
        if form.text("answer") == "allow" {
            params = params.with_usual_confirmation();
        }
    }
    viewer.operator.client.mgp().access_grant(&params).await?;
    Ok(with_end(viewer, form, format!("{agent} → {target}: {}", decided(viewer, form))))
}

async fn decide_permissions(
    console: &Console,
    viewer: &Viewer,
    form: &Form,
) -> Result<String, Problem> {
    let (server, names) = (needed(viewer, form, "server")?, needed(viewer, form, "permissions")?);
    for name in names.split_whitespace() {
        let checked = check_permission(name, false);
        checked.map_err(|failure| Problem::of("permissions", without_force(&failure)))?;
    }
    let decision = match form.text("answer") {
        "allow" => PermissionDecision::Approve,
        "deny" => PermissionDecision::Deny,
        NO_ANSWER => return Err(Problem::whole(viewer.texts.press_button)),
        _ => return Err(Problem::whole(viewer.texts.choose_answer)),
    };
    let all: Vec<Permission> = names.split_whitespace().map(Permission::from).collect();
    let mut params = KernelPermissionChangeParams::new(server, all);
    if let Some(end) = form.get("expires") {
        let end = times::future(end).map_err(|why| Problem::of("expires", why))?;
        params.until = Some(end.into());
    }
    params.because = form.get("because").map(str::to_owned);
    let backend = Backend::Kernel(viewer.operator.client.clone());
    let checked = check_server(&console.global, &backend, server).await;
    checked.map_err(|failure| Problem::of("server", failure.to_string()))?;
    backend.decide(decision, params).await?;
    Ok(with_end(viewer, form, format!("{server} {names}: {}", decided(viewer, form))))
}

/// Returns the decision of a form that was sent, as a word in the language of the viewer.
fn decided(viewer: &Viewer, form: &Form) -> &'static str {
    if form.text("answer") == "allow" { viewer.texts.allow_word } else { viewer.texts.deny_word }
}

fn needed<'a>(viewer: &Viewer, form: &'a Form, name: &'static str) -> Result<&'a str, Problem> {
    form.get(name).ok_or_else(|| Problem::of(name, viewer.texts.needed))
}

fn with_end(viewer: &Viewer, form: &Form, done: String) -> String {
    match form.get("expires") {
        Some(end) => format!("{done} ({}: {end})", viewer.texts.until),
        None => done,
    }
}

/// If a request without a session posted the form of a grant or of a permission, returns the address to open after the
/// login: the page with the form and its input. Otherwise returns an empty text.
pub(super) async fn page_after_login(request: Request, console: &Arc<Console>) -> String {
    let path = request.uri().path().to_owned();
    if request.method() != Method::POST || ![GRANT, PERMIT].contains(&&*path) {
        return String::new();
    }
    let Ok(form) = form::read(request, console).await else { return String::new() };
    let page = Filled::to_page(&path, &form);
    if page.len() <= MAX_REFILL { page } else { String::new() }
}
