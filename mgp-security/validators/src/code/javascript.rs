//! Computes the possible values of expressions in JavaScript and TypeScript code without running the code.

use super::{
    javascript_constructors as constructors,
    javascript_globals::{BUILTINS, GLOBALS, TIMERS},
    javascript_passed as passed,
    javascript_tree::{Call, Nodes, assigned, assigned_or_default, expression, number, pattern},
    value::{Names, Value, Values, concatenated, either, one, paths, texts},
};
use ahash::{AHashMap, AHashSet};
use oxc_ast::{
    AstKind,
    ast::{
        AssignmentOperator, AssignmentTargetProperty, BinaryOperator, Expression, MemberExpression,
        PropertyKey, Span, TemplateLiteral,
    },
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// The maximum depth of an expression whose value is computed.
const MAX_DEPTH: usize = 48;

/// The maximum length of a computed text, in bytes. A longer text counts as unknown.
const MAX_TEXT: usize = 4096;
/// The maximum amount of work for computing the values in one source text. A unit of work takes roughly a nanosecond.
const MAX_WORK: usize = 20_000_000;

/// The maximum number of values of an expression.
const MAX_VALUES: usize = 64;

/// The possible values of an expression, in a pointer that is cheap to clone.
pub(super) type Shared = Rc<Values>;

/// The names that a source text binds, and all values computed so far for names and expressions.
#[derive(Debug)]
pub(super) struct Scope<'t> {
    source: &'t str,
    pub(super) nodes: &'t Nodes<'t>,
    pub(super) names: Names,
    unknown: Shared,
    /// The computed values of names. An entry is removed when its name is bound again.
    pub(super) used: RefCell<AHashMap<String, Shared>>,
    /// The results of [`Scope::reaches`] computed so far.
    reaches: RefCell<AHashMap<String, Rc<AHashSet<usize>>>>,
    /// The values computed so far for syntax nodes, indexed by the node's position in `Nodes::all`.
    known: RefCell<Vec<Option<Shared>>>,
    work: Cell<usize>,
}

impl<'t> Scope<'t> {
    /// Creates the scope of a source text, and binds the names that the text declares.
    pub(super) fn new(source: &'t str, nodes: &'t Nodes<'t>) -> Self {
        let mut scope = Self {
            source,
            nodes,
            names: Names::default(),
            unknown: Rc::new(one(Value::Unknown)),
            used: RefCell::default(),
            reaches: RefCell::default(),
            known: RefCell::new(vec![None; nodes.all.len()]),
            work: Cell::new(0),
        };
        for _ in 0..2 {
            nodes.all.iter().for_each(|node| scope.bind(*node));
            scope.known.get_mut().fill(None);
        }
        scope
    }

    /// Adds `amount` to the work done; returns whether more work is allowed.
    pub(super) fn may_work(&self, amount: usize) -> bool {
        self.work.set(self.work.get().saturating_add(amount));
        self.work.get() <= MAX_WORK
    }

    /// Returns the text of a part of the code.
    pub(super) fn text(&self, span: Span) -> &'t str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    pub(super) fn unknown(&self) -> Shared {
        Rc::clone(&self.unknown)
    }

    /// Returns the members that an object pattern reads. Each is paired with the target to which the pattern assigns
    /// it.
    pub(super) fn members_of(&self, target: AstKind<'t>) -> Vec<(String, AstKind<'t>)> {
        match target {
            AstKind::ObjectPattern(object) => object
                .properties
                .iter()
                .map(|part| (self.key(&part.key), pattern(&part.value)))
                .collect(),
            AstKind::ObjectAssignmentTarget(object) => object
                .properties
                .iter()
                .map(|part| match part {
                    AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(part) => {
                        let name = &part.binding;
                        (name.name.to_string(), AstKind::IdentifierReference(name))
                    }
                    AssignmentTargetProperty::AssignmentTargetPropertyProperty(part) => {
                        (self.key(&part.name), assigned_or_default(&part.binding))
                    }
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the name of a property. For a computed property, returns its constant text, or else `*`.
    pub(super) fn key(&self, key: &'t PropertyKey<'t>) -> String {
        match key {
            PropertyKey::StaticIdentifier(name) => name.name.to_string(),
            PropertyKey::PrivateIdentifier(name) => format!("#{}", name.name),
            computed => {
                let key = computed.to_expression();
                let values = self.value(key, 0);
                texts(&values).next().unwrap_or("*").to_owned()
            }
        }
    }

    /// Returns the values that are paths, as long as more work is allowed.
    pub(super) fn paths<'v>(&self, values: &'v Values) -> impl Iterator<Item = &'v str> {
        paths(values).take_while(|path| self.may_work(80 + path.len() / 4))
    }

    /// Returns the possible values of an expression.
    pub(super) fn value(&self, of: &'t Expression<'t>, depth: usize) -> Shared {
        self.eval(expression(of), depth)
    }

    /// Returns the possible values of a node.
    pub(super) fn eval(&self, node: AstKind<'t>, depth: usize) -> Shared {
        if depth > MAX_DEPTH || !self.may_work(20) {
            return self.unknown();
        }
        let number = number(node);
        if let Some(Some(known)) = self.known.borrow().get(number) {
            return Rc::clone(known);
        }
        let values = self.inner(node, depth + 1);
        if depth < MAX_DEPTH / 2
            && let Some(known) = self.known.borrow_mut().get_mut(number)
        {
            *known = Some(Rc::clone(&values));
        }
        values
    }

    /// Returns the possible values of a node. Some nodes have the values of a name or of one of their parts; the values
    /// of other nodes are computed.
    fn inner(&self, node: AstKind<'t>, depth: usize) -> Shared {
        let part = match node {
            AstKind::IdentifierReference(of) if self.is_own(node, &of.name) => {
                let own = self.names.get(&of.name);
                self.may_work(own.map_or(0, cost));
                return own.map_or_else(|| self.unknown(), |own| Rc::new(own.clone()));
            }
            AstKind::IdentifierReference(name) => return self.name(&name.name),
            AstKind::BindingIdentifier(name) => return self.name(&name.name),
            AstKind::AssignmentExpression(of) if of.operator == AssignmentOperator::Assign => {
                &of.right
            }
            AstKind::ParenthesizedExpression(of) => &of.expression,
            AstKind::AwaitExpression(of) => &of.argument,
            AstKind::TSAsExpression(of) => &of.expression,
            AstKind::TSSatisfiesExpression(of) => &of.expression,
            AstKind::TSNonNullExpression(of) => &of.expression,
            AstKind::TSTypeAssertion(of) => &of.expression,
            AstKind::TSInstantiationExpression(of) => &of.expression,
            AstKind::SequenceExpression(of) => match of.expressions.last() {
                Some(last) => last,
                None => return self.unknown(),
            },
            _ => {
                let values = self.compute(node, depth);
                let few = values.len() <= MAX_VALUES;
                self.may_work(if few { 50 + cost(&values) } else { MAX_WORK });
                return if few { Rc::new(values) } else { self.unknown() };
            }
        };
        self.value(part, depth)
    }

    fn compute(&self, node: AstKind<'t>, depth: usize) -> Values {
        let value = |of: &'t Expression<'t>| self.value(of, depth);
        let copied = |of: &'t Expression<'t>| Values::clone(&value(of));
        let path = |path: &str| one(Value::Path(path.to_owned()));
        match node {
            AstKind::ThisExpression(_) => path("this"),
            AstKind::ImportMeta(_) | AstKind::NewTarget(_) => path("import.meta"),
            AstKind::StaticMemberExpression(of) => member(&value(&of.object), &of.property.name),
            AstKind::PrivateFieldExpression(of) => {
                member(&value(&of.object), &format!("#{}", of.field.name))
            }
            AstKind::ComputedMemberExpression(of) => {
                let (object, keys) = (value(&of.object), value(&of.expression));
                let mut all: Values = texts(&keys).flat_map(|key| member(&object, key)).collect();
                if let Expression::ArrayExpression(list) = &of.object {
                    for item in
                        list.elements.iter().filter_map(|item| item.as_expression()).take(12)
                    {
                        all = either(all, copied(item));
                    }
                }
                if all.is_empty() { one(Value::Unknown) } else { all }
            }
            AstKind::StringLiteral(text) => one(Value::Text(text.value.to_string())),
            AstKind::TemplateLiteral(template) => one(self.template(template, depth)),
            AstKind::BinaryExpression(of) if of.operator == BinaryOperator::Addition => {
                concatenated(&value(&of.left), &value(&of.right))
            }
            AstKind::LogicalExpression(of) => either(copied(&of.left), copied(&of.right)),
            AstKind::ConditionalExpression(of) => {
                either(copied(&of.consequent), copied(&of.alternate))
            }
            AstKind::ArrowFunctionExpression(_) | AstKind::Function(_) => path("?function"),
            AstKind::ArrayExpression(_)
            | AstKind::ObjectExpression(_)
            | AstKind::NumericLiteral(_)
            | AstKind::BigIntLiteral(_)
            | AstKind::RegExpLiteral(_) => path("?literal"),
            _ => Call::of(node).map_or_else(|| one(Value::Unknown), |call| self.call(&call, depth)),
        }
    }

    fn name(&self, name: &str) -> Shared {
        if let Some(values) = self.used.borrow().get(name) {
            return Rc::clone(values);
        }
        let is_global = GLOBALS.has(name);
        let global =
            || one(Value::Path(if is_global { "globalThis".to_owned() } else { name.to_owned() }));
        let values = Rc::new(match self.names.get(name) {
            Some(values) if BUILTINS.has(name) || is_global => either(values.clone(), global()),
            Some(values) => values.clone(),
            None => global(),
        });
        self.may_work(200 + cost(&values));
        self.used.borrow_mut().insert(name.to_owned(), Rc::clone(&values));
        values
    }

    /// Returns whether a name of the global object means a variable that the code declares.
    fn is_own(&self, node: AstKind<'t>, name: &str) -> bool {
        GLOBALS.has(name) && passed::is_hidden(self, node, name)
    }

    /// Returns the positions of the nodes in which declarations hide the builtin of this name.
    pub(super) fn reaches(&self, name: &str) -> Rc<AHashSet<usize>> {
        if let Some(known) = self.reaches.borrow().get(name) {
            return Rc::clone(known);
        }
        let reaches = Rc::new(passed::reaches(self, name));
        self.reaches.borrow_mut().insert(name.to_owned(), Rc::clone(&reaches));
        reaches
    }

    /// Returns whether a path is a member of a name that this code does not declare.
    pub(super) fn is_unbound(&self, path: &str) -> bool {
        let name = path.split(['.', '(', '@', '?']).next().unwrap_or_default();
        !name.is_empty()
            && path[name.len()..].starts_with('.')
            && self.names.get(name).is_none()
            && name != "this"
    }

    /// Returns the possible values of the function that a call calls.
    pub(super) fn function(&self, call: &Call<'t>, depth: usize) -> Shared {
        match call.function {
            Some(function) => self.value(function, depth),
            None => Rc::new(one(Value::Path("import".to_owned()))),
        }
    }

    fn call(&self, call: &Call<'t>, depth: usize) -> Values {
        let mut all = Vec::new();
        for value in self.function(call, depth).iter() {
            let result = match value {
                Value::Path(path) => self.result(path, call, depth),
                _ => one(Value::Unknown),
            };
            all = either(all, result);
        }
        if all.is_empty() { one(Value::Unknown) } else { all }
    }

    /// Returns the possible results of a call of the function at a path.
    fn result(&self, path: &str, call: &Call<'t>, depth: usize) -> Values {
        let argument = |at: usize| {
            let argument = call.arguments.get(at);
            argument.map_or_else(|| self.unknown(), |argument| self.eval(*argument, depth))
        };
        match path {
            "require"
            | "import"
            | "module.require"
            | "module.parent.require"
            | "import.meta.require"
            | "process.mainModule.require"
            | "require.main.require"
            | "process.getBuiltinModule"
            | "globalThis.require" => texts(&argument(0))
                .map(|name| Value::Path(module_path(name)))
                .chain([Value::Unknown])
                .collect(),
            "Reflect.get" => texts(&argument(1))
                .flat_map(|name| member(&argument(0), name))
                .chain([Value::Unknown])
                .collect(),
            "Object.getOwnPropertyDescriptor" | "Reflect.getOwnPropertyDescriptor" => {
                texts(&argument(1))
                    .flat_map(|name| member(&argument(0), name))
                    .map(constructors::descriptor)
                    .chain([Value::Unknown])
                    .collect()
            }
            "Object.getOwnPropertyDescriptors" => constructors::descriptors(&argument(0)),
            "Object.getPrototypeOf" | "Reflect.getPrototypeOf" => {
                constructors::prototype(&argument(0))
            }
            "String.fromCharCode"
            | "String.fromCodePoint"
            | "atob"
            | "String"
            | "unescape"
            | "decodeURIComponent" => one(Value::AnyText),
            "?function" | "?function.call" | "?function.apply"
                if constructors::returns_this(call) =>
            {
                one(Value::Path("globalThis".to_owned()))
            }
            timer if sets_this(timer, call) => one(Value::Path(timer.to_owned())),
            _ => self.method(call, depth).unwrap_or_else(|| {
                one(Value::Path(if path.len() < 200 {
                    [path, "()"].concat()
                } else {
                    "?()".to_owned()
                }))
            }),
        }
    }

    /// Returns the result of a method call on a constant text or on a list of texts.
    fn method(&self, call: &Call<'t>, depth: usize) -> Option<Values> {
        let member = call.function?.get_member_expr()?;
        let object = member.object();
        let name = match member {
            MemberExpression::ComputedMemberExpression(_) => return None,
            named => named.static_property_name().unwrap_or_default(),
        };
        let arguments = &call.arguments;
        let is_certain = Cell::new(true);
        let text_of = |node: &AstKind<'t>| {
            let values = self.eval(*node, depth);
            is_certain.set(is_certain.get() && values.len() == 1);
            texts(&values).next().map(str::to_owned)
        };
        // Only the first value of each part is used. If a part does not have exactly one value, the result can
        // therefore also be any other text.
        let result = |value: Value| {
            let others = if is_certain.get() { Vec::new() } else { one(Value::AnyText) };
            Some(either(one(value), others))
        };
        if let ("join", Expression::ArrayExpression(list)) = (name, object) {
            let parts: Option<Vec<String>> = list
                .elements
                .iter()
                .filter(|part| !part.is_elision())
                .map(|part| text_of(&expression(part.as_expression()?)))
                .collect();
            let between = arguments.first().map_or_else(|| Some(",".to_owned()), text_of);
            let joined = parts.zip(between).map(|(parts, between)| short(parts.join(&between)));
            return result(joined.unwrap_or(Value::AnyText));
        }
        let text = text_of(&expression(object))?;
        self.may_work(8 * text.len());
        result(match name {
            "toLowerCase" => Value::Text(text.to_lowercase()),
            "toUpperCase" => Value::Text(text.to_uppercase()),
            "trim" | "toString" | "valueOf" => Value::Text(text),
            "concat" => arguments
                .iter()
                .map(text_of)
                .collect::<Option<String>>()
                .map_or(Value::AnyText, |rest| short(text + &rest)),
            "replace" | "replaceAll" => {
                match (arguments.first().and_then(text_of), arguments.get(1).and_then(text_of)) {
                    (Some(from), Some(to))
                        if text.len() + text.matches(&from).count() * to.len() <= MAX_TEXT =>
                    {
                        Value::Text(text.replace(&from, &to))
                    }
                    _ => Value::AnyText,
                }
            }
            "split" | "match" | "indexOf" | "includes" => Value::Unknown,
            _ => Value::AnyText,
        })
    }

    fn template(&self, template: &'t TemplateLiteral<'t>, depth: usize) -> Value {
        let mut text = String::new();
        let mut parts = template.expressions.iter();
        for quasi in &template.quasis {
            text.push_str(quasi.value.cooked.as_deref().unwrap_or_default());
            match parts
                .next()
                .map(|part| self.value(part, depth))
                .as_ref()
                .map(|part| part.as_slice())
            {
                Some([Value::Text(part)]) => text.push_str(part),
                Some(_) => return Value::AnyText,
                None => {}
            }
        }
        if template.expressions.is_empty() { Value::Text(text) } else { short(text) }
    }

    /// Returns whether an expression may be a text.
    pub(super) fn is_text(&self, node: AstKind<'t>) -> bool {
        let values = self.eval(node, 0);
        values.iter().any(|value| matches!(value, Value::Text(_) | Value::AnyText))
    }

    /// Returns whether an identifier is a use of a value, and neither a binding nor the name of a type.
    pub(super) fn is_use(&self, node: AstKind<'t>) -> bool {
        let parent = self.nodes.parent(node);
        match node {
            AstKind::BindingIdentifier(_) => matches!(
                parent,
                Some(AstKind::BindingProperty(property)) if !property.shorthand
            ),
            _ => {
                !matches!(
                    parent,
                    Some(
                        AstKind::ArrayAssignmentTarget(_)
                            | AstKind::AssignmentTargetRest(_)
                            | AstKind::AssignmentTargetPropertyIdentifier(_)
                            | AstKind::TSTypeReference(_)
                            | AstKind::TSTypeQuery(_)
                            | AstKind::TSQualifiedName(_)
                            | AstKind::TSClassImplements(_)
                            | AstKind::TSInterfaceHeritage(_)
                    )
                ) && !matches!(
                    parent,
                    Some(AstKind::AssignmentTargetWithDefault(default))
                        if number(assigned(&default.binding)) == number(node)
                )
            }
        }
    }
}

/// Returns whether a call is `f.bind(x)` for a timer function `f`. Its result is the same function with another `this`.
fn sets_this(path: &str, call: &Call<'_>) -> bool {
    TIMERS.has(path) && call.member() == Some("bind") && call.arguments.len() < 2
}

/// Returns a computed text as a value, or an unknown text if it is too long.
fn short(text: String) -> Value {
    if text.len() > MAX_TEXT { Value::AnyText } else { Value::Text(text) }
}

/// Returns the amount of work that copying the values takes, in the unit of `MAX_WORK`.
pub(super) fn cost(values: &Values) -> usize {
    let cost = |value: &Value| match value {
        Value::Text(text) | Value::Path(text) => 40 + text.len() / 4,
        Value::AnyText | Value::Unknown => 5,
    };
    values.iter().map(cost).sum()
}

/// Returns the possible values of a member of an object, given the possible values of the object.
pub(super) fn member(values: &Values, name: &str) -> Values {
    values
        .iter()
        .map(|value| match value {
            // These members of elements and documents are global objects.
            _ if matches!(name, "defaultView" | "contentWindow") => {
                Value::Path("globalThis".to_owned())
            }
            Value::Path(path) if path == "globalThis" && GLOBALS.has(name) => {
                Value::Path("globalThis".to_owned())
            }
            Value::Path(path) if path == "globalThis" => Value::Path(name.to_owned()),
            // `f.bind`, `f.call` and `f.apply` count as the function `f` itself; `Reflect` is not a function.
            Value::Path(path)
                if matches!(name, "call" | "apply" | "bind" | "default")
                    && (BUILTINS.has(path.as_str()) && path != "Reflect" || name == "default") =>
            {
                Value::Path(path.clone())
            }
            Value::Path(path) if path.len() < 200 => constructors::described(path, name)
                .unwrap_or_else(|| Value::Path([path, ".", name].concat())),
            _ => Value::Path(["?.", name].concat()),
        })
        .collect()
}

/// Returns the path of the module that an import specifier names. The modules `process` and `bun` are the global
/// objects of these names.
pub(super) fn module_path(specifier: &str) -> String {
    match module_of(specifier).as_str() {
        "process" => "process".to_owned(),
        "bun" => "Bun".to_owned(),
        module => format!("@{module}"),
    }
}

/// Returns the module that an import specifier names, without the prefix `node:`.
pub(super) fn module_of(specifier: &str) -> String {
    specifier.trim().strip_prefix("node:").unwrap_or(specifier.trim()).to_owned()
}
