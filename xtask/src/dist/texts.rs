//! The text files that are written together with the packages: the checksums, the Homebrew formula and the
//! Containerfile.

use super::Release;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

pub(super) const SUMMARY: &str = "One MCP server in front of all your MCP and MGP servers: search, approvals, access and a verified record";

pub(super) const DETAIL: &str = "mgp starts and supervises tool servers, decides and records every call, and offers any AI host one short list of tools.";

pub(super) const CONTAINERFILE: &str = include_str!("Containerfile");

/// Returns the address of a release, below the repository that the packages name.
pub(super) fn release_url(version: &str) -> String {
    format!("{}/releases/download/v{version}", env!("CARGO_PKG_REPOSITORY"))
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    mgp_types::to_hex(&Sha256::digest(bytes))
}

pub(super) fn sha256_base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

/// Returns the checksums as lines for `sha256sum --check`.
pub(super) fn checksums(files: &[(String, Vec<u8>)]) -> String {
    files.iter().fold(String::new(), |mut lines, (name, bytes)| {
        let _ = writeln!(lines, "{}  {name}", sha256(bytes));
        lines
    })
}

/// Returns the Homebrew formula for the archive.
pub(super) fn formula(release: &Release, sum: &str) -> String {
    let Release { version, url, .. } = release;
    let name = release.name();
    format!(
        r##"class Mgp < Formula
  desc "{SUMMARY}"
  homepage "{home}"
  url "{url}/{name}.tar.gz"
  version "{version}"
  sha256 "{sum}"
  license any_of: ["MIT", "Apache-2.0"]

  def install
    bin.install "mgp"
    man1.install Dir["man/*"]
    bash_completion.install "completions/mgp.bash" => "mgp"
    zsh_completion.install "completions/_mgp"
    fish_completion.install "completions/mgp.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/mgp --version")
  end
end
"##,
        home = env!("CARGO_PKG_REPOSITORY")
    )
}
