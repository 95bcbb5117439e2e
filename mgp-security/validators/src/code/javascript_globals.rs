//! The names of JavaScript's global object and of the builtins that give access to code.

use crate::words::Words;

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

/// Returns whether a path is the global object, a builtin, a module or a member of a module.
pub(super) fn is_sensitive(path: &str) -> bool {
    GLOBALS.has(path) || BUILTINS.has(path) || path.starts_with('@') && !path.contains('(')
}
