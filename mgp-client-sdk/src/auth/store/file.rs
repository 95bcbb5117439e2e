//! Tokens in a file that only its owner can read.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::{FileLock, PrivateFile, PrivateFileError};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::{
    Entries, RENEWAL_LOCK_TIMEOUT, RenewalLock, TokenEntry, TokenStore, TokenStoreError, lock_index,
};

/// The maximum size of the file. If the entries do not fit, those that were saved longest ago are dropped first.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The maximum size of an entry; a larger entry is not saved. The limit keeps an issuer from displacing the entries of
/// others with long tokens.
const MAX_ENTRY_BYTES: usize = 64 * 1024;
/// The maximum time to wait for another process that is changing the file.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay between two attempts to acquire the renewal lock.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The version of the format of token files.
const VERSION: u32 = 1;

/// A token store in a file.
///
/// On Unix the file is created with mode 0600, and refused if others can read it. It is always replaced as a whole, so
/// that a crash leaves either the old or the new file. Processes that share the file use lock files in the same folder:
/// a lock file `….lock` for changes, and up to sixteen lock files (`….turn-0.lock` and so on) for renewals.
#[derive(Clone, Debug)]
pub struct FileTokens {
    file: PrivateFile,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    entries: Entries,
}

impl FileTokens {
    /// Creates a store at a path. The file is created with the first entry; its folder is created when it is needed (on
    /// Unix with mode 0700).
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path, MAX_FILE_BYTES) }
    }

    /// Returns all entries in the order they were saved; an empty list if the file does not exist.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the file cannot be read or trusted.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn entries(&self) -> Result<Vec<TokenEntry>, TokenStoreError> {
        self.run(|file| Ok(read(file)?.0)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&PrivateFile) -> Result<T, TokenStoreError> + Send + 'static,
    ) -> Result<T, TokenStoreError> {
        let file = self.file.clone();
        let done = spawn_blocking(move || run(&file)).await;
        done.unwrap_or_else(|_| Err(TokenStoreError::Other("the process is ending".to_owned())))
    }
}

#[async_trait]
impl TokenStore for FileTokens {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        let (server, issuer) = (server.to_owned(), issuer.to_owned());
        self.run(move |file| Ok(read(file)?.load(&server, &issuer))).await
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        let server = server.to_owned();
        self.run(move |file| Ok(read(file)?.latest(&server))).await
    }

    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
        if encode(&entry)?.len() > MAX_ENTRY_BYTES {
            return Err(TokenStoreError::Other("the tokens are too long to be stored".to_owned()));
        }
        self.run(move |file| {
            create_folder(file.path())?;
            let turn = file.lock(WRITE_LOCK_TIMEOUT)?;
            let mut entries = read(file)?;
            entries.save(entry);
            write(file, &turn, entries)
        })
        .await
    }

    async fn lock_renewal(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<RenewalLock, TokenStoreError> {
        let name = format!(".turn-{:x}", lock_index(server, issuer));
        let until = Instant::now() + RENEWAL_LOCK_TIMEOUT;
        loop {
            let name = name.clone();
            let turn = self.run(move |file| {
                create_folder(file.path())?;
                Ok(file.try_lock(&name)?)
            });
            if let Some(turn) = turn.await? {
                return Ok(RenewalLock::new(turn));
            }
            if Instant::now() >= until {
                return Err(TokenStoreError::Busy { timeout: RENEWAL_LOCK_TIMEOUT });
            }
            sleep(LOCK_RETRY_DELAY).await;
        }
    }
}

/// Creates the folder of a file, for its owner only, if it does not exist.
fn create_folder(file: &Path) -> Result<(), TokenStoreError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|source| {
        PrivateFileError::Io { path: folder.to_owned(), verb: "created", source }.into()
    })
}

/// Reads the entries of a file; returns no entries if the file does not exist.
fn read(file: &PrivateFile) -> Result<Entries, TokenStoreError> {
    let damaged =
        |why: &str| TokenStoreError::Damaged { path: file.path().to_owned(), why: why.to_owned() };
    let Some(text) = file.read()? else { return Ok(Entries::default()) };
    // The error of serde is dropped, because it quotes the text, which is secret.
    let content: Content =
        serde_json::from_slice(&text).map_err(|_| damaged("it has another format"))?;
    if content.version != VERSION {
        return Err(damaged("another version wrote it"));
    }
    Ok(content.entries)
}

fn write(file: &PrivateFile, turn: &FileLock, entries: Entries) -> Result<(), TokenStoreError> {
    let mut content = Content { version: VERSION, entries };
    loop {
        let text = encode(&content)?;
        if text.len() as u64 <= MAX_FILE_BYTES || content.entries.0.is_empty() {
            return Ok(file.replace(turn, &text)?);
        }
        content.entries.0.remove(0);
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, TokenStoreError> {
    // The error of serde is dropped, because it might quote the text, which is secret.
    serde_json::to_vec(value)
        .map_err(|_| TokenStoreError::Other("encoding the tokens failed".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mgp_testkit::temp_dir;

    use super::*;
    use crate::auth::store::{TokenKind, Tokens};

    fn file_in(folder: &impl AsRef<std::path::Path>) -> PathBuf {
        folder.as_ref().join("tokens.json")
    }

    fn entry(issuer: &str) -> TokenEntry {
        let mut entry = TokenEntry::new("https://s.example/mcp", issuer);
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
    async fn a_saved_entry_is_there_for_the_next_process() {
        let folder = temp_dir();
        let tokens = FileTokens::at(file_in(&folder));
        assert_eq!(tokens.latest("https://s.example/mcp").await.unwrap(), None);
        tokens.save(entry("a")).await.unwrap();
        tokens.save(entry("b")).await.unwrap();
        let again = FileTokens::at(file_in(&folder));
        assert_eq!(again.load("https://s.example/mcp", "a").await.unwrap(), Some(entry("a")));
        assert_eq!(again.latest("https://s.example/mcp").await.unwrap(), Some(entry("b")));
        assert_eq!(again.load("https://other.example/mcp", "a").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_full_file_drops_its_oldest_entries_and_can_still_be_read() {
        let folder = temp_dir();
        let tokens = FileTokens::at(file_in(&folder));
        let long = |length, issuer: &str| TokenEntry {
            metadata: Some("m".repeat(length)),
            ..entry(issuer)
        };
        for number in 0..20 {
            tokens.save(long(60 * 1024, &number.to_string())).await.unwrap();
        }
        let entries = tokens.entries().await.unwrap();
        assert!(entries.len() < 20 && entries.last().unwrap().issuer == "19");
        assert!(tokens.save(long(MAX_ENTRY_BYTES, "evil")).await.is_err());
        assert_eq!(tokens.entries().await.unwrap(), entries);
    }

    #[tokio::test]
    async fn concurrent_writers_lose_nothing() {
        let folder = temp_dir();
        let writers = (0..20).map(|n| {
            let tokens = FileTokens::at(file_in(&folder));
            tokio::spawn(async move { tokens.save(entry(&n.to_string())).await })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap().unwrap();
        }
        assert_eq!(read(&PrivateFile::new(file_in(&folder), MAX_FILE_BYTES)).unwrap().0.len(), 20);
    }

    #[tokio::test]
    async fn a_renewal_is_locked_before_the_first_entry_is_saved() {
        let parent = temp_dir();
        let tokens = FileTokens::at(file_in(&parent.path().join("logins")));
        drop(tokens.lock_renewal("https://s.example/mcp", "a").await.unwrap());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_may_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let parent = temp_dir();
        let folder = parent.path().join("logins");
        let tokens = FileTokens::at(file_in(&folder));
        tokens.save(entry("a")).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file_in(&folder))), (0o700, 0o600));
        fs::set_permissions(file_in(&folder), fs::Permissions::from_mode(0o640)).unwrap();
        let exposed =
            |error| matches!(error, TokenStoreError::File(PrivateFileError::Exposed { .. }));
        assert!(exposed(tokens.latest("https://s.example/mcp").await.unwrap_err()));
        assert!(exposed(tokens.save(entry("a")).await.unwrap_err()));
    }

    #[tokio::test]
    async fn a_damaged_file_is_refused_without_quoting_it() {
        let folder = temp_dir();
        let tokens = FileTokens::at(file_in(&folder));
        for text in
            [r#"{"version":1,"entries":["s3cret"]}"#, r#"{"version":9,"entries":[]}"#, "s3cret"]
        {
            let file = PrivateFile::new(file_in(&folder), MAX_FILE_BYTES);
            file.replace(&file.lock(WRITE_LOCK_TIMEOUT).unwrap(), text.as_bytes()).unwrap();
            let error = tokens.save(entry("a")).await.unwrap_err();
            assert!(matches!(error, TokenStoreError::Damaged { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        let long = fs::OpenOptions::new().write(true).open(file_in(&folder)).unwrap();
        long.set_len(MAX_FILE_BYTES + 1).unwrap();
        let refused = tokens.latest("https://s.example/mcp").await.unwrap_err();
        assert!(
            matches!(refused, TokenStoreError::File(PrivateFileError::TooLong { .. })),
            "{refused}"
        );
    }
}
