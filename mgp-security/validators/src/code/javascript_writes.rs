//! The rules of the level `readonly` for JavaScript and TypeScript: constructs that can write.

use super::{
    javascript::Scope,
    javascript_tree::{Call, assigned, expression, number},
    value::{Findings, Value, last, texts},
};
use crate::words::Words;
use oxc_ast::{
    AstKind,
    ast::{ObjectPropertyKind, PropertyKind, UnaryOperator},
};

/// Members of `fs` and `Deno` that only read.
static READS: Words = Words::new(
    "\
    readFile readFileSync existsSync exists stat statSync lstat lstatSync fstat fstatSync readdir \
    readdirSync access accessSync createReadStream realpath realpathSync readlink readlinkSync \
    promises constants opendir opendirSync read readSync close closeSync readTextFile \
    readTextFileSync readDir readDirSync realPath cwd args env version build watch statfs Stats \
    Dirent errors inspect",
);
/// The modules and objects with functions for files.
const FILES: [&str; 5] = ["@fs/promises.", "@fs.promises.", "@fs.", "Deno.", "Bun."];
/// Members of an open file that only read.
static HANDLE_READS: Words = Words::new(
    "close fd read readv readFile readLines readableWebStream createReadStream stat then",
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

/// Reports assignments, members and calls in one syntax node that can write.
pub(super) fn check<'t>(
    scope: &Scope<'t>,
    node: AstKind<'t>,
    call: Option<&Call<'t>>,
    found: &mut Findings,
) {
    if let Some(call) = call {
        written_call(scope, call, found);
    }
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
        let module = FILES.iter().find_map(|module| path.strip_prefix(module));
        // A name without an object before it does not count, because it can be a function of the code itself.
        let is_method = METHODS.has(name) && (!is_name || path.contains('.'));
        if module.is_some_and(|rest| !only_reads(scope, node, rest)) || is_method {
            found.pattern(&format!("{name}("));
        }
    }
}

/// Returns whether a node only reads if its value is the member `rest` of a module in [`FILES`].
fn only_reads<'t>(scope: &Scope<'t>, node: AstKind<'t>, rest: &str) -> bool {
    let (member, after) = rest.split_at(rest.find(['.', '(']).unwrap_or(rest.len()));
    match (member, after.strip_prefix("()")) {
        // The flags in the call decide, see `opens_for_writing`.
        ("open" | "openSync", None) => {
            let parent = scope.nodes.parent(node);
            after.is_empty()
                && matches!(parent, Some(AstKind::CallExpression(call))
                    if number(expression(&call.callee)) == number(node))
        }
        ("open" | "openSync", Some(used)) => {
            let used = used.trim_start_matches('.').split(['.', '(']).next().unwrap_or_default();
            used.is_empty() || HANDLE_READS.has(used)
        }
        _ => READS.has(member),
    }
}

/// Returns whether a call of `open` of a module in [`FILES`] may open the file for writing.
fn opens_for_writing<'t>(scope: &Scope<'t>, arguments: &[AstKind<'t>]) -> bool {
    let reads =
        |flags: &Value| matches!(flags, Value::Text(flags) if flags == "r" || flags == "rs");
    arguments.iter().any(|argument| matches!(argument, AstKind::SpreadElement(_)))
        || arguments.get(1).is_some_and(|flags| !scope.eval(*flags, 0).iter().all(reads))
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
        let markup =
            matches!(last(path), "innerHTML" | "outerHTML" | "cookie" | "src" | "href" | "onclick")
                && path.strip_prefix("?literal.") != Some(last(path));
        if global || markup || last(path) == "__proto__" {
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
            "write" => writes_text(path),
            "clear" => matches!(root, "localStorage" | "sessionStorage" | "caches"),
            "open" | "openSync" if FILES.iter().any(|module| path.starts_with(module)) => {
                opens_for_writing(scope, arguments)
            }
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

/// Returns whether the method `write` at a path writes to something other than a standard stream or a buffer in memory.
fn writes_text(path: &str) -> bool {
    let is_buffer = matches!(
        path,
        "Buffer.alloc().write"
            | "Buffer.allocUnsafe().write"
            | "Buffer.concat().write"
            | "Buffer.from().write"
    );
    path == "document.write"
        || path.contains("writeStream")
        || path.contains('.') && !path.starts_with("process.std") && !is_buffer
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
            if pair.kind == PropertyKind::Init && !pair.method =>
        {
            match scope.key(&pair.key).as_str() {
                "method" => scope.value(&pair.value, 0).iter().all(reads),
                key => !matches!(key, "body" | "data" | "__proto__" | "*"),
            }
        }
        _ => false,
    })
}
