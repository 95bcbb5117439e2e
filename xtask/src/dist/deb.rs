//! Builds the Debian package.

use super::Release;
use super::archive::{Entry, ar, gzip, tar_gz};
use super::{texts, wheel};
use crate::run::{Context, Outcome};
use std::collections::BTreeSet;

pub(super) fn pack(release: &Release) -> Outcome<(String, Vec<u8>)> {
    let arch = match release.target.split('-').next().context("target")? {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let data = files(release)?;
    let kilobytes = data.iter().map(|entry| entry.bytes.len()).sum::<usize>().div_ceil(1024);
    let (major, minor) = wheel::glibc(&release.program);
    let control = format!(
        "Package: mgp\nVersion: {}-1\nArchitecture: {arch}\nMaintainer: the mgp authors\nInstalled-Size: {kilobytes}\nDepends: libc6 (>= {major}.{minor}), libgcc-s1\nSection: utils\nPriority: optional\nDescription: {}\n {}\n",
        release.version,
        texts::SUMMARY,
        texts::DETAIL
    );
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&[Entry::file("./control", control)], release.epoch)?),
        ("data.tar.gz", tar_gz(&data, release.epoch)?),
    ];
    Ok((format!("mgp_{}-1_{arch}.deb", release.version), ar(&members, release.epoch)))
}

/// Adds entries for the folders of all files, because dpkg creates no folders by itself.
fn with_folders(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut folders = BTreeSet::new();
    for entry in &entries {
        let ends = entry.path.match_indices('/').map(|(end, _)| entry.path[..=end].to_owned());
        folders.extend(ends);
    }
    entries.extend(folders.into_iter().map(Entry::folder));
    entries
}

fn files(release: &Release) -> Outcome<Vec<Entry>> {
    let mut entries = vec![Entry::program("./usr/bin/mgp", release.program.clone())];
    let folders = [
        ("bash", "usr/share/bash-completion/completions/mgp"),
        ("zsh", "usr/share/zsh/vendor-completions/_mgp"),
        ("fish", "usr/share/fish/vendor_completions.d/mgp.fish"),
    ];
    for (shell, place) in folders {
        let text = release.completions.iter().find(|(own, ..)| *own == shell).context(shell)?;
        entries.push(Entry::file(format!("./{place}"), text.2.clone()));
    }
    for (name, text) in &release.manuals {
        entries.push(Entry::file(format!("./usr/share/man/man1/{name}.gz"), gzip(text)?));
    }
    let licences: Vec<u8> = release.licences.iter().flat_map(|(_, text)| text.clone()).collect();
    entries.push(Entry::file("./usr/share/doc/mgp/copyright", licences));
    entries.push(Entry::file("./usr/share/doc/mgp/README.md", release.readme.clone()));
    Ok(with_folders(entries))
}
