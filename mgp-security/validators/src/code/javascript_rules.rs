//! The rules for JavaScript: constructs that are blocked even if no policy lists them, and constructs that can write.

use super::{
    CodePolicy,
    javascript::{Scope, member, module_of},
    javascript_passed as passed,
    javascript_tree::{Call, assigned, expression, number},
    value::{Findings, Value, Values, is_path, last, matches_pattern, one, texts},
};
use crate::words::Words;
use oxc_ast::{
    AstKind,
    ast::{AssignmentOperator, BinaryOperator, ObjectPropertyKind, PropertyKind, UnaryOperator},
};
use oxc_span::GetSpan;

/// The names under which code can access the global object.
pub(super) static GLOBALS: Words =
    Words::new("globalThis global window self top parent frames root GLOBAL");
/// Names that count as builtins even if the code declares a variable of the same name, because the variable may be in
/// another scope.
pub(super) static BUILTINS: Words = Words::new(
    "\
    eval Function require process setTimeout setInterval setImmediate execScript Reflect \
    WebAssembly module Deno Bun",
);
/// Functions that call their argument later. If the argument is a text, they execute it as code.
pub(super) static TIMERS: Words =
    Words::new("setTimeout setInterval setImmediate requestAnimationFrame queueMicrotask");
/// Paths of names, e.g. `Deno.run`, that execute text, load code or start processes. Everything below such a path is
/// blocked, too.
static FLOOR: Words = Words::new(
    "\
    eval execScript AsyncFunction GeneratorFunction process.binding process._linkedBinding \
    process.dlopen process.kill process.mainModule process.getBuiltinModule process.execve \
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

/// Returns whether a path is the global object, a builtin, a module or a member of a module.
pub(super) fn is_sensitive(path: &str) -> bool {
    GLOBALS.has(path) || BUILTINS.has(path) || path.starts_with('@') && !path.contains('(')
}

/// Checks one syntax node.
pub(super) fn check<'t>(
    policy: &CodePolicy,
    scope: &Scope<'t>,
    node: AstKind<'t>,
    found: &mut Findings,
) {
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
            computed(scope, node, found);
        }
        AstKind::ObjectPattern(_) | AstKind::ObjectAssignmentTarget(_) => {
            destructured(policy, scope, node, found);
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
        writes(scope, node, found);
        if let Some(call) = &call {
            written_call(scope, call, found);
        }
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
        if matches!(node, AstKind::ComputedMemberExpression(_))
            && matches!(path, "this.eval" | "this.Function" | "this.require" | "this.process")
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

/// Blocks reading a member of the global object or of a module if the member's name is not constant, e.g. `process[x]`.
fn computed<'t>(scope: &Scope<'t>, node: AstKind<'t>, found: &mut Findings) {
    let AstKind::ComputedMemberExpression(of) = node else { return };
    let dynamic = scope.value(&of.expression, 0).iter().any(|key| !matches!(key, Value::Text(_)));
    let sensitive = scope.paths(&scope.value(&of.object, 0)).any(|path| {
        matches!(path, "globalThis" | "process" | "module" | "require" | "Deno" | "Bun")
            || path.starts_with('@') && !path.contains('(')
    });
    if dynamic && sensitive && !of.expression.is_number_literal() {
        found.pattern(&format!("{}[", scope.text(of.object.span())));
    }
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
        for path in scope.paths(&member(&values, &name)) {
            of_path(policy, path, "", found);
            if path.starts_with("?function.") && name == "constructor" || path == "require" {
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
    let new = matches!(node, AstKind::NewExpression(_));
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
                && first_passed(call).is_some_and(|code| is_text(scope, code)) =>
            {
                found.pattern(&format!("{path}("));
            }
            "Reflect.apply" if applies_text(scope, arguments) => found.pattern(path),
            "Reflect.get" | "Reflect.apply" | "Reflect.construct" => {
                let named = arguments.get(1).is_some_and(|name| {
                    texts(&scope.eval(*name, 0))
                        .any(|name| matches!(name, "constructor" | "eval" | "Function"))
                });
                if named {
                    found.pattern(path);
                }
            }
            "document.createElement"
                if arguments.first().is_some_and(|tag| {
                    texts(&scope.eval(*tag, 0)).any(|tag| tag.eq_ignore_ascii_case("script"))
                }) =>
            {
                found.pattern("document.createElement(");
            }
            _ if last(path) == "constructor" && !path.ends_with("()")
                // `new this.constructor()` only creates another object of the same class.
                && !(new && path == "this.constructor") =>
            {
                found.pattern("constructor(");
            }
            _ => {}
        }
    }
}

/// Returns the first argument that the called function receives, also if the call uses `call`, `apply` or `bind`.
fn first_passed<'t>(call: &Call<'t>) -> Option<AstKind<'t>> {
    match call.member() {
        Some("call" | "bind") => call.arguments.get(1).copied(),
        Some("apply") => first_of_list(*call.arguments.get(1)?),
        _ => call.arguments.first().copied(),
    }
}

/// Returns whether a call of `Reflect.apply` passes a text as the first argument to a function in [`TIMERS`].
fn applies_text<'t>(scope: &Scope<'t>, arguments: &[AstKind<'t>]) -> bool {
    let [function, _, list, ..] = arguments else { return false };
    scope.paths(&scope.eval(*function, 0)).any(|path| TIMERS.has(path))
        && first_of_list(*list).is_some_and(|code| is_text(scope, code))
}

fn first_of_list(list: AstKind<'_>) -> Option<AstKind<'_>> {
    let AstKind::ArrayExpression(list) = list else { return None };
    list.elements.first()?.as_expression().map(expression)
}

fn is_text<'t>(scope: &Scope<'t>, node: AstKind<'t>) -> bool {
    let values = scope.eval(node, 0);
    values.iter().any(|value| matches!(value, Value::Text(_) | Value::AnyText))
}

/// Members of `fs` and `Deno` that only read.
static READS: Words = Words::new(
    "\
    readFile readFileSync existsSync exists stat statSync lstat lstatSync fstat fstatSync readdir \
    readdirSync access accessSync createReadStream realpath realpathSync readlink readlinkSync \
    promises constants opendir opendirSync read readSync close closeSync readTextFile \
    readTextFileSync readDir readDirSync realPath cwd args env version build watch statfs Stats \
    Dirent errors inspect",
);
static METHODS: Words = Words::new(
    "\
    sendBeacon setItem removeItem insertAdjacentHTML appendChild removeChild replaceChild \
    insertBefore replaceWith pushState replaceState postMessage writeFile writeFileSync appendFile \
    appendFileSync unlink unlinkSync rmSync rmdir rmdirSync mkdir mkdirSync rename renameSync \
    copyFile copyFileSync createWriteStream truncate truncateSync chmod chmodSync chown symlink \
    symlinkSync writeTextFile writeTextFileSync insertOne insertMany updateOne updateMany \
    deleteOne deleteMany writeText showSaveFilePicker createWritable setAttribute requestSubmit \
    submit execCommand deleteDatabase createObjectStore setRequestHeader",
);

fn writes<'t>(scope: &Scope<'t>, node: AstKind<'t>, found: &mut Findings) {
    match node {
        AstKind::IdentifierReference(_) if scope.is_use(node) => {
            // A variable or an import can name a member, e.g. `import {writeFile as w} from 'fs'`, so check names like
            // members.
            members(scope, node, found);
        }
        AstKind::StaticMemberExpression(_)
        | AstKind::PrivateFieldExpression(_)
        | AstKind::ComputedMemberExpression(_) => members(scope, node, found),
        AstKind::AssignmentExpression(assignment) if assignment.left.is_member_expression() => {
            changed(scope, assigned(&assignment.left), found);
        }
        AstKind::UnaryExpression(of) if of.operator == UnaryOperator::Delete => {
            changed(scope, expression(&of.argument), found);
        }
        _ => {}
    }
}

/// Reports the use of a member that writes.
fn members<'t>(scope: &Scope<'t>, node: AstKind<'t>, found: &mut Findings) {
    let is_name = matches!(node, AstKind::IdentifierReference(_));
    for path in scope.paths(&scope.eval(node, 0)) {
        let name = last(path);
        let module = ["@fs/promises.", "@fs.promises.", "@fs.", "Deno.", "Bun."]
            .iter()
            .find_map(|module| path.strip_prefix(module));
        let member = module.map(|rest| rest.split(['.', '(']).next().unwrap_or(rest));
        // A name without an object before it does not count, because it can be a function of the code itself.
        let is_method = METHODS.has(name) && (!is_name || path.contains('.'));
        if member.is_some_and(|member| !READS.has(member)) || is_method {
            found.pattern(&format!("{name}("));
        }
    }
}

/// Reports code that sets or deletes a member of a builtin or of a page.
fn changed<'t>(scope: &Scope<'t>, target: AstKind<'t>, found: &mut Findings) {
    for path in scope.paths(&scope.eval(target, 0)) {
        let root = path.split(['.', '(']).next().unwrap_or(path);
        let global = matches!(
            root,
            "document"
                | "localStorage"
                | "sessionStorage"
                | "location"
                | "history"
                | "navigator"
                | "process"
                | "Deno"
                | "globalThis"
                | "require"
        ) || root.starts_with('@');
        let markup = matches!(
            last(path),
            "innerHTML"
                | "outerHTML"
                | "cookie"
                | "src"
                | "href"
                | "onclick"
                | "prototype"
                | "__proto__"
        );
        if global || markup {
            found.pattern(&format!("{path} ="));
        }
    }
}

fn written_call<'t>(scope: &Scope<'t>, call: &Call<'t>, found: &mut Findings) {
    let arguments = &call.arguments;
    for path in scope.paths(&scope.function(call, 0)) {
        let name = last(path);
        let root = path.split(['.', '(']).next().unwrap_or(path).trim_start_matches('@');
        let client = matches!(
            root,
            "axios"
                | "got"
                | "superagent"
                | "ky"
                | "http"
                | "https"
                | "undici"
                | "request"
                | "needle"
        );
        let blocked = match name {
            "fetch" | "Request" => arguments.get(1).is_some_and(|of| !reads_only(scope, *of)),
            "put" => path.contains('.') && (client || root == "caches"),
            "post" | "patch" | "writeln" | "send" => path.contains('.'),
            "delete" => client || root == "caches",
            "request" => client,
            "write" => {
                path == "document.write"
                    || path.contains("writeStream")
                    || !path.starts_with("process.std") && path.contains('.')
            }
            "clear" => matches!(root, "localStorage" | "sessionStorage" | "caches"),
            "open" => {
                let method =
                    arguments.first().map(|method| scope.eval(*method, 0)).unwrap_or_default();
                path == "open"
                    || root == "indexedDB"
                    || texts(&method).any(|method| {
                        matches!(
                            method.to_ascii_uppercase().as_str(),
                            "POST" | "PUT" | "PATCH" | "DELETE"
                        )
                    })
            }
            "axios" => !arguments.first().is_none_or(|options| {
                !matches!(options, AstKind::ObjectExpression(_)) || reads_only(scope, *options)
            }),
            "WebSocket" | "RTCPeerConnection" | "BroadcastChannel" | "Notification" | "alert"
            | "confirm" | "prompt" => !path.contains('.'),
            "add" | "addAll" => root == "caches",
            "assign" | "defineProperty" | "defineProperties" | "set" => {
                root == "location"
                    || matches!(root, "Object" | "Reflect") && of_process(scope, call)
            }
            "chdir" | "setuid" | "exit" | "reallyExit" | "abort" | "umask" => root == "process",
            _ => false,
        };
        if blocked {
            found.pattern(&format!("{name}("));
        }
    }
}

/// Returns whether the first argument of a call is a member of `process`, e.g. the environment.
fn of_process<'t>(scope: &Scope<'t>, call: &Call<'t>) -> bool {
    let object = call.arguments.first().map(|object| scope.eval(*object, 0)).unwrap_or_default();
    scope.paths(&object).any(|path| path.starts_with("process."))
}

/// Returns whether the options of a request are an object literal, and its `method` only reads.
fn reads_only<'t>(scope: &Scope<'t>, options: AstKind<'t>) -> bool {
    let AstKind::ObjectExpression(options) = options else { return false };
    let reads = |value: &Value| {
        matches!(value, Value::Text(method)
            if matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS"))
    };
    options.properties.iter().all(|property| match property {
        ObjectPropertyKind::ObjectProperty(pair)
            if pair.kind == PropertyKind::Init && !pair.method && !pair.shorthand =>
        {
            match scope.key(&pair.key).as_str() {
                "method" => scope.value(&pair.value, 0).iter().all(reads),
                key => key != "body" && key != "data",
            }
        }
        _ => false,
    })
}
