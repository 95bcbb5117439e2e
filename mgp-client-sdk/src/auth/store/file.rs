//! Tokens in a file that only its owner may read.
//!
//! Applies to: outbound.

use std::path::PathBuf;
use std::time::Duration;

use mgp_types::{PrivateFile, Turn};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::turn::{self, slot};
use super::{Entries, StoreError, Stored, TokenStore, TokenTurn};

/// How long a file may be.
const LONGEST: u64 = 1024 * 1024;
/// How long another process may hold the file that this one wants to change.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long is waited between two looks at whether another process still renews tokens.
const PAUSE: Duration = Duration::from_millis(50);
/// What the file says it is.
const VERSION: u32 = 1;

/// Keeps tokens in a file.
///
/// On Unix the file is made with mode 0600, and one that others can read is refused.
/// It is replaced as a whole, so a crash leaves the old one or the new one; processes that share it take turns, by a lock on
/// a file beside it (`….lock`), and renew tokens in turn as well (`….turn-0.lock` and the like, sixteen at most).
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
    /// A store at a path; the file is made when there is something to keep, its folder is not.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path, LONGEST) }
    }

    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&PrivateFile) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = self.file.clone();
        let done = spawn_blocking(move || run(&file)).await;
        done.unwrap_or_else(|_| Err(StoreError::Other("the process is ending".to_owned())))
    }
}

impl TokenStore for FileTokens {
    async fn load(&self, server: &str, issuer: &str) -> Result<Option<Stored>, StoreError> {
        let (server, issuer) = (server.to_owned(), issuer.to_owned());
        self.run(move |file| Ok(read(file)?.load(&server, &issuer))).await
    }

    async fn latest(&self, server: &str) -> Result<Option<Stored>, StoreError> {
        let server = server.to_owned();
        self.run(move |file| Ok(read(file)?.latest(&server))).await
    }

    async fn save(&self, entry: Stored) -> Result<(), StoreError> {
        self.run(move |file| {
            let turn = file.turn(PATIENCE)?;
            let mut entries = read(file)?;
            entries.save(entry);
            write(file, &turn, entries)
        })
        .await
    }

    async fn turn(&self, server: &str, issuer: &str) -> Result<TokenTurn, StoreError> {
        let name = format!(".turn-{:x}", slot(server, issuer));
        let until = Instant::now() + turn::PATIENCE;
        loop {
            let name = name.clone();
            if let Some(turn) = self.run(move |file| Ok(file.try_turn(&name)?)).await? {
                return Ok(TokenTurn::holding(turn));
            }
            if Instant::now() >= until {
                return Err(StoreError::Busy { patience: turn::PATIENCE });
            }
            sleep(PAUSE).await;
        }
    }
}

/// The entries of a file; none where there is no file.
fn read(file: &PrivateFile) -> Result<Entries, StoreError> {
    let damaged =
        |why: &str| StoreError::Damaged { path: file.path().to_owned(), why: why.to_owned() };
    let Some(text) = file.read()? else { return Ok(Entries::default()) };
    // What serde says quotes the text, and the text is secret.
    let content: Content =
        serde_json::from_slice(&text).map_err(|_| damaged("it is not what this program writes"))?;
    if content.version != VERSION {
        return Err(damaged("another version wrote it"));
    }
    Ok(content.entries)
}

fn write(file: &PrivateFile, turn: &Turn, entries: Entries) -> Result<(), StoreError> {
    let text = serde_json::to_vec(&Content { version: VERSION, entries });
    // What serde says might quote what it wrote.
    let text = text.map_err(|_| StoreError::Other("they cannot be written as JSON".to_owned()))?;
    Ok(file.replace(turn, &text)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    use mgp_types::PrivateFileError;

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
        assert_eq!(read(&PrivateFile::new(folder.file(), LONGEST)).unwrap().0.len(), 20);
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
        let exposed = |error| matches!(error, StoreError::File(PrivateFileError::Exposed { .. }));
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
            let file = PrivateFile::new(folder.file(), LONGEST);
            file.replace(&file.turn(PATIENCE).unwrap(), text.as_bytes()).unwrap();
            let error = tokens.save(entry("a")).await.unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        let long = fs::OpenOptions::new().write(true).open(folder.file()).unwrap();
        long.set_len(LONGEST + 1).unwrap();
        let refused = tokens.latest("https://s.example/mcp").await.unwrap_err();
        assert!(matches!(refused, StoreError::File(PrivateFileError::TooLong { .. })), "{refused}");
    }
}
