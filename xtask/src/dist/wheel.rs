//! The Python wheel: a zip archive that contains the program, so that `uvx` and `pipx` can run it.
//!
//! We write the wheel without maturin: a wheel with a finished program needs only three more small files, and no second
//! build.

use super::Release;
use super::archive::{Entry, zip};
use super::texts;
use crate::run::{Context, Outcome};
use std::fmt::Write as _;

pub(super) fn pack(release: &Release) -> Outcome<(String, Vec<u8>)> {
    let version = &release.version;
    let tag = format!("py3-none-{}", platform(release)?);
    let info = format!("mgp-{version}.dist-info");
    let mut metadata = format!(
        "Metadata-Version: 2.4\nName: mgp\nVersion: {version}\nSummary: {}\nLicense-Expression: MIT OR Apache-2.0\nDescription-Content-Type: text/markdown\n\n",
        texts::SUMMARY
    );
    metadata.push_str(&String::from_utf8_lossy(&release.readme));
    let wheel = format!("Wheel-Version: 1.0\nGenerator: mgp\nRoot-Is-Purelib: false\nTag: {tag}\n");
    let mut entries = vec![
        Entry::program(format!("mgp-{version}.data/scripts/mgp"), release.program.clone()),
        Entry::file(format!("{info}/METADATA"), metadata),
        Entry::file(format!("{info}/WHEEL"), wheel),
    ];
    for (name, text) in &release.licences {
        entries.push(Entry::file(format!("{info}/licenses/{name}"), text.clone()));
    }
    for (name, text) in &release.manuals {
        let path = format!("mgp-{version}.data/data/share/man/man1/{name}");
        entries.push(Entry::file(path, text.clone()));
    }
    let folders = [
        ("bash", "share/bash-completion/completions/mgp"),
        ("zsh", "share/zsh/site-functions/_mgp"),
        ("fish", "share/fish/vendor_completions.d/mgp.fish"),
    ];
    for (shell, place) in folders {
        let text = release.completions.iter().find(|(own, ..)| *own == shell).context(shell)?;
        entries.push(Entry::file(format!("mgp-{version}.data/data/{place}"), text.2.clone()));
    }
    let mut record = String::new();
    for entry in &entries {
        let _ = writeln!(
            record,
            "{},sha256={},{}",
            entry.path,
            texts::sha256_base64(&entry.bytes),
            entry.bytes.len()
        );
    }
    let _ = writeln!(record, "{info}/RECORD,,");
    entries.push(Entry::file(format!("{info}/RECORD"), record));
    Ok((format!("mgp-{version}-{tag}.whl"), zip(&entries)?))
}

/// Returns the platform tag; for Linux it contains the version of glibc that the program needs.
fn platform(release: &Release) -> Outcome<String> {
    let arch = release.target.split('-').next().context("target")?;
    Ok(match &*release.target {
        target if target.contains("linux-gnu") => {
            let (major, minor) = glibc(&release.program);
            format!("manylinux_{major}_{minor}_{arch}")
        }
        target if target.contains("linux-musl") => format!("musllinux_1_2_{arch}"),
        target if target.contains("apple") && arch == "aarch64" => "macosx_11_0_arm64".to_owned(),
        target if target.contains("apple") => "macosx_10_12_x86_64".to_owned(),
        _ => "win_amd64".to_owned(),
    })
}

/// Returns the newest version of glibc to which a program refers.
pub(super) fn glibc(program: &[u8]) -> (u32, u32) {
    const MARK: &[u8] = b"GLIBC_";
    let versions = program.windows(MARK.len()).enumerate().filter(|(_, part)| *part == MARK);
    let versions = versions.filter_map(|(at, _)| {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let mut numbers = std::str::from_utf8(&rest[..end]).ok()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    // Begins with 2.17, the version of `manylinux2014`; Rust supports no older glibc.
    versions.fold((2, 17), std::cmp::Ord::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_counts() {
        assert_eq!(glibc(b"..GLIBC_2.28\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.4\0"), (2, 34));
        assert_eq!(glibc(b""), (2, 17));
    }
}
