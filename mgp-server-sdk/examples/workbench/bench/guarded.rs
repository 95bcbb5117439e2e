//! Tools that a client must check before it calls them (MGP §4.3, §7.3). The tools have no effects.

use mgp_server_sdk::prelude::*;
use mgp_types::mgp::{
    CodeSafety, CodeSafetyLevel, Permission, RiskLevel, SideEffect, ToolSecurity, Validator,
};

#[derive(Deserialize, JsonSchema)]
struct Shell {
    /// A command line.
    command: String,
}

#[derive(Deserialize, JsonSchema)]
struct Fetch {
    /// The URL to fetch.
    url: String,
}

#[derive(Deserialize, JsonSchema)]
struct RunCode {
    /// The language; Python by default.
    language: Option<String>,
    /// A program.
    code: String,
}

pub(super) fn tools() -> Vec<Tool> {
    let shell = Tool::new("shell", "Would run a command", |Args(Shell { command })| async move {
        format!("would have run `{command}`")
    });
    let fetch = Tool::new("fetch", "Would fetch a page", |Args(Fetch { url })| async move {
        format!("would have fetched {url}")
    });
    let run_code =
        Tool::new("run_code", "Would run a program", |Args(run): Args<RunCode>| async move {
            let language = run.language.as_deref().unwrap_or("python");
            format!("would have run {} bytes of {language}", run.code.len())
        });
    vec![
        secured(
            shell,
            RiskLevel::Dangerous,
            Permission::ShellExecute,
            Validator::Sandbox,
            |security| {
                security.side_effects = vec![SideEffect::Filesystem, SideEffect::Process].into();
                security.confirmation_required = Some(true);
            },
        ),
        secured(
            fetch,
            RiskLevel::Moderate,
            Permission::NetworkOutbound,
            Validator::NetworkRestricted,
            |security| security.side_effects = vec![SideEffect::Network].into(),
        ),
        secured(
            run_code,
            RiskLevel::Dangerous,
            Permission::CodeExecution,
            Validator::CodeSafety,
            |security| {
                let mut rules = CodeSafety::new(CodeSafetyLevel::Strict);
                rules.language = Some("python".to_owned());
                rules.max_code_size_bytes = Some(10_240);
                rules.allowed_imports = vec!["json".to_owned(), "math".to_owned()].into();
                security.side_effects = vec![SideEffect::Process].into();
                security.code_safety = Some(rules);
            },
        ),
    ]
}

fn secured(
    tool: Tool,
    risk: RiskLevel,
    permission: Permission,
    validator: Validator,
    more: impl FnOnce(&mut ToolSecurity),
) -> Tool {
    let mut security = ToolSecurity::new(risk);
    security.permissions_required = vec![permission].into();
    security.validator = Some(validator);
    security.reversible = Some(false);
    more(&mut security);
    tool.define(|tool| tool.security = Some(security.into()))
}
