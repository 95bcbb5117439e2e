//! The rules for JavaScript: constructs that are blocked even if no policy lists them.

use super::{
    CodePolicy,
    javascript::{Scope, member, module_of},
    javascript_constructors as constructors,
    javascript_dialect::Dialect,
    javascript_dynamic as dynamic,
    javascript_globals::{BUILTINS, TIMERS},
    javascript_passed as passed,
    javascript_tree::{Call, expression, first_of_list, number, with_tree},
    javascript_urls as urls, javascript_writes as writes,
    value::{Findings, Value, Values, is_path, last, matches_pattern, one, texts},
};
use crate::words::Words;
use oxc_ast::{
    AstKind,
    ast::{AssignmentOperator, BinaryOperator, UnaryOperator},
};

/// Paths of names, e.g. `Deno.run`, that execute text, load code or start processes. Everything below such a path is
/// blocked, too.
static FLOOR: Words = Words::new(
    "\
    eval execScript AsyncFunction GeneratorFunction process.binding process._linkedBinding \
    process.dlopen process.kill process.mainModule process.getBuiltinModule process.execve \
    process.setuid process.setgid process.seteuid process.setegid process.setgroups \
    process.initgroups process.then \
    Error.prepareStackTrace \
    module.constructor module.children require.main require.cache require.extensions \
    Deno.Command Deno.run Deno.dlopen Deno.kill Deno.core Deno.internal Bun.spawn Bun.spawnSync \
    Bun.$ Bun.dlopen WebAssembly Worker SharedWorker importScripts @module.createRequire \
    @module.register @vm @child_process @worker_threads @inspector @repl \
    @v8.setFlagsFromString ShadowRealm",
);
/// Prefixes of paths that are blocked like the paths in `FLOOR`.
const FLOOR_STARTS: [&str; 3] = ["process._", "module._", "@module._"];
/// Modules that are used only to execute something.
static IMPORTS: Words = Words::new(
    "\
    child_process vm worker_threads cluster module inspector repl vm2 isolated-vm execa shelljs zx \
    cross-spawn node-pty ffi-napi bun:ffi",
);

/// Builtin modules of Node that scripts may load. A strict policy refuses longer paths that begin with such a name,
/// e.g. `url/`, because `require('url/')` loads the package `node_modules/url` and not the builtin module.
static NODE_MODULES: Words = Words::new(
    "\
    assert async_hooks buffer console constants crypto diagnostics_channel dns events path perf_hooks \
    punycode querystring readline stream string_decoder sys timers tty url util zlib",
);
/// The builtin modules whose names begin with a name in `NODE_MODULES` and a slash.
static NODE_SUBMODULES: Words = Words::new(
    "\
    assert/strict dns/promises path/posix path/win32 readline/promises stream/consumers \
    stream/promises stream/web timers/promises util/types",
);

/// Names of functions that count as executing something, regardless of the object that has them.
static DANGEROUS: Words = Words::new(
    "\
    execSync spawnSync execFile execFileSync spawn runInThisContext runInNewContext runInContext \
    compileFunction createRequire getBuiltinModule mainModule _linkedBinding _load dlopen execvp \
    setUncaughtExceptionCaptureCallback",
);
/// Names that only functions of Node have. A call of such a function is dangerous even on an unknown object.
static OF_NODE: Words = Words::new(
    "getBuiltinModule _linkedBinding createRequire mainModule setUncaughtExceptionCaptureCallback",
);

/// Checks code against a policy, and adds the violations to `found`.
///
/// # Errors
/// A description of the reason why the code cannot be judged.
pub(super) fn check(
    policy: &CodePolicy,
    source: &str,
    dialect: Dialect,
    found: &mut Findings,
) -> Result<(), String> {
    with_tree(source, dialect, |nodes| {
        let scope = Scope::new(source, nodes);
        nodes.all.iter().for_each(|node| check_node(policy, &scope, *node, found));
        if scope.may_work(0) {
            Ok(())
        } else {
            Err("the values of the code are too many or too long".to_owned())
        }
    })
}

/// Checks one syntax node.
fn check_node<'t>(policy: &CodePolicy, scope: &Scope<'t>, node: AstKind<'t>, found: &mut Findings) {
    let call = Call::of(node);
    match node {
        AstKind::ImportDeclaration(import) => module(policy, &import.source.value, found),
        AstKind::ExportFromDeclaration(export) => module(policy, &export.source.value, found),
        AstKind::ExportAllDeclaration(export) => module(policy, &export.source.value, found),
        AstKind::TSExternalModuleReference(of) => module(policy, &of.expression.value, found),
        AstKind::TSImportType(import) => module(policy, &import.source.value, found),
        AstKind::IdentifierReference(_) | AstKind::BindingIdentifier(_) if scope.is_use(node) => {
            reference(policy, scope, node, found);
        }
        AstKind::StaticMemberExpression(_) | AstKind::PrivateFieldExpression(_) => {
            reference(policy, scope, node, found);
        }
        AstKind::ComputedMemberExpression(_) => {
            reference(policy, scope, node, found);
            dynamic::check(policy, scope, node, found);
        }
        AstKind::ObjectPattern(_) | AstKind::ObjectAssignmentTarget(_) => {
            destructured(policy, scope, node, found);
        }
        AstKind::AssignmentExpression(assignment) if urls::are_assigned(scope, assignment) => {
            found.pattern("javascript:");
        }
        _ => {
            if let Some(call) = &call {
                reference(policy, scope, node, found);
                called(policy, scope, node, call, found);
            }
        }
    }
    passed::check(scope, node, call.as_ref(), found);
    if policy.is_readonly() {
        writes::check(scope, node, call.as_ref(), found);
    }
}

fn module(policy: &CodePolicy, name: &str, found: &mut Findings) {
    modules(policy, &one(Value::Text(name.to_owned())), found);
}

/// Checks an imported module. An import whose specifier is not constant is blocked.
fn modules(policy: &CodePolicy, values: &Values, found: &mut Findings) {
    if values.is_empty() || values.iter().any(|value| !matches!(value, Value::Text(_))) {
        found.pattern("import(");
    }
    for text in texts(values) {
        let module = module_of(text);
        let remote =
            module.contains("://") || module.starts_with("data:") || module.starts_with("blob:");
        let top = match module.strip_prefix('@') {
            Some(scoped) => {
                format!("@{}", scoped.splitn(3, '/').take(2).collect::<Vec<_>>().join("/"))
            }
            None => module.split('/').next().unwrap_or(&module).to_owned(),
        };
        let is_package = policy.is_strict()
            && top != module
            && NODE_MODULES.has(top.as_str())
            && !NODE_SUBMODULES.has(module.as_str());
        // A file with the ending `.node` is a library in machine code, so it is blocked.
        let is_blocked = policy.blocks_import(&module, None)
            || IMPORTS.has(top.as_str())
            || module.rsplit_once('.').is_some_and(|(_, ending)| ending == "node");
        if is_blocked || remote || is_package {
            found.import(&module);
        }
        for pattern in policy.blocked_patterns.iter().filter(|pattern| is_path(pattern)) {
            if module == *pattern || module.starts_with(&format!("{pattern}/")) {
                found.pattern(pattern);
            }
        }
    }
}

fn of_path(policy: &CodePolicy, path: &str, written: &str, found: &mut Findings) {
    for pattern in policy.blocked_patterns.iter().filter(|pattern| is_path(pattern)) {
        let constructs = pattern.trim().starts_with("new ") || pattern.trim() == "Function(";
        if !(constructs && path.contains('.')) && matches_pattern(pattern, path, written, &BUILTINS)
        {
            found.pattern(pattern);
        }
    }
    let names = path.match_indices(['.', '(']).filter_map(|(end, _)| path.get(..end));
    // No path in `FLOOR` has more than two names.
    if let Some(listed) = names.take(2).chain([path]).find(|name| FLOOR.has(name)) {
        found.pattern(listed.trim_start_matches('@'));
    } else if let Some(start) = FLOOR_STARTS.iter().find(|start| path.starts_with(**start)) {
        found.pattern(&format!("{}*", start.trim_start_matches('@')));
    }
    if path == "Function" {
        found.pattern("Function(");
    }
}

/// Returns whether a parent node only compares a value or reads a harmless property, e.g. `x instanceof Function` or
/// `Function.prototype`.
fn only_tests(parent: AstKind<'_>) -> bool {
    match parent {
        AstKind::BinaryExpression(of) => matches!(
            of.operator,
            BinaryOperator::Instanceof
                | BinaryOperator::StrictEquality
                | BinaryOperator::StrictInequality
                | BinaryOperator::Equality
                | BinaryOperator::Inequality
        ),
        AstKind::UnaryExpression(of) => of.operator == UnaryOperator::Typeof,
        AstKind::StaticMemberExpression(of) => {
            matches!(of.property.name.as_str(), "prototype" | "name" | "length")
        }
        _ => false,
    }
}

/// Returns whether a parent node only calls a value, reads a member of it, compares it or assigns it to a variable.
fn only_uses(parent: AstKind<'_>, node: AstKind<'_>) -> bool {
    let used = match parent {
        AstKind::CallExpression(call) => &call.callee,
        AstKind::TaggedTemplateExpression(call) => &call.tag,
        AstKind::StaticMemberExpression(of) => &of.object,
        AstKind::PrivateFieldExpression(of) => &of.object,
        AstKind::ComputedMemberExpression(of) => &of.object,
        AstKind::AssignmentExpression(of) => return of.operator == AssignmentOperator::Assign,
        AstKind::VariableDeclarator(_)
        | AstKind::UnaryExpression(_)
        | AstKind::BinaryExpression(_)
        | AstKind::LogicalExpression(_)
        | AstKind::PrivateInExpression(_) => return true,
        _ => return false,
    };
    number(expression(used)) == number(node)
}

fn reference<'t>(policy: &CodePolicy, scope: &Scope<'t>, node: AstKind<'t>, found: &mut Findings) {
    let values = scope.eval(node, 0);
    let parent = scope.nodes.parent(node);
    let written = match node {
        AstKind::IdentifierReference(name) => name.name.as_str(),
        AstKind::BindingIdentifier(name) => name.name.as_str(),
        _ => "",
    };
    let tested = parent.is_some_and(only_tests);
    let used = parent.is_some_and(|parent| only_uses(parent, node));
    let call = matches!(node, AstKind::CallExpression(_) | AstKind::TaggedTemplateExpression(_));
    for path in scope.paths(&values) {
        if !(tested && matches!(path, "Function" | "eval" | "require.main")) {
            of_path(policy, path, written, found);
        }
        if matches!(path, "require" | "module.require" | "import.meta.require" | "import")
            && !call
            && !used
        {
            found.pattern("require(");
        }
        if matches!(path, "this.eval" | "this.Function" | "this.require" | "this.process")
            && (matches!(node, AstKind::ComputedMemberExpression(_))
                || constructors::is_of_outer_this(scope, node))
        {
            found.pattern(last(path));
        }
        // A name that this code does not declare might be a module that was imported in an earlier call of the same
        // session. So a dangerous name is blocked there, too.
        let name = last(path);
        if scope.is_unbound(path) && DANGEROUS.has(name)
            || OF_NODE.has(name)
            || is_process_binding(path)
        {
            found.pattern(path);
        }
        if path.ends_with(".constructor.constructor") {
            found.pattern("constructor");
        }
    }
}

/// Returns whether a path leads to builtins of Node through a member `process`. The object with this member may be
/// unknown, e.g. the `this` that a function returns: outside of strict mode, that can be the global object.
fn is_process_binding(path: &str) -> bool {
    let end = path.rsplit_once(".process.").map(|(_, end)| end);
    end.is_some_and(|end| matches!(end, "binding" | "dlopen" | "execve"))
}

fn destructured<'t>(
    policy: &CodePolicy,
    scope: &Scope<'t>,
    node: AstKind<'t>,
    found: &mut Findings,
) {
    let value = match scope.nodes.parent(node) {
        Some(AstKind::VariableDeclarator(declared)) => declared.init.as_ref(),
        Some(AstKind::AssignmentExpression(assignment)) => Some(&assignment.right),
        Some(AstKind::AssignmentPattern(default)) => Some(&default.right),
        Some(AstKind::AssignmentTargetWithDefault(default)) => Some(&default.init),
        Some(AstKind::FormalParameter(parameter)) => match &parameter.initializer {
            Some(value) => Some(&**value),
            None => return,
        },
        Some(AstKind::BindingProperty(_) | AstKind::AssignmentTargetPropertyProperty(_)) => None,
        _ => return,
    };
    let values = value.map_or_else(|| scope.unknown(), |value| scope.value(value, 0));
    for (name, _) in scope.members_of(node) {
        if name == "*"
            && (constructors::are_functions(&values)
                || scope.paths(&values).any(|path| dynamic::has_ruled_members(policy, path)))
        {
            found.pattern("{[");
        }
        for path in scope.paths(&member(&values, &name)) {
            of_path(policy, path, "", found);
            if constructors::is_constructor(path) || path == "require" {
                found.pattern(&name);
            }
        }
    }
}

fn called<'t>(
    policy: &CodePolicy,
    scope: &Scope<'t>,
    node: AstKind<'t>,
    call: &Call<'t>,
    found: &mut Findings,
) {
    let arguments = &call.arguments;
    for path in scope.paths(&scope.function(call, 0)) {
        match path {
            "require"
            | "import"
            | "module.require"
            | "import.meta.require"
            | "module.parent.require"
            | "process.mainModule.require"
            | "require.main.require"
            | "process.getBuiltinModule"
            | "require.resolve" => {
                let values = arguments.first().map(|source| scope.eval(*source, 0));
                modules(policy, &values.unwrap_or_default(), found);
            }
            path if TIMERS.has(path)
                && call.first_passed().is_some_and(|code| scope.is_text(code)) =>
            {
                found.pattern(&format!("{path}("));
            }
            "Reflect.apply" if applies_text(scope, arguments) => found.pattern(path),
            "Reflect.get" | "Reflect.apply" | "Reflect.construct"
                if names_function(scope, path, arguments) =>
            {
                found.pattern(path);
            }
            "document.createElement"
                if arguments.first().is_some_and(|tag| {
                    texts(&scope.eval(*tag, 0)).any(|tag| tag.eq_ignore_ascii_case("script"))
                }) =>
            {
                found.pattern("document.createElement(");
            }
            _ if urls::are_passed(scope, call, path) => found.pattern("javascript:"),
            _ if constructors::is_called(scope, node, call, path) => {
                found.pattern("constructor(");
            }
            _ => {}
        }
    }
    if constructors::may_be_called(scope, node, call) {
        found.pattern("constructor(");
    }
}

/// Returns whether the second argument of a function of `Reflect` names, or may name, a function that executes text.
fn names_function<'t>(scope: &Scope<'t>, function: &str, arguments: &[AstKind<'t>]) -> bool {
    let [object, name, ..] = arguments else { return false };
    let names = scope.eval(*name, 0);
    texts(&names).any(|name| matches!(name, "constructor" | "eval" | "Function"))
        || function == "Reflect.get"
            && names.iter().any(|name| !matches!(name, Value::Text(_)))
            && constructors::are_functions(&scope.eval(*object, 0))
}

/// Returns whether a call of `Reflect.apply` passes a text as the first argument to a function in [`TIMERS`].
fn applies_text<'t>(scope: &Scope<'t>, arguments: &[AstKind<'t>]) -> bool {
    let [function, _, list, ..] = arguments else { return false };
    scope.paths(&scope.eval(*function, 0)).any(|path| TIMERS.has(path))
        && first_of_list(*list).is_some_and(|code| scope.is_text(code))
}
