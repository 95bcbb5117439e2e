//! The rights of the process of a sandboxed script (MGP §15.4).

use std::path::{Path, PathBuf};

use mgp_types::mgp::Permission;

use super::program::is_single_script;
use super::record::{Proposal, is_sandboxed};
use crate::expand::{ProcessRights, real};

/// Returns the rights of a program: the program may read files and connect if it declares these permissions, but write
/// and listen only if they are granted. Returns `None` if the program is not a sandboxed script.
///
/// Blocks.
pub(super) fn rights(
    program: &Proposal,
    granted: &[Permission],
    script: Option<&Path>,
    own: Option<&Path>,
    state: Option<&Path>,
) -> Option<ProcessRights> {
    if !is_sandboxed(&program.trust) || !is_single_script(program) {
        return None;
    }
    let declares = |permission| program.mgp.permissions_required.contains(&permission);
    let cwd = Path::new(&program.cwd);
    let named = [&program.command, &program.real].map(PathBuf::from);
    let files = program.files.iter().map(|file| file.path.clone());
    let mut read: Vec<PathBuf> = named.into_iter().chain(files).collect();
    read.extend(script.map(Path::to_owned));
    if declares(Permission::FilesystemRead) {
        read.push(PathBuf::from("/"));
    }
    let mut write: Vec<PathBuf> = own.map(Path::to_owned).into_iter().collect();
    if granted.contains(&Permission::FilesystemWrite) {
        write.push(cwd.to_owned());
    }
    Some(ProcessRights {
        read,
        write,
        connects: declares(Permission::NetworkOutbound).into(),
        listens: granted.contains(&Permission::NetworkListen).into(),
        local_sockets: false,
        private: None,
        hidden: state.map(real),
        is_configured: false,
    })
}
