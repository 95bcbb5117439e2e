//! Checks Python code. [`check`] is the entry point; the other functions bind the names in the code to their possible
//! values.

use super::{
    CodePolicy,
    python_rules::Rules,
    python_tree::{Nodes, items, with_nodes},
    python_values::{Scope, attribute, canonical},
    value::{Findings, Value, Values, either, one},
};
use ruff_python_ast::{
    AnyNodeRef, Expr, ExprContext, ExprName, Parameters, Pattern, StmtImport, StmtImportFrom,
};

/// Checks code against a policy, and adds the violations to `found`.
///
/// # Errors
/// A description of the reason why the code cannot be judged.
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
    judge(policy, source, found).or_else(|why| match without_magics(source) {
        Some(plain) => judge(policy, &plain, found),
        None => Err(why),
    })
}

/// Returns code without the lines that only prepare a notebook, e.g. `%matplotlib inline`; `None` if there are none.
fn without_magics(source: &str) -> Option<String> {
    let is_magic = |line: &str| {
        let mut words = line.trim_end().split(' ');
        let is_known = match words.next() {
            Some("%matplotlib" | "%pylab" | "%autoreload") => true,
            Some("%load_ext") => return words.eq(["autoreload"]),
            _ => false,
        };
        is_known && words.all(|word| word.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    source.lines().any(is_magic).then(|| {
        let plain = source.lines().map(|line| if is_magic(line) { "" } else { line });
        plain.collect::<Vec<_>>().join("\n")
    })
}

/// Checks code that is Python in all lines; code with commands of a notebook cannot be parsed.
fn judge(policy: &CodePolicy, source: &str, found: &mut Findings) -> Result<(), String> {
    with_nodes(source, |nodes| {
        let mut scope = Scope::new(nodes);
        // A name can be bound further down in the text than it is used, so a second pass uses the bindings of the first
        // pass.
        for _ in 0..2 {
            for node in &nodes.all {
                scope.bind_node(*node);
                scope.finished()?;
            }
            scope.forget();
        }
        let mut rules = Rules::new(policy, &scope, found);
        for node in &nodes.all {
            rules.check(*node);
            scope.finished()?;
        }
        Ok(())
    })
}

/// Returns the module of an import; the name of a relative module begins with a dot.
pub(super) fn module_of(import: &StmtImportFrom) -> String {
    let dots = usize::try_from(import.level).unwrap_or_default();
    let name = import.module.as_ref().map_or("", |module| module.id.as_str());
    format!("{}{name}", ".".repeat(dots))
}

/// Returns whether a name reads a value, i.e. is not a binding.
pub(super) fn is_use(nodes: &Nodes<'_>, name: &ExprName) -> bool {
    name.ctx != ExprContext::Store
        || matches!(nodes.parent(name), Some(AnyNodeRef::StmtAugAssign(_)))
}

impl<'t> Scope<'t> {
    /// Binds the names that a syntax node declares or assigns.
    fn bind_node(&mut self, node: AnyNodeRef<'t>) {
        match node {
            AnyNodeRef::StmtImport(import) => self.bind_import(import),
            AnyNodeRef::StmtImportFrom(import) => self.bind_import_from(import),
            AnyNodeRef::StmtAssign(assign) => {
                for target in &assign.targets {
                    self.assign(target, &assign.value);
                }
            }
            AnyNodeRef::StmtAnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assign(&assign.target, value);
                }
            }
            AnyNodeRef::StmtAugAssign(assign) => self.bind_elements(&assign.target, &assign.value),
            AnyNodeRef::StmtFor(each) => self.bind_elements(&each.target, &each.iter),
            AnyNodeRef::Comprehension(each) => self.bind_elements(&each.target, &each.iter),
            AnyNodeRef::ExprNamed(named) => {
                let values = self.eval(&*named.value, 0);
                self.bind_target(&named.target, &values);
            }
            AnyNodeRef::WithItem(item) => {
                if let Some(target) = &item.optional_vars {
                    let values = self.eval(&item.context_expr, 0);
                    self.bind_target(target, &values);
                }
            }
            AnyNodeRef::StmtMatch(matched) => {
                let values = self.eval(&*matched.subject, 0);
                for case in &matched.cases {
                    self.bind_pattern(&case.pattern, &values);
                }
            }
            AnyNodeRef::ExceptHandlerExceptHandler(handler) => {
                if let Some(name) = &handler.name {
                    self.bind_unknown(name);
                }
            }
            AnyNodeRef::Parameters(parameters) => self.bind_parameters(parameters),
            AnyNodeRef::StmtGlobal(of) => {
                self.globals.extend(of.names.iter().map(|name| name.as_str().to_owned()));
            }
            AnyNodeRef::StmtFunctionDef(function) => self.bind_unknown(&function.name),
            AnyNodeRef::StmtClassDef(class) => self.bind_unknown(&class.name),
            _ => {}
        }
    }

    fn bind_import(&mut self, import: &StmtImport) {
        for import in &import.names {
            let module = import.name.as_str();
            let first = module.split('.').next().unwrap_or_default();
            let (name, path) = match &import.asname {
                Some(name) => (name.as_str(), module),
                None => (first, first),
            };
            self.bind(name, &one(Value::Path(format!("@{path}"))));
        }
    }

    fn bind_import_from(&mut self, import: &StmtImportFrom) {
        let module = module_of(import);
        if module == "__future__" {
            return;
        }
        for import in &import.names {
            let name = import.name.as_str();
            if name == "*" {
                self.star(&module);
                continue;
            }
            let path = canonical(format!("@{module}.{name}"));
            let alias = import.asname.as_ref().map_or(name, |alias| alias.as_str());
            self.bind(alias, &one(Value::Path(path)));
        }
    }

    /// Binds parameters to their default values, and also to an unknown value.
    fn bind_parameters(&mut self, parameters: &'t Parameters) {
        for parameter in parameters {
            if let Some(default) = parameter.default() {
                let values = self.eval(default, 0);
                self.bind(parameter.name(), &values);
            }
            self.bind_unknown(parameter.name());
        }
    }

    fn assign(&mut self, target: &'t Expr, value: &'t Expr) {
        let Some(targets) = items(target) else {
            let values = self.eval(value, 0);
            self.bind_target(target, &values);
            return;
        };
        match items(value).filter(|values| values.len() == targets.len()) {
            Some(values) => {
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value);
                }
            }
            None => self.bind_elements(target, value),
        }
    }

    /// Binds an assignment's target to the possible elements of a value, and also to an unknown value.
    fn bind_elements(&mut self, target: &'t Expr, value: &'t Expr) {
        let values = either(self.elements(value, 0), one(Value::Unknown));
        self.bind_target(target, &values);
    }

    fn bind_target(&mut self, target: &Expr, values: &Values) {
        match target {
            Expr::Name(name) => self.bind(&name.id, values),
            Expr::Starred(starred) => self.bind_target(&starred.value, values),
            _ => {
                for part in items(target).unwrap_or_default() {
                    self.bind_target(part, values);
                }
            }
        }
    }

    /// Binds the names in a pattern to the values that are matched.
    fn bind_pattern(&mut self, pattern: &Pattern, values: &Values) {
        // The analysis does not compute which part of the value a name gets, so the name can have any of the values.
        let part = either(values.clone(), one(Value::Unknown));
        match pattern {
            Pattern::MatchAs(named) => {
                if let Some(name) = &named.name {
                    self.bind(name, values);
                }
                if let Some(pattern) = &named.pattern {
                    self.bind_pattern(pattern, values);
                }
            }
            Pattern::MatchOr(any) => {
                any.patterns.iter().for_each(|pattern| self.bind_pattern(pattern, values));
            }
            Pattern::MatchSequence(sequence) => {
                sequence.patterns.iter().for_each(|pattern| self.bind_pattern(pattern, &part));
            }
            Pattern::MatchMapping(mapping) => {
                mapping.patterns.iter().for_each(|pattern| self.bind_pattern(pattern, &part));
                if let Some(rest) = &mapping.rest {
                    self.bind(rest, &part);
                }
            }
            Pattern::MatchClass(class) => {
                let arguments = &class.arguments;
                arguments.patterns.iter().for_each(|pattern| self.bind_pattern(pattern, &part));
                for keyword in &arguments.keywords {
                    if !self.may_judge(values.len()) {
                        return;
                    }
                    let member = either(attribute(values, &keyword.attr), one(Value::Unknown));
                    self.bind_pattern(&keyword.pattern, &member);
                }
            }
            Pattern::MatchStar(star) => {
                if let Some(name) = &star.name {
                    self.bind(name, &part);
                }
            }
            Pattern::MatchValue(_) | Pattern::MatchSingleton(_) => {}
        }
    }
}
