//! JavaScript: what is blocked besides the declared lists, and what can write.

use super::{
    CodePolicy,
    javascript::{Scope, member, module_of},
    tree::{children, field},
    value::{Findings, Value, is_path, is_under, last, matches_pattern, paths, texts},
};
use crate::words::Words;
use tree_sitter::Node;

/// Names of the global object.
pub(super) static GLOBALS: Words =
    Words::new("globalThis global window self top parent frames root GLOBAL");
/// Names that keep their meaning when another scope binds them.
pub(super) static BUILTINS: Words = Words::new(
    "\
    eval Function require process setTimeout setInterval setImmediate execScript Reflect \
    WebAssembly module Deno Bun",
);
/// Paths that execute text, load code or start processes.
static FLOOR: Words = Words::new(
    "\
    eval execScript AsyncFunction GeneratorFunction process.binding process._linkedBinding \
    process.dlopen process.kill process.mainModule process.getBuiltinModule process._* \
    module.constructor module._* module.children require.main require.cache require.extensions \
    Deno.Command Deno.run Deno.dlopen Deno.kill Deno.core Deno.internal Bun.spawn Bun.spawnSync \
    Bun.$ Bun.dlopen WebAssembly Worker SharedWorker importScripts @module.createRequire \
    @module._* @module.register @vm @child_process @worker_threads @inspector @repl \
    @v8.setFlagsFromString ShadowRealm",
);
/// Modules that only serve to execute something.
static IMPORTS: Words = Words::new(
    "\
    child_process vm worker_threads cluster module inspector repl vm2 isolated-vm execa shelljs \
    node-pty ffi-napi bun:ffi",
);

/// Functions that execute something, whatever object has them.
static DANGEROUS: Words = Words::new(
    "\
    execSync spawnSync execFile execFileSync spawn runInThisContext runInNewContext runInContext \
    compileFunction createRequire getBuiltinModule mainModule _linkedBinding _load dlopen execvp \
    setUncaughtExceptionCaptureCallback",
);

/// Checks a node.
pub(super) fn check(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    match node.kind() {
        "import_statement" | "export_statement" | "import_require_clause" => {
            if let Some(source) = field(node, "source") {
                modules(policy, scope, Some(source), found);
            }
        }
        "identifier" | "shorthand_property_identifier" if scope.is_use(node) => {
            reference(policy, scope, node, found);
        }
        "member_expression" | "subscript_expression" => {
            reference(policy, scope, node, found);
            computed(scope, node, found);
        }
        "call_expression" | "new_expression" => {
            reference(policy, scope, node, found);
            call(policy, scope, node, found);
        }
        "object_pattern" => destructured(policy, scope, node, found),
        _ => {}
    }
    if policy.is_readonly() {
        writes(scope, node, found);
    }
}

/// Checks a module that is imported; what is not constant is blocked.
fn modules(policy: &CodePolicy, scope: &Scope<'_>, source: Option<Node<'_>>, found: &mut Findings) {
    let values = source.map(|source| scope.eval(source, 0)).unwrap_or_default();
    if values.is_empty() || values.iter().any(|value| !matches!(value, Value::Text(_))) {
        found.pattern("import(");
    }
    for text in texts(&values) {
        let module = module_of(text);
        let remote =
            module.contains("://") || module.starts_with("data:") || module.starts_with("blob:");
        let top = match module.strip_prefix('@') {
            Some(scoped) => {
                format!("@{}", scoped.splitn(3, '/').take(2).collect::<Vec<_>>().join("/"))
            }
            None => module.split('/').next().unwrap_or(&module).to_owned(),
        };
        if policy.blocks_import(&module, None) || IMPORTS.has(top.as_str()) || remote {
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
    if let Some(listed) = FLOOR.iter().find(|listed| is_under(path, listed)) {
        found.pattern(listed.trim_start_matches('@'));
    }
    if path == "Function" {
        found.pattern("Function(");
    }
}

fn reference(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let values = scope.eval(node, 0);
    let parent = scope.nodes.parent(node);
    let kind = parent.map_or("", |parent| parent.kind());
    let written = if node.kind() == "identifier" { scope.text(node) } else { String::new() };
    // `x instanceof Function`, `typeof eval`, `Function.prototype`.
    let tested = kind == "binary_expression"
        && parent.and_then(|parent| field(parent, "operator")).is_some_and(|operator| {
            matches!(operator.kind(), "instanceof" | "===" | "!==" | "==" | "!=")
        })
        || kind == "unary_expression"
            && parent
                .and_then(|parent| field(parent, "operator"))
                .is_some_and(|operator| operator.kind() == "typeof")
        || kind == "member_expression"
            && parent.and_then(|parent| field(parent, "property")).is_some_and(|name| {
                matches!(scope.text(name).as_str(), "prototype" | "name" | "length")
            });
    for path in paths(&values) {
        if !(tested && matches!(path, "Function" | "eval")) {
            of_path(policy, path, &written, found);
        }
        let used = scope.nodes.is_field(node, "function")
            || scope.nodes.is_field(node, "object")
            || matches!(kind, "variable_declarator" | "unary_expression" | "binary_expression")
            || kind == "assignment_expression";
        if matches!(path, "require" | "module.require" | "import")
            && node.kind() != "call_expression"
            && !used
        {
            found.pattern("require(");
        }
        let subscript = node.kind() == "subscript_expression";
        if subscript
            && matches!(path, "this.eval" | "this.Function" | "this.require" | "this.process")
        {
            found.pattern(last(path));
        }
        // A name that this code does not bind may be a module that an earlier call of the session bound.
        if scope.is_unbound(path) && DANGEROUS.has(last(path)) {
            found.pattern(path);
        }
        if path.ends_with(".constructor.constructor") {
            found.pattern("constructor");
        }
    }
}

/// Checks members of the global object and of modules that are named by no constant.
fn computed(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    if node.kind() != "subscript_expression" {
        return;
    }
    let (Some(object), Some(index)) = (field(node, "object"), field(node, "index")) else { return };
    let dynamic = scope.eval(index, 0).iter().any(|key| !matches!(key, Value::Text(_)));
    let sensitive = paths(&scope.eval(object, 0)).any(|path| {
        matches!(path, "globalThis" | "process" | "module" | "require" | "Deno" | "Bun")
            || path.starts_with('@') && !path.contains('(')
    });
    if dynamic && sensitive && index.kind() != "number" {
        found.pattern(&format!("{}[", scope.text(object)));
    }
}

fn destructured(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let Some(value) = scope
        .nodes
        .parent(node)
        .and_then(|parent| field(parent, "value").or_else(|| field(parent, "right")))
    else {
        return;
    };
    let values = scope.eval(value, 0);
    for part in children(node) {
        let key = field(part, "key").or_else(|| field(part, "left")).unwrap_or(part);
        let name = texts(&scope.eval(key, 0)).next().map_or_else(|| scope.text(key), str::to_owned);
        for path in paths(&member(&values, &name)) {
            of_path(policy, path, "", found);
            if path.starts_with("?function.") && name == "constructor" || path == "require" {
                found.pattern(&name);
            }
        }
    }
}

fn call(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let Some(function) = field(node, "function").or_else(|| field(node, "constructor")) else {
        return;
    };
    let arguments = field(node, "arguments").map(children).unwrap_or_default();
    let new = node.kind() == "new_expression";
    for path in paths(&scope.eval(function, 0)) {
        match path {
            "require"
            | "import"
            | "module.require"
            | "process.mainModule.require"
            | "require.main.require"
            | "process.getBuiltinModule"
            | "require.resolve" => {
                modules(policy, scope, arguments.first().copied(), found);
            }
            "setTimeout"
            | "setInterval"
            | "setImmediate"
            | "requestAnimationFrame"
            | "queueMicrotask" => {
                let text = arguments.first().is_some_and(|code| {
                    scope
                        .eval(*code, 0)
                        .iter()
                        .any(|value| matches!(value, Value::Text(_) | Value::AnyText))
                });
                if text {
                    found.pattern(&format!("{path}("));
                }
            }
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
                // `new this.constructor()` copies an object of a class.
                && !(new && path == "this.constructor") =>
            {
                found.pattern("constructor(");
            }
            _ => {}
        }
    }
}

/// Members of `fs` and `Deno` that read.
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

fn writes(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    match node.kind() {
        "member_expression" | "subscript_expression" => {
            for path in paths(&scope.eval(node, 0)) {
                let name = last(path);
                let module = ["@fs/promises.", "@fs.promises.", "@fs.", "Deno.", "Bun."]
                    .iter()
                    .find_map(|module| path.strip_prefix(module));
                let member = module.map(|rest| rest.split(['.', '(']).next().unwrap_or(rest));
                if member.is_some_and(|member| !READS.has(member)) || METHODS.has(name) {
                    found.pattern(&format!("{name}("));
                }
            }
        }
        "call_expression" | "new_expression" => written_call(scope, node, found),
        "assignment_expression" | "augmented_assignment_expression" => {
            let Some(left) = field(node, "left")
                .filter(|left| matches!(left.kind(), "member_expression" | "subscript_expression"))
            else {
                return;
            };
            for path in paths(&scope.eval(left, 0)) {
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
        _ => {}
    }
}

fn written_call(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let Some(function) = field(node, "function").or_else(|| field(node, "constructor")) else {
        return;
    };
    let arguments = field(node, "arguments").map(children).unwrap_or_default();
    for path in paths(&scope.eval(function, 0)) {
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
            "fetch" => !arguments.get(1).is_none_or(|options| reads_only(scope, *options)),
            "post" | "put" | "patch" => {
                path.contains('.') && (client || name == "post" || name == "patch")
            }
            "delete" | "request" => client,
            "write" => {
                path == "document.write"
                    || path.contains("writeStream")
                    || !path.starts_with("process.std") && path.contains('.')
            }
            "writeln" | "send" => path.contains('.'),
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
            "axios" => !arguments
                .first()
                .is_none_or(|options| options.kind() != "object" || reads_only(scope, *options)),
            "WebSocket" | "RTCPeerConnection" | "BroadcastChannel" | "Notification" | "alert"
            | "confirm" | "prompt" => !path.contains('.'),
            "add" | "put2" | "addAll" => root == "caches",
            "assign" => root == "location",
            "chdir" | "setuid" | "exit" | "abort" | "umask" => root == "process",
            _ => false,
        };
        if blocked {
            found.pattern(&format!("{name}("));
        }
    }
}

/// Returns whether the options of a request are an object whose method reads.
fn reads_only(scope: &Scope<'_>, options: Node<'_>) -> bool {
    options.kind() == "object"
        && children(options).into_iter().all(|pair| {
            let key = field(pair, "key").map(|key| texts(&scope.eval(key, 0)).next().map(str::to_owned).unwrap_or_default());
            match key.as_deref() {
                None => false,
                Some("method") => field(pair, "value").is_some_and(|value| scope.eval(value, 0).iter().all(|value| matches!(value, Value::Text(method) if matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS")))),
                Some(key) => key != "body" && key != "data",
            }
        })
}
