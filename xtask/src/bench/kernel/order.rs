//! Writes a linker script for `mgp`. The script places the functions next to each other that run when the program
//! starts and for each call.
//!
//! When a program uses one of its pages, the system maps 16 pages into memory. The functions that an idle kernel uses
//! are a twelfth of the program, but the linker's own order spreads them over half of it, so far more memory is used
//! than necessary.

use super::{
    super::http::run::{Ask, Form, drive},
    hop, rest,
    world::World,
};
use crate::run::{Context, Failure, Outcome, Program, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The linker script, relative to the root of the workspace; the build script of `mgp` passes it to the linker.
const SCRIPT: &str = "mgp-client-sdk/cli/link-order.ld";

/// The time for which callgrind records the functions of a kernel, from its start on. It is long, because callgrind
/// makes everything about fifty times slower.
const WATCH: Duration = Duration::from_secs(10);

/// The source of a library that lets a kernel under valgrind start servers.
const LIBRARY: &str = include_str!("own_program.c");

/// The number of calls that are made while callgrind records the functions of a kernel.
const CALLS: usize = 50;

/// The maximum length of a function's name in a pattern; longer names are cut. Names of generic functions are much
/// longer, but their beginnings differ.
const MAX_LENGTH: usize = 96;

/// Parts of the names of functions that have very many instances, few of which run.
const TOO_GENERAL: &[&str] = &["$RF$T$u20$as$u20$core..fmt..Debug", "14reserve_rehash"];

/// Runs kernels under callgrind, and writes the linker script with the functions that they used.
pub(super) fn write(world: &World) -> Outcome {
    let scratch = &world.generator.scratch;
    let file = scratch.join("callgrind.functions");
    let out = format!("--callgrind-out-file={}", file.display());
    let library = format!("LD_PRELOAD={}", library(scratch)?.display());
    let own = format!("OWN_PROGRAM={}", world.mgp);
    let valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", &out];
    let tool = [&["env", &*library, &*own][..], &valgrind].concat();

    let mut order = Vec::new();
    let mut add = |file: &Path| {
        let text = fs::read_to_string(file).context(file.display())?;
        // Remove the file, so that the next run does not read it as its own.
        fs::remove_file(file).context(file.display())?;
        let used = functions(&text);
        order.extend(
            used.into_iter().filter(|pattern| !order.contains(pattern)).collect::<Vec<_>>(),
        );
        Ok::<_, Failure>(())
    };
    let servers = rest::servers(world);
    let idle = world.place("order-idle", &[])?;
    let known = world.known("order-known", &servers)?;
    let running = world.place("order-running", &servers)?;
    for (place, is_asked) in [(idle, false), (known, false), (running, true)] {
        let kernel = world.start_under(&tool, &place)?;
        if is_asked {
            world.wait_until_known(&place, servers.len())?;
        }
        thread::sleep(WATCH);
        drop(kernel);
        add(&file)?;
    }
    let upstream = world.upstream()?;
    for form in [Form::Modern, Form::Legacy] {
        let mut kernel = world.hop_http(&hop::at(world, "order-calls", upstream.port())?);
        kernel.command.splice(0..0, valgrind.map(str::to_owned));
        drive(&world.generator, &kernel, Ask { form, connections: 1 }.flags(CALLS, 0))?;
        add(&file)?;
    }
    let path = root().join(SCRIPT);
    fs::write(&path, script(&order)).context(path.display())?;
    println!("wrote {} with {} functions", path.display(), order.len());
    Ok(())
}

/// Compiles [`LIBRARY`] in a folder, and returns the path of the library.
fn library(folder: &Path) -> Outcome<PathBuf> {
    let (source, library) = (folder.join("own_program.c"), folder.join("own_program.so"));
    fs::write(&source, LIBRARY).context(source.display())?;
    Program::new("cc").args(&["-shared", "-fPIC", "-o"]).args(&[&library, &source]).run()?;
    Ok(library)
}

/// Returns a section pattern for each function of `mgp` that ran, according to a callgrind file.
///
/// A line names an object or a function by a number. At its first use, the name follows the number: `ob=(3)
/// /usr/bin/mgp`, `fn=(12) main`. Lines that begin with `c` name a function that is called, or its object.
fn functions(text: &str) -> BTreeSet<String> {
    let mut objects = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut used = BTreeSet::new();
    let mut is_mgp = false;
    for line in text.lines() {
        let Some((key, rest)) = line.split_once("=(") else { continue };
        let Some((number, name)) = rest.split_once(')') else { continue };
        let name = name.trim_start();
        let known = match key {
            "ob" | "cob" => &mut objects,
            "fn" | "cfn" => &mut names,
            _ => continue,
        };
        if !name.is_empty() {
            known.insert(number, name);
        }
        match key {
            "ob" => is_mgp = known.get(number).is_some_and(|path| path.ends_with("/mgp")),
            "fn" if is_mgp => used.extend(known.get(number).and_then(|name| pattern(name))),
            _ => {}
        }
    }
    used
}

/// Returns the pattern that matches the linker section of a function; `None` if the function cannot be placed by its
/// name.
///
/// In the pattern, a `*` replaces the part of a name that differs from build to build: the hash at the end of a Rust
/// name, or the number that the compiler adds if several crates have the same name.
fn pattern(name: &str) -> Option<String> {
    // Cut off the `'2` that Callgrind adds to the name of a function that calls itself.
    let name = name.split('\'').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    if !name.chars().all(plain)
        || name.starts_with("0x")
        || TOO_GENERAL.iter().any(|part| name.contains(part))
    {
        return None;
    }
    let end = match name.get(..3)? {
        "_ZN" => name.rfind("17h").map(|hash| hash + "17h".len()),
        "_RN" | "_RI" => Some(name.find('.').unwrap_or(name.len())),
        _ => None,
    };
    Some(match end {
        Some(end) => format!(".text.{}*", &name[..end.min(MAX_LENGTH)]),
        None => format!(".text.{name}"),
    })
}

/// Returns a linker script that places the sections with these patterns first in `.text`, in this order.
fn script(patterns: &[String]) -> String {
    let mut lines = String::new();
    for pattern in patterns {
        let _ = writeln!(lines, "    *({pattern})");
    }
    format!(
        "/* Written by `cargo xtask bench kernel --write-order`. */\n\
         SECTIONS {{\n  .text : {{\n{lines}  }}\n}} INSERT BEFORE .init;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_program_become_patterns_without_their_hash() {
        let text = "ob=(1) /lib/libc.so.6\nfn=(1) malloc\ncob=(2) /target/release/mgp\n\
                    cfn=(2) _ZN10mgp_kernel3run17h0123456789abcdefE\ncalls=1\nob=(2)\nfn=(2)\n\
                    fn=(3) sqlite3Step'2\nfn=(4) (below main)\nfn=(5) _RNvNtCs_3std4read.12\nfn=(6) 0x0000000000001050\n";
        let expected =
            [".text._RNvNtCs_3std4read*", ".text._ZN10mgp_kernel3run17h*", ".text.sqlite3Step"];
        assert_eq!(functions(text), expected.map(str::to_owned).into());
    }
}
