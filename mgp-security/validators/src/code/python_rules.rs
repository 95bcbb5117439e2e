//! The rules for Python: constructs that are blocked in addition to those that a policy lists, and calls that can
//! write.

#![expect(clippy::match_same_arms, reason = "a row for each function")]

use super::{
    CodePolicy,
    python::Scope,
    tree::{children, field},
    value::{Findings, Value, is_path, is_under, last, matches_pattern, paths, texts},
};
use crate::readonly::sql_reads;
use crate::words::Words;
use tree_sitter::Node;

/// Builtins that execute text as code, or give access to all other builtins.
pub(super) static BUILTINS: Words = Words::new(
    "\
    eval exec compile execfile __import__ breakpoint reload __builtins__ __loader__ __spec__ \
    __build_class__ globals locals vars getattr open",
);
static FLOOR: Words = Words::new(
    "\
    eval exec compile execfile __import__ breakpoint reload __builtins__ __loader__ __spec__ \
    __build_class__",
);
/// Dangerous modules that other modules import, so that code may reach them as members, e.g. `random._os`.
pub(super) static MODULES: Words = Words::new(
    "\
    os sys subprocess builtins importlib socket shutil ctypes posix nt pickle marshal inspect \
    types io runpy pty __builtin__ multiprocessing code codeop",
);
/// Modules that are only used to execute programs or code.
static IMPORTS: Words = Words::new(
    "\
    subprocess _posixsubprocess ctypes _ctypes imp _imp runpy zipimport posix nt commands popen2 \
    pty code codeop bdb pdb doctest dill cloudpickle jsonpickle marshal __builtin__ builtins \
    _frozen_importlib _frozen_importlib_external _pickle cPickle shelve rlcompleter \
    _xxsubinterpreters _interpreters _testcapi _testinternalcapi _winapi",
);
/// Functions of modules that execute something, load code, or give access to stack frames.
static PATHS: Words = Words::new(
    "\
    @os.system @os.popen* @os.exec* @os.spawn* @os.posix_spawn* @os.fork* @os.startfile @os.kill* \
    @os.pidfd_open @asyncio.create_subprocess_* @importlib.import_module @importlib.__import__ \
    @importlib.util @importlib.machinery @importlib.reload @importlib._* @importlib.find_loader \
    @importlib.abc @sys.modules @sys._* @sys.meta_path @sys.path_hooks @sys.path_importer_cache \
    @sys.settrace @sys.setprofile @sys.call_tracing @sys.breakpointhook @threading.settrace* \
    @threading.setprofile* @types.CodeType @types.FunctionType @types.LambdaType @types.FrameType \
    @types.new_class @inspect.currentframe @inspect.stack @inspect.getouterframes @inspect.trace \
    @inspect.getinnerframes @gc.get_objects @gc.get_referrers @gc.get_referents @pickle.load* \
    @pickle.Unpickler @pickle._* @joblib.load @torch.load @pandas.read_pickle @yaml.unsafe_load* \
    @yaml.full_load* @yaml.Loader @yaml.UnsafeLoader @yaml.FullLoader @ruamel.yaml.load \
    @timeit.timeit @timeit.repeat @timeit.Timer @timeit.main @cProfile.run* @profile.run* \
    @trace.Trace @pydoc.locate @pydoc.pipepager @pydoc.tempfilepager @pydoc.safeimport \
    @pkgutil.get_loader @pkgutil.find_loader @pkgutil.resolve_name @pkgutil.get_importer \
    @pkgutil.ImpImporter @logging.config.listen @distutils.spawn @distutils.util.execute \
    @platform.popen @site.execsitecustomize @multiprocessing.util.spawnv_passfds @codecs.builtins \
    @linecache.os @multiprocessing.popen_* @tkinter.Tcl @tkinter.Tk.eval @site.main \
    @site.addsitedir @typing.ForwardRef._evaluate @webbrowser.register @webbrowser.GenericBrowser \
    @webbrowser.BackgroundBrowser @numpy.ctypeslib @numpy.f2py @asyncio.subprocess \
    @test.support @unittest.mock._importer @unittest.mock._get_target",
);
/// Attributes through which code gets from any object to all classes, stack frames or builtins.
static ATTRIBUTES: Words = Words::new(
    "\
    __subclasses__ __mro__ mro __bases__ __base__ __globals__ __builtins__ __code__ __closure__ \
    __import__ __loader__ __spec__ __getattribute__ __reduce__ __reduce_ex__ f_globals f_locals \
    f_back f_builtins f_code gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame co_code \
    co_consts func_globals func_code __self__ create_subprocess_exec create_subprocess_shell \
    subprocess_exec subprocess_shell load_extension enable_load_extension exec_module load_module \
    __init_subclass__ __class_getitem__",
);
/// Attributes whose names may not be passed as a text, e.g. to `getattr`.
const INDIRECT: &[&str] = &[
    "system",
    "popen",
    "eval",
    "exec",
    "fork",
    "spawn",
    "execv",
    "execve",
    "__class__",
    "__dict__",
    "kill",
];
/// Modules that may not be passed on as values, e.g. as an argument, since it is then unknown how they are used.
const ROOTS: &[&str] =
    &["@os", "@sys", "@importlib", "@builtins", "@subprocess", "@asyncio.subprocess"];

/// Names of functions that count as executing something, regardless of the object that has them.
static DANGEROUS: Words = Words::new(
    "\
    system popen popen2 popen3 popen4 Popen execv execve execvp execvpe execl execle execlp execlpe \
    spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe posix_spawn posix_spawnp fork \
    forkpty startfile check_output check_call getoutput getstatusoutput import_module run_module \
    run_path CDLL WinDLL PyDLL dlopen _getframe settrace setprofile killpg rmtree \
    run_cell_magic run_cell",
);

/// Checks a node.
pub(super) fn check(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    match node.kind() {
        "import_statement" | "import_from_statement" => imports(policy, scope, node, found),
        "exec_statement" => found.pattern("exec("),
        "identifier" if scope.is_use(node) => reference(policy, scope, node, found),
        "attribute" => {
            reference(policy, scope, node, found);
            private(policy, scope, node, found);
        }
        "subscript" => reference(policy, scope, node, found),
        "call" => {
            reference(policy, scope, node, found);
            call(scope, node, found);
        }
        _ => {}
    }
    if policy.is_readonly() {
        writes(scope, node, found);
    }
}

fn imports(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let from = field(node, "module_name").map(|module| scope.dotted(module));
    for import in children(node).into_iter().skip(usize::from(from.is_some())) {
        let name =
            if import.kind() == "wildcard_import" { "*".to_owned() } else { scope.alias(import).0 };
        let (module, part) = match &from {
            Some(module) => (module.as_str(), Some(name.as_str())),
            None => (name.as_str(), None),
        };
        let relative = module.starts_with('.');
        let bare = module.trim_start_matches('.');
        // `from . import subprocess`, and `from asyncio import subprocess`.
        let hidden = part.is_some_and(|part| {
            (relative || MODULES.has(part))
                && policy.blocked_imports.iter().any(|listed| listed == part)
        });
        let own = IMPORTS.iter().any(|listed| is_under(bare, listed))
            && !matches!(part, Some("dumps"))
            || part.is_some_and(|part| module == "asyncio" && part == "subprocess");
        if hidden {
            found.import(part.unwrap_or_default());
        } else if policy.blocks_import(module, part) || own {
            found.import(if relative || bare.is_empty() { module } else { bare });
        }
        if let Some(part) = part {
            if is_private(policy, part) {
                found.pattern(&format!("{module}.{part}"));
            }
            let path = format!("@{module}.{part}");
            let all = part == "*"
                && PATHS.iter().any(|listed| listed.starts_with(&format!("@{module}.")));
            if all || PATHS.iter().any(|listed| is_under(&path, listed)) {
                found.pattern(path.trim_start_matches('@'));
            }
            declared(policy, &path, part, found);
        }
    }
}

fn declared(policy: &CodePolicy, path: &str, written: &str, found: &mut Findings) {
    for pattern in policy.blocked_patterns.iter().filter(|pattern| is_path(pattern)) {
        if matches_pattern(pattern, path, written, &BUILTINS) {
            found.pattern(pattern);
        }
    }
}

fn reference(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let values = scope.eval(node, 0);
    let written =
        if node.kind() == "identifier" { scope.text(node).into_owned() } else { String::new() };
    for path in paths(&values) {
        // Each name of a path has its own node; only the node of the last name reports the whole path.
        if node.kind() != "call" || !path.ends_with("()") {
            declared(policy, path, &written, found);
        }
        if let Some(name) = FLOOR.iter().find(|name| is_under(path, name)) {
            found.pattern(&pattern_of(name));
        }
        if let Some(listed) = PATHS.iter().find(|listed| is_under(path, listed)) {
            let name = if listed.ends_with('*') { path } else { listed };
            found.pattern(&pattern_of(name.trim_start_matches('@').trim_end_matches("()")));
        }
        if let Some(rest) = path.strip_prefix('@') {
            let module = rest.split(['.', '(']).next().unwrap_or(rest);
            if policy.blocked_imports.iter().any(|listed| is_under(rest, listed))
                || IMPORTS.has(module)
            {
                found.import(
                    policy
                        .blocked_imports
                        .iter()
                        .find(|listed| is_under(rest, listed))
                        .map_or(module, String::as_str),
                );
            } else if policy.is_strict()
                && node.kind() == "call"
                && policy.blocks_import(module, None)
            {
                found.import(module);
            }
        }
        // A name that this code does not bind may be a module that an earlier call of the session bound.
        if DANGEROUS.has(last(path)) && (scope.is_unbound(path) || is_of_module(path)) {
            found.pattern(&pattern_of(path.trim_end_matches("()")));
        }
        if path.contains('.') && ATTRIBUTES.has(last(path)) {
            found.pattern(last(path));
        }
        if ROOTS.contains(&path) && is_passed(scope, node)
            || path.starts_with('@') && path.ends_with(".__dict__") && !is_indexed(scope, node)
        {
            found.pattern(path.trim_start_matches('@'));
        }
        if matches!(path, "getattr" | "vars")
            && !scope.nodes.is_field(node, "function")
            && node.kind() == "identifier"
        {
            found.pattern(&pattern_of(path));
        }
    }
}

/// Returns whether a path ends with a member of a dangerous module that is an attribute of another object, e.g.
/// `?.os.system`.
fn is_of_module(path: &str) -> bool {
    let above = path.trim_end_matches("()").rsplit('.').nth(1).unwrap_or_default();
    matches!(
        above.trim_start_matches('_'),
        "os" | "posix" | "subprocess" | "importlib" | "pty" | "runpy"
    )
}

/// Returns whether a member of a module is private and may be an imported module, e.g. `_os` in `random`.
fn is_private(policy: &CodePolicy, name: &str) -> bool {
    let name = name.strip_prefix('_').filter(|name| !name.starts_with('_'));
    name.is_some_and(|name| policy.is_strict() || MODULES.has(name))
}

/// Reports the use of a private member of a module if it may be an imported module.
fn private(policy: &CodePolicy, scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let (Some(object), Some(name)) = (field(node, "object"), field(node, "attribute")) else {
        return;
    };
    let name = scope.text(name);
    if !is_private(policy, &name) {
        return;
    }
    for path in paths(&scope.eval(object, 0)).filter(|path| !path.contains('(')) {
        if let Some(module) = path.strip_prefix('@') {
            found.pattern(&format!("{module}.{name}"));
        }
    }
}

fn pattern_of(name: &str) -> String {
    let called = !name.starts_with("__") || name == "__import__";
    if called && !name.contains("Loader") { format!("{name}(") } else { name.to_owned() }
}

/// Returns whether the value of a node is passed on or stored, so that the checks cannot follow its further use.
fn is_passed(scope: &Scope<'_>, node: Node<'_>) -> bool {
    let Some(parent) = scope.nodes.parent(node) else { return false };
    match parent.kind() {
        "argument_list" => {
            let function = scope
                .nodes
                .parent(parent)
                .and_then(|call| field(call, "function"))
                .map(|function| scope.text(function).into_owned());
            !matches!(
                function.as_deref(),
                Some(
                    "getattr"
                        | "hasattr"
                        | "isinstance"
                        | "print"
                        | "repr"
                        | "dir"
                        | "type"
                        | "id"
                        | "callable"
                        | "str"
                        | "bool"
                        | "help"
                        | "vars"
                        | "setattr"
                )
            )
        }
        "list"
        | "tuple"
        | "set"
        | "pair"
        | "return_statement"
        | "yield"
        | "keyword_argument"
        | "default_parameter"
        | "lambda"
        | "list_splat"
        | "expression_list"
        | "conditional_expression"
        | "list_comprehension"
        | "generator_expression" => true,
        _ => false,
    }
}

/// Returns whether a node is used with a constant key, as `m.__dict__["name"]`. Then the member that is read is known
/// and checked by itself; any other use of a module's dictionary may reach all its members.
fn is_indexed(scope: &Scope<'_>, node: Node<'_>) -> bool {
    scope
        .nodes
        .parent(node)
        .filter(|parent| parent.kind() == "subscript")
        .and_then(|parent| field(parent, "subscript"))
        .is_some_and(|index| texts(&scope.eval(index, 0)).next().is_some())
}

fn call(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let (Some(function), Some(list)) = (field(node, "function"), field(node, "arguments")) else {
        return;
    };
    let arguments = children(list);
    let values =
        |at: usize| arguments.get(at).map(|argument| scope.eval(*argument, 0)).unwrap_or_default();
    for path in paths(&scope.eval(function, 0)) {
        match path {
            "getattr" | "setattr" | "delattr" | "@inspect.getattr_static" => {
                let names = values(1);
                let module = paths(&values(0))
                    .any(|path| path.starts_with('@') && !path.contains('(') || FLOOR.has(path));
                let unknown = names.iter().any(|name| !matches!(name, Value::Text(_)));
                if module && (unknown || path != "getattr") {
                    found.pattern(&format!("{path}("));
                }
                if texts(&names).any(|name| ATTRIBUTES.has(name)) {
                    found.pattern(texts(&names).next().unwrap_or_default());
                }
            }
            "@operator.attrgetter" | "@operator.methodcaller" => {
                let names = values(0);
                let bad = |name: &str| {
                    name.split('.').any(|part| ATTRIBUTES.has(part) || INDIRECT.contains(&part))
                };
                if names.iter().any(|name| !matches!(name, Value::Text(text) if !bad(text))) {
                    found.pattern(path.trim_start_matches('@'));
                }
            }
            "@yaml.load" | "@yaml.load_all" => {
                let loader = paths(
                    &arguments
                        .iter()
                        .flat_map(|argument| {
                            scope.eval(field(*argument, "value").unwrap_or(*argument), 0)
                        })
                        .collect(),
                )
                .any(|path| path.contains("Safe") || path.ends_with("BaseLoader"));
                if !loader {
                    found.pattern("yaml.load(");
                }
            }
            _ if last(path) == "format" => {
                let object = field(function, "object")
                    .map(|object| scope.eval(object, 0))
                    .unwrap_or_default();
                if texts(&object).any(|text| text.contains(".__") || text.contains("[__")) {
                    found.pattern("format(");
                }
            }
            _ => {}
        }
    }
}

/// Functions of `os` that only read.
static OS_READS: Words = Words::new(
    "\
    path getenv getenvb environ environb getcwd getcwdb listdir scandir walk fwalk stat lstat \
    fstat statvfs access cpu_count process_cpu_count getpid getppid getuid geteuid getgid getegid \
    getgroups getlogin getpgid getpgrp getsid uname sep linesep name curdir pardir extsep altsep \
    pathsep defpath devnull fspath fsencode fsdecode PathLike DirEntry urandom strerror \
    get_terminal_size times getloadavg readlink read close isatty error stat_result get_exec_path \
    sched_getaffinity listxattr getxattr O_RDONLY F_OK R_OK W_OK X_OK open \
    supports_follow_symlinks terminal_size get_inheritable sysconf confstr ctermid getrandom lseek \
    pread SEEK_SET SEEK_END SEEK_CUR",
);
/// Names of methods that count as writing, regardless of the object that has them.
static METHODS: Words = Words::new(
    "\
    write_text write_bytes writelines unlink mkdir rmdir touch symlink_to hardlink_to link_to \
    lchmod chmod rmtree sendall sendto sendmsg sendfile send_bytes send_json send_text sendmail \
    send_message executescript executemany commit to_csv to_excel to_parquet to_sql to_pickle \
    to_feather to_hdf to_stata tofile savefig savetxt savez savez_compressed extractall extract \
    post patch makedirs truncate putheader set_trace open_connection start_server \
    create_connection create_server create_datagram_endpoint open_unix_connection \
    start_unix_server create_unix_connection sock_sendall urlretrieve storbinary storlines memmap \
    write_table write_csv write_parquet insert_one insert_many update_one update_many delete_one \
    delete_many replace_one upload_file upload_fileobj put_object delete_object",
);
/// Modules of HTTP clients.
const CLIENTS: &[&str] = &["@httpx", "@requests", "@aiohttp", "@urllib3", "@http.client"];

fn writes(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    match node.kind() {
        "attribute" | "identifier" if node.kind() == "attribute" || scope.is_use(node) => {
            for path in paths(&scope.eval(node, 0)) {
                let first = path
                    .strip_prefix("@os.")
                    .map(|rest| rest.split(['.', '(']).next().unwrap_or(rest));
                if let Some(name) =
                    first.filter(|name| !OS_READS.has(name) && !name.starts_with("O_RDONLY"))
                {
                    found.pattern(&format!("os.{name}"));
                }
                let method = last(path);
                if path.contains('.')
                    && METHODS.has(method)
                    && !path.starts_with("@os.")
                    && !path.starts_with("@json")
                {
                    found.pattern(&format!("{method}("));
                }
                if path == "open"
                    && !scope.nodes.is_field(node, "function")
                    && scope.nodes.parent(node).is_none_or(|parent| parent.kind() != "assignment")
                {
                    found.pattern("open(");
                }
            }
        }
        "call" => written_call(scope, node, found),
        "assignment" | "augmented_assignment" | "delete_statement" => {
            let target = field(node, "left").or_else(|| node.named_child(0));
            let object = target
                .filter(|target| matches!(target.kind(), "attribute" | "subscript"))
                .and_then(|target| field(target, "object").or_else(|| field(target, "value")));
            if let Some(path) = object.and_then(|object| {
                paths(&scope.eval(object, 0))
                    .find(|path| path.starts_with('@') && !path.contains('('))
                    .map(str::to_owned)
            }) {
                found.pattern(&format!("{} =", path.trim_start_matches('@')));
            }
        }
        _ => {}
    }
}

/// Returns whether a value is a standard stream or a buffer in memory, to which code without write access may write.
fn is_stream(scope: &Scope<'_>, node: Node<'_>) -> bool {
    let streams = ["@sys.std", "@io.StringIO", "@io.BytesIO"];
    paths(&scope.eval(node, 0)).any(|path| streams.iter().any(|stream| path.starts_with(stream)))
}

/// Finds calls that write to files or the environment, or send data over HTTP.
fn written_call(scope: &Scope<'_>, node: Node<'_>, found: &mut Findings) {
    let (Some(function), Some(list)) = (field(node, "function"), field(node, "arguments")) else {
        return;
    };
    let arguments = children(list);
    let keyword = |name: &str| {
        arguments
            .iter()
            .find(|argument| {
                field(**argument, "name").is_some_and(|found| scope.text(found) == name)
            })
            .and_then(|argument| field(*argument, "value"))
    };
    let positional: Vec<Node<'_>> = arguments
        .iter()
        .copied()
        .filter(|argument| argument.kind() != "keyword_argument")
        .collect();
    let splat = arguments
        .iter()
        .any(|argument| matches!(argument.kind(), "list_splat" | "dictionary_splat"));
    let reads = |mode: Option<Node<'_>>| {
        mode.is_none_or(|mode| scope.eval(mode, 0).iter().all(|value| matches!(value, Value::Text(mode) if !mode.is_empty() && mode.chars().all(|c| "rbtU".contains(c)))))
    };
    let standard = |node: Node<'_>| is_stream(scope, node);
    for path in paths(&scope.eval(function, 0)) {
        let name = last(path);
        let client = CLIENTS.iter().any(|client| is_under(path, client));
        let blocked = match name {
            "open" if matches!(path, "open" | "@io.open" | "@codecs.open" | "@tokenize.open" | "@gzip.open" | "@bz2.open" | "@lzma.open" | "@aiofiles.open") => splat || !reads(keyword("mode").or_else(|| positional.get(1).copied())),
            "open" if path == "@os.open" => {
                let flags = positional.get(1).copied().or_else(|| keyword("flags"));
                splat || flags.is_none_or(|flags| scope.text(flags).split(['|', ' ', '(', ')']).any(|flag| !flag.is_empty() && !["os.O_RDONLY", "O_RDONLY", "os.O_CLOEXEC"].contains(&flag)))
            }
            // The first argument of `Path.open` is the mode, not a file name.
            "open" if path.starts_with('?') || path.contains("Path") => splat || !reads(keyword("mode").or_else(|| positional.first().copied())),
            "replace" | "rename" => positional.len() == 1 && path.contains('.') && keyword("columns").is_none(),
            "write" => function.kind() == "attribute" && !field(function, "object").is_some_and(standard),
            "send" | "put" | "delete" => client || name == "send" && path.starts_with('?') && !positional.is_empty(),
            "request" | "stream" if client || path.starts_with('?') => positional.first().copied().or_else(|| keyword("method")).is_some_and(|method| {
                !scope.eval(method, 0).iter().all(|value| matches!(value, Value::Text(method) if matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS")))
            }),
            "urlopen" | "Request" => positional.len() > 1 || keyword("data").is_some() || keyword("method").is_some(),
            "dump" => !positional.get(1).is_some_and(|target| standard(*target)),
            "print" if path == "print" => keyword("file").is_some_and(|file| !standard(file)),
            "execute" => positional.first().is_some_and(|statement| scope.eval(*statement, 0).iter().any(|value| !matches!(value, Value::Text(text) if sql_reads(text)))) && path.starts_with('?') || path.starts_with("@sqlite3") && positional.first().is_some_and(|statement| scope.eval(*statement, 0).iter().any(|value| !matches!(value, Value::Text(text) if sql_reads(text)))),
            "update" | "pop" | "setdefault" | "clear" | "popitem" => path.starts_with("@os.environ"),
            "save" => path.starts_with('@'),
            "basicConfig" => keyword("filename").is_some(),
            "FileHandler" | "RotatingFileHandler" | "NamedTemporaryFile" | "TemporaryFile" | "mkstemp" | "mkdtemp" | "TemporaryDirectory" | "ZipFile" if path.starts_with('@') => name != "ZipFile" || !reads(keyword("mode").or_else(|| positional.get(1).copied())),
            "input" => false,
            _ => false,
        };
        if blocked {
            found.pattern(&format!("{name}("));
        }
    }
}
