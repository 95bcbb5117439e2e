//! The names that JavaScript or TypeScript code declares and assigns, with their values.

use super::{
    javascript::{Scope, cost, member, module_path},
    javascript_globals::is_sensitive,
    javascript_tree::{assigned, assigned_or_default, pattern},
    value::{Value, Values, concatenated, either, one},
};
use oxc_ast::{
    AstKind,
    ast::{
        AssignmentExpression, AssignmentOperator, ForStatementLeft, ImportDeclaration,
        ImportDeclarationSpecifier, TSModuleReference,
    },
};

impl<'t> Scope<'t> {
    /// Binds the names that a syntax node declares or assigns.
    pub(super) fn bind(&mut self, node: AstKind<'t>) {
        match node {
            AstKind::VariableDeclarator(declared) => {
                let values = declared.init.as_ref().map(|value| self.value(value, 0));
                self.target(pattern(&declared.id), &values.unwrap_or_else(|| self.unknown()));
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
                    self.name_values(&default.binding.name, &values);
                }
            }
            AstKind::FormalParameter(parameter) => {
                self.target(pattern(&parameter.pattern), &self.unknown());
                if let Some(value) = &parameter.initializer {
                    let values = self.value(value, 0);
                    self.target(pattern(&parameter.pattern), &values);
                }
            }
            AstKind::BindingRestElement(rest) => {
                self.target(pattern(&rest.argument), &self.unknown());
            }
            AstKind::AssignmentTargetRest(rest) => {
                self.target(assigned(&rest.target), &self.unknown());
            }
            AstKind::CatchParameter(caught) => {
                self.target(pattern(&caught.pattern), &self.unknown());
            }
            AstKind::ForInStatement(statement) => self.each(&statement.left),
            AstKind::ForOfStatement(statement) => self.each(&statement.left),
            AstKind::Function(function) if function.is_declaration() => {
                if let Some(name) = &function.id {
                    self.name_values(&name.name, &self.unknown());
                }
            }
            AstKind::Class(class) if class.is_declaration() => {
                if let Some(name) = &class.id {
                    self.name_values(&name.name, &self.unknown());
                }
            }
            AstKind::ImportDeclaration(import) => self.import(import),
            AstKind::TSImportEqualsDeclaration(import) => {
                if let TSModuleReference::ExternalModuleReference(module) = &import.module_reference
                {
                    let module = Value::Path(module_path(&module.expression.value));
                    self.name_values(&import.id.name, &one(module));
                }
            }
            _ => {}
        }
    }

    fn each(&mut self, left: &'t ForStatementLeft<'t>) {
        if let Some(target) = left.as_assignment_target() {
            self.target(assigned(target), &self.unknown());
        }
    }

    fn assign(&mut self, assignment: &'t AssignmentExpression<'t>) {
        let left = assigned(&assignment.left);
        let values = self.value(&assignment.right, 0);
        if assignment.operator == AssignmentOperator::Assign {
            return self.target(left, &values);
        }
        let sums = concatenated(&self.eval(left, 0), &values);
        let added = match sums.first() {
            Some(Value::Text(_) | Value::AnyText) => Value::AnyText,
            _ => Value::Unknown,
        };
        // A loop can add texts without end, so only the beginnings of names with a meaning for the rules are kept.
        let is_kept = |value: &Value| matches!(value, Value::Text(text) if begins_name(text));
        let kept: Values = sums.into_iter().filter(is_kept).collect();
        self.target(left, &either(either(Values::clone(&values), kept), one(added)));
    }

    fn import(&mut self, import: &ImportDeclaration<'_>) {
        let module = module_path(&import.source.value);
        for specifier in import.specifiers.iter().flatten() {
            let (local, path) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(name) => {
                    (&name.local, format!("{module}.{}", name.imported.name()))
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(name) => {
                    (&name.local, module.clone())
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(name) => {
                    (&name.local, module.clone())
                }
            };
            self.name_values(&local.name, &one(Value::Path(path)));
        }
    }

    /// Adds possible values to a name.
    fn name_values(&mut self, name: &str, values: &Values) {
        let known = self.names.get(name);
        if !self.may_work(150 + 2 * cost(values))
            || known.is_some_and(|known| values.iter().all(|value| known.contains(value)))
        {
            return;
        }
        self.names.bind(name, values.clone());
        // A name keeps only a limited number of values. Modules, the global object and functions that execute code are
        // kept in any case.
        let is_kept = |value: &&Value| matches!(value, Value::Path(path) if is_sensitive(path));
        values.iter().filter(is_kept).for_each(|value| self.names.insert(name, value.clone()));
        self.used.get_mut().remove(name);
    }

    /// Binds the names in a pattern to parts of the values.
    fn target(&mut self, target: AstKind<'t>, values: &Values) {
        let unknown = self.unknown();
        match target {
            AstKind::BindingIdentifier(name) => self.name_values(&name.name, values),
            AstKind::IdentifierReference(name) => self.name_values(&name.name, values),
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
                    self.may_work(150 + 2 * cost(values));
                    self.target(part, &member(values, &name));
                }
            }
        }
    }
}

/// Returns whether a text is the beginning of a name that the rules look for.
fn begins_name(text: &str) -> bool {
    const NAMES: [&str; 14] = [
        "constructor",
        "__proto__",
        "eval",
        "Function",
        "child_process",
        "node:child_process",
        "process",
        "binding",
        "require",
        "worker_threads",
        "cluster",
        "getBuiltinModule",
        "mainModule",
        "dlopen",
    ];
    NAMES.iter().any(|name| name.starts_with(text))
}
