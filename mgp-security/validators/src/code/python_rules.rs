//! The rules for Python: constructs that are blocked even if no policy lists them, and calls that can write.

use super::{
    CodePolicy,
    python::{is_use, module_of},
    python_harmless::{is_of_instance, is_own_parameter, is_tested, reads_inner},
    python_names::{BUILTINS, FUNCTIONS, MODULES},
    python_passed::{ROOTS, is_in_class, is_indexed, is_passed},
    python_tree::items,
    python_values::{Scope, Shared, called_member, canonical},
    python_writes::writes,
    value::{Findings, Value, is_path, is_under, last, matches_pattern, one, paths, texts},
};
use crate::words::Words;
use ahash::{AHashMap, AHashSet};
use ruff_python_ast::{
    AnyNodeRef, ArgOrKeyword, Expr, ExprAttribute, ExprCall, ExprContext, ExprName, ExprRef,
};
use std::{cell::OnceCell, collections::HashMap, sync::OnceLock};

static FLOOR: Words = Words::new(
    "\
    eval exec compile execfile __import__ breakpoint reload __builtins__ __loader__ __spec__ \
    __build_class__ get_ipython",
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
    @os._exec* @os._spawn* @os.pidfd_open @asyncio.create_subprocess_* @importlib.import_module \
    @importlib.__import__ @importlib.util @importlib.machinery @importlib.reload @importlib._* \
    @importlib.find_loader @dataclasses._create_fn @dataclasses._FuncBuilder \
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
    @site.addsitedir @typing.ForwardRef._evaluate @typing.ForwardRef()._evaluate \
    @typing.ForwardRef.evaluate @typing.ForwardRef().evaluate \
    @annotationlib.ForwardRef.evaluate @annotationlib.ForwardRef().evaluate @typing._eval_type \
    @typing.evaluate_forward_ref @typing.get_type_hints @typing_extensions.get_type_hints \
    @logging.config.dictConfig @logging.config.fileConfig @logging.config.DictConfigurator \
    @logging.config.dictConfigClass @imaplib.IMAP4_stream @webbrowser.get @webbrowser.register \
    @webbrowser.GenericBrowser @webbrowser.BackgroundBrowser @numpy.ctypeslib @numpy.f2py @asyncio.subprocess \
    @IPython.get_ipython @IPython.core.getipython* @IPython.core.interactiveshell* @IPython.embed \
    @IPython.start_ipython @IPython.utils.process* @pandas.eval \
    @test.support @unittest.mock._importer @unittest.mock._get_target",
);
/// Attributes through which code can get from any object to all classes, stack frames or builtins.
static ATTRIBUTES: Words = Words::new(
    "\
    __subclasses__ __mro__ mro __bases__ __base__ __globals__ __builtins__ __code__ __closure__ \
    __import__ __loader__ __spec__ __getattribute__ __reduce__ __reduce_ex__ f_globals f_locals \
    f_back f_builtins f_code gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame co_code \
    co_consts func_globals func_code __self__ create_subprocess_exec create_subprocess_shell \
    subprocess_exec subprocess_shell load_extension enable_load_extension exec_module load_module \
    __init_subclass__ __class_getitem__ __match_args__",
);
/// Types that code may compare with the types of objects; any other use of them is refused.
static TYPES: Words =
    Words::new("@types.CodeType @types.FunctionType @types.LambdaType @types.FrameType");
/// Attributes whose names must not be passed as text to `operator.attrgetter` or `operator.methodcaller`.
static INDIRECT: Words =
    Words::new("system popen eval exec fork spawn execv execve __class__ __dict__ kill");
/// Names of functions that count as executing something, regardless of the object that has them.
static DANGEROUS: Words = Words::new(
    "\
    system popen popen2 popen3 popen4 Popen execv execve execvp execvpe execl execle execlp execlpe \
    spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe posix_spawn posix_spawnp fork \
    forkpty startfile check_output check_call getoutput getstatusoutput import_module run_module \
    run_path CDLL WinDLL PyDLL dlopen _getframe settrace setprofile killpg rmtree \
    run_cell_magic run_cell",
);
/// The rules of a policy, applied to one source text, and the violations found in it.
#[derive(Debug)]
pub(super) struct Rules<'a, 't> {
    policy: &'a CodePolicy,
    scope: &'a Scope<'t>,
    found: &'a mut Findings,
    /// The patterns of the policy that are paths of names.
    patterns: Vec<&'a str>,
    /// The names that were already checked. The value is `true` if every use of the name must be checked, because its
    /// position in the code matters.
    names: AHashMap<&'t str, bool>,
    /// The paths that were already checked. Checking a path again would have the same findings.
    paths: AHashSet<String>,
    calls: AHashSet<String>,
    /// The result of [`has_called_annotation`], computed when it is first needed.
    called_annotation: OnceCell<bool>,
}

impl<'a, 't> Rules<'a, 't> {
    pub(super) fn new(
        policy: &'a CodePolicy,
        scope: &'a Scope<'t>,
        found: &'a mut Findings,
    ) -> Self {
        let patterns = policy.blocked_patterns.iter().map(String::as_str);
        Self {
            policy,
            scope,
            found,
            patterns: patterns.filter(|pattern| is_path(pattern)).collect(),
            names: AHashMap::new(),
            paths: AHashSet::new(),
            calls: AHashSet::new(),
            called_annotation: OnceCell::new(),
        }
    }

    /// Checks one syntax node.
    pub(super) fn check(&mut self, node: AnyNodeRef<'t>) {
        match node {
            AnyNodeRef::StmtImport(import) => {
                let in_class = is_in_class(self.scope, import);
                for import in &import.names {
                    self.import(&import.name, None);
                    let is_root = |root: &&&str| root.strip_prefix('@') == Some(&*import.name);
                    // A module that a class imports under another name becomes a member of the class, where its use
                    // cannot be followed. So such an import is refused.
                    if let Some(root) = ROOTS.iter().find(is_root)
                        && in_class
                        && import.asname.is_some()
                    {
                        self.found.pattern(root.trim_start_matches('@'));
                    }
                }
            }
            AnyNodeRef::StmtImportFrom(import) => {
                let module = module_of(import);
                if module != "__future__" {
                    for import in &import.names {
                        self.import(&module, Some(&import.name));
                    }
                }
            }
            AnyNodeRef::ExprName(name) => return self.name(name),
            AnyNodeRef::PatternKeyword(keyword) => self.matched(&keyword.attr),
            AnyNodeRef::ExprAttribute(member) => {
                self.reference(member.into());
                self.private(member);
            }
            AnyNodeRef::ExprSubscript(subscript) => self.reference(subscript.into()),
            AnyNodeRef::ExprCall(call) => {
                self.reference(call.into());
                self.call(call);
            }
            _ => {}
        }
        if self.policy.is_readonly() {
            writes(self.scope, node, self.found);
        }
    }

    /// Checks an attribute that a class pattern reads, e.g. `system` in `case object(system=f)`.
    fn matched(&mut self, attribute: &str) {
        if ATTRIBUTES.has(attribute)
            || DANGEROUS.has(attribute)
            || is_private(self.policy, attribute)
        {
            self.found.pattern(attribute);
        }
    }

    /// Checks the use of a name.
    fn name(&mut self, name: &'t ExprName) {
        // `__match_args__` names the attributes that the positional parts of a class pattern read, so an assignment to
        // it is refused.
        if name.id.as_str() == "__match_args__" && name.ctx == ExprContext::Store {
            self.found.pattern("__match_args__");
        }
        if !is_use(self.scope.nodes, name) || is_own_parameter(self.scope, name) {
            return;
        }
        match self.names.get(name.id.as_str()) {
            Some(false) => return,
            Some(true) => {}
            None => {
                let values = self.scope.eval(name, 0);
                paths(&values).for_each(|path| self.declared(path, &name.id));
                let is_placed = paths(&values).any(|path| {
                    matches!(path, "getattr" | "vars" | "open") || path.starts_with('@')
                });
                self.names.insert(&name.id, is_placed);
            }
        }
        self.reference(name.into());
        if self.policy.is_readonly() {
            writes(self.scope, name.into(), self.found);
        }
    }

    /// Checks an import of a module, or of a part of it.
    fn import(&mut self, module: &str, part: Option<&str>) {
        let relative = module.starts_with('.');
        let bare = module.trim_start_matches('.');
        // This also refuses imports such as `from . import subprocess` and `from asyncio import subprocess`.
        let hidden = part.is_some_and(|part| {
            (relative || MODULES.has(part))
                && self.policy.blocked_imports.iter().any(|listed| listed == part)
        });
        let own = IMPORTS.iter().any(|listed| is_under(bare, listed))
            && !matches!(part, Some("dumps"))
            || bare == "asyncio.subprocess"
            || part.is_some_and(|part| module == "asyncio" && part == "subprocess");
        // The C module `_socket` implements the module `socket`, so it is blocked like `socket`.
        let is_inner = bare.strip_prefix('_').is_some_and(|name| {
            self.policy.blocked_imports.iter().any(|listed| is_under(name, listed))
        });
        // Some packages contain a module of the standard library under its own name, e.g. `gevent.subprocess`, which is
        // blocked like the original.
        let is_copy = self.policy.blocked_imports.iter().any(|listed| {
            let outer = bare.strip_suffix(listed.as_str());
            IMPORTS.has(listed)
                && (part == Some(listed.as_str())
                    || outer.is_some_and(|outer| outer.ends_with('.')))
        });
        if hidden {
            self.found.import(part.unwrap_or_default());
        } else if self.policy.blocks_import(module, part) || own || is_inner || is_copy {
            self.found.import(if relative || bare.is_empty() { module } else { bare });
        }
        let Some(part) = part else { return };
        if is_private(self.policy, part) {
            self.found.pattern(&format!("{module}.{part}"));
        }
        let path = format!("@{module}.{part}");
        let all = part == "*"
            && PATHS.iter().any(|listed| {
                listed
                    .strip_prefix('@')
                    .and_then(|listed| listed.strip_prefix(module)?.strip_prefix('.'))
                    .is_some_and(|rest| MODULES.has(module) || self.mentions(rest))
            });
        if all || listed_path(&path).is_some() {
            self.found.pattern(path.trim_start_matches('@'));
        }
        self.declared(&path, part);
    }

    /// Returns whether all names in the path of a module's member occur in the code.
    fn mentions(&self, listed: &str) -> bool {
        let nodes = &self.scope.nodes.all;
        let has = |part: &str| {
            nodes.iter().any(|node| match node {
                AnyNodeRef::ExprName(name) => is_under(&name.id, part),
                AnyNodeRef::ExprAttribute(member) => is_under(&member.attr, part),
                _ => false,
            })
        };
        let mut parts = listed.split(['.', '(', ')']).filter(|part| !part.is_empty());
        self.scope.may_judge(nodes.len() / 8) && parts.all(has)
    }

    fn declared(&mut self, path: &str, written: &str) {
        for pattern in &self.patterns {
            if matches_pattern(pattern, path, written, &BUILTINS) {
                self.found.pattern(pattern);
            }
        }
    }

    /// Checks the use of a name, a member, an element or the result of a call.
    fn reference(&mut self, node: ExprRef<'t>) {
        let values = self.scope.eval(node, 0);
        if !self.scope.may_judge(values.len().saturating_sub(1)) {
            return;
        }
        let is_call = matches!(node, ExprRef::Call(_));
        for path in paths(&values) {
            if TYPES.has(path) && is_tested(self.scope, node) {
                self.declared(path, "");
                continue;
            }
            if !self.paths.contains(path) && self.scope.may_judge(15) {
                self.paths.insert(path.to_owned());
                // The path of a call is the path of the function, followed by `()`. If a pattern matches such a path,
                // it is reported for the node of the function.
                if !is_call || !path.ends_with("()") {
                    self.declared(path, "");
                }
                self.path(path);
            }
            if is_call && self.policy.is_strict() && !self.calls.contains(path) {
                self.calls.insert(path.to_owned());
                self.call_of_module(path);
            }
            if ROOTS.contains(&path) && is_passed(self.scope, node)
                || path.starts_with('@')
                    && path.ends_with(".__dict__")
                    && !is_of_instance(path)
                    && !is_indexed(self.scope, node)
            {
                self.found.pattern(path.trim_start_matches('@'));
            }
            if matches!(path, "getattr" | "vars")
                && matches!(node, ExprRef::Name(_))
                && !self.scope.nodes.is_called(node)
            {
                self.found.pattern(&pattern_of(path));
            }
        }
    }

    /// Checks the path of an object that the code uses in any way.
    fn path(&mut self, path: &str) {
        let first = path.split(['.', '(']).next().unwrap_or(path);
        if FLOOR.has(first) {
            self.found.pattern(&pattern_of(first));
        }
        if let Some(listed) = listed_path(path) {
            let name = if listed.ends_with('*') { path } else { listed };
            self.found.pattern(&pattern_of(name.trim_start_matches('@').trim_end_matches("()")));
        }
        if let Some(rest) = path.strip_prefix('@') {
            let module = rest.split(['.', '(']).next().unwrap_or(rest);
            let listed = self.policy.blocked_imports.iter().find(|listed| is_under(rest, listed));
            if let Some(listed) = listed {
                self.found.import(listed);
            } else if IMPORTS.has(module) {
                self.found.import(module);
            }
        }
        if path.starts_with("@functools.singledispatch")
            && *self.called_annotation.get_or_init(|| has_called_annotation(self.scope))
        {
            self.found.pattern("functools.singledispatch");
        }
        // A name that this code does not bind might be a module that was imported in an earlier call of the same
        // session. So a dangerous name is blocked there, too.
        if DANGEROUS.has(last(path)) && (self.scope.is_unbound(path) || is_of_module(path)) {
            self.found.pattern(&pattern_of(path.trim_end_matches("()")));
        }
        let is_blocked = || self.policy.blocked_imports.iter().any(|listed| listed == first);
        if IMPORTS.has(first) && is_blocked() && self.scope.is_unbound(path) {
            self.found.import(first);
        }
        // A class passes its own parameters on to its base with this call.
        let is_of_base = path.trim_end_matches("()") == "super().__init_subclass__";
        if path.contains('.') && ATTRIBUTES.has(last(path)) && !is_of_base {
            self.found.pattern(last(path));
        }
    }

    /// Checks a call of a module's function at the level `strict`: the module must be among the allowed imports.
    fn call_of_module(&mut self, path: &str) {
        let Some(rest) = path.strip_prefix('@') else { return };
        let module = rest.split(['.', '(']).next().unwrap_or(rest);
        // The list can also name a module in a package, e.g. `concurrent.futures`.
        let function = rest.split('(').next().unwrap_or(rest);
        let blocked = |listed: &String| is_under(rest, listed);
        if !self.policy.blocked_imports.iter().any(blocked)
            && !IMPORTS.has(module)
            && self.policy.blocks_import(function, None)
        {
            self.found.import(module);
        }
    }

    /// Reports the use of a module's private member that might itself be an imported module.
    fn private(&mut self, member: &ExprAttribute) {
        if !is_private(self.policy, &member.attr) {
            return;
        }
        let object = self.scope.eval(&*member.value, 0);
        for path in paths(&object).filter(|path| !path.contains('(')) {
            if let Some(module) = path.strip_prefix('@') {
                self.found.pattern(&format!("{module}.{}", member.attr));
            }
        }
    }

    fn call(&mut self, call: &ExprCall) {
        for path in paths(&self.scope.eval(&*call.func, 0)) {
            match path {
                "getattr" | "setattr" | "delattr" | "@inspect.getattr_static" => {
                    self.access(path, call);
                }
                "@operator.attrgetter" | "@operator.methodcaller" => {
                    let bad = |name: &str| {
                        name.split('.').any(|part| ATTRIBUTES.has(part) || INDIRECT.has(part))
                    };
                    let names = self.argument(call, 0);
                    if names.iter().any(|name| !matches!(name, Value::Text(text) if !bad(text))) {
                        self.found.pattern(path.trim_start_matches('@'));
                    }
                }
                "@yaml.load" | "@yaml.load_all" => {
                    let is_safe =
                        |path: &str| path.contains("Safe") || path.ends_with("BaseLoader");
                    let safe = call
                        .arguments
                        .iter_source_order()
                        .any(|argument| paths(&self.scope.eval(argument.value(), 0)).any(is_safe));
                    if !safe {
                        self.found.pattern("yaml.load(");
                    }
                }
                "@inspect.signature"
                | "@inspect.get_annotations"
                | "@inspect.Signature.from_callable"
                | "@annotationlib.get_annotations"
                | "@functools.partial"
                    if sets(call, "eval_str", path != "@functools.partial") =>
                {
                    self.found.pattern("eval_str");
                }
                "@numpy.load"
                    if sets(call, "allow_pickle", true)
                        || call.arguments.args.get(2).is_some_and(|given| !is_false(given)) =>
                {
                    self.found.pattern("numpy.load(");
                }
                _ if matches!(last(path), "query" | "eval") => self.expression(path, call),
                _ if matches!(last(path), "format" | "format_map" | "vformat" | "get_field") => {
                    self.formatted(path, call);
                }
                _ => {}
            }
        }
    }

    /// Checks the text of a format, whose fields read members of the formatted objects.
    fn formatted(&mut self, path: &str, call: &ExprCall) {
        let Expr::Attribute(function) = &*call.func else { return };
        let object = self.scope.eval(&*function.value, 0);
        // `str.format` and the methods of `string.Formatter` get the format as their first argument.
        let takes_text = |path: &str| path == "str" || path.starts_with("@string.Formatter");
        let is_function = paths(&object).any(takes_text);
        // The result of `get_field` is the object itself and not a text.
        let is_field = last(path) == "get_field";
        let format = if is_function || is_field { self.argument(call, 0) } else { object };
        let is_bad = |value: &Value| match value {
            Value::Text(text) => reads_inner(text) || is_field && reads_listed(text),
            _ => is_field && is_function,
        };
        if self.scope.may_read(&format) && format.iter().any(is_bad) {
            self.found.pattern("format(");
        }
    }

    /// Checks the text of an expression for pandas. In such a text, an `@` precedes a variable or module of the code.
    fn expression(&mut self, path: &str, call: &ExprCall) {
        for argument in call.arguments.iter_source_order() {
            let values = self.scope.eval(argument.value(), 0);
            if !self.scope.may_read(&values) {
                return;
            }
            for text in texts(&values) {
                if path.starts_with("@pandas") && text.contains("__") {
                    self.found.pattern(&pattern_of(last(path)));
                }
                text.split('@').skip(1).for_each(|text| self.variable(text));
            }
        }
    }

    /// Checks a text that begins with a call of a member, as if this call were written in the code.
    fn variable(&mut self, text: &str) {
        let member = called_member(text).filter(|_| self.scope.may_judge(15));
        let Some((name, members)) = member.as_deref().and_then(|path| path.split_once('.')) else {
            return;
        };
        for object in paths(&self.scope.name(name)) {
            let path = canonical(format!("{object}.{members}"));
            self.declared(&path, "");
            self.path(&path);
        }
    }

    /// Checks a call that reads or sets the member whose name is passed as text.
    fn access(&mut self, path: &str, call: &ExprCall) {
        let names = self.argument(call, 1);
        if !self.scope.may_read(&names) {
            return;
        }
        let module = paths(&self.argument(call, 0))
            .any(|path| path.starts_with('@') && !path.contains('(') || FLOOR.has(path));
        let unknown = names.iter().any(|name| !matches!(name, Value::Text(_)));
        if module && (unknown || path != "getattr") {
            self.found.pattern(&format!("{path}("));
        }
        if unknown && path == "getattr" && self.is_bare(call) {
            self.found.pattern("getattr(");
        }
        if texts(&names).any(|name| ATTRIBUTES.has(name)) {
            self.found.pattern(texts(&names).next().unwrap_or_default());
        }
    }

    /// Returns whether the first argument of a call is a builtin function or a literal other than a text. Reading a
    /// member of such an object under a name that is not constant only serves to hide the name.
    fn is_bare(&self, call: &ExprCall) -> bool {
        let is_literal = match call.arguments.args.first() {
            Some(Expr::StringLiteral(_) | Expr::BytesLiteral(_)) | None => false,
            Some(Expr::Lambda(_) | Expr::Dict(_) | Expr::Set(_)) => true,
            Some(object) => object.is_literal_expr() || items(object).is_some(),
        };
        is_literal || paths(&self.argument(call, 0)).any(|path| FUNCTIONS.has(path))
    }

    /// Returns the possible values of an argument; an empty list if there is no such argument.
    fn argument(&self, call: &ExprCall, at: usize) -> Shared {
        match call.arguments.iter_source_order().nth(at) {
            Some(ArgOrKeyword::Arg(argument)) => self.scope.eval(argument, 0),
            Some(ArgOrKeyword::Keyword(_)) => Shared::new(one(Value::Unknown)),
            None => Shared::default(),
        }
    }
}

/// Returns whether a text for `string.Formatter.get_field` reads one of the [`ATTRIBUTES`].
fn reads_listed(field: &str) -> bool {
    field.split(['.', '[', ']']).any(|name| ATTRIBUTES.has(name))
}

/// Returns whether a call has an argument `option` whose value is not `False`; `unpacked` is the result for a call with
/// an argument `**…`.
fn sets(call: &ExprCall, option: &str, unpacked: bool) -> bool {
    call.arguments.keywords.iter().any(|keyword| match &keyword.arg {
        Some(name) => name.as_str() == option && !is_false(&keyword.value),
        None => unpacked,
    })
}

fn is_false(value: &Expr) -> bool {
    matches!(value, Expr::BooleanLiteral(literal) if !literal.value)
}

/// Returns the entry of [`PATHS`] for a path.
fn listed_path(path: &str) -> Option<&'static str> {
    static LISTED: OnceLock<HashMap<&str, Vec<&str>>> = OnceLock::new();
    let module = |path: &'static str| path.split(['.', '(']).next().unwrap_or(path);
    let listed = LISTED.get_or_init(|| {
        let mut listed: HashMap<_, Vec<_>> = HashMap::new();
        for path in PATHS.iter() {
            listed.entry(module(path)).or_default().push(path);
        }
        listed
    });
    let module = path.split(['.', '(']).next().unwrap_or(path);
    listed.get(module)?.iter().find(|listed| is_under(path, listed)).copied()
}

/// Returns whether a path ends with the name of a dangerous module and one of its members, after the object through
/// which the code reaches the module, e.g. `?.os.system`.
fn is_of_module(path: &str) -> bool {
    let above = path.trim_end_matches("()").rsplit('.').nth(1).unwrap_or_default();
    matches!(
        above.trim_start_matches('_'),
        "os" | "posix" | "subprocess" | "importlib" | "pty" | "runpy"
    )
}

/// Returns whether a member of a module is private and might be an imported module, e.g. `_os` in `random`.
fn is_private(policy: &CodePolicy, name: &str) -> bool {
    let name = name.strip_prefix('_').filter(|name| !name.starts_with('_'));
    name.is_some_and(|name| policy.is_strict() || MODULES.has(name))
}

fn pattern_of(name: &str) -> String {
    let called = !name.starts_with("__") || name == "__import__";
    if called && !name.contains("Loader") { format!("{name}(") } else { name.to_owned() }
}

/// Returns whether an annotation is, or may be, a text that calls something when it is evaluated.
fn has_called_annotation(scope: &Scope<'_>) -> bool {
    let calls = |annotation: Option<&Expr>| {
        let values = annotation.map(|annotation| scope.eval(annotation, 0));
        values.unwrap_or_default().iter().any(|value| match value {
            Value::Text(text) => text.contains('('),
            Value::AnyText => true,
            _ => false,
        })
    };
    scope.nodes.all.iter().any(|node| match node {
        AnyNodeRef::Parameter(parameter) => calls(parameter.annotation.as_deref()),
        AnyNodeRef::StmtFunctionDef(function) => calls(function.returns.as_deref()),
        _ => false,
    })
}
