//! Names of Python that the rules look up: builtin functions and modules.

use crate::words::Words;

/// Builtins that the rules look for. Such a name can mean the builtin even if the code binds it, because the binding
/// might belong to another scope.
pub(super) static BUILTINS: Words = Words::new(
    "\
    eval exec compile execfile __import__ breakpoint reload __builtins__ __loader__ __spec__ \
    __build_class__ globals locals vars getattr open get_ipython",
);

/// Builtins with members through which code can get at all classes or builtins, and which code does not use as objects.
pub(super) static FUNCTIONS: Words = Words::new(
    "\
    abs all any ascii callable chr credits dir divmod exit format hash help hex id input isinstance \
    issubclass iter len license max min next object oct ord pow print quit repr round sorted sum \
    super type",
);

/// Dangerous modules that other modules import, so that code can reach them as members, e.g. `random._os`.
pub(super) static MODULES: Words = Words::new(
    "\
    os sys subprocess builtins importlib socket shutil ctypes posix nt pickle marshal inspect \
    types io runpy pty __builtin__ multiprocessing code codeop",
);
