//! The rule that Python code must not pass on modules that give access to everything, e.g. `os`: the checks cannot
//! follow their further use.

use super::{python_values::Scope, value::texts};
use crate::words::Words;
use ruff_python_ast::{AnyNodeRef, Expr, ExprRef, HasNodeIndex};

/// Modules that code must not pass on as values, e.g. as an argument.
pub(super) const ROOTS: &[&str] =
    &["@os", "@sys", "@importlib", "@builtins", "@subprocess", "@asyncio.subprocess"];

/// Functions that do not store a module that is passed to them.
static HARMLESS: Words =
    Words::new("getattr hasattr isinstance print repr dir type id callable str bool help vars");

/// Returns whether the value of a node is passed on or stored, so that the checks cannot follow its further use.
pub(super) fn is_passed(scope: &Scope<'_>, node: ExprRef<'_>) -> bool {
    match scope.nodes.parent(node) {
        Some(AnyNodeRef::Arguments(arguments)) => {
            let Some(AnyNodeRef::ExprCall(call)) = scope.nodes.parent(arguments) else {
                return true;
            };
            !matches!(&*call.func, Expr::Name(function) if HARMLESS.has(function.id.as_str()))
        }
        Some(
            AnyNodeRef::ExprList(_)
            | AnyNodeRef::ExprTuple(_)
            | AnyNodeRef::ExprSet(_)
            | AnyNodeRef::ExprDict(_)
            | AnyNodeRef::StmtReturn(_)
            | AnyNodeRef::ExprYield(_)
            | AnyNodeRef::ExprYieldFrom(_)
            | AnyNodeRef::Keyword(_)
            | AnyNodeRef::ParameterWithDefault(_)
            | AnyNodeRef::ExprLambda(_)
            | AnyNodeRef::ExprStarred(_)
            | AnyNodeRef::ExprIf(_)
            | AnyNodeRef::ExprListComp(_)
            | AnyNodeRef::ExprSetComp(_)
            | AnyNodeRef::ExprDictComp(_)
            | AnyNodeRef::ExprGenerator(_),
        ) => true,
        Some(AnyNodeRef::StmtAssign(of)) => {
            of.targets.iter().any(is_member) || is_in_class(scope, of)
        }
        Some(AnyNodeRef::StmtAnnAssign(of)) => is_member(&of.target) || is_in_class(scope, of),
        _ => false,
    }
}

/// Returns whether an assignment stores a value in an object, a list or a dict.
const fn is_member(target: &Expr) -> bool {
    matches!(target, Expr::Attribute(_) | Expr::Subscript(_))
}

/// Returns whether a statement is in the body of a class, so that the names which it binds become members of the class.
pub(super) fn is_in_class(scope: &Scope<'_>, statement: impl HasNodeIndex) -> bool {
    matches!(scope.nodes.parent(statement), Some(AnyNodeRef::StmtClassDef(_)))
}

/// Returns whether a node is indexed by a constant key, e.g. `m.__dict__["name"]`. In that case the member is known and
/// is checked itself. Any other use of a module's dictionary can give access to all members.
pub(super) fn is_indexed(scope: &Scope<'_>, node: ExprRef<'_>) -> bool {
    match scope.nodes.parent(node) {
        Some(AnyNodeRef::ExprSubscript(subscript)) => {
            texts(&scope.eval(&*subscript.slice, 0)).next().is_some()
        }
        _ => false,
    }
}
