//! The rules of the level `readonly` for Python: assignments and calls that can write.

use super::{
    python_values::{Scope, Shared},
    value::{Findings, Value, Values, is_under, last, paths},
};
use crate::readonly::sql_reads;
use crate::words::Words;
use ruff_python_ast::{AnyNodeRef, ArgOrKeyword, Expr, ExprCall, ExprContext, ExprRef, Operator};

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

/// The letters that the mode of `open` may have if the file is only read.
const READ_MODES: &str = "rbtU";
/// Flags of `os.open` that only allow reading.
static READ_FLAGS: Words =
    Words::new("@os.O_RDONLY @os.O_CLOEXEC os.O_RDONLY os.O_CLOEXEC O_RDONLY");
/// Functions whose second argument is the mode of a file.
static OPENS: Words = Words::new(
    "\
    open @io.open @codecs.open @tokenize.open @gzip.open @bz2.open @lzma.open @aiofiles.open \
    @tarfile.open @wave.open",
);
/// Methods that return a text unless their argument names a file.
static TEXT_METHODS: Words =
    Words::new("to_csv to_json to_html to_markdown to_string to_latex to_xml");
/// Parameters of the methods in [`TEXT_METHODS`] that name a file.
const TEXT_FILES: [&str; 4] = ["path_or_buf", "path_or_buffer", "buf", "path"];

/// Reports assignments and calls in one syntax node that can write.
pub(super) fn writes(scope: &Scope<'_>, node: AnyNodeRef<'_>, found: &mut Findings) {
    match node {
        AnyNodeRef::ExprName(name) => member(scope, name.into(), found),
        AnyNodeRef::ExprAttribute(attribute) => {
            member(scope, attribute.into(), found);
            if attribute.ctx != ExprContext::Load {
                stored(scope, &attribute.value, found);
            }
        }
        AnyNodeRef::ExprSubscript(subscript) if subscript.ctx != ExprContext::Load => {
            stored(scope, &subscript.value, found);
        }
        AnyNodeRef::ExprSubscript(subscript) => member(scope, subscript.into(), found),
        AnyNodeRef::ExprCall(call) => {
            // A call of `getattr` returns a member, so it is checked like a member.
            member(scope, call.into(), found);
            WritingCall::new(scope, call).check(found);
        }
        _ => {}
    }
}

fn member(scope: &Scope<'_>, node: ExprRef<'_>, found: &mut Findings) {
    for path in paths(&scope.eval(node, 0)) {
        let first = path
            .strip_prefix("@os.")
            .map(|rest| rest.split(['.', '(']).next().unwrap_or(rest))
            .filter(|name| !OS_READS.has(name) && !name.starts_with("O_RDONLY"));
        if let Some(name) = first {
            found.pattern(&format!("os.{name}"));
        }
        let method = last(path);
        // The arguments of a call decide whether such a method writes, see `WritingCall::stores`.
        let is_call = matches!(node, ExprRef::Call(_)) && path.ends_with("()");
        let is_called = is_call || scope.nodes.is_called(node);
        if path.contains('.')
            && METHODS.has(method)
            && !(is_called && TEXT_METHODS.has(method))
            && !is_harmless(path)
        {
            found.pattern(&format!("{method}("));
        }
        if path == "open"
            && !scope.nodes.is_called(node)
            && !matches!(
                scope.nodes.parent(node),
                None | Some(AnyNodeRef::StmtAssign(_) | AnyNodeRef::StmtAnnAssign(_))
            )
        {
            found.pattern("open(");
        }
    }
}

/// Returns whether a path is a function that does not write, although its name is in [`METHODS`].
fn is_harmless(path: &str) -> bool {
    // These methods of a column of pandas find parts of its texts.
    let plain = path.trim_end_matches("()");
    plain.ends_with(".str.extract")
        || plain.ends_with(".str.extractall")
        || plain
            .strip_prefix("@io.BytesIO().")
            .or_else(|| plain.strip_prefix("@io.StringIO()."))
            .is_some_and(|method| matches!(method, "truncate" | "writelines"))
        || path.starts_with("@os.")
        || path.starts_with("@json")
}

/// Reports code that sets or deletes a member or element of an object, if the object belongs to a module.
fn stored(scope: &Scope<'_>, object: &Expr, found: &mut Findings) {
    let values = scope.eval(object, 0);
    let path = paths(&values).find(|path| path.starts_with('@') && !path.contains('('));
    if let Some(path) = path {
        found.pattern(&format!("{} =", path.trim_start_matches('@')));
    }
}

/// Returns whether a value is a standard stream or a buffer in memory. Writing to such a value is allowed even at the
/// level `readonly`.
fn is_stream(values: &Values) -> bool {
    let streams = ["@sys.std", "@io.StringIO", "@io.BytesIO"];
    paths(values).any(|path| streams.iter().any(|stream| path.starts_with(stream)))
}

/// Returns whether all values are streams or buffers themselves, and not members of one, e.g. the text in a buffer.
fn are_streams(values: &Values) -> bool {
    const STREAMS: [&str; 4] = ["@sys.stdout", "@sys.stderr", "@io.StringIO()", "@io.BytesIO()"];
    values
        .iter()
        .all(|value| matches!(value, Value::Path(path) if STREAMS.contains(&path.as_str())))
}

/// Returns whether all values are constant texts for which a condition holds.
fn are_texts(values: &Values, condition: impl Fn(&str) -> bool) -> bool {
    values.iter().all(|value| matches!(value, Value::Text(text) if condition(text)))
}

/// Returns whether the mode of a file only allows reading. `None` means the default mode, which only allows reading.
fn reads(mode: Option<Shared>) -> bool {
    mode.is_none_or(|mode| {
        are_texts(&mode, |mode| {
            // For `tarfile`, the compression follows the mode, e.g. in `r:gz`.
            let mode = mode.split([':', '|']).next().unwrap_or_default();
            !mode.is_empty() && mode.chars().all(|c| READ_MODES.contains(c))
        })
    })
}

fn reads_method(method: &str) -> bool {
    matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS")
}

/// A call that is checked for writing to files or the environment, and for sending data over HTTP.
struct WritingCall<'a, 't> {
    scope: &'a Scope<'t>,
    call: &'a ExprCall,
}

impl<'a, 't> WritingCall<'a, 't> {
    const fn new(scope: &'a Scope<'t>, call: &'a ExprCall) -> Self {
        Self { scope, call }
    }

    /// Returns the positional arguments and the arguments with `**`, which can set any parameter.
    fn unnamed(&self) -> impl Iterator<Item = ArgOrKeyword<'a>> {
        let all = self.call.arguments.iter_source_order();
        all.filter(|argument| matches!(argument, ArgOrKeyword::Arg(_)) || argument.is_variadic())
    }

    fn at(&self, at: usize) -> Option<Shared> {
        self.unnamed().nth(at).map(|argument| match argument {
            ArgOrKeyword::Arg(argument) => self.scope.eval(argument, 0),
            ArgOrKeyword::Keyword(_) => Shared::new(vec![Value::Unknown]),
        })
    }

    fn named(&self, name: &str) -> Option<Shared> {
        let argument = self.call.arguments.find_keyword(name)?;
        Some(self.scope.eval(&argument.value, 0))
    }

    fn has_named(&self, name: &str) -> bool {
        self.call.arguments.find_keyword(name).is_some()
    }

    fn is_variadic(&self) -> bool {
        self.call.arguments.iter_source_order().any(ArgOrKeyword::is_variadic)
    }

    fn check(&self, found: &mut Findings) {
        for path in paths(&self.scope.eval(&*self.call.func, 0)) {
            let name = last(path);
            if self.opens(path, name) || self.sends(path, name) || self.stores(path, name) {
                found.pattern(&format!("{name}("));
            }
        }
    }

    /// Returns whether the call opens a file for writing.
    fn opens(&self, path: &str, name: &str) -> bool {
        let mode = |at: usize| self.named("mode").or_else(|| self.at(at));
        match name {
            "open" if OPENS.has(path) => self.is_variadic() || !reads(mode(1)),
            "open" if path == "@os.open" => {
                let flags = self.unnamed().nth(1).map(ArgOrKeyword::value);
                let named = || Some(&self.call.arguments.find_keyword("flags")?.value);
                let flags = flags.or_else(named);
                self.is_variadic() || !flags.is_some_and(|flags| self.are_reading(flags, 0))
            }
            // The first argument of `Path.open` is the mode, not a file name.
            "open" if path.starts_with('?') || path.contains("Path") => {
                self.is_variadic() || !reads(mode(0))
            }
            "ZipFile" | "TarFile" | "FileIO" | "GzipFile" | "BZ2File" | "LZMAFile"
                if path.starts_with('@') =>
            {
                self.is_variadic() || !reads(mode(1))
            }
            "FileHandler"
            | "RotatingFileHandler"
            | "NamedTemporaryFile"
            | "TemporaryFile"
            | "mkstemp"
            | "mkdtemp"
            | "TemporaryDirectory" => path.starts_with('@'),
            "basicConfig" => self.has_named("filename"),
            _ => false,
        }
    }

    /// Returns whether flags of `os.open` only allow reading.
    fn are_reading(&self, flags: &Expr, depth: usize) -> bool {
        match flags {
            Expr::BinOp(both) if both.op == Operator::BitOr && depth < 8 => {
                self.are_reading(&both.left, depth + 1) && self.are_reading(&both.right, depth + 1)
            }
            _ => self
                .scope
                .eval(flags, 0)
                .iter()
                .all(|value| matches!(value, Value::Path(path) if READ_FLAGS.has(path))),
        }
    }

    /// Returns whether the call sends data.
    fn sends(&self, path: &str, name: &str) -> bool {
        let client = CLIENTS.iter().any(|client| is_under(path, client));
        let count = || self.unnamed().count();
        match name {
            "send" => client || path.starts_with('?') && count() > 0,
            "put" | "delete" => client,
            "request" | "stream" if client || path.starts_with('?') => self
                .at(0)
                .or_else(|| self.named("method"))
                .is_some_and(|method| !are_texts(&method, reads_method)),
            "urlopen" | "Request" => {
                let is_none = |data: ArgOrKeyword<'_>| data.value().is_none_literal_expr();
                // The sixth parameter of `Request` is the method.
                !self.unnamed().nth(1).is_none_or(is_none)
                    || count() > 5
                    || self.has_named("data")
                    || self.has_named("method")
                    || self.is_variadic()
            }
            _ => false,
        }
    }

    /// Returns whether the first argument is a dict, a list or a number, and so not the name of a file.
    fn begins_with_data(&self) -> bool {
        self.unnamed().next().is_some_and(|first| {
            matches!(
                first,
                ArgOrKeyword::Arg(
                    Expr::Dict(_) | Expr::DictComp(_) | Expr::List(_) | Expr::NumberLiteral(_)
                )
            )
        })
    }

    /// Returns whether an argument of a method in [`TEXT_METHODS`] may name a file.
    fn names_file(&self, method: &str) -> bool {
        let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::AnyText);
        if TEXT_FILES.iter().filter_map(|name| self.named(name)).any(|file| !are_streams(&file)) {
            return true;
        }
        // Other objects have methods of these names that take objects, except `to_csv`.
        self.at(0).is_some_and(|first| match method {
            "to_csv" => !are_streams(&first) && !self.begins_with_data(),
            _ => first.iter().any(is_text),
        })
    }

    /// Returns whether the call changes files, database tables or environment variables.
    fn stores(&self, path: &str, name: &str) -> bool {
        match name {
            "replace" | "rename" => {
                path.contains('.')
                    && self.unnamed().count() == 1
                    && !self.has_named("columns")
                    && !self.has_named("axis")
                    && !self.begins_with_data()
                    && !matches!(path, "@dataclasses.replace" | "@copy.replace")
            }
            _ if TEXT_METHODS.has(name) => path.contains('.') && self.names_file(name),
            "write" => match &*self.call.func {
                Expr::Attribute(function) => !is_stream(&self.scope.eval(&*function.value, 0)),
                _ => false,
            },
            "dump" => path != "@ast.dump" && !self.at(1).is_some_and(|target| is_stream(&target)),
            "print" if path == "print" => self.named("file").is_some_and(|file| !is_stream(&file)),
            "execute" if path.starts_with('?') || path.starts_with("@sqlite3") => {
                self.at(0).is_some_and(|statement| !are_texts(&statement, sql_reads))
            }
            "update" | "pop" | "setdefault" | "clear" | "popitem" => {
                path.starts_with("@os.environ")
            }
            "save" => path.starts_with('@'),
            _ => false,
        }
    }
}
