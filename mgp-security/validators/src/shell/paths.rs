//! Paths whose change affects the system or the start of a user's programs.

const SYSTEM: &[&str] = &[
    "etc",
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "boot",
    "dev",
    "proc",
    "sys",
    "var",
    "root",
    "run",
    "opt",
    "srv",
    "snap",
    "system",
    "library",
    "applications",
    "private",
    "nix",
    "efi",
    "windows",
];
const HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".vimrc",
    ".exrc",
    ".emacs",
    ".xinitrc",
    ".xsession",
    ".xprofile",
    ".pam_environment",
    ".netrc",
    ".aws",
    ".kube",
    ".gitconfig",
    ".pythonrc",
    ".npmrc",
    ".config",
    ".local",
    ".docker",
    ".cargo",
    "library",
];

/// Returns whether a path is in a system folder, or is a file of a user that contains keys or determines which programs
/// start.
pub(super) fn is_system(path: &str) -> bool {
    let path = path.trim_start_matches("file://").to_ascii_lowercase();
    if path.contains(":\\") || path.starts_with("\\\\") {
        return true;
    }
    if matches!(
        path.as_str(),
        "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty"
    ) || path.starts_with("/dev/fd/")
    {
        return false;
    }
    let mut up = 0;
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part != ".." {
            parts.push(part);
        } else if parts.pop().is_none() {
            up += 1;
        }
    }
    let first = parts.first().copied().unwrap_or_default();
    if path.starts_with('/') {
        let globbed = first.contains(['*', '?', '[', '{']);
        let folder = matches!(first, "home" | "users" | "tmp") && parts.len() == 1;
        let writable = matches!(
            parts.as_slice(),
            ["var" | "private", "tmp", ..] | ["private", "var", "tmp", ..]
        );
        return parts.is_empty() || globbed || folder || (SYSTEM.contains(&first) && !writable);
    }
    if first.starts_with('~') || first == "$home" {
        let below = parts.get(1).copied().unwrap_or_default();
        let caches = matches!(parts.as_slice(), [_, ".local" | ".config", folder, _, ..] if !matches!(*folder, "bin" | "autostart" | "systemd" | "fish"));
        return below.is_empty() || below == "*" || (HOME.contains(&below) && !caches);
    }
    up > 0 && (parts.is_empty() && up > 2 || SYSTEM[..14].contains(&first) || first == ".ssh")
}

/// Returns whether a path is below `/dev`, other than harmless ones such as `/dev/null` and `/dev/tty`.
pub(super) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && is_system(path)
}
