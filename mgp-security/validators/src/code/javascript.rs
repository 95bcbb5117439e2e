//! JavaScript and TypeScript: bindings and the values of expressions.

use super::{
    CodePolicy, javascript_rules as rules,
    javascript_tree::{
        Call, Nodes, assigned, assigned_or_default, expression, number, pattern, with_tree,
    },
    value::{Findings, Names, Value, Values, concatenated, either, one, texts},
};
use oxc_ast::{
    AstKind,
    ast::{
        AssignmentExpression, AssignmentOperator, AssignmentTargetProperty, BinaryOperator,
        Expression, ForStatementLeft, ImportDeclaration, ImportDeclarationSpecifier,
        MemberExpression, PropertyKey, Span, TSModuleReference, TemplateLiteral,
    },
};
use oxc_span::GetSpan;
use std::cell::RefCell;

/// The maximum depth of an expression whose value is computed.
const MAX_DEPTH: usize = 48;

/// A grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    JavaScript,
    #[cfg(feature = "typescript")]
    TypeScript,
    #[cfg(feature = "typescript")]
    Tsx,
}

// === impl Dialect ===

impl Dialect {
    /// Returns whether the grammar has types.
    pub(super) fn has_types(self) -> bool {
        self != Self::JavaScript
    }

    /// Returns whether the grammar has elements.
    pub(super) fn has_markup(self) -> bool {
        match self {
            Self::JavaScript => true,
            #[cfg(feature = "typescript")]
            Self::TypeScript => false,
            #[cfg(feature = "typescript")]
            Self::Tsx => true,
        }
    }
}

/// Checks code.
///
/// # Errors
/// The reason why it cannot be judged.
pub(super) fn check(
    policy: &CodePolicy,
    source: &str,
    dialect: Dialect,
    found: &mut Findings,
) -> Result<(), String> {
    with_tree(source, dialect, |nodes| {
        let known = RefCell::new(vec![None; nodes.all.len()]);
        let mut scope = Scope { source, nodes, names: Names::default(), known };
        for _ in 0..2 {
            nodes.all.iter().for_each(|node| scope.bind(*node));
            scope.known.get_mut().fill(None);
        }
        nodes.all.iter().for_each(|node| rules::check(policy, &scope, *node, found));
    })
}

/// The bindings of a text.
#[derive(Debug)]
pub(super) struct Scope<'t> {
    source: &'t str,
    pub(super) nodes: &'t Nodes<'t>,
    names: Names,
    /// The values of nodes that were computed, by the node's number.
    known: RefCell<Vec<Option<Values>>>,
}

impl<'t> Scope<'t> {
    /// Returns the text of a part of the code.
    pub(super) fn text(&self, span: Span) -> &'t str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    fn bind(&mut self, node: AstKind<'t>) {
        let unknown = || one(Value::Unknown);
        match node {
            AstKind::VariableDeclarator(declared) => {
                let values =
                    declared.init.as_ref().map_or_else(unknown, |value| self.value(value, 0));
                self.target(pattern(&declared.id), &values);
            }
            AstKind::AssignmentExpression(assignment) => self.assign(assignment),
            AstKind::AssignmentPattern(default) => {
                let values = self.value(&default.right, 0);
                self.target(pattern(&default.left), &values);
            }
            AstKind::AssignmentTargetWithDefault(default) => {
                let values = self.value(&default.init, 0);
                self.target(assigned(&default.binding), &values);
            }
            AstKind::AssignmentTargetPropertyIdentifier(default) => {
                if let Some(value) = &default.init {
                    let values = self.value(value, 0);
                    self.names.bind(&default.binding.name, values);
                }
            }
            AstKind::FormalParameter(parameter) => {
                self.target(pattern(&parameter.pattern), &unknown());
                if let Some(value) = &parameter.initializer {
                    let values = self.value(value, 0);
                    self.target(pattern(&parameter.pattern), &values);
                }
            }
            AstKind::BindingRestElement(rest) => self.target(pattern(&rest.argument), &unknown()),
            AstKind::AssignmentTargetRest(rest) => self.target(assigned(&rest.target), &unknown()),
            AstKind::CatchParameter(caught) => self.target(pattern(&caught.pattern), &unknown()),
            AstKind::ForInStatement(statement) => self.each(&statement.left),
            AstKind::ForOfStatement(statement) => self.each(&statement.left),
            AstKind::Function(function) if function.is_declaration() => {
                if let Some(name) = &function.id {
                    self.names.bind(&name.name, unknown());
                }
            }
            AstKind::Class(class) if class.is_declaration() => {
                if let Some(name) = &class.id {
                    self.names.bind(&name.name, unknown());
                }
            }
            AstKind::ImportDeclaration(import) => self.import(import),
            AstKind::TSImportEqualsDeclaration(import) => {
                if let TSModuleReference::ExternalModuleReference(module) = &import.module_reference
                {
                    let module = Value::Path(format!("@{}", module_of(&module.expression.value)));
                    self.names.bind(&import.id.name, one(module));
                }
            }
            _ => {}
        }
    }

    fn each(&mut self, left: &'t ForStatementLeft<'t>) {
        if let Some(target) = left.as_assignment_target() {
            self.target(assigned(target), &one(Value::Unknown));
        }
    }

    fn assign(&mut self, assignment: &'t AssignmentExpression<'t>) {
        let left = assigned(&assignment.left);
        let values = self.value(&assignment.right, 0);
        if assignment.operator == AssignmentOperator::Assign {
            return self.target(left, &values);
        }
        let added = match concatenated(&self.eval(left, 0), &values).first() {
            Some(Value::Text(_) | Value::AnyText) => Value::AnyText,
            _ => Value::Unknown,
        };
        self.target(left, &either(values, one(added)));
    }

    fn import(&mut self, import: &ImportDeclaration<'_>) {
        let module = module_of(&import.source.value);
        for specifier in import.specifiers.iter().flatten() {
            let (local, path) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(name) => {
                    (&name.local, format!("@{module}.{}", name.imported.name()))
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(name) => {
                    (&name.local, format!("@{module}"))
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(name) => {
                    (&name.local, format!("@{module}"))
                }
            };
            self.names.bind(&local.name, one(Value::Path(path)));
        }
    }

    /// Binds the names of a pattern.
    fn target(&mut self, target: AstKind<'t>, values: &Values) {
        let unknown = one(Value::Unknown);
        match target {
            AstKind::BindingIdentifier(name) => self.names.bind(&name.name, values.clone()),
            AstKind::IdentifierReference(name) => self.names.bind(&name.name, values.clone()),
            AstKind::AssignmentPattern(default) => self.target(pattern(&default.left), values),
            AstKind::AssignmentTargetWithDefault(default) => {
                self.target(assigned(&default.binding), values);
            }
            AstKind::ArrayPattern(list) => {
                for part in list.elements.iter().flatten() {
                    self.target(pattern(part), &unknown);
                }
            }
            AstKind::ArrayAssignmentTarget(list) => {
                for part in list.elements.iter().flatten() {
                    self.target(assigned_or_default(part), &unknown);
                }
            }
            _ => {
                for (name, part) in self.members_of(target) {
                    self.target(part, &member(values, &name));
                }
            }
        }
    }

    /// Returns the names of the members that an object pattern takes, and where it puts them.
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

    /// Returns the name of a property, or its text if that is computed.
    pub(super) fn key(&self, key: &'t PropertyKey<'t>) -> String {
        match key {
            PropertyKey::StaticIdentifier(name) => name.name.to_string(),
            PropertyKey::PrivateIdentifier(name) => format!("#{}", name.name),
            computed => {
                let key = computed.to_expression();
                let values = self.value(key, 0);
                texts(&values).next().unwrap_or_else(|| self.text(key.span())).to_owned()
            }
        }
    }

    /// Returns the possible values of an expression.
    pub(super) fn value(&self, of: &'t Expression<'t>, depth: usize) -> Values {
        self.eval(expression(of), depth)
    }

    /// Returns the possible values of a node.
    pub(super) fn eval(&self, node: AstKind<'t>, depth: usize) -> Values {
        if depth > MAX_DEPTH {
            return one(Value::Unknown);
        }
        let number = number(node);
        if let Some(Some(known)) = self.known.borrow().get(number) {
            return known.clone();
        }
        let values = self.compute(node, depth + 1);
        if depth < MAX_DEPTH / 2
            && let Some(known) = self.known.borrow_mut().get_mut(number)
        {
            *known = Some(values.clone());
        }
        values
    }

    fn compute(&self, node: AstKind<'t>, depth: usize) -> Values {
        let value = |of: &'t Expression<'t>| self.value(of, depth);
        let path = |path: &str| one(Value::Path(path.to_owned()));
        match node {
            AstKind::IdentifierReference(name) => self.name(&name.name),
            AstKind::BindingIdentifier(name) => self.name(&name.name),
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
                        all = either(all, value(item));
                    }
                }
                if all.is_empty() { one(Value::Unknown) } else { all }
            }
            AstKind::StringLiteral(text) => one(Value::Text(text.value.to_string())),
            AstKind::TemplateLiteral(template) => one(self.template(template, depth)),
            AstKind::BinaryExpression(of) if of.operator == BinaryOperator::Addition => {
                concatenated(&value(&of.left), &value(&of.right))
            }
            AstKind::LogicalExpression(of) => either(value(&of.left), value(&of.right)),
            AstKind::ConditionalExpression(of) => {
                either(value(&of.consequent), value(&of.alternate))
            }
            AstKind::AssignmentExpression(of) if of.operator == AssignmentOperator::Assign => {
                value(&of.right)
            }
            AstKind::ParenthesizedExpression(of) => value(&of.expression),
            AstKind::AwaitExpression(of) => value(&of.argument),
            AstKind::TSAsExpression(of) => value(&of.expression),
            AstKind::TSSatisfiesExpression(of) => value(&of.expression),
            AstKind::TSNonNullExpression(of) => value(&of.expression),
            AstKind::TSTypeAssertion(of) => value(&of.expression),
            AstKind::TSInstantiationExpression(of) => value(&of.expression),
            AstKind::SequenceExpression(of) => {
                of.expressions.last().map_or_else(|| one(Value::Unknown), value)
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

    fn name(&self, name: &str) -> Values {
        let global = || {
            one(Value::Path(if rules::GLOBALS.has(name) {
                "globalThis".to_owned()
            } else {
                name.to_owned()
            }))
        };
        match self.names.get(name) {
            Some(values) if rules::BUILTINS.has(name) || rules::GLOBALS.has(name) => {
                either(values.clone(), global())
            }
            Some(values) => values.clone(),
            None => global(),
        }
    }

    /// Returns whether a path is a member of a name that this code does not bind.
    pub(super) fn is_unbound(&self, path: &str) -> bool {
        let name = path.split(['.', '(', '@', '?']).next().unwrap_or_default();
        !name.is_empty()
            && path[name.len()..].starts_with('.')
            && self.names.get(name).is_none()
            && name != "this"
    }

    /// Returns the possible values of the function that is called.
    pub(super) fn function(&self, call: &Call<'t>, depth: usize) -> Values {
        match call.function {
            Some(function) => self.value(function, depth),
            None => one(Value::Path("import".to_owned())),
        }
    }

    fn call(&self, call: &Call<'t>, depth: usize) -> Values {
        let unknown = || one(Value::Unknown);
        let argument = |at: usize| {
            call.arguments.get(at).map_or_else(unknown, |argument| self.eval(*argument, depth))
        };
        let mut all = Vec::new();
        for value in self.function(call, depth) {
            let Value::Path(path) = value else {
                all = either(all, unknown());
                continue;
            };
            let required = matches!(
                path.as_str(),
                "require"
                    | "import"
                    | "module.require"
                    | "process.mainModule.require"
                    | "require.main.require"
                    | "process.getBuiltinModule"
                    | "globalThis.require"
            );
            let result = if required {
                texts(&argument(0))
                    .map(|name| Value::Path(format!("@{}", module_of(name))))
                    .chain([Value::Unknown])
                    .collect()
            } else {
                match path.as_str() {
                    "Reflect.get" => texts(&argument(1))
                        .flat_map(|name| member(&argument(0), name))
                        .chain([Value::Unknown])
                        .collect(),
                    "String.fromCharCode"
                    | "String.fromCodePoint"
                    | "atob"
                    | "String"
                    | "unescape"
                    | "decodeURIComponent" => one(Value::AnyText),
                    "Object.getPrototypeOf" | "Reflect.getPrototypeOf" => {
                        one(Value::Path("?prototype".to_owned()))
                    }
                    _ => match self.method(call, depth) {
                        Some(values) => values,
                        None => one(Value::Path(if path.len() < 200 {
                            format!("{path}()")
                        } else {
                            "?()".to_owned()
                        })),
                    },
                }
            };
            all = either(all, result);
        }
        if all.is_empty() { unknown() } else { all }
    }

    /// Returns the result of a method of a constant text or of a list of texts.
    fn method(&self, call: &Call<'t>, depth: usize) -> Option<Values> {
        let member = call.function?.get_member_expr()?;
        let object = member.object();
        let name = match member {
            MemberExpression::ComputedMemberExpression(_) => return None,
            named => named.static_property_name().unwrap_or_default(),
        };
        let arguments = &call.arguments;
        let text_of =
            |node: &AstKind<'t>| texts(&self.eval(*node, depth)).next().map(str::to_owned);
        if let ("join", Expression::ArrayExpression(list)) = (name, object) {
            let parts: Option<Vec<String>> = list
                .elements
                .iter()
                .filter(|part| !part.is_elision())
                .map(|part| text_of(&expression(part.as_expression()?)))
                .collect();
            let between = arguments.first().and_then(text_of).unwrap_or_else(|| ",".to_owned());
            return Some(one(
                parts.map_or(Value::AnyText, |parts| Value::Text(parts.join(&between)))
            ));
        }
        let text = text_of(&expression(object))?;
        Some(one(match name {
            "toLowerCase" => Value::Text(text.to_lowercase()),
            "toUpperCase" => Value::Text(text.to_uppercase()),
            "trim" | "toString" | "valueOf" => Value::Text(text),
            "concat" => arguments
                .iter()
                .map(text_of)
                .collect::<Option<String>>()
                .map_or(Value::AnyText, |rest| Value::Text(text + &rest)),
            "replace" | "replaceAll" => {
                match (arguments.first().and_then(text_of), arguments.get(1).and_then(text_of)) {
                    (Some(from), Some(to)) => Value::Text(text.replace(&from, &to)),
                    _ => Value::AnyText,
                }
            }
            "split" | "match" | "indexOf" | "includes" => Value::Unknown,
            _ => Value::AnyText,
        }))
    }

    fn template(&self, template: &'t TemplateLiteral<'t>, depth: usize) -> Value {
        let mut text = String::new();
        let mut parts = template.expressions.iter();
        for quasi in &template.quasis {
            text.push_str(quasi.value.cooked.as_deref().unwrap_or_default());
            match parts.next().map(|part| self.value(part, depth)).as_deref() {
                Some([Value::Text(part)]) => text.push_str(part),
                Some(_) => return Value::AnyText,
                None => {}
            }
        }
        Value::Text(text)
    }

    /// Returns whether a name is used, and not bound; names of types are no values.
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

/// Returns the member of values.
pub(super) fn member(values: &Values, name: &str) -> Values {
    values
        .iter()
        .map(|value| match value {
            Value::Path(path) if path == "globalThis" && rules::GLOBALS.has(name) => {
                Value::Path("globalThis".to_owned())
            }
            Value::Path(path) if path == "globalThis" => Value::Path(name.to_owned()),
            // A bound, called or applied function is the function.
            Value::Path(path)
                if matches!(name, "call" | "apply" | "bind" | "default")
                    && (rules::BUILTINS.has(path.as_str()) || name == "default") =>
            {
                Value::Path(path.clone())
            }
            Value::Path(path) if path.len() < 200 => Value::Path(format!("{path}.{name}")),
            _ => Value::Path(format!("?.{name}")),
        })
        .collect()
}

/// Returns the module of a specifier, without `node:`.
pub(super) fn module_of(specifier: &str) -> String {
    specifier.trim().strip_prefix("node:").unwrap_or(specifier.trim()).to_owned()
}
