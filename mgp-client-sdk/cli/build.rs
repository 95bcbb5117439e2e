//! In the released program, makes the linker place the functions that a running kernel uses next to each other. This
//! halves the part of the code that is kept in memory. The file `link-order.ld` lists these functions; the linkers of
//! the GNU system and of LLVM read this file.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=link-order.ld");
    let is = |name, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Some linkers cannot read linker scripts, so this script passes none to a linker that the user has chosen.
    let own_linker = env::var_os("RUSTC_LINKER").is_some()
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| {
            let names = ["linker", "link-arg", "link-self-contained"];
            let flags = flags.split('\x1f').map(|flag| flag.trim_start_matches("-C"));
            flags.into_iter().any(|flag| names.iter().any(|name| flag.starts_with(name)))
        });
    if is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu") && !own_linker {
        let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{folder}/link-order.ld");
    }
}
