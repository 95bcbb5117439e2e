//! The rule that JavaScript and TypeScript code must not pass on objects that give access to everything, e.g.
//! `process`: the checks cannot follow their further use.

use super::{
    javascript::Scope,
    javascript_constructors::is_constructor,
    javascript_globals::{GLOBALS, is_sensitive},
    javascript_tree::{Call, expression, number},
    value::{Findings, Value, paths},
};
use crate::words::Words;
use ahash::AHashSet;
use oxc_ast::{
    AstKind,
    ast::{BindingPattern, Expression, LogicalOperator, ObjectPropertyKind},
};
use oxc_span::GetSpan;

/// The objects that code must not pass on. Other names of the global object, e.g. `root`, are missing here, because
/// variables often have these names.
static ROOTS: Words = Words::new("process module globalThis global Deno Bun");
/// Functions that neither store an argument nor return a member of it.
static HARMLESS: Words = Words::new(
    "\
    console.log console.error console.info console.debug console.warn console.dir console.table \
    console.assert Object.keys Object.getOwnPropertyNames Object.hasOwn Reflect.has \
    Reflect.ownKeys String Boolean Array.isArray Object.is @util.inspect \
    Object.prototype.toString.call ?literal.toString.call toString.call",
);

/// Reports the objects in [`ROOTS`] that a syntax node passes on, e.g. as an argument or an element of a list.
pub(super) fn check<'t>(
    scope: &Scope<'t>,
    node: AstKind<'t>,
    call: Option<&Call<'t>>,
    found: &mut Findings,
) {
    if let AstKind::WithStatement(with) = node {
        let values = scope.value(&with.object, 0);
        if scope.paths(&values).any(is_sensitive) {
            found.pattern("with (");
        }
        return;
    }
    let mut parts = call.map_or_else(|| passed(node), |call| call.arguments.clone());
    parts.retain(|part| is_root(scope, *part));
    // `is_harmless` takes longer, so it is called last: nearly no node passes on such an object.
    if parts.is_empty() || call.is_some_and(|call| is_harmless(scope, call)) {
        return;
    }
    for part in parts {
        found.pattern(scope.text(part.span()));
    }
}

/// Returns the expressions whose values a syntax node passes on; calls are handled elsewhere.
fn passed(node: AstKind<'_>) -> Vec<AstKind<'_>> {
    let part = match node {
        AstKind::ArrayExpression(list) => {
            let parts = list.elements.iter().filter_map(|part| part.as_expression());
            return parts.map(expression).collect();
        }
        AstKind::ObjectExpression(object) => {
            let pairs = object.properties.iter().filter_map(|property| match property {
                ObjectPropertyKind::ObjectProperty(pair) => Some(expression(&pair.value)),
                ObjectPropertyKind::SpreadProperty(_) => None,
            });
            return pairs.collect();
        }
        AstKind::SpreadElement(spread) => Some(&spread.argument),
        AstKind::AssignmentExpression(of) if of.left.as_member_expression().is_some() => {
            Some(&of.right)
        }
        AstKind::PropertyDefinition(property) => property.value.as_ref(),
        AstKind::ThrowStatement(statement) => Some(&statement.argument),
        AstKind::YieldExpression(of) => of.argument.as_ref(),
        AstKind::ReturnStatement(statement) => statement.argument.as_ref(),
        AstKind::ArrowFunctionExpression(function) => function.get_expression(),
        // A rest pattern (`const {a, ...rest} = process`) binds the other members to another name, so it passes the
        // object on.
        AstKind::VariableDeclarator(declared) => match &declared.id {
            BindingPattern::ObjectPattern(pattern) if pattern.rest.is_some() => {
                declared.init.as_ref()
            }
            _ => None,
        },
        _ => None,
    };
    part.map(expression).into_iter().collect()
}

fn is_harmless<'t>(scope: &Scope<'t>, call: &Call<'t>) -> bool {
    let is_listed = |value: &Value| matches!(value, Value::Path(path) if HARMLESS.has(path));
    scope.function(call, 0).iter().all(is_listed)
}

/// Returns whether the value of a node can be one of the objects in [`ROOTS`].
fn is_root<'t>(scope: &Scope<'t>, node: AstKind<'t>) -> bool {
    let is_part = |part: &'t Expression<'t>| is_root(scope, expression(part));
    match node {
        AstKind::IdentifierReference(name) => is_root_name(scope, node, &name.name),
        AstKind::StaticMemberExpression(of) if is_own_variable(scope, &of.object) => false,
        AstKind::ComputedMemberExpression(of) if is_own_variable(scope, &of.object) => false,
        // `globalThis` is not compared: the path also results from variables that are called `root`, which are often
        // other objects.
        AstKind::StaticMemberExpression(_)
        | AstKind::ComputedMemberExpression(_)
        | AstKind::CallExpression(_)
        | AstKind::ImportExpression(_) => {
            let is_listed =
                |path: &str| path != "globalThis" && ROOTS.has(path) || is_constructor(path);
            scope.paths(&scope.eval(node, 0)).any(is_listed)
        }
        AstKind::ParenthesizedExpression(of) => is_part(&of.expression),
        AstKind::AwaitExpression(of) => is_part(&of.argument),
        AstKind::TSAsExpression(of) => is_part(&of.expression),
        AstKind::TSSatisfiesExpression(of) => is_part(&of.expression),
        AstKind::TSNonNullExpression(of) => is_part(&of.expression),
        AstKind::TSTypeAssertion(of) => is_part(&of.expression),
        AstKind::AssignmentExpression(of) => is_part(&of.right),
        // If the left side of `&&` is the result, it is falsy, and so it is not an object.
        AstKind::LogicalExpression(of) if of.operator == LogicalOperator::And => is_part(&of.right),
        AstKind::LogicalExpression(of) => is_part(&of.left) || is_part(&of.right),
        AstKind::ConditionalExpression(of) => is_part(&of.consequent) || is_part(&of.alternate),
        AstKind::SequenceExpression(of) => of.expressions.last().is_some_and(is_part),
        _ => false,
    }
}

/// Returns whether the value of a name can be one of the objects in [`ROOTS`].
fn is_root_name<'t>(scope: &Scope<'t>, node: AstKind<'t>, name: &str) -> bool {
    let declares = |name: &str| scope.names.get(name).is_some();
    let declared = scope.names.get(name);
    if ROOTS.has(name) {
        let own = if GLOBALS.has(name) { "globalThis" } else { name };
        return declared.is_some_and(|values| paths(values).any(|path| path == own))
            || !is_hidden(scope, node, name);
    }
    // If the code itself declares a name in [`ROOTS`], that name and its aliases can be other objects. So they do not
    // count.
    let is_certain = |path: &str| match path {
        "globalThis" => !GLOBALS.has(name) && !GLOBALS.iter().any(declares) && names_global(scope),
        _ => ROOTS.has(path) && !declares(path) || is_constructor(path),
    };
    declared.is_some_and(|values| paths(values).any(is_certain))
}

/// Returns whether the code uses the global object under a name in [`ROOTS`]. Only in this case do its aliases count as
/// the global object, because most code with an alias of `window` only handles events of a page.
fn names_global(scope: &Scope<'_>) -> bool {
    scope.may_work(scope.nodes.all.len())
        && scope.nodes.all.iter().any(|node| {
            matches!(node, AstKind::IdentifierReference(of)
                if matches!(of.name.as_str(), "globalThis" | "global"))
        })
}

/// Returns whether an expression is a variable that the code itself declares under a name of the global object, e.g.
/// `self`.
pub(super) fn is_own_variable<'t>(scope: &Scope<'t>, object: &'t Expression<'t>) -> bool {
    let node = expression(object);
    let AstKind::IdentifierReference(name) = node else { return false };
    let is_global = |values| paths(values).any(|path| path == "globalThis");
    GLOBALS.has(&name.name)
        && !scope.names.get(&name.name).is_some_and(is_global)
        && is_hidden(scope, node, &name.name)
}

/// Returns whether a declaration in the code hides the builtin of this name at the node `used`.
pub(super) fn is_hidden<'t>(scope: &Scope<'t>, used: AstKind<'t>, name: &str) -> bool {
    if scope.names.get(name).is_none() {
        return false;
    }
    let reaches = scope.reaches(name);
    let mut at = used;
    while !reaches.contains(&number(at)) {
        // The decorator of a parameter is evaluated outside of the function. The first node is its own parent.
        if matches!(at, AstKind::Decorator(_)) || number(at) == 0 || !scope.may_work(2) {
            return false;
        }
        let Some(parent) = scope.nodes.parent(at) else { return false };
        at = parent;
    }
    true
}

/// Returns the positions of the nodes in which declarations hide the builtin of this name.
pub(super) fn reaches(scope: &Scope<'_>, name: &str) -> AHashSet<usize> {
    let nodes = scope.nodes.all.iter().filter(|_| scope.may_work(1));
    let reaches = nodes.filter_map(|node| match node {
        AstKind::BindingIdentifier(declared) if declared.name.as_str() == name => {
            reach(scope, *node)
        }
        _ => None,
    });
    reaches.collect()
}

/// Returns the position of the node that is the scope of a declared name; `None` if the name might still mean a builtin
/// in that scope.
fn reach<'t>(scope: &Scope<'t>, declared: AstKind<'t>) -> Option<usize> {
    let mut at = scope.nodes.parent(declared)?;
    match at {
        AstKind::Function(of) if of.declare || of.body.is_none() => return None,
        AstKind::Class(of) if of.declare => return None,
        AstKind::Function(of) if !of.is_declaration() => return Some(number(at)),
        AstKind::Class(of) if !of.is_declaration() => return Some(number(at)),
        AstKind::Function(_) | AstKind::Class(_) => at = scope.nodes.parent(at)?,
        _ => {}
    }
    let (mut is_parameter, mut is_var) = (false, false);
    loop {
        match at {
            AstKind::FormalParameters(_) => is_parameter = true,
            AstKind::VariableDeclaration(of) if of.declare => return None,
            AstKind::VariableDeclaration(of) => is_var = of.kind.is_var(),
            AstKind::ImportDeclaration(of) if of.import_kind.is_type() => return None,
            AstKind::ImportSpecifier(of) if of.import_kind.is_type() => return None,
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) if is_parameter => {
                return Some(number(at));
            }
            AstKind::FunctionBody(_) | AstKind::StaticBlock(_) | AstKind::TSModuleBlock(_) => {
                return Some(number(at));
            }
            AstKind::BlockStatement(_)
            | AstKind::ForStatement(_)
            | AstKind::ForInStatement(_)
            | AstKind::ForOfStatement(_)
            | AstKind::CatchClause(_)
            | AstKind::SwitchCase(_)
                if !is_var =>
            {
                return Some(number(at));
            }
            // In a script, `var process` at the top level can still be the builtin, so it hides nothing.
            AstKind::Program(_) => return (!is_var).then(|| number(at)),
            AstKind::FormalParameter(_)
            | AstKind::FormalParameterRest(_)
            | AstKind::BindingRestElement(_)
            | AstKind::ObjectPattern(_)
            | AstKind::ArrayPattern(_)
            | AstKind::AssignmentPattern(_)
            | AstKind::BindingProperty(_)
            | AstKind::VariableDeclarator(_)
            | AstKind::CatchParameter(_)
            | AstKind::ExportDeclaration(_)
            | AstKind::ExportDefaultDeclaration(_)
            | AstKind::ImportDeclaration(_)
            | AstKind::ImportSpecifier(_)
            | AstKind::ImportDefaultSpecifier(_)
            | AstKind::ImportNamespaceSpecifier(_) => {}
            _ if is_var => {}
            _ => return None,
        }
        at = scope.nodes.parent(at)?;
    }
}
