//! The rule that JavaScript and TypeScript code must not use the constructor of functions, which compiles text.

use super::{
    javascript::{Scope, member},
    javascript_tree::{Call, expression, number},
    value::{Value, Values, last, one},
};
use oxc_ast::{
    AstKind,
    ast::{ComputedMemberExpression, Expression, Statement},
};
use oxc_span::GetSpan;

/// The end of the path of a property's descriptor, after the path of the property.
const DESCRIPTOR: &str = "?descriptor";
/// The end of the path of an object with the descriptors of all properties, after the path of the described object.
const DESCRIPTORS: &str = "?descriptors";

/// Returns whether a path is the constructor of functions.
pub(super) fn is_constructor(path: &str) -> bool {
    // The members of a function are functions, too, except its prototype.
    path.strip_suffix(".constructor").is_some_and(|object| {
        matches!(object, "?function" | "Function.prototype")
            || object.starts_with("?function.") && !object.ends_with(".prototype")
    })
}

/// Returns whether a call of the function `path` calls a constructor that may be the one of functions.
pub(super) fn is_called<'t>(
    scope: &Scope<'t>,
    node: AstKind<'t>,
    call: &Call<'t>,
    path: &str,
) -> bool {
    if path.ends_with("()") {
        return false;
    }
    if last(path) == "constructor" {
        // `new this.constructor()` only creates another object of the same class.
        let is_own = matches!(node, AstKind::NewExpression(_)) && path == "this.constructor";
        let is_number = |argument: &AstKind<'_>| matches!(argument, AstKind::NumericLiteral(_));
        return !is_own && (is_constructor(path) || !call.arguments.iter().all(is_number));
    }
    let Some((object, method @ ("call" | "apply" | "bind"))) = path.rsplit_once('.') else {
        return false;
    };
    if last(object) != "constructor" {
        return false;
    }
    // The constructor of a prototype is a class, and old code calls the one of the class that it extends. The result of
    // `bind` can get its text later.
    is_constructor(object)
        || !object.ends_with(".prototype.constructor")
            && (method == "bind" || call.first_passed().is_some_and(|code| scope.is_text(code)))
}

/// Returns whether a call may call the constructor of functions under a name that is not constant, e.g. `f[x]('code')`
/// or `[][x][x]('code')`.
pub(super) fn may_be_called<'t>(scope: &Scope<'t>, node: AstKind<'t>, call: &Call<'t>) -> bool {
    let Some(function) = call.function.map(Expression::get_inner_expression) else { return false };
    let function = match (call.member(), function) {
        (Some("call" | "apply" | "bind"), Expression::StaticMemberExpression(of)) => {
            of.object.get_inner_expression()
        }
        _ => function,
    };
    let Some(outer) = dynamic(scope, function) else { return false };
    if are_functions(&scope.value(&outer.object, 0))
        || is_run(scope, node) && call.first_passed().is_some_and(|code| scope.is_text(code))
    {
        return true;
    }
    let inner = dynamic(scope, outer.object.get_inner_expression());
    inner.is_some_and(|inner| {
        let is_same = scope.text(inner.expression.span()) == scope.text(outer.expression.span());
        is_same || is_plain(inner.object.get_inner_expression())
    })
}

/// Returns whether the result of a call is itself called at once without arguments, as a function is that was compiled
/// from a text.
fn is_run<'t>(scope: &Scope<'t>, node: AstKind<'t>) -> bool {
    matches!(scope.nodes.parent(node), Some(AstKind::CallExpression(run))
        if run.arguments.is_empty() && number(expression(&run.callee)) == number(node))
}

/// Returns whether an expression is a literal without functions or objects in it. Reading a member of it twice under
/// names that are not constant only serves to hide the names.
fn is_plain(object: &Expression<'_>) -> bool {
    match object {
        Expression::ArrayExpression(list) => list
            .elements
            .iter()
            .all(|part| part.as_expression().is_some_and(Expression::is_literal)),
        Expression::ObjectExpression(object) => object.properties.is_empty(),
        Expression::TemplateLiteral(_) => true,
        object => object.is_literal(),
    }
}

/// Returns whether all values are functions of the code, or their prototype.
pub(super) fn are_functions(values: &Values) -> bool {
    let is_function = |value: &Value| match value {
        Value::Path(path) => matches!(path.as_str(), "?function" | "Function.prototype"),
        _ => false,
    };
    !values.is_empty() && values.iter().all(is_function)
}

/// Returns an expression that reads a member whose name is neither constant nor a number.
fn dynamic<'t>(
    scope: &Scope<'t>,
    read: &'t Expression<'t>,
) -> Option<&'t ComputedMemberExpression<'t>> {
    let AstKind::ComputedMemberExpression(of) = expression(read) else { return None };
    let is_constant = of.expression.is_number_literal()
        || scope.value(&of.expression, 0).iter().all(|key| matches!(key, Value::Text(_)));
    (!is_constant).then_some(of)
}

/// Returns the prototype of an object, as the result of `Object.getPrototypeOf`.
pub(super) fn prototype(objects: &Values) -> Values {
    let path = if are_functions(objects) { "Function.prototype" } else { "?prototype" };
    one(Value::Path(path.to_owned()))
}

/// Returns the descriptor of a property, as the result of `Object.getOwnPropertyDescriptor`.
pub(super) fn descriptor(property: Value) -> Value {
    match property {
        Value::Path(path) => Value::Path(path + DESCRIPTOR),
        other => other,
    }
}

/// Returns the object with all descriptors of an object, as the result of `Object.getOwnPropertyDescriptors`.
pub(super) fn descriptors(objects: &Values) -> Values {
    let all = |object: &Value| match object {
        Value::Path(path) if path.len() < 200 => Value::Path([path, DESCRIPTORS].concat()),
        _ => Value::Unknown,
    };
    objects.iter().map(all).collect()
}

/// Returns the member `name` of a descriptor, or of an object with descriptors; `None` if the path is neither.
pub(super) fn described(path: &str, name: &str) -> Option<Value> {
    if let Some(object) = path.strip_suffix(DESCRIPTORS) {
        let property = member(&one(Value::Path(object.to_owned())), name);
        return property.into_iter().next().map(descriptor);
    }
    let property = path.strip_suffix(DESCRIPTOR).filter(|_| name == "value");
    property.map(|property| Value::Path(property.to_owned()))
}

/// Returns whether a call calls a function that returns its `this`. Outside of strict mode, that is the global object.
pub(super) fn returns_this(call: &Call<'_>) -> bool {
    let mut function = call.function.map(Expression::get_inner_expression);
    if let (Some("call" | "apply"), Some(Expression::StaticMemberExpression(of))) =
        (call.member(), function)
    {
        function = Some(of.object.get_inner_expression());
    }
    if let Some(Expression::SequenceExpression(of)) = function {
        function = of.expressions.last().map(Expression::get_inner_expression);
    }
    let Some(Expression::FunctionExpression(function)) = function else { return false };
    function.body.as_ref().is_some_and(|body| {
        body.statements.iter().any(|statement| {
            matches!(statement, Statement::ReturnStatement(of)
                if matches!(of.argument, Some(Expression::ThisExpression(_))))
        })
    })
}

/// Returns whether a node reads a member of a `this` outside of all functions and classes, which can be the global
/// object.
pub(super) fn is_of_outer_this<'t>(scope: &Scope<'t>, node: AstKind<'t>) -> bool {
    let AstKind::StaticMemberExpression(of) = node else { return false };
    if !matches!(of.object.get_inner_expression(), Expression::ThisExpression(_)) {
        return false;
    }
    let mut at = node;
    while number(at) > 0 && scope.may_work(2) {
        if matches!(at, AstKind::Function(_) | AstKind::Class(_)) {
            return false;
        }
        let Some(parent) = scope.nodes.parent(at) else { return false };
        at = parent;
    }
    true
}
