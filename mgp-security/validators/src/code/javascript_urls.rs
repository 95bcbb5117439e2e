//! The rule that JavaScript and TypeScript code must not open URLs that contain code, e.g. `javascript:run()`.

use super::{
    javascript::Scope,
    javascript_tree::{Call, expression},
    value::{last, texts},
};
use oxc_ast::{
    AstKind,
    ast::{AssignmentExpression, AssignmentTarget, MemberExpression},
};

/// Returns whether an assignment makes a page open a URL with code.
pub(super) fn are_assigned<'t>(
    scope: &Scope<'t>,
    assignment: &'t AssignmentExpression<'t>,
) -> bool {
    let target = match &assignment.left {
        AssignmentTarget::AssignmentTargetIdentifier(name) => Some(name.name.as_str()),
        target => target.as_member_expression().and_then(MemberExpression::static_property_name),
    };
    matches!(target, Some("location" | "href" | "src" | "action" | "formAction"))
        && has_code(scope, expression(&assignment.right))
}

/// Returns whether a call of the function at a path opens a URL with code.
pub(super) fn are_passed<'t>(scope: &Scope<'t>, call: &Call<'t>, path: &str) -> bool {
    (matches!(path, "open" | "location.assign" | "location.replace")
        || last(path) == "setAttribute")
        && call.arguments.iter().any(|argument| has_code(scope, *argument))
}

/// Returns whether a value can be a URL with code. Links without an effect often have a URL such as
/// `javascript:void(0)`.
fn has_code<'t>(scope: &Scope<'t>, node: AstKind<'t>) -> bool {
    texts(&scope.eval(node, 0)).any(|url| {
        let (scheme, code) = url.split_once(':').unwrap_or_default();
        scheme.trim().eq_ignore_ascii_case("javascript")
            && !matches!(code.trim().trim_end_matches(';'), "" | "void(0)" | "void 0")
    })
}
