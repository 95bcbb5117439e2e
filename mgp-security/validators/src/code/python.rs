//! Python: imports, bindings and the values of expressions.

#![expect(clippy::match_same_arms, reason = "a row for each kind of node")]

use super::{
    CodePolicy,
    python_rules::{self as rules, MODULES},
    tree::{Nodes, children, field, parse},
    value::{Findings, Names, Value, Values, concatenated, either, one, texts, unescape},
};
use std::{borrow::Cow, cell::RefCell, collections::HashMap};
use tree_sitter::Node;
use unicode_normalization::UnicodeNormalization;

/// The maximum depth of an expression whose value is computed.
const MAX_DEPTH: usize = 48;

/// Checks code.
///
/// # Errors
/// The reason why it cannot be judged.
pub(super) fn check(policy: &CodePolicy, source: &str, found: &mut Findings) -> Result<(), String> {
    let encoding = source
        .lines()
        .take(2)
        .find(|line| line.trim_start().starts_with('#') && line.contains("coding"));
    if encoding.is_some_and(|line| {
        !line.to_ascii_lowercase().contains("utf-8")
            && (line.contains("coding:") || line.contains("coding="))
    }) {
        return Err("an encoding other than UTF-8".to_owned());
    }
    let tree = parse(&tree_sitter_python::LANGUAGE.into(), source)?;
    let nodes = Nodes::of(&tree)?;
    let mut scope = Scope {
        source,
        nodes: &nodes,
        names: Names::default(),
        stars: Vec::new(),
        known: RefCell::default(),
    };
    // A name can be bound below its use; a second round sees the names of the first.
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
    /// Modules from which all names are imported.
    stars: Vec<String>,
    known: RefCell<HashMap<usize, Values>>,
}

impl<'s> Scope<'s> {
    /// Returns the text of a node; identifiers are normalised as Python does.
    pub(super) fn text(&self, node: Node<'_>) -> Cow<'s, str> {
        let text = self.source.get(node.byte_range()).unwrap_or_default();
        if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfkc().collect()) }
    }

    /// Returns the dotted name of an import without blanks; a relative one begins with a dot.
    pub(super) fn dotted(&self, node: Node<'_>) -> String {
        self.text(node).chars().filter(|c| !c.is_whitespace() && *c != '\\').collect()
    }

    fn bind_import(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" => {
                for import in children(node) {
                    let (module, name) = self.alias(import);
                    let first = module.split('.').next().unwrap_or_default().to_owned();
                    let (name, path) = name.map_or_else(
                        || (first.clone(), first.clone()),
                        |name| (name, module.clone()),
                    );
                    self.names.bind(&name, one(Value::Path(format!("@{path}"))));
                }
            }
            "import_from_statement" => {
                let Some(module) = field(node, "module_name") else { return };
                let module = self.dotted(module);
                for import in children(node).into_iter().skip(1) {
                    if import.kind() == "wildcard_import" {
                        self.stars.push(module.clone());
                        continue;
                    }
                    let (name, alias) = self.alias(import);
                    let path = canonical(format!("@{module}.{name}"));
                    self.names.bind(&alias.unwrap_or(name), one(Value::Path(path)));
                }
            }
            _ => {}
        }
    }

    fn bind(&mut self, node: Node<'_>) {
        let unknown = || one(Value::Unknown);
        match node.kind() {
            "import_statement" | "import_from_statement" => self.bind_import(node),
            "assignment" => {
                if let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) {
                    self.assign(left, right);
                }
            }
            "augmented_assignment" | "for_statement" | "for_in_clause" => {
                if let Some(left) = field(node, "left") {
                    let values =
                        field(node, "right").map_or_else(unknown, |right| self.elements(right));
                    self.target(left, &either(values, unknown()));
                }
            }
            "named_expression" | "default_parameter" | "typed_default_parameter" => {
                if let (Some(name), Some(value)) = (field(node, "name"), field(node, "value")) {
                    let mut values = self.eval(value, 0);
                    if node.kind() != "named_expression" {
                        values = either(values, unknown());
                    }
                    self.target(name, &values);
                }
            }
            "as_pattern" => {
                if let (Some(value), Some(alias)) = (node.named_child(0), field(node, "alias")) {
                    let values = self.eval(value, 0);
                    if let Some(name) = alias.named_child(0) {
                        self.target(name, &values);
                    }
                }
            }
            "parameters" | "lambda_parameters" => {
                for parameter in children(node) {
                    self.target(parameter, &unknown());
                }
            }
            "function_definition" | "class_definition" => {
                if let Some(name) = field(node, "name") {
                    self.target(name, &unknown());
                }
            }
            _ => {}
        }
    }

    /// Returns the name and the alias of an import.
    pub(super) fn alias(&self, import: Node<'_>) -> (String, Option<String>) {
        match field(import, "name") {
            Some(name) => (
                self.dotted(name),
                field(import, "alias").map(|alias| self.text(alias).into_owned()),
            ),
            None => (self.dotted(import), None),
        }
    }

    fn assign(&mut self, left: Node<'_>, right: Node<'_>) {
        let lists = |node: Node<'_>| {
            matches!(
                node.kind(),
                "pattern_list"
                    | "tuple_pattern"
                    | "list_pattern"
                    | "expression_list"
                    | "tuple"
                    | "list"
            )
        };
        if lists(left) {
            let (targets, values) = (children(left), children(right));
            let paired = lists(right) && targets.len() == values.len();
            for (at, target) in targets.iter().enumerate() {
                if paired {
                    self.assign(*target, values[at]);
                } else {
                    let values = either(self.elements(right), one(Value::Unknown));
                    self.target(*target, &values);
                }
            }
            return;
        }
        // `a = b = value`: the inner assignment is visited too.
        let value = if right.kind() == "assignment" {
            field(right, "right").unwrap_or(right)
        } else {
            right
        };
        let values = self.eval(value, 0);
        self.target(left, &values);
    }

    fn target(&mut self, target: Node<'_>, values: &Values) {
        match target.kind() {
            "identifier" => {
                let name = self.text(target).into_owned();
                self.names.bind(&name, values.clone());
            }
            "pattern_list"
            | "tuple_pattern"
            | "list_pattern"
            | "list_splat_pattern"
            | "dictionary_splat_pattern"
            | "typed_parameter" => {
                for part in children(target).into_iter().filter(|part| part.kind() != "type") {
                    self.target(part, values);
                }
            }
            _ => {}
        }
    }

    /// Returns the values of the elements of a list, or unknown.
    fn elements(&self, node: Node<'_>) -> Values {
        match node.kind() {
            "list" | "tuple" | "set" | "expression_list" => children(node)
                .into_iter()
                .take(16)
                .fold(one(Value::Unknown), |all, item| either(all, self.eval(item, 1))),
            "dictionary" => children(node)
                .into_iter()
                .take(16)
                .filter_map(|pair| field(pair, "value"))
                .fold(one(Value::Unknown), |all, item| either(all, self.eval(item, 1))),
            _ => one(Value::Unknown),
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
        // A value that was cut off at the maximum depth is not kept.
        if depth < MAX_DEPTH / 2 {
            self.known.borrow_mut().insert(node.id(), values.clone());
        }
        values
    }

    fn compute(&self, node: Node<'_>, depth: usize) -> Values {
        let eval = |name: &str| {
            field(node, name).map_or_else(|| one(Value::Unknown), |child| self.eval(child, depth))
        };
        match node.kind() {
            "identifier" => self.name(&self.text(node)),
            "attribute" => {
                let name = field(node, "attribute")
                    .map(|name| self.text(name).into_owned())
                    .unwrap_or_default();
                attribute(&eval("object"), &name)
            }
            "subscript" => self.subscript(node, depth),
            "call" => self.call(node, depth),
            "binary_operator"
                if field(node, "operator").is_some_and(|operator| operator.kind() == "+") =>
            {
                concatenated(&eval("left"), &eval("right"))
            }
            "string" => one(self.string(node, depth)),
            "concatenated_string" => children(node)
                .into_iter()
                .map(|part| self.eval(part, depth))
                .reduce(|left, right| concatenated(&left, &right))
                .unwrap_or_else(|| one(Value::Unknown)),
            "parenthesized_expression" | "await" | "expression_statement" | "type" => {
                children(node)
                    .first()
                    .map_or_else(|| one(Value::Unknown), |inner| self.eval(*inner, depth))
            }
            "named_expression" => eval("value"),
            "conditional_expression" => {
                let parts = children(node);
                let part = |at: usize| {
                    parts
                        .get(at)
                        .map_or_else(|| one(Value::Unknown), |part| self.eval(*part, depth))
                };
                either(part(0), part(2))
            }
            "boolean_operator" => either(eval("left"), eval("right")),
            _ => one(Value::Unknown),
        }
    }

    /// Returns the values of a name; a builtin keeps its meaning, since a binding may be of another scope.
    pub(super) fn name(&self, name: &str) -> Values {
        let builtin = || one(Value::Path(name.to_owned()));
        let mut values = match self.names.get(name) {
            Some(values) if rules::BUILTINS.has(name) => either(values.clone(), builtin()),
            Some(values) => values.clone(),
            None => builtin(),
        };
        if self.names.get(name).is_none() {
            for module in &self.stars {
                values = either(values, one(Value::Path(canonical(format!("@{module}.{name}")))));
            }
        }
        values
    }

    /// Returns whether a path is a member of a name that neither this code nor Python binds.
    pub(super) fn is_unbound(&self, path: &str) -> bool {
        let name = path.split(['.', '(', '@', '?']).next().unwrap_or_default();
        !name.is_empty()
            && path[name.len()..].starts_with('.')
            && self.names.get(name).is_none()
            && !matches!(name, "self" | "cls" | "super")
    }

    fn subscript(&self, node: Node<'_>, depth: usize) -> Values {
        let (Some(value), Some(index)) = (field(node, "value"), field(node, "subscript")) else {
            return one(Value::Unknown);
        };
        let values = self.eval(value, depth);
        if index.kind() == "slice" {
            let reversed = self.text(index).split_whitespace().collect::<String>() == "::-1";
            return values
                .into_iter()
                .map(|value| match value {
                    Value::Text(text) if reversed => Value::Text(text.chars().rev().collect()),
                    Value::Text(_) | Value::AnyText => Value::AnyText,
                    _ => Value::Unknown,
                })
                .collect();
        }
        let keys = self.eval(index, depth);
        let mut all = self.elements(value);
        for value in &values {
            let Value::Path(path) = value else { continue };
            for key in texts(&keys) {
                let target = match path.as_str() {
                    "globals()" | "locals()" | "vars()" => self.name(key),
                    "__builtins__" | "@builtins" => one(Value::Path(key.to_owned())),
                    "@sys.modules" => one(Value::Path(format!("@{key}"))),
                    path => match path.strip_suffix(".__dict__") {
                        Some(object) => attribute(&one(Value::Path(object.to_owned())), key),
                        None => one(Value::Unknown),
                    },
                };
                all = either(all, target);
            }
        }
        all
    }

    fn call(&self, node: Node<'_>, depth: usize) -> Values {
        let unknown = || one(Value::Unknown);
        let Some(function) = field(node, "function") else { return unknown() };
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
            let result = match path.as_str() {
                "getattr" | "@inspect.getattr_static" => texts(&argument(1))
                    .fold(one(Value::Unknown), |all, name| {
                        either(all, attribute(&argument(0), name))
                    }),
                "__import__" | "@importlib.import_module" | "@importlib.__import__" => {
                    texts(&argument(0))
                        .map(|name| Value::Path(format!("@{name}")))
                        .chain([Value::Unknown])
                        .collect()
                }
                "vars" if !arguments.is_empty() => attribute(&argument(0), "__dict__"),
                "chr" => arguments
                    .first()
                    .and_then(|number| char::from_u32(integer(&self.text(*number))?))
                    .map_or_else(unknown, |c| one(Value::Text(c.to_string()))),
                "str" | "repr" => argument(0),
                "bytes" | "bytearray" => one(Value::AnyText),
                _ => match self.method(function, &arguments, depth) {
                    Some(values) => values,
                    None => one(Value::Path(if path.len() < 200 {
                        format!("{path}()")
                    } else {
                        "?()".to_owned()
                    })),
                },
            };
            all = either(all, result);
        }
        all
    }

    /// Returns the result of a method of a constant text.
    fn method(&self, function: Node<'_>, arguments: &[Node<'_>], depth: usize) -> Option<Values> {
        let object = field(function, "object")?;
        let values = self.eval(object, depth);
        let text = texts(&values).next()?.to_owned();
        let name = self.text(field(function, "attribute")?);
        let argument = |at: usize| {
            arguments
                .get(at)
                .and_then(|node| texts(&self.eval(*node, depth)).next().map(str::to_owned))
        };
        let result = match &*name {
            "lower" | "casefold" => text.to_lowercase(),
            "upper" => text.to_uppercase(),
            "strip" | "lstrip" | "rstrip" if arguments.is_empty() => text.trim().to_owned(),
            "encode" | "decode" | "format" if arguments.is_empty() => text,
            "replace" => match (argument(0), argument(1)) {
                (Some(from), Some(to)) => text.replace(&from, &to),
                _ => return Some(one(Value::AnyText)),
            },
            "join" => {
                let list = arguments.first().filter(|list| matches!(list.kind(), "list" | "tuple"));
                let parts: Option<Vec<String>> = list.and_then(|list| {
                    children(*list)
                        .into_iter()
                        .map(|part| texts(&self.eval(part, depth)).next().map(str::to_owned))
                        .collect()
                });
                match parts {
                    Some(parts) => parts.join(&text),
                    None => return Some(one(Value::AnyText)),
                }
            }
            _ => return Some(one(Value::AnyText)),
        };
        Some(one(Value::Text(result)))
    }

    fn string(&self, node: Node<'_>, depth: usize) -> Value {
        let start = node
            .named_child(0)
            .map(|start| self.text(start).to_ascii_lowercase())
            .unwrap_or_default();
        let raw = start.contains('r');
        let mut text = String::new();
        for part in children(node) {
            match part.kind() {
                "string_content" => {
                    let content = self.source.get(part.byte_range()).unwrap_or_default();
                    text.push_str(&if raw { content.to_owned() } else { unescape(content) });
                }
                "interpolation" => {
                    let values = field(part, "expression")
                        .map(|expression| self.eval(expression, depth))
                        .unwrap_or_default();
                    match values.as_slice() {
                        [Value::Text(part)] => text.push_str(part),
                        _ => return Value::AnyText,
                    }
                }
                _ => {}
            }
        }
        Value::Text(text)
    }

    /// Returns whether an identifier is used, and not bound or a label.
    pub(super) fn is_use(&self, node: Node<'_>) -> bool {
        let Some(parent) = self.nodes.parent(node) else { return true };
        match parent.kind() {
            "attribute" => self.nodes.is_field(node, "object"),
            "keyword_argument"
            | "named_expression"
            | "default_parameter"
            | "typed_default_parameter" => !self.nodes.is_field(node, "name"),
            "function_definition" | "class_definition" => !self.nodes.is_field(node, "name"),
            "assignment" | "for_statement" | "for_in_clause" => !self.nodes.is_field(node, "left"),
            "parameters"
            | "lambda_parameters"
            | "typed_parameter"
            | "list_splat_pattern"
            | "dictionary_splat_pattern"
            | "pattern_list"
            | "tuple_pattern"
            | "list_pattern"
            | "global_statement"
            | "nonlocal_statement"
            | "dotted_name"
            | "aliased_import"
            | "as_pattern_target"
            | "keyword_separator" => false,
            _ => true,
        }
    }
}

/// Returns the attribute of values.
pub(super) fn attribute(values: &Values, name: &str) -> Values {
    let name: String = if name.is_ascii() { name.to_owned() } else { name.nfkc().collect() };
    values
        .iter()
        .map(|value| match value {
            Value::Path(path)
                if matches!(path.as_str(), "@builtins" | "__builtins__" | "@__builtin__") =>
            {
                Value::Path(name.clone())
            }
            Value::Path(path) if path.len() < 200 => {
                Value::Path(canonical(format!("{path}.{name}")))
            }
            _ => Value::Path(format!("?.{name}")),
        })
        .collect()
}

/// Returns the path from the last module in it: `@asyncio.subprocess.run` is `@subprocess.run`.
fn canonical(path: String) -> String {
    let Some(rest) = path.strip_prefix('@') else { return path };
    // Names after a call are members of objects, not modules.
    let whole = rest.split('(').next().unwrap_or(rest);
    let mut at = 0;
    let mut start = 0;
    for part in whole.split('.') {
        let name = part.trim_start_matches('_');
        if at > 0
            && (MODULES.has(part) || MODULES.has(name))
            && !(part == "path" || whole[..at].ends_with("importlib."))
        {
            start = at;
        }
        at += part.len() + 1;
    }
    let path = format!("@{}", rest[start..].trim_start_matches(if start > 0 { "_" } else { "" }));
    match path.strip_prefix("@builtins.").or(path.strip_prefix("@__builtin__.")) {
        Some(name) => name.to_owned(),
        None => path,
    }
}

fn integer(text: &str) -> Option<u32> {
    let digits = text.replace('_', "");
    match digits.get(..2) {
        Some("0x" | "0X") => u32::from_str_radix(&digits[2..], 16).ok(),
        Some("0o" | "0O") => u32::from_str_radix(&digits[2..], 8).ok(),
        Some("0b" | "0B") => u32::from_str_radix(&digits[2..], 2).ok(),
        _ => digits.parse().ok(),
    }
}
