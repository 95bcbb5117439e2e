//! JavaScript and TypeScript: bindings and the values of expressions.

#![expect(clippy::match_same_arms, reason = "a row for each kind of node")]

use super::{
    CodePolicy, javascript_rules as rules,
    tree::{Nodes, children, field, parse},
    value::{Findings, Names, Value, Values, concatenated, either, one, texts},
};
use std::{cell::RefCell, collections::HashMap};
use tree_sitter::Node;

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
    let grammar = match dialect {
        Dialect::JavaScript => tree_sitter_javascript::LANGUAGE,
        #[cfg(feature = "typescript")]
        Dialect::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        #[cfg(feature = "typescript")]
        Dialect::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
    };
    let tree = parse(&grammar.into(), source)?;
    let nodes = Nodes::of(&tree)?;
    let mut scope =
        Scope { source, nodes: &nodes, names: Names::default(), known: RefCell::default() };
    for _ in 0..2 {
        nodes.all.iter().for_each(|node| scope.bind(*node));
        scope.known.get_mut().clear();
    }
    nodes.all.iter().for_each(|node| rules::check(policy, &scope, *node, found));
    Ok(())
}

/// The bindings of a text.
#[derive(Debug)]
pub(super) struct Scope<'s> {
    source: &'s str,
    pub(super) nodes: &'s Nodes<'s>,
    names: Names,
    known: RefCell<HashMap<usize, Values>>,
}

impl Scope<'_> {
    /// Returns the text of a node; escapes in identifiers are resolved.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        let text = self.source.get(node.byte_range()).unwrap_or_default();
        if text.contains('\\') { unescape(text) } else { text.to_owned() }
    }

    fn bind(&mut self, node: Node<'_>) {
        match node.kind() {
            "variable_declarator" => {
                if let (Some(name), Some(value)) = (field(node, "name"), field(node, "value")) {
                    let values = self.eval(value, 0);
                    self.target(name, &values);
                } else if let Some(name) = field(node, "name") {
                    self.target(name, &one(Value::Unknown));
                }
            }
            "assignment_expression" | "assignment_pattern" | "object_assignment_pattern" => {
                if let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) {
                    let values = self.eval(right, 0);
                    self.target(left, &values);
                }
            }
            "augmented_assignment_expression" => {
                if let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) {
                    let values =
                        match concatenated(&self.eval(left, 0), &self.eval(right, 0)).first() {
                            Some(Value::Text(_) | Value::AnyText) => {
                                either(self.eval(right, 0), one(Value::AnyText))
                            }
                            _ => either(self.eval(right, 0), one(Value::Unknown)),
                        };
                    self.target(left, &values);
                }
            }
            "import_statement" => {
                if let Some(module) = field(node, "source")
                    .and_then(|source| texts(&self.eval(source, 0)).next().map(module_of))
                {
                    let clause: Vec<Node<'_>> = children(node)
                        .into_iter()
                        .filter(|child| child.kind() == "import_clause")
                        .collect();
                    for part in clause.into_iter().flat_map(children) {
                        self.import(part, &module);
                    }
                }
            }
            _ => self.bind_unknown(node),
        }
    }

    /// Binds parameters and declarations, whose values are unknown.
    fn bind_unknown(&mut self, node: Node<'_>) {
        match node.kind() {
            "formal_parameters" => {
                for parameter in children(node) {
                    self.target(parameter, &one(Value::Unknown));
                }
            }
            "arrow_function" => {
                if let Some(parameter) = field(node, "parameter") {
                    self.target(parameter, &one(Value::Unknown));
                }
            }
            "function_declaration" | "class_declaration" | "generator_function_declaration" => {
                if let Some(name) = field(node, "name") {
                    self.target(name, &one(Value::Unknown));
                }
            }
            "catch_clause" => {
                if let Some(parameter) = field(node, "parameter") {
                    self.target(parameter, &one(Value::Unknown));
                }
            }
            "for_in_statement" => {
                if let Some(left) = field(node, "left") {
                    self.target(left, &one(Value::Unknown));
                }
            }
            _ => {}
        }
    }

    fn import(&mut self, part: Node<'_>, module: &str) {
        match part.kind() {
            "identifier" => {
                self.names.bind(&self.text(part), one(Value::Path(format!("@{module}"))));
            }
            "namespace_import" => {
                if let Some(name) = part.named_child(0) {
                    self.names.bind(&self.text(name), one(Value::Path(format!("@{module}"))));
                }
            }
            "named_imports" => {
                for specifier in children(part) {
                    let Some(name) = field(specifier, "name") else { continue };
                    let alias = field(specifier, "alias").unwrap_or(name);
                    let path = format!("@{module}.{}", self.text(name));
                    self.names.bind(&self.text(alias), one(Value::Path(path)));
                }
            }
            _ => {}
        }
    }

    fn target(&mut self, target: Node<'_>, values: &Values) {
        match target.kind() {
            "identifier" | "shorthand_property_identifier_pattern" => {
                self.names.bind(&self.text(target), values.clone());
            }
            "object_pattern" => {
                for part in children(target) {
                    let key = field(part, "key").or_else(|| field(part, "left")).unwrap_or(part);
                    let name = texts(&self.eval(key, 0))
                        .next()
                        .map_or_else(|| self.text(key), str::to_owned);
                    let member = member(values, &name);
                    match field(part, "value") {
                        Some(value) => self.target(value, &member),
                        None => self.target(key, &member),
                    }
                }
            }
            "array_pattern"
            | "rest_pattern"
            | "required_parameter"
            | "optional_parameter"
            | "parenthesized_expression" => {
                for part in
                    children(target).into_iter().filter(|part| part.kind() != "type_annotation")
                {
                    self.target(part, &one(Value::Unknown));
                }
            }
            "assignment_pattern" => {
                if let Some(left) = field(target, "left") {
                    self.target(left, values);
                }
            }
            _ => {}
        }
    }

    /// Returns the possible values of an expression.
    pub(super) fn eval(&self, node: Node<'_>, depth: usize) -> Values {
        if depth > MAX_DEPTH {
            return one(Value::Unknown);
        }
        if let Some(known) = self.known.borrow().get(&node.id()) {
            return known.clone();
        }
        let values = self.compute(node, depth + 1);
        if depth < MAX_DEPTH / 2 {
            self.known.borrow_mut().insert(node.id(), values.clone());
        }
        values
    }

    fn compute(&self, node: Node<'_>, depth: usize) -> Values {
        let unknown = || one(Value::Unknown);
        let eval =
            |name: &str| field(node, name).map_or_else(unknown, |child| self.eval(child, depth));
        match node.kind() {
            "identifier" | "shorthand_property_identifier" | "undefined" => {
                self.name(&self.text(node))
            }
            "this" => one(Value::Path("this".to_owned())),
            "meta_property" => one(Value::Path("import.meta".to_owned())),
            "import" => one(Value::Path("import".to_owned())),
            "member_expression" => {
                let name = field(node, "property").map(|name| self.text(name)).unwrap_or_default();
                member(&eval("object"), &name)
            }
            "subscript_expression" => {
                let (object, keys) = (eval("object"), eval("index"));
                let named: Values = texts(&keys).flat_map(|key| member(&object, key)).collect();
                let listed = field(node, "object")
                    .filter(|object| object.kind() == "array")
                    .map(children)
                    .unwrap_or_default();
                let all = listed
                    .into_iter()
                    .take(12)
                    .fold(named, |all, item| either(all, self.eval(item, depth)));
                if all.is_empty() { unknown() } else { all }
            }
            "call_expression" | "new_expression" => self.call(node, depth),
            "string" | "template_string" => one(self.string(node, depth)),
            "binary_expression" => match field(node, "operator").map(|operator| operator.kind()) {
                Some("+") => concatenated(&eval("left"), &eval("right")),
                Some("||" | "&&" | "??") => either(eval("left"), eval("right")),
                _ => unknown(),
            },
            "ternary_expression" => either(eval("consequence"), eval("alternative")),
            "assignment_expression" => eval("right"),
            "parenthesized_expression"
            | "await_expression"
            | "as_expression"
            | "non_null_expression"
            | "satisfies_expression"
            | "template_substitution"
            | "computed_property_name" => {
                children(node).first().map_or_else(unknown, |inner| self.eval(*inner, depth))
            }
            "type_assertion" | "sequence_expression" => {
                children(node).last().map_or_else(unknown, |inner| self.eval(*inner, depth))
            }
            "property_identifier" | "private_property_identifier" => {
                one(Value::Text(self.text(node)))
            }
            "arrow_function"
            | "function_expression"
            | "generator_function"
            | "function_declaration" => one(Value::Path("?function".to_owned())),
            "array" | "object" | "number" | "regex" => one(Value::Path("?literal".to_owned())),
            _ => unknown(),
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

    fn call(&self, node: Node<'_>, depth: usize) -> Values {
        let unknown = || one(Value::Unknown);
        let Some(function) = field(node, "function").or_else(|| field(node, "constructor")) else {
            return unknown();
        };
        let arguments = field(node, "arguments").map(children).unwrap_or_default();
        let argument = |at: usize| {
            arguments.get(at).map_or_else(unknown, |argument| self.eval(*argument, depth))
        };
        let mut all = Vec::new();
        for value in self.eval(function, depth) {
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
                    _ => match self.method(function, &arguments, depth) {
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
    fn method(&self, function: Node<'_>, arguments: &[Node<'_>], depth: usize) -> Option<Values> {
        let object = field(function, "object")?;
        let name = self.text(field(function, "property")?);
        let text_of = |node: &Node<'_>| texts(&self.eval(*node, depth)).next().map(str::to_owned);
        if name == "join" && object.kind() == "array" {
            let parts: Option<Vec<String>> = children(object).iter().map(text_of).collect();
            let between = arguments.first().and_then(text_of).unwrap_or_else(|| ",".to_owned());
            return Some(one(
                parts.map_or(Value::AnyText, |parts| Value::Text(parts.join(&between)))
            ));
        }
        let text = text_of(&object)?;
        Some(one(match name.as_str() {
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

    fn string(&self, node: Node<'_>, depth: usize) -> Value {
        let mut text = String::new();
        for part in children(node) {
            match part.kind() {
                "string_fragment" => {
                    text.push_str(self.source.get(part.byte_range()).unwrap_or_default());
                }
                "escape_sequence" => {
                    text.push_str(&unescape(
                        self.source.get(part.byte_range()).unwrap_or_default(),
                    ));
                }
                _ => match self.eval(part, depth).as_slice() {
                    [Value::Text(part)] => text.push_str(part),
                    _ => return Value::AnyText,
                },
            }
        }
        Value::Text(text)
    }

    /// Returns whether an identifier is used, and not bound.
    pub(super) fn is_use(&self, node: Node<'_>) -> bool {
        let Some(parent) = self.nodes.parent(node) else { return true };
        match parent.kind() {
            "variable_declarator"
            | "function_declaration"
            | "class_declaration"
            | "class"
            | "generator_function_declaration"
            | "function_expression"
            | "generator_function" => !self.nodes.is_field(node, "name"),
            "formal_parameters"
            | "required_parameter"
            | "optional_parameter"
            | "import_clause"
            | "import_specifier"
            | "namespace_import"
            | "rest_pattern"
            | "array_pattern"
            | "labeled_statement"
            | "predefined_type"
            | "type_annotation"
            | "type_identifier"
            | "nested_type_identifier" => false,
            "arrow_function" => !self.nodes.is_field(node, "parameter"),
            "assignment_pattern" | "object_assignment_pattern" => {
                !self.nodes.is_field(node, "left")
            }
            "catch_clause" => !self.nodes.is_field(node, "parameter"),
            _ => true,
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

/// Returns a text with its escapes resolved.
fn unescape(text: &str) -> String {
    super::value::unescape(text)
}
