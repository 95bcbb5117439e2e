//! Uses of names in Python that the rules would refuse, but that do no harm in their place.

use super::{python_names::BUILTINS, python_tree::Nodes, python_values::Scope};
use ruff_python_ast::{AnyNodeRef, Expr, ExprName, ExprRef};

/// Returns whether a name is used in the body of a function that has a parameter of this name, so that it cannot mean
/// a builtin.
pub(super) fn is_own_parameter(scope: &Scope<'_>, name: &ExprName) -> bool {
    if !BUILTINS.has(&name.id) {
        return false;
    }
    let mut below = AnyNodeRef::from(name);
    while let Some(node) = scope.nodes.parent(below).filter(|_| scope.may_judge(1)) {
        let parameters = match node {
            // Decorators, annotations and default values are evaluated outside of the function.
            AnyNodeRef::StmtFunctionDef(of) if below.is_statement() => Some(&*of.parameters),
            AnyNodeRef::ExprLambda(of) if below.is_expression() => of.parameters.as_deref(),
            // A name that the body of a class binds is not looked up in the function around the class.
            AnyNodeRef::StmtClassDef(_) if below.is_statement() => return false,
            _ => None,
        };
        if parameters.is_some_and(|parameters| parameters.includes(&name.id)) {
            return !scope.globals.contains(name.id.as_str());
        }
        below = node;
    }
    false
}

/// Returns whether an expression is a type with which `isinstance` or `issubclass` compares, alone or in a tuple.
pub(super) fn is_tested(scope: &Scope<'_>, node: ExprRef<'_>) -> bool {
    let (place, parent) = match scope.nodes.parent(node) {
        Some(AnyNodeRef::ExprTuple(types)) => (Nodes::place(types), scope.nodes.parent(types)),
        parent => (Nodes::place(node), parent),
    };
    let Some(AnyNodeRef::Arguments(arguments)) = parent else { return false };
    let Some(AnyNodeRef::ExprCall(call)) = scope.nodes.parent(arguments) else { return false };
    // A class can have its own test, which receives the first argument and so could pass it on.
    arguments.args.get(1).is_some_and(|types| Nodes::place(types) == place)
        && matches!(&*call.func, Expr::Name(function)
            if matches!(function.id.as_str(), "isinstance" | "issubclass")
                && !scope.binds(&function.id))
}

/// Returns whether a path is the `__dict__` of an instance of a class, e.g. `@models.User().__dict__`.
pub(super) fn is_of_instance(path: &str) -> bool {
    let object = path.strip_suffix("().__dict__").unwrap_or_default();
    let name = object.rsplit(['.', '(', ')']).next().unwrap_or_default();
    name.starts_with(char::is_uppercase) || name == "parse_args"
}

/// Returns whether a text for `str.format` reads an attribute through which code can get at more than the name of a
/// class.
pub(super) fn reads_inner(format: &str) -> bool {
    const HARMLESS: [&str; 5] = ["__class__", "__name__", "__qualname__", "__module__", "__doc__"];
    let names = format.match_indices(".__").chain(format.match_indices("[__"));
    names.map(|(at, _)| format.get(at + 1..).unwrap_or_default()).any(|name| {
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        !HARMLESS.contains(&name.get(..end).unwrap_or_default())
    })
}
