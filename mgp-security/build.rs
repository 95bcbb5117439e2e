//! Writes the table of the characters that look like others (UTS 39) as plain data. The table of `unicode-security` has
//! a pointer for each character, which the loader of the system fills in: 160 KiB that each process has for itself.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use unicode_normalization::UnicodeNormalization;
use unicode_security::skeleton;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let (mut chars, mut ends, mut texts) = (String::new(), String::new(), String::new());
    let mut count = 0;
    // A skeleton begins with a decomposition, so only characters that this step leaves unchanged are looked up.
    for c in ('\0'..=char::MAX).filter(|c| c.nfd().eq([*c])) {
        let mut buffer = [0; 4];
        let looks: String = skeleton(c.encode_utf8(&mut buffer)).collect();
        if looks.chars().eq([c]) {
            continue;
        }
        texts.push_str(&looks);
        count += 1;
        write!(chars, "'{}',", c.escape_unicode()).expect("a string takes all text");
        write!(ends, "{},", texts.len()).expect("a string takes all text");
    }
    let code = format!(
        "static CHARS: [char; {count}] = [{chars}];\n\
         static ENDS: [u16; {count}] = [{ends}];\n\
         static TEXTS: &str = \"{}\";\n",
        texts.escape_unicode()
    );
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("looks.rs"), code).expect("the folder is writable");
}
