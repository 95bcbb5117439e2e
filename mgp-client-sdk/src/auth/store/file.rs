//! Tokens in a file that only its owner may read.
//!
//! Applies to: outbound.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{Entries, StoreError, Stored, TokenStore};

/// How long a file may be.
const LONGEST: u64 = 1024 * 1024;
/// How often a file that another process holds is tried, and how long is waited in between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);
/// What the file says it is.
const VERSION: u32 = 1;

/// Keeps tokens in a file.
///
/// On Unix the file is made with mode 0600, and one that others can read is refused.
/// It is replaced as a whole, so a crash leaves the old one or the new one; processes that share it take turns, by a lock on
/// a file beside it (`….lock`).
#[derive(Clone, Debug)]
pub struct FileTokens {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    entries: Entries,
}

impl FileTokens {
    /// A store at a path; the file is made when there is something to keep, its folder is not.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let done = spawn_blocking(move || run(&path)).await;
        done.unwrap_or_else(|_| Err(StoreError::Other("the process is ending".to_owned())))
    }
}

impl TokenStore for FileTokens {
    async fn load(&self, server: &str, issuer: &str) -> Result<Option<Stored>, StoreError> {
        let (server, issuer) = (server.to_owned(), issuer.to_owned());
        self.run(move |path| Ok(read(path)?.load(&server, &issuer))).await
    }

    async fn latest(&self, server: &str) -> Result<Option<Stored>, StoreError> {
        let server = server.to_owned();
        self.run(move |path| Ok(read(path)?.latest(&server))).await
    }

    async fn save(&self, entry: Stored) -> Result<(), StoreError> {
        self.run(move |path| {
            let _turn = turn(path)?;
            let mut entries = read(path)?;
            entries.save(entry);
            write(path, entries)
        })
        .await
    }
}

/// The entries of a file; none where there is no file.
fn read(path: &Path) -> Result<Entries, StoreError> {
    let failed = failed(path, "read");
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
        Err(error) => return Err(failed(error)),
    };
    // Of the open file, so that nobody can exchange it in between.
    if is_exposed(&file.metadata().map_err(&failed)?) {
        return Err(StoreError::Exposed { path: path.to_owned() });
    }
    let damaged = |why: &str| StoreError::Damaged { path: path.to_owned(), why: why.to_owned() };
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(&failed)?;
    if text.len() as u64 > LONGEST {
        return Err(damaged("it is longer than a mebibyte"));
    }
    // What serde says quotes the text, and the text is secret.
    let content: Content =
        serde_json::from_slice(&text).map_err(|_| damaged("it is not what this program writes"))?;
    if content.version != VERSION {
        return Err(damaged("another version wrote it"));
    }
    Ok(content.entries)
}

/// Puts a new file in the place of the old one.
fn write(path: &Path, entries: Entries) -> Result<(), StoreError> {
    let failed = failed(path, "written");
    let text = serde_json::to_vec(&Content { version: VERSION, entries });
    let text = text.map_err(|error| failed(error.into()))?;
    let fresh = beside(path, ".new");
    // Left behind by a crash; the turn is ours.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = private().create_new(true).open(&fresh).map_err(&failed)?;
    let done = file.write_all(&text).and_then(|()| file.sync_all());
    done.and_then(|()| fs::rename(&fresh, path)).map_err(|error| {
        let _ = fs::remove_file(&fresh);
        failed(error)
    })
}

/// Waits until no other process writes; the turn ends when the file is dropped.
fn turn(path: &Path) -> Result<File, StoreError> {
    let failed = failed(path, "locked");
    let lock = private().create(true).open(beside(path, ".lock")).map_err(&failed)?;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    Err(failed(io::Error::other("another process holds it")))
}

fn failed(path: &Path, verb: &'static str) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::File { path: path.clone(), verb, source }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// How files are opened that only their owner may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn is_exposed(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    !metadata.is_file() || metadata.mode() & 0o077 != 0
}

/// Elsewhere the folder decides who may read.
#[cfg(not(unix))]
fn is_exposed(metadata: &fs::Metadata) -> bool {
    !metadata.is_file()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::auth::store::{TokenKind, Tokens};

    /// A folder of its own for each test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name =
                format!("tokens-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("tokens.json")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn entry(issuer: &str) -> Stored {
        let mut entry = Stored::new("https://s.example/mcp", issuer);
        let key = format!("\"{}AQE\"", "AQEB".repeat(10));
        entry.key = Some(serde_json::from_str(&key).unwrap());
        entry.tokens = Some(Tokens {
            access: "access".into(),
            kind: TokenKind::Dpop,
            refresh: Some("refresh".into()),
            issued_at: 1,
            expires_at: Some(2),
            scopes: "a b".split(' ').collect(),
        });
        entry
    }

    #[tokio::test]
    async fn what_is_saved_is_there_for_the_next_process() {
        let folder = Folder::new();
        let tokens = FileTokens::at(folder.file());
        assert_eq!(tokens.latest("https://s.example/mcp").await.unwrap(), None);
        tokens.save(entry("a")).await.unwrap();
        tokens.save(entry("b")).await.unwrap();
        let again = FileTokens::at(folder.file());
        assert_eq!(again.load("https://s.example/mcp", "a").await.unwrap(), Some(entry("a")));
        assert_eq!(again.latest("https://s.example/mcp").await.unwrap(), Some(entry("b")));
        assert_eq!(again.load("https://other.example/mcp", "a").await.unwrap(), None);
    }

    #[tokio::test]
    async fn writers_at_one_time_lose_nothing() {
        let folder = Folder::new();
        let writers = (0..20).map(|n| {
            let tokens = FileTokens::at(folder.file());
            tokio::spawn(async move { tokens.save(entry(&n.to_string())).await })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap().unwrap();
        }
        assert_eq!(read(&folder.file()).unwrap().0.len(), 20);
        assert!(!beside(&folder.file(), ".new").exists());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_may_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let tokens = FileTokens::at(folder.file());
        tokens.save(entry("a")).await.unwrap();
        let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = |error| matches!(error, StoreError::Exposed { .. });
        assert!(exposed(tokens.latest("https://s.example/mcp").await.unwrap_err()));
        assert!(exposed(tokens.save(entry("a")).await.unwrap_err()));
    }

    #[tokio::test]
    async fn a_damaged_file_is_refused_without_quoting_it() {
        let folder = Folder::new();
        let tokens = FileTokens::at(folder.file());
        for text in
            [r#"{"version":1,"entries":["s3cret"]}"#, r#"{"version":9,"entries":[]}"#, "s3cret"]
        {
            private()
                .create(true)
                .truncate(true)
                .open(folder.file())
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            let error = tokens.save(entry("a")).await.unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        private().truncate(true).open(folder.file()).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(matches!(read(&folder.file()), Err(StoreError::Damaged { .. })));
    }
}
