//! The possible values of Python expressions.

use super::{
    python_names::{BUILTINS, MODULES},
    python_tree::{Nodes, items},
    value::{Names, Value, Values, concatenated, either, one, texts},
};
use ahash::{AHashMap, AHashSet};
use ruff_python_ast::{
    ArgOrKeyword, Expr, ExprCall, ExprFString, ExprRef, ExprSubscript, FStringPart,
    InterpolatedStringElement, Number, Operator, UnaryOp,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};
use unicode_normalization::UnicodeNormalization;

/// The maximum depth of an expression whose value is computed.
const MAX_DEPTH: usize = 48;
/// The maximum length of a computed text, in bytes.
const MAX_TEXT: usize = 4096;
/// The maximum length of a path.
const MAX_PATH: usize = 200;
/// The maximum number of values of one name. Code that exceeds it is refused, because a name with so many values only
/// serves to hide one of them.
const MAX_KEPT: usize = 40;
/// The maximum number of modules from which the code imports all names, by `from module import *`.
const MAX_STARS: usize = 128;
/// The maximum amount of work for computing the values in one source text. A unit of work takes roughly a nanosecond.
const MAX_WORK: usize = 10_000_000;

/// The possible values of an expression, in a pointer that is cheap to clone.
pub(super) type Shared = Rc<Values>;

/// The names that a source text binds, and all values computed so far for names and expressions.
#[derive(Debug)]
pub(super) struct Scope<'t> {
    pub(super) nodes: &'t Nodes<'t>,
    names: Names,
    /// The modules from which the code imports all names, by `from module import *`.
    stars: Vec<String>,
    /// The names that functions declare as global.
    pub(super) globals: AHashSet<String>,
    unknown: Shared,
    /// The computed values of names. An entry is removed when its name is bound again.
    used: RefCell<AHashMap<String, Shared>>,
    /// The values computed so far for syntax nodes, indexed by the position of the node.
    known: RefCell<Vec<Option<Shared>>>,
    /// `true` if an expression was nested too deeply to be evaluated completely.
    is_cut: Cell<bool>,
    work: Cell<usize>,
}

impl<'t> Scope<'t> {
    pub(super) fn new(nodes: &'t Nodes<'t>) -> Self {
        Self {
            nodes,
            names: Names::default(),
            stars: Vec::new(),
            globals: AHashSet::new(),
            unknown: Rc::new(one(Value::Unknown)),
            used: RefCell::default(),
            known: RefCell::new(vec![None; nodes.all.len()]),
            is_cut: Cell::new(false),
            work: Cell::new(0),
        }
    }

    /// Removes all computed values; called after more names have been bound.
    pub(super) fn forget(&mut self) {
        self.known.get_mut().fill(None);
        self.used.get_mut().clear();
    }

    /// Returns an error if the values needed more work than is allowed for one source text.
    pub(super) fn finished(&self) -> Result<(), String> {
        if self.work.get() > MAX_WORK {
            return Err("the values of the code are too many or too long".to_owned());
        }
        Ok(())
    }

    /// Counts the work for examining the texts among the values; returns whether more work is allowed.
    pub(super) fn may_read(&self, values: &Values) -> bool {
        self.work(cost(values))
    }

    /// Counts the work for checking `count` values against the rules; returns whether more work is allowed.
    pub(super) fn may_judge(&self, count: usize) -> bool {
        self.work(count * 20)
    }

    /// Adds `amount` to the work done; returns whether more work is allowed.
    fn work(&self, amount: usize) -> bool {
        self.work.set(self.work.get() + amount);
        self.work.get() <= MAX_WORK
    }

    /// Adds possible values to a name.
    pub(super) fn bind(&mut self, name: &str, values: &Values) {
        let known = self.names.get(name).map_or(0, Vec::len);
        let is_known = |known: &Values| values.iter().all(|value| known.contains(value));
        if !self.work(20 + known + cost(values) / 8) || self.names.get(name).is_some_and(is_known) {
            return;
        }
        // A name keeps only a limited number of values. Modules and builtins that execute code are kept in any case.
        let kept =
            values.iter().filter(|value| matches!(value, Value::Path(path) if is_kept(path)));
        if !self.work(if known > MAX_KEPT { MAX_WORK } else { cost(values) }) {
            return;
        }
        self.names.bind(name, values.clone());
        kept.for_each(|value| self.names.insert(name, value.clone()));
        self.used.get_mut().remove(name);
    }

    /// Binds a name to an unknown value.
    pub(super) fn bind_unknown(&mut self, name: &str) {
        let unknown = Rc::clone(&self.unknown);
        self.bind(name, &unknown);
    }

    /// Adds a module from which all names are imported.
    pub(super) fn star(&mut self, module: &str) {
        let max = if self.stars.len() < MAX_STARS { 20 } else { MAX_WORK };
        if self.work(max) && !self.stars.iter().any(|known| known == module) {
            self.stars.push(module.to_owned());
            self.used.get_mut().clear();
        }
    }

    /// Returns the possible elements of a list, tuple or set, or the possible values of a dict.
    pub(super) fn elements(&self, list: &Expr, depth: usize) -> Values {
        let all = |values: &mut dyn Iterator<Item = &Expr>| {
            values
                .take(16)
                .fold(one(Value::Unknown), |all, item| self.both(all, &self.eval(item, depth + 1)))
        };
        match list {
            Expr::List(list) => all(&mut list.elts.iter()),
            Expr::Tuple(tuple) => all(&mut tuple.elts.iter()),
            Expr::Set(set) => all(&mut set.elts.iter()),
            Expr::Dict(dict) => {
                let items = dict.items.iter().filter(|item| item.key.is_some());
                all(&mut items.map(|item| &item.value))
            }
            _ => one(Value::Unknown),
        }
    }

    /// Returns the possible values of an expression.
    pub(super) fn eval<'e>(&self, expression: impl Into<ExprRef<'e>>, depth: usize) -> Shared {
        let expression = expression.into();
        if let ExprRef::Name(name) = expression {
            return self.name(&name.id);
        }
        if depth > MAX_DEPTH {
            self.is_cut.set(true);
            return Rc::clone(&self.unknown);
        }
        let place = Nodes::place(expression);
        if let Some(Some(known)) = self.known.borrow().get(place) {
            return Rc::clone(known);
        }
        if !self.work(20) {
            return Rc::clone(&self.unknown);
        }
        let was_cut = self.is_cut.replace(false);
        let values = self.compute(expression, depth + 1);
        if !self.is_cut.get()
            && let Some(known) = self.known.borrow_mut().get_mut(place)
        {
            *known = Some(Rc::clone(&values));
        }
        self.is_cut.set(was_cut || self.is_cut.get());
        values
    }

    fn compute(&self, expression: ExprRef<'_>, depth: usize) -> Shared {
        let eval = |part: &Expr| self.eval(part, depth);
        let values = match expression {
            ExprRef::Attribute(member) => attribute(&eval(&member.value), &member.attr),
            ExprRef::Subscript(subscript) => self.subscript(subscript, depth),
            ExprRef::Call(call) => self.call(call, depth),
            ExprRef::BinOp(sum) if sum.op == Operator::Add => {
                concatenated(&eval(&sum.left), &eval(&sum.right))
            }
            ExprRef::StringLiteral(text) => one(Value::Text(text.value.to_str().to_owned())),
            // Bytes are treated like text, because `decode` converts them to text.
            ExprRef::BytesLiteral(bytes) => {
                one(Value::Text(bytes.value.bytes().map(char::from).collect()))
            }
            ExprRef::FString(text) => one(self.formatted(text, depth)),
            ExprRef::Await(awaited) => return eval(&awaited.value),
            ExprRef::Named(named) => return eval(&named.value),
            ExprRef::If(choice) => self.both((*eval(&choice.body)).clone(), &eval(&choice.orelse)),
            ExprRef::BoolOp(choice) => {
                choice.values.iter().fold(Vec::new(), |all, part| self.both(all, &eval(part)))
            }
            _ => return Rc::clone(&self.unknown),
        };
        self.work(cost(&values));
        Rc::new(values)
    }

    /// Returns the values of both sides, and counts the work for combining them; returns an unknown value if too much
    /// work was done.
    fn both(&self, left: Values, right: &Values) -> Values {
        if self.work(left.len() * right.len() + cost(right)) {
            either(left, right.clone())
        } else {
            one(Value::Unknown)
        }
    }

    /// Returns the possible values of a name. A builtin keeps its own value in addition, because a binding of the name
    /// might belong to another scope.
    pub(super) fn name(&self, name: &str) -> Shared {
        if let Some(values) = self.used.borrow().get(name) {
            return Rc::clone(values);
        }
        let builtin = || one(Value::Path(name.to_owned()));
        let values = match self.names.get(name) {
            Some(values) if BUILTINS.has(name) => self.both(values.clone(), &builtin()),
            Some(values) => values.clone(),
            None => self.stars.iter().fold(builtin(), |all, module| {
                self.both(all, &one(Value::Path(canonical(format!("@{module}.{name}")))))
            }),
        };
        self.work(20 + cost(&values));
        let values = Rc::new(values);
        self.used.borrow_mut().insert(name.to_owned(), Rc::clone(&values));
        values
    }

    /// Returns whether the code binds a name.
    pub(super) fn binds(&self, name: &str) -> bool {
        self.names.get(name).is_some()
    }

    /// Returns whether a path is a member of a name that this code does not bind, other than `self`, `cls` and `super`.
    pub(super) fn is_unbound(&self, path: &str) -> bool {
        let name = path.split(['.', '(', '@', '?']).next().unwrap_or_default();
        !name.is_empty()
            && path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
            && self.names.get(name).is_none()
            && !matches!(name, "self" | "cls" | "super")
    }

    fn subscript(&self, subscript: &ExprSubscript, depth: usize) -> Values {
        let values = self.eval(&*subscript.value, depth);
        if let Expr::Slice(slice) = &*subscript.slice {
            let is_reversed = slice.lower.is_none()
                && slice.upper.is_none()
                && slice.step.as_deref().is_some_and(is_minus_one);
            return values
                .iter()
                .map(|value| match value {
                    Value::Text(text) if is_reversed => Value::Text(text.chars().rev().collect()),
                    Value::Text(_) | Value::AnyText => Value::AnyText,
                    _ => Value::Unknown,
                })
                .collect();
        }
        let keys = self.eval(&*subscript.slice, depth);
        let mut all = self.elements(&subscript.value, depth);
        for value in &*values {
            let Value::Path(path) = value else { continue };
            for key in texts(&keys) {
                let target = match path.as_str() {
                    "globals()" | "locals()" | "vars()" => (*self.name(key)).clone(),
                    "__builtins__" | "@builtins" => one(Value::Path(key.to_owned())),
                    "@sys.modules" => one(Value::Path(format!("@{key}"))),
                    path => match path.strip_suffix(".__dict__") {
                        Some(object) => attribute(&one(Value::Path(object.to_owned())), key),
                        None => one(Value::Unknown),
                    },
                };
                all = self.both(all, &target);
            }
        }
        all
    }

    fn call(&self, call: &ExprCall, depth: usize) -> Values {
        let unknown = || one(Value::Unknown);
        let argument = |at: usize| match call.arguments.iter_source_order().nth(at) {
            Some(ArgOrKeyword::Arg(argument)) => self.eval(argument, depth),
            _ => Rc::clone(&self.unknown),
        };
        let mut method = None;
        let mut all = Vec::new();
        for value in &*self.eval(&*call.func, depth) {
            let Value::Path(path) = value else {
                all = self.both(all, &self.unknown);
                continue;
            };
            let result = match path.as_str() {
                "getattr" | "@inspect.getattr_static" => {
                    let (object, names) = (argument(0), argument(1));
                    // The third argument of `getattr` is its result if the object has no such member, so it is a
                    // possible value.
                    texts(&names).fold(self.both(unknown(), &argument(2)), |all, name| {
                        self.both(all, &attribute(&object, name))
                    })
                }
                path if is_lookup(path) => texts(&argument(0))
                    .fold(unknown(), |all, name| self.both(all, &self.name(name))),
                "__import__" | "@importlib.import_module" | "@importlib.__import__" => {
                    texts(&argument(0))
                        .map(|name| Value::Path(format!("@{name}")))
                        .chain([Value::Unknown])
                        .collect()
                }
                "vars" if !call.arguments.is_empty() => attribute(&argument(0), "__dict__"),
                "chr" => match call.arguments.args.first().and_then(character) {
                    Some(c) => one(Value::Text(c.to_string())),
                    None => unknown(),
                },
                "str" | "repr" => (*argument(0)).clone(),
                "bytes" | "bytearray" => one(Value::AnyText),
                _ => match method.get_or_insert_with(|| self.method(call, depth)) {
                    Some(values) => values.clone(),
                    None if path.len() < MAX_PATH => one(Value::Path(format!("{path}()"))),
                    None => one(Value::Path("?()".to_owned())),
                },
            };
            all = self.both(all, &result);
        }
        all
    }

    /// Returns the possible results of a method of constant texts.
    fn method(&self, call: &ExprCall, depth: usize) -> Option<Values> {
        let Expr::Attribute(function) = &*call.func else { return None };
        let values = self.eval(&*function.value, depth);
        let is_certain = Cell::new(values.len() == 1);
        let mut all = Vec::new();
        for text in texts(&values) {
            let result = self.result(text, &function.attr, call, depth, &is_certain);
            all = self.both(all, &one(result));
        }
        if all.is_empty() {
            return None;
        }
        // Only the first value of each argument was used. If the object or an argument does not have exactly one value,
        // the result can therefore also be any other text.
        Some(if is_certain.get() { all } else { self.both(all, &one(Value::AnyText)) })
    }

    /// Returns the result of a method of a constant text, called with the first value of each argument. Sets
    /// `is_certain` to `false` if an argument does not have exactly one value.
    fn result(
        &self,
        text: &str,
        method: &str,
        call: &ExprCall,
        depth: usize,
        is_certain: &Cell<bool>,
    ) -> Value {
        let arguments = &call.arguments;
        let text_of = |part: &Expr| {
            let values = self.eval(part, depth);
            is_certain.set(is_certain.get() && values.len() == 1);
            texts(&values).next().map(str::to_owned)
        };
        let argument = |at: usize| text_of(arguments.args.get(at)?);
        self.work(2 * text.len());
        let is_plain = arguments.is_empty();
        let result = match method {
            "encode" | "decode" | "format" if is_plain => text.to_owned(),
            "strip" | "lstrip" | "rstrip" if is_plain => text.trim().to_owned(),
            _ if text.len() > MAX_TEXT => return Value::AnyText,
            "lower" | "casefold" => text.to_lowercase(),
            "upper" => text.to_uppercase(),
            "replace" => match (argument(0), argument(1)) {
                (Some(from), Some(to))
                    if text.len() + text.matches(&from).count() * to.len() <= MAX_TEXT =>
                {
                    text.replace(&from, &to)
                }
                _ => return Value::AnyText,
            },
            "join" => {
                let parts = arguments.args.first().and_then(items);
                let parts: Option<Vec<String>> =
                    parts.and_then(|parts| parts.iter().map(text_of).collect());
                match parts {
                    Some(parts) if parts.concat().len() + parts.len() * text.len() <= MAX_TEXT => {
                        parts.join(text)
                    }
                    _ => return Value::AnyText,
                }
            }
            _ => return Value::AnyText,
        };
        Value::Text(result)
    }

    /// Returns the value of a formatted string (f-string).
    fn formatted(&self, text: &ExprFString, depth: usize) -> Value {
        let mut whole = String::new();
        for part in text.value.as_slice() {
            let elements = match part {
                FStringPart::Literal(literal) => {
                    whole.push_str(&literal.value);
                    continue;
                }
                FStringPart::FString(part) => &part.elements,
            };
            for element in elements {
                match element {
                    InterpolatedStringElement::Literal(literal) => whole.push_str(&literal.value),
                    InterpolatedStringElement::Interpolation(field) => {
                        let values = self.eval(&*field.expression, depth);
                        match values.as_slice() {
                            [Value::Text(part)] if whole.len() + part.len() <= MAX_TEXT => {
                                whole.push_str(part);
                            }
                            _ => return Value::AnyText,
                        }
                    }
                }
            }
        }
        Value::Text(whole)
    }
}

/// Returns whether a path is a module, a member of a module or a builtin.
fn is_kept(path: &str) -> bool {
    BUILTINS.has(path) || path.starts_with('@') && !path.contains('(')
}

/// Returns the amount of work that copying the values takes, in the unit of [`MAX_WORK`].
fn cost(values: &Values) -> usize {
    values.iter().fold(0, |sum, value| {
        sum + match value {
            Value::Text(text) => 20 + 2 * text.len(),
            Value::Path(path) => 40 + path.len(),
            Value::AnyText | Value::Unknown => 2,
        }
    })
}

/// Returns whether a path is a method that looks up a name, given as text, and returns its value.
fn is_lookup(path: &str) -> bool {
    let tables = ["globals().", "locals().", "vars()."];
    let method = tables.iter().find_map(|table| path.strip_prefix(table));
    method.is_some_and(|method| matches!(method, "get" | "pop" | "setdefault" | "__getitem__"))
}

fn is_minus_one(number: &Expr) -> bool {
    let Expr::UnaryOp(negative) = number else { return false };
    negative.op == UnaryOp::USub && integer(&negative.operand) == Some(1)
}

fn integer(number: &Expr) -> Option<u32> {
    let Expr::NumberLiteral(number) = number else { return None };
    let Number::Int(number) = &number.value else { return None };
    number.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Returns the character for a constant character code, e.g. for `65` in `chr(65)`.
fn character(number: &Expr) -> Option<char> {
    integer(number).and_then(char::from_u32)
}

/// Returns the possible values of an attribute of an object, given the possible values of the object.
pub(super) fn attribute(values: &Values, name: &str) -> Values {
    let normal: String;
    let name = if name.is_ascii() {
        name
    } else {
        normal = name.nfkc().collect();
        &normal
    };
    values
        .iter()
        .map(|value| match value {
            Value::Path(path)
                if matches!(path.as_str(), "@builtins" | "__builtins__" | "@__builtin__") =>
            {
                Value::Path(name.to_owned())
            }
            Value::Path(path) if path.len() < MAX_PATH => {
                Value::Path(canonical(format!("{path}.{name}")))
            }
            _ => Value::Path(format!("?.{name}")),
        })
        .collect()
}

/// Returns the path at the beginning of a text, e.g. `os.system` of `os . system('id')`; `None` if the path does not
/// name a member that is called or indexed.
pub(super) fn called_member(text: &str) -> Option<String> {
    let (mut path, mut rest) = (String::new(), text);
    loop {
        let name = rest.trim_start();
        let after = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        if after.len() == name.len() {
            return None;
        }
        path.push_str(&name[..name.len() - after.len()]);
        rest = after.trim_start();
        let Some(next) = rest.strip_prefix('.') else { break };
        path.push('.');
        rest = next;
    }
    (path.contains('.') && rest.starts_with(['(', '['])).then_some(path)
}

/// Shortens a path to begin with the last module in it: `@asyncio.subprocess.run` becomes `@subprocess.run`.
pub(super) fn canonical(path: String) -> String {
    let Some(rest) = path.strip_prefix('@') else { return path };
    // Names after a call are members of objects and not modules, so search only the names before the first call.
    let whole = rest.split('(').next().unwrap_or(rest);
    let mut at = 0;
    let mut start = 0;
    for part in whole.split('.') {
        let name = part.trim_start_matches('_');
        if at > 0
            && (MODULES.has(part) || MODULES.has(name))
            && !(part == "path" || whole[..at].ends_with("importlib."))
        {
            start = if MODULES.has(part) { at } else { at + part.len() - name.len() };
        }
        at += part.len() + 1;
    }
    let rest = rest.get(start..).unwrap_or_default();
    match rest.strip_prefix("builtins.").or(rest.strip_prefix("__builtin__.")) {
        Some(name) => name.to_owned(),
        None if start > 0 => format!("@{rest}"),
        None => path,
    }
}
