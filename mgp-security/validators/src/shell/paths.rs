//! Paths whose change affects the system or the start of a user's programs.

use crate::words::{Words, has};

/// Folders in the root folder of every Unix system.
static UNIX: Words =
    Words::new("etc usr bin sbin lib lib32 lib64 libx32 boot dev proc sys var root");
/// Further folders of a system in its root folder. Many projects also have folders with these names.
static OTHERS: Words =
    Words::new("run opt srv snap system library applications private nix efi windows");
/// Files and folders in the home of a user that contain keys, or determine which programs start.
static HOME: Words = Words::new(
    "\
    .ssh .gnupg .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc \
    .zshenv .zprofile .zlogin .kshrc .cshrc .tcshrc .login .inputrc .vimrc .exrc .emacs .xinitrc \
    .xsession .xprofile .pam_environment .netrc .aws .kube .gitconfig .pythonrc .npmrc .config \
    .local .docker .cargo library",
);

/// Folders below `/var/lib` that belong to a service of the system or to a database.
static SERVICES: Words = Words::new(
    "\
    accountsservice aide alternatives amazon apt aptitude bind bluetooth boltd boot buildkit \
    ca-certificates cassandra chrony clickhouse cloud cni containerd containers couchdb cron \
    cups dbus dhclient dhcp dhcpcd dkms dnf docker dpkg elasticsearch etcd etckeeper fail2ban \
    flatpak fwupd gdm gdm3 google grub influxdb initramfs-tools iptables iwd k3s kubelet \
    kubernetes ldap libvirt lightdm logrotate lxc lxd machines mariadb misc mlocate mongodb \
    mysql named neo4j networkmanager nfs ntp nvidia openvpn os-prober pacman pam pgsql plocate \
    polkit-1 portables postgresql private python rabbitmq rancher redis rpm rsyslog samba \
    selinux shim-signed slapd snapd ssl sss sudo swcatalog systemd tor tpm tpm2-tss \
    ubuntu-advantage ucf udisks2 unattended-upgrades update-manager update-notifier upower \
    usbutils vmware waagent wireguard wpa_supplicant xkb yum zookeeper zypp",
);

/// Returns whether a path is in a system folder, or is a file of a user or repository that contains keys or determines
/// which programs start.
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
    let (all, up) = parts(&path);
    if is_of_git(&all) {
        return true;
    }
    let parts = without_mount(&all);
    let first = parts.first().copied().unwrap_or_default();
    if path.starts_with('/') {
        let globbed = first.contains(['*', '?', '[', '{']);
        let folder = matches!(first, "home" | "users" | "tmp") && parts.len() == 1;
        let below = parts.get(2..).unwrap_or_default();
        // `/home/NAME/Library` is an ordinary folder, because homes of macOS are in `/Users`.
        let own = first == "users" || first == "home" && below.first() != Some(&"library");
        return parts.is_empty()
            || globbed
            || folder
            || own && is_of_user(below)
            || ((UNIX.has(first) || OTHERS.has(first)) && !is_temporary(parts));
    }
    if first.starts_with('~') || first == "$home" {
        let below = parts.get(1..).unwrap_or_default();
        return below.is_empty() || is_of_user(below);
    }
    up > 0
        && (parts.is_empty() && up > 2
            || UNIX.has(first) && !(up == 1 && is_beside(parts))
            || first == ".ssh")
}

/// Returns whether a path such as `../bin/x.sh`, without its `..`, is probably that of a file of the project. Projects
/// also have folders with these names; programs of the system have no extension.
fn is_beside(parts: &[&str]) -> bool {
    let [folder, .., file] = parts else { return false };
    (*folder == "lib" || *folder == "bin" && file.contains('.'))
        && !file.contains(".so")
        && !file.contains(['*', '?', '[', '{', '$'])
}

/// Returns whether writing to a path, or a file into a folder, changes the system. Every user may write in `/tmp`.
pub(super) fn is_system_target(path: &str) -> bool {
    let is_shared = path.starts_with('/') && parts(&path.to_ascii_lowercase()).0 == ["tmp"];
    is_system(path) && !is_shared
}

/// Returns whether a path is a file with private keys or passwords, also if it belongs to a project.
pub(super) fn is_secret(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_ascii_lowercase();
    let is_example =
        ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end));
    let is_env = name == ".env"
        || name.starts_with(".env.") && !is_example
        || name == "environ" && path.starts_with("/proc/");
    let is_private = matches!(
        name.as_str(),
        "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ed25519" | ".netrc" | ".pgpass" | ".git-credentials"
    );
    is_env || is_private || is_key(path)
}

/// Returns whether a path is a file or folder with private keys or passwords of a user, or is `/etc/shadow`,
/// `/etc/gshadow` or `/etc/sudoers`.
pub(super) fn is_key(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let is_absolute = path.starts_with('/');
    let (all, _) = parts(&path);
    let below = match without_mount(&all) {
        ["etc", file] if is_absolute => return matches!(*file, "shadow" | "gshadow" | "sudoers"),
        ["home" | "users", _, below @ ..] | ["root", below @ ..] if is_absolute => below,
        [first, below @ ..] if first.starts_with('~') || *first == "$home" => below,
        below => below,
    };
    match below {
        [".ssh" | ".aws" | ".netrc" | ".pgpass" | ".git-credentials"]
        | [".gnupg", ..]
        | [".aws", "credentials"]
        | [".kube", "config"]
        | [".docker", "config.json"] => true,
        [".ssh", file] => {
            let is_public = matches!(*file, "config" | "known_hosts" | "authorized_keys");
            !is_public && file.strip_suffix(".pub").is_none()
        }
        _ => false,
    }
}

/// Returns whether a folder is the root of the file system.
pub(super) fn is_root(folder: &str) -> bool {
    let folder = folder.trim_start_matches("file://");
    folder.starts_with('/') && parts(folder).0.is_empty()
}

/// Returns the parts of a path, without the parts that some systems have in front of the homes of users, e.g. `/var` in
/// `/var/home`.
fn without_mount<'a, 'p>(parts: &'a [&'p str]) -> &'a [&'p str] {
    match parts {
        ["var" | "usr", "home", ..] => &parts[1..],
        ["system", "volumes", "data", ..] => &parts[3..],
        _ => parts,
    }
}

/// Returns whether a path is a hook or the configuration of git. Git runs programs from both.
fn is_of_git(parts: &[&str]) -> bool {
    parts.windows(2).any(|two| two[0] == ".git" && matches!(two[1], "hooks" | "config"))
}

/// Splits a path into its parts without `.` and `..`. Also returns the number of folders by which the path first leads
/// up.
fn parts(path: &str) -> (Vec<&str>, usize) {
    let mut up = 0;
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part != ".." {
            parts.push(part);
        } else if parts.pop().is_none() {
            up += 1;
        }
    }
    (parts, up)
}

/// Returns whether the parts of an absolute path are below a folder for temporary files.
fn is_temporary(parts: &[&str]) -> bool {
    matches!(
        parts,
        ["var" | "private", "tmp", ..]
            | ["var", "folders", ..]
            | ["private", "var", "tmp" | "folders", ..]
    )
}

/// Returns whether a path is a file or folder in [`HOME`], or means all files. `parts` are its parts below a user's
/// home.
fn is_of_user(parts: &[&str]) -> bool {
    const RUN: [&str; 6] = ["bin", "autostart", "systemd", "fish", "environment.d", "mgp"];
    let is_data = match parts {
        [".local" | ".config", folder, _, ..] => !RUN.contains(folder),
        // Accept these folders of macOS: caches and builds, and projects that are synchronized.
        ["library", folder, _, ..] => {
            matches!(*folder, "caches" | "developer" | "logs" | "mobile documents" | "cloudstorage")
        }
        _ => false,
    };
    is_of_host(parts)
        || parts.first().is_some_and(|first| *first == "*" || HOME.has(first) && !is_data)
}

/// Returns whether a path is the state of a kernel, or the configuration of git or of a host of MCP servers, which
/// names programs that are started. `parts` are its parts below a user's home.
fn is_of_host(parts: &[&str]) -> bool {
    const FOLDERS: &str = "\
        .claude .cursor .codex .gemini .qwen .copilot .codeium .continue .cline .kiro .lmstudio \
        .junie .factory .vscode .windsurf";
    let Some(last) = parts.last() else { return false };
    let is_listing =
        [".json", ".jsonc", ".yaml", ".yml", ".toml"].iter().any(|end| last.ends_with(end));
    let names = ["settings", "config.", "hooks.", "tasks."];
    let is_config =
        is_listing && (last.contains("mcp") || names.iter().any(|start| last.starts_with(start)));
    match parts {
        [".claude.json" | ".mcp.json"]
        | [".config", "git", "config"]
        | [".local", "share" | "state", "mgp", ..] => true,
        [".config", "goose" | "opencode" | "zed", ..] => is_listing,
        [".config", "code" | "cursor" | "vscodium" | "claude", ..] => is_config,
        [first, "hooks", ..] => has(FOLDERS, first),
        [first, ..] => has(FOLDERS, first) && is_config,
        [] => false,
    }
}

/// Returns whether a folder or file that an argument names belongs to the system, so that no command may write there.
/// The root folder, a user's home and folders in which projects often are do not count: for these, the decision depends
/// on the files that the command names.
pub(super) fn belongs_to_system(path: &str) -> bool {
    let folder = path.trim_start_matches("file://").to_ascii_lowercase();
    if let Some((drive, rest)) = folder.split_once(':').filter(|(drive, _)| drive.len() == 1) {
        let own = ["windows", "program files", "program files (x86)", "programdata"];
        let first = rest.split(['/', '\\']).find(|part| !part.is_empty()).unwrap_or_default();
        return drive.starts_with(|c: char| c.is_ascii_alphabetic()) && own.contains(&first);
    }
    if folder.starts_with("\\\\") {
        return false;
    }
    if !folder.starts_with('/') {
        let (parts, _) = parts(&folder);
        let is_home = parts.len() == 1 && (parts[0].starts_with('~') || parts[0] == "$home");
        return !is_home && is_system(&folder);
    }
    let (parts, _) = parts(&folder);
    match parts.as_slice() {
        [] | ["home" | "users" | "tmp"] => false,
        ["var", "lib", _] => true,
        parts => project_root(parts).is_none() && is_system(&folder),
    }
}

/// Returns the number of parts in the path to a project's folder, e.g. 2 for `/srv/shop/src`. Returns `None` for paths
/// outside of the usual places for projects among the folders of the system, as containers have them.
fn project_root(parts: &[&str]) -> Option<usize> {
    match parts {
        _ if is_of_git(parts) => None,
        ["root", rest @ ..] if !is_of_user(rest) => Some(1),
        ["opt" | "srv", folder, ..] if !matches!(*folder, "homebrew" | "local") => Some(2),
        ["usr", "src" | "app", ..]
        | ["var", "www" | "task" | "app" | "jenkins_home", ..]
        | ["dev", "shm", ..] => Some(2),
        ["var", "lib", folder, ..] if is_of_service(folder) => None,
        ["usr", "local", "src" | "app", ..]
        | ["var", "lib", _, ..]
        | ["applications", _, "htdocs", ..]
        | ["library", "webserver", "documents", ..] => Some(3),
        ["usr", "share", "nginx", "html", ..] | ["run", "media", _, _, ..] => Some(4),
        _ => None,
    }
}

/// Returns whether a folder below `/var/lib` belongs to a service of the system or to a database. Other folders there
/// contain data of applications.
fn is_of_service(folder: &str) -> bool {
    SERVICES.has(folder)
        || folder.starts_with("systemd")
        || folder.contains(['*', '?', '[', '{', '$'])
}

/// Resolves a relative path against a working folder. Returns the result only if it belongs to the system; files in
/// folders of projects (see [`belongs_to_system`]) do not count.
pub(super) fn system_path_in(folder: &str, path: &str) -> Option<String> {
    let is_absolute = path.starts_with(['/', '~', '$']) || path.contains("://");
    if is_absolute || matches!(parts(path), (own, 0) if own.is_empty()) {
        return None;
    }
    let joined = format!("{}/{path}", folder.trim_end_matches('/'));
    let lower = joined.trim_start_matches("file://").to_ascii_lowercase();
    if lower.contains('\\') || lower.get(1..2) == Some(":") {
        return belongs_to_system(&lower).then_some(joined);
    }
    let (below, _) = parts(&lower);
    let folder = folder.trim_start_matches("file://").to_ascii_lowercase();
    let (above, _) = parts(&folder);
    let root = project_root(&above).filter(|_| lower.starts_with('/'));
    // Accept a path that leads to another folder of the same project.
    let is_own = root.is_some_and(|length| {
        project_root(&below) == Some(length) && below.starts_with(&above[..length])
    });
    (!is_own && is_system(&joined)).then_some(joined)
}

/// Returns whether a path is below `/dev`, and not a harmless one such as `/dev/null` or `/dev/tty`.
pub(super) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && is_system(path)
}
