//! Asks running kernels for their consent before a command changes a configuration file or a host's file.
//!
//! A command line can name any state folder, so kernels of other state folders that use the file are also asked.

use std::path::{Path, PathBuf};

use mgp_discovery::Sources;

use super::admit_offline;
use super::gate::real_path;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::print_note;
use crate::state_option::shell_path_or;
use crate::{control, lock, state};

/// Checks that a command is allowed to edit a configuration, or a host's file together with it. The command calls this
/// before it writes the first byte.
///
/// The kernel of the state folder decides; if none runs, the operator must give the configured proof. Then each other
/// kernel that uses the file must consent. Prints a note if the kernel of the state folder does not read the file.
pub(crate) async fn admit_edit(global: &Global, config: &ConfigArg) -> CliResult {
    let file = config.file_to_edit()?;
    admit_edit_of(global, &file).await?;
    if let Some(read) = file_of_kernel(global, &file) {
        let (file, word) = (file.display(), shell_path_or("FILE", &read));
        let unread = format!("the running kernel does not read `{file}`");
        print_note(global, &format!("mgp: {unread}; use `--config {word}`"));
    }
    Ok(())
}

/// Returns the file that commands edit to change the configuration of the running kernel; `None` if the kernel reads
/// `file`, or if no kernel runs.
pub(crate) fn file_of_kernel(global: &Global, file: &Path) -> Option<PathBuf> {
    let folder = state::folder(global).ok().filter(|folder| lock::is_held(folder))?;
    let mut files = lock::followed_files(&folder)?;
    let file = real_path(file);
    // The last file is the user's own, or the only one.
    if files.iter().any(|read| real_path(read) == file) { None } else { files.pop() }
}

/// Checks that a command is allowed to edit a file; fails if a kernel that uses the file refuses the change or does not
/// answer.
pub(crate) async fn admit_edit_of(global: &Global, file: &Path) -> CliResult {
    match control::connect_to_change(global).await {
        Ok(client) => {
            client.close().await;
        }
        Err(failure) if failure.is_no_kernel() => {
            let edited = file.exists().then(|| Sources::single(file));
            admit_offline(global, std::iter::once(Sources::from_env()).chain(edited)).await?;
        }
        Err(failure) if failure.is_no_answer() => {
            return Err(Failure::failed(format!(
                "nothing was changed, because the kernel of the state folder must consent: {failure}"
            )));
        }
        Err(failure) => return Err(failure),
    }
    others::admit(global, file).await?;
    Ok(())
}

/// The kernels of other state folders.
mod others {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use mgp_types::escape_hidden;

    use crate::args::Global;
    use crate::exit::{CliResult, Failure};
    use crate::operator::PassphraseFile;
    use crate::operator::gate::real_path;
    use crate::socket_hello::{Hello, HelloReply};
    use crate::{control, lock, prompt, socket, state};

    /// The maximum size, in bytes, of the table of sockets that a command reads.
    const MAX_TABLE_BYTES: u64 = 64 << 20;

    /// The maximum number of running kernels that a command asks for their consent.
    const MAX_KERNELS: usize = 256;

    /// The flag of a listening socket in `/proc/net/unix`.
    const LISTENS: u64 = 0x10000;

    /// Asks the user's other kernels to permit the change. A kernel that does not use this file cannot refuse the
    /// change.
    pub(super) async fn admit(global: &Global, file: &Path) -> CliResult {
        let own = real_path(&socket::path_in(&state::folder(global)?));
        let file = real_path(file);
        for path in sockets().into_iter().filter(|path| real_path(path) != own) {
            match control::greet(&path, Hello::change_of(&file), || passphrase(&path)).await {
                Ok(Some(greeting)) if HelloReply::is_unrelated(&greeting.line) => {}
                Ok(Some(greeting)) => match HelloReply::read(&greeting.line, &path) {
                    // Skip a program without a lock file in the folder of its socket: a kernel of any version has such
                    // a file, so this program is not a kernel.
                    Err(_) if path.parent().and_then(lock::kernel_process).is_none() => {}
                    read => drop(read?),
                },
                // Skip a socket whose program belongs to another user.
                Ok(None) => {}
                // Skip a kernel that has ended.
                Err(failure) if failure.is_no_kernel() => {}
                Err(failure) if failure.is_no_answer() => without_answer(&path, &file, &failure)?,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Returns whether a socket belongs to another user, or is missing or hidden in a folder of another user.
    #[cfg(unix)]
    fn is_of_another_user(socket: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let owner = |path: &Path| Some(std::fs::symlink_metadata(path).ok()?.uid());
        is_of_other_than(rustix::process::geteuid().as_raw(), socket, owner)
    }

    #[cfg(not(unix))]
    fn is_of_another_user(_: &Path) -> bool {
        false
    }

    /// Returns whether a path belongs to another user than `user`. If its owner cannot be read, the owner of the nearest
    /// folder counts: a folder that another user has closed is skipped, but a kernel in a folder that `user` has closed
    /// must consent.
    #[cfg(unix)]
    fn is_of_other_than(user: u32, path: &Path, owner: impl Fn(&Path) -> Option<u32>) -> bool {
        path.ancestors().find_map(owner).is_some_and(|owner| owner != user)
    }

    /// Refuses the change if a kernel that does not answer uses the file, or has not recorded which files it uses.
    fn without_answer(socket: &Path, file: &Path, failure: &Failure) -> CliResult {
        let followed = socket.parent().and_then(lock::followed_files);
        let uses = match followed {
            Some(files) if files.iter().all(|own| real_path(own) != file) => return Ok(()),
            Some(_) => "uses",
            None => "may use",
        };
        Err(Failure::failed(format!(
            "nothing was changed, because a kernel that {uses} `{}` must consent: {failure}",
            file.display()
        )))
    }

    /// Returns the passphrase for the kernel at a socket. Any program can listen at such a socket, so the passphrase is
    /// sent only if the folder of the socket contains its hash.
    fn passphrase(socket: &Path) -> CliResult<String> {
        let shown = socket.display();
        let file = PassphraseFile::in_folder(socket.parent().unwrap_or(socket));
        if !file.is_set()? {
            return Err(Failure::failed(format!(
                "the program at `{shown}` asks for the passphrase, but none is set there; end it"
            )));
        }
        let question = format!("Passphrase of the operator, for the kernel at {shown}: ");
        let passphrase = prompt::operator_passphrase_for(&escape_hidden(&question))?;
        match file.verify(&passphrase)? {
            Some(true) => Ok(passphrase),
            _ => Err(Failure::failed(format!(
                "wrong passphrase for the kernel at `{shown}`, which uses this file, too; end that kernel and try again"
            ))),
        }
    }

    /// Returns the sockets of up to [`MAX_KERNELS`] kernels of this user, and the sockets of the state folders that
    /// commands use without the option `--state`.
    fn sockets() -> BTreeSet<PathBuf> {
        use std::io::Read as _;

        let mut table = Vec::new();
        if let Ok(file) = std::fs::File::open("/proc/net/unix") {
            // Ignore an error: if the table cannot be read, e.g. on macOS, only the sockets of the usual state folders
            // are known.
            let _ = file.take(MAX_TABLE_BYTES).read_to_end(&mut table);
        }
        // Accept any bytes, because every user can add a socket whose name is not UTF-8.
        let table = String::from_utf8_lossy(&table);
        let is_own = |path: &PathBuf| !is_of_another_user(path);
        // Leave out the sockets of other users first, so that they cannot fill the places of this user's kernels.
        let listening = table.lines().filter_map(listening_kernel).filter(is_own).take(MAX_KERNELS);
        let usual = [state::folder_from_environment(), state::folder_in_home()];
        let usual = usual.into_iter().flatten().map(|folder| socket::path_in(&folder));
        listening.chain(usual.filter(is_own)).collect()
    }

    /// Returns the path in a line of the socket table, if a kernel listens at this path.
    fn listening_kernel(line: &str) -> Option<PathBuf> {
        let flags = u64::from_str_radix(line.split_whitespace().nth(3)?, 16).ok()?;
        let path = Path::new(&line[line.find(" /")? + 1..]);
        (flags & LISTENS != 0 && path.ends_with("mgp.sock")).then(|| path.to_owned())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_kernel_that_does_not_answer_prevents_edits_of_its_own_files_only() {
            let folder = mgp_testkit::temp_dir();
            let [own, other] =
                ["own.toml", "other.toml"].map(|name| real_path(&folder.path().join(name)));
            let socket = folder.path().join("mgp.sock");
            let failure = || Failure::no_answer("no answer");
            let refusal =
                |file: &Path| without_answer(&socket, file, &failure()).unwrap_err().to_string();
            let unknown = refusal(&other);
            assert!(unknown.contains("a kernel that may use `"), "{unknown}");
            lock::record_files(folder.path(), [own.as_path()].into_iter());
            assert!(refusal(&other).contains("may use"), "the record of an earlier kernel");
            let pid = std::process::id().to_string();
            std::fs::write(folder.path().join("kernel.lock"), pid).unwrap();
            without_answer(&socket, &other, &failure()).unwrap();
            assert!(refusal(&own).contains("a kernel that uses `"), "{}", refusal(&own));
        }

        #[test]
        #[cfg(unix)]
        fn a_folder_that_another_user_has_closed_does_not_prevent_edits() {
            let owner = |path: &Path| match path.to_str().unwrap() {
                "/home" | "/root" => Some(0),
                "/home/ada/state" | "/srv/state/mgp.sock" => Some(1000),
                "/home/bob" | "/srv/state" | "/tmp/mgp.sock" => Some(1001),
                _ => None,
            };
            let check = |path: &str, expected: bool| {
                assert_eq!(is_of_other_than(1000, Path::new(path), owner), expected, "{path}");
            };
            check("/home/bob/.local/state/mgp/mgp.sock", true);
            check("/root/.local/state/mgp/mgp.sock", true);
            check("/tmp/mgp.sock", true);
            check("/srv/state/mgp.sock", false);
            // A command cannot avoid the question by closing the user's own folder.
            check("/home/ada/state/mgp.sock", false);
        }

        #[test]
        fn kernels_are_found_by_their_listening_sockets() {
            let check = |line: &str, path: Option<&str>| {
                assert_eq!(listening_kernel(line), path.map(PathBuf::from), "{line}");
            };
            let begin = "0000000000000000: 00000002 00000000";
            check("Num       RefCount Protocol Flags    Type St Inode Path", None);
            check(&format!("{begin} 00010000 0001 01 1 /a b/mgp.sock"), Some("/a b/mgp.sock"));
            check(&format!("{begin} 00000000 0001 03 2 /a/mgp.sock"), None);
            check(&format!("{begin} 00010000 0001 01 3 /a/other.sock"), None);
            check(&format!("{begin} 00010000 0001 01 4"), None);
        }
    }
}
