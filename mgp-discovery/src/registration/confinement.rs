//! The rights of the process of a sandboxed server (MGP §15.4).

use std::path::{Path, PathBuf};

use mgp_types::mgp::Permission;

use super::closed_paths::ClosedPaths;
use super::program::is_container;
use super::record::{Proposal, is_sandboxed};
use crate::config::ConfineConfig;
use crate::expand::{ConfinedCode, ProcessRights};

/// Returns the rights of a program; `None` if the program is not confined. `own` is the folder of the server, `script`
/// its script if the request contained one, and `closed` has the files and folders to which no permission extends.
///
/// Blocks.
pub(super) fn rights(
    program: &Proposal,
    granted: &[Permission],
    script: Option<&Path>,
    own: Option<&Path>,
    closed: ClosedPaths,
) -> Option<ProcessRights> {
    let code = confined_code(program)?;
    let further = further_rights(program, granted)?;
    let named = [&program.command, &program.real].map(PathBuf::from);
    // The code of a package is not in a file that its registry entry, or the agent, names as an argument.
    let files = program.files.iter().filter(|_| code != ConfinedCode::Package);
    let files = files.map(|file| file.path.clone()).filter(|file| !closed.is_of_kernel(file));
    let mut read: Vec<PathBuf> = named.into_iter().chain(files).collect();
    read.extend(script.map(Path::to_owned));
    read.extend(further.read.iter().map(PathBuf::from));
    let own = own.map(Path::to_owned);
    let (private, own) = if code == ConfinedCode::Package { (own, None) } else { (None, own) };
    let write = further.write.iter().map(PathBuf::from).filter(|path| !closed.is_of_kernel(path));
    Some(ProcessRights {
        read,
        write: own.into_iter().chain(write).collect(),
        connects: further.connect,
        listens: further.listen,
        local_sockets: false,
        private,
        hidden: closed.into_paths(),
        code,
    })
}

/// Returns the kind of code that a program runs; `None` if the program is not confined.
pub(super) fn confined_code(program: &Proposal) -> Option<ConfinedCode> {
    match program.published {
        _ if !is_sandboxed(&program.trust) || program.remote.is_some() => None,
        // The command only starts a container, over a socket of another program.
        Some(_) if is_container(program) => None,
        Some(_) => Some(ConfinedCode::Package),
        None => Some(ConfinedCode::Registered),
    }
}

/// Returns the rights that a confined program has beyond those that it needs to run: it may read files and connect if
/// it declares these permissions, but write and listen only if they are granted. A package may always connect, because
/// its runner downloads it. Returns `None` if the program is not confined.
pub(super) fn further_rights(program: &Proposal, granted: &[Permission]) -> Option<ConfineConfig> {
    let code = confined_code(program)?;
    let declares = |permission| program.mgp.permissions_required.contains(&permission);
    let read = declares(Permission::FilesystemRead).then(|| "/".to_owned());
    let write = granted.contains(&Permission::FilesystemWrite).then(|| program.cwd.clone());
    let connects = code == ConfinedCode::Package || declares(Permission::NetworkOutbound);
    Some(ConfineConfig {
        read: read.into_iter().collect(),
        write: write.into_iter().collect(),
        connect: connects.into(),
        listen: granted.contains(&Permission::NetworkListen).into(),
        local_sockets: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a sandboxed program with these further members.
    fn program(more: &Value) -> Proposal {
        let mut all = json!({
            "id": "made", "command": "/usr/bin/npx", "real": "/usr/bin/npx", "args": [],
            "cwd": "/home/u", "env": {}, "files": [], "mgp": {}, "trust": "sandboxed",
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn origin() -> Value {
        json!({
            "name": "x/y", "version": "1", "registry": "r", "about": "", "asks": [], "secrets": {},
            "findings": [],
        })
    }

    #[test]
    fn every_sandboxed_program_is_confined_except_a_container() {
        let code = |more: Value| confined_code(&program(&more));
        assert_eq!(code(json!({})), Some(ConfinedCode::Registered));
        assert_eq!(code(json!({ "trust": "unknown" })), Some(ConfinedCode::Registered));
        assert_eq!(code(json!({ "trust": "standard" })), None);
        assert_eq!(code(json!({ "published": origin() })), Some(ConfinedCode::Package));
        let docker = json!({ "published": origin(), "command": "/usr/bin/docker" });
        assert_eq!(code(docker), None);
    }

    #[test]
    fn permissions_give_rights_and_a_package_may_always_connect() {
        let rights = |more: Value, granted: &[Permission]| {
            further_rights(&program(&more), granted).unwrap().to_string()
        };
        assert_eq!(rights(json!({}), &[]), "no further rights");
        let needs = json!({ "mgp": { "permissions_required": [
            "filesystem.read", "filesystem.write", "network.listen", "network.outbound",
        ] } });
        assert_eq!(rights(needs.clone(), &[]), "reads /; connects to all ports");
        let granted = [Permission::FilesystemWrite, Permission::NetworkListen];
        let all = "reads /; writes /home/u; connects to all ports; listens on all ports";
        assert_eq!(rights(needs, &granted), all);
        assert_eq!(rights(json!({ "published": origin() }), &[]), "connects to all ports");
    }

    #[test]
    fn a_package_writes_in_its_private_folder_only_and_reads_no_file_that_an_argument_names() {
        let own = Path::new("/state/scripts/made.files");
        let named = json!({
            "published": origin(), "args": ["-y", "@x/y@1.0.0", ".ssh/id"],
            "files": [{ "path": "/home/u/.ssh/id", "sha256": "0" }],
        });
        let package = program(&named);
        let rights = rights(&package, &[], None, Some(own), ClosedPaths::default()).unwrap();
        assert_eq!(rights.private.as_deref(), Some(own));
        assert_eq!(rights.write, Vec::<PathBuf>::new());
        assert_eq!(rights.read, [PathBuf::from("/usr/bin/npx"), "/usr/bin/npx".into()]);
    }
}
