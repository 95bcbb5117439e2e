//! The rule that JavaScript and TypeScript code must not read members of the global object, or of modules that need
//! rules, under names that are not constant.

use super::{
    CodePolicy,
    javascript::Scope,
    javascript_globals::BUILTINS,
    javascript_passed::is_own_variable,
    value::{Findings, Value, is_path},
};
use crate::words::Words;
use oxc_ast::AstKind;
use oxc_span::GetSpan;

/// Builtin modules of Node with members that the rules are about.
static NODE_MODULES: Words = Words::new(
    "\
    child_process cluster dgram domain fs http http2 https inspector module net os process repl \
    sea sqlite test tls trace_events tty v8 vm wasi worker_threads",
);

/// Reports reading a member of the global object or of such a module if the member's name is not constant, e.g.
/// `process[x]`.
pub(super) fn check<'t>(
    policy: &CodePolicy,
    scope: &Scope<'t>,
    node: AstKind<'t>,
    found: &mut Findings,
) {
    let AstKind::ComputedMemberExpression(of) = node else { return };
    let dynamic = scope.value(&of.expression, 0).iter().any(|key| !matches!(key, Value::Text(_)));
    let sensitive = scope.paths(&scope.value(&of.object, 0)).any(|path| {
        has_ruled_members(policy, path)
            && !(path == "globalThis" && is_own_variable(scope, &of.object))
    });
    if dynamic && sensitive && !of.expression.is_number_literal() {
        found.pattern(&format!("{}[", scope.text(of.object.span())));
    }
}

/// Returns whether the rules are about members of the object at a path.
pub(super) fn has_ruled_members(policy: &CodePolicy, path: &str) -> bool {
    matches!(path, "globalThis" | "process" | "module" | "require" | "Deno" | "Bun")
        || path.starts_with('@') && !path.contains('(') && needs_rules(policy, path)
}

/// Returns whether a rule is about a member of the module to which a path leads. Code often reads members of other
/// modules under names that are not constant, e.g. `ALPHABET[i]` or `Icons[name]`.
fn needs_rules(policy: &CodePolicy, path: &str) -> bool {
    let module = path.trim_start_matches('@').split('.').next().unwrap_or_default();
    let is_about = |pattern: &String| {
        let name = pattern.trim().trim_end_matches(['(', ' ']);
        let name = name.strip_prefix("new ").unwrap_or(name).trim();
        is_path(pattern)
            && match name.split_once('.') {
                // A pattern such as `.remove(` is about members of all objects.
                Some((first, _)) => first.is_empty() || first == module,
                None => !BUILTINS.has(name) && !NODE_MODULES.has(name),
            }
    };
    policy.is_readonly()
        || NODE_MODULES.has(module.split('/').next().unwrap_or(module))
        || policy.blocked_patterns.iter().any(is_about)
}
