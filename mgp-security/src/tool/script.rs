//! The rules for the scripts of sandboxed servers that agents register (MGP §7, §15.4).

use mgp_types::mgp::{CodeRejection, CodeSafety, CodeSafetyLevel};
use mgp_validators::CodePolicy;

use super::standard::{BLOCKED_IMPORTS, BLOCKED_PATTERNS, StandardValidators};

/// The maximum size of a script that is checked, in bytes.
const MAX_SCRIPT: u64 = 64 * 1024;

/// The allowed Python modules: modules for computations, and modules that a server over stdio needs.
const PYTHON: &[&str] = &[
    "__future__",
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "io",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "pprint",
    "random",
    "re",
    "secrets",
    "statistics",
    "string",
    "struct",
    "sys",
    "textwrap",
    "time",
    "traceback",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "zlib",
    "zoneinfo",
];

/// The allowed JavaScript modules: modules for computations, and modules that a server over stdio needs.
const JAVASCRIPT: &[&str] = &[
    "assert",
    "buffer",
    "crypto",
    "events",
    "path",
    "perf_hooks",
    "punycode",
    "querystring",
    "readline",
    "stream",
    "string_decoder",
    "timers",
    "url",
    "util",
    "zlib",
];

/// Members of Python modules through which a script could import code that was not checked.
const LOADERS: [&str; 4] = ["sys.path", "sys.pycache_prefix", "sys.remote_exec", ".__path__"];

impl StandardValidators {
    /// Checks the script of a sandboxed server against the rules of the level `strict`; `interpreter` is the name of
    /// the program that runs it, e.g. `python`.
    ///
    /// # Errors
    /// The rejection (§7.4) for the caller, with the rules that the script must follow.
    pub fn check_script(interpreter: &str, text: &str) -> Result<(), Box<CodeRejection>> {
        let texts =
            |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>().into();
        let is_javascript = matches!(interpreter, "node" | "nodejs" | "bun" | "deno");
        let mut rules = CodeSafety::new(CodeSafetyLevel::Strict);
        rules.language = Some(interpreter.to_owned());
        rules.max_code_size_bytes = Some(MAX_SCRIPT);
        rules.blocked_imports = texts(&BLOCKED_IMPORTS);
        rules.blocked_patterns = texts(&[&BLOCKED_PATTERNS[..], &LOADERS].concat());
        rules.allowed_imports = texts(if is_javascript { JAVASCRIPT } else { PYTHON });
        CodePolicy::new(&rules).check(text).map_err(|rejection| Box::new(rejection.body()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_compute_pass_and_others_learn_the_rules() {
        let server = "import json, sys\nfor line in sys.stdin:\n    print(json.dumps(json.loads(line)), flush=True)\n";
        assert_eq!(StandardValidators::check_script("python", server), Ok(()));
        let lines = "const r = require('node:readline'); r.createInterface({ input: process.stdin }).on('line', l => console.log(l))";
        assert_eq!(StandardValidators::check_script("node", lines), Ok(()));
        for (interpreter, script) in [
            ("python", "import os"),
            ("python", "import requests"),
            ("python", "import random\nx = random._os"),
            ("python", "from random import _os"),
            ("python", "import sys\nsys.path.insert(0, '/tmp')\nimport json"),
            ("python", "from sys import path"),
            ("python", "import json\njson.__path__.insert(0, '/tmp')\nimport json.tool"),
            ("python", "x = ("),
            ("node", "require('fs')"),
            ("node", "require('url/')"),
            ("node", "import x from 'node:util/x'"),
            ("bash", "echo $(id)"),
            ("perl", "print 1"),
        ] {
            let body = StandardValidators::check_script(interpreter, script).unwrap_err();
            assert_eq!(body.status.as_str(), "rejected", "{script}");
            assert!(!body.violations.is_empty(), "{script}");
            let hints = body.hints.unwrap();
            assert!(!hints.allowed_imports.is_empty() && hints.max_code_size_bytes.is_some());
        }
    }
}
