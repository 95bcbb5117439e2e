//! TLS for a listener; the files with the certificate and the key can be replaced while the server runs.

#[cfg(feature = "tls")]
pub use self::files::{ServerTls, ServerTlsError};

/// The TLS settings in builds without the feature `tls`: a type without values.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(super) enum ServerTls {}

#[cfg(not(feature = "tls"))]
impl ServerTls {
    pub(super) fn accept(
        &self,
        _socket: tokio::net::TcpStream,
    ) -> std::future::Ready<std::io::Result<tokio::net::TcpStream>> {
        match *self {}
    }

    #[cfg(feature = "http2")]
    pub(super) fn has_http2(_: &tokio::net::TcpStream) -> bool {
        false
    }
}

#[cfg(feature = "tls")]
mod files {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};
    use std::{fmt, fs, io};

    use mgp_types::Timestamp;
    use mgp_types::sync::Mutex;
    use rustls::client::verify_server_cert_signed_by_trust_anchor;
    use rustls::pki_types::pem::{self, PemObject as _};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
    use rustls::server::ParsedCertificate;
    use rustls::{CertificateError, RootCertStore, ServerConfig};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::server::TlsStream;

    /// The time before the expiry of a certificate during which operators are warned.
    const EXPIRY_NOTICE: Duration = Duration::from_hours(14 * 24);

    /// The certificate chain and private key of a server, read from two PEM files.
    ///
    /// When a file changes, new connections use its new content. If the new content cannot be used, that is logged, and
    /// the previous certificate stays in use.
    #[derive(Clone)]
    pub struct ServerTls(Arc<TlsFiles>);

    struct TlsFiles {
        certificate: PathBuf,
        key: PathBuf,
        current: Mutex<LoadedTls>,
    }

    struct LoadedTls {
        acceptor: TlsAcceptor,
        /// The versions of the files when they were last read.
        versions: FileVersions,
    }

    /// The modification time and the length of the files with the certificate and the key.
    type FileVersions = [Option<(SystemTime, u64)>; 2];

    /// The reason why a certificate or key cannot be used.
    #[derive(Debug, thiserror::Error)]
    #[non_exhaustive]
    pub enum ServerTlsError {
        /// A file cannot be read, or has no certificate or key in PEM.
        #[error("`{}` cannot be used: {why}", path.display())]
        File {
            /// The path of the file that cannot be used.
            path: PathBuf,
            /// The reason why the file cannot be used.
            why: String,
        },
        /// The certificate and the key do not belong together, or are not supported.
        #[error("the certificate and its key cannot be used: {}", pair_fault(.0))]
        Pair(#[from] rustls::Error),
    }

    fn pair_fault(error: &rustls::Error) -> String {
        match error {
            rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
                "the key belongs to another certificate".to_owned()
            }
            error => error.to_string(),
        }
    }

    impl ServerTls {
        /// Reads a certificate chain and its private key, both in PEM.
        ///
        /// # Errors
        /// Returns [`ServerTlsError`] if one of the files cannot be used, or if they do not belong together.
        pub fn from_files(
            certificate: impl Into<PathBuf>,
            key: impl Into<PathBuf>,
        ) -> Result<Self, ServerTlsError> {
            let (certificate, key) = (certificate.into(), key.into());
            let versions = [version(&certificate), version(&key)];
            let acceptor = load(&certificate, &key)?;
            let current = Mutex::new(LoadedTls { acceptor, versions });
            Ok(Self(Arc::new(TlsFiles { certificate, key, current })))
        }

        /// Returns the warnings about the files for an operator, each with its remedy after a semicolon: if the
        /// certificate is not valid at the time `now`, or expires within 14 days, and if other users have access to the
        /// file of the key.
        #[must_use]
        pub fn warnings(&self, now: SystemTime) -> Vec<String> {
            let TlsFiles { certificate, key, .. } = &*self.0;
            validity_warning(certificate, now).into_iter().chain(key_warning(key)).collect()
        }

        pub(in crate::http::server) async fn accept(
            &self,
            socket: TcpStream,
        ) -> io::Result<TlsStream<TcpStream>> {
            self.0.acceptor().accept(socket).await
        }

        /// Returns whether the TLS handshake selected HTTP/2.
        #[cfg(feature = "http2")]
        pub(in crate::http::server) fn has_http2(socket: &TlsStream<TcpStream>) -> bool {
            socket.get_ref().1.alpn_protocol() == Some(b"h2")
        }
    }

    impl fmt::Debug for ServerTls {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("ServerTls").field("certificate", &self.0.certificate).finish()
        }
    }

    impl TlsFiles {
        /// Returns the TLS acceptor for a new connection; reads the files again if one of them has changed.
        fn acceptor(&self) -> TlsAcceptor {
            let versions = [version(&self.certificate), version(&self.key)];
            let mut current = self.current.lock();
            if versions != current.versions {
                current.versions = versions;
                match load(&self.certificate, &self.key) {
                    Ok(acceptor) => {
                        tracing::info!(file = %self.certificate.display(), "loaded TLS certificate");
                        current.acceptor = acceptor;
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "failed to load the TLS certificate; the previous one stays in use"
                    ),
                }
            }
            current.acceptor.clone()
        }
    }

    /// Returns a warning if the first certificate in a file is not valid at the time `now`, or expires soon.
    fn validity_warning(path: &Path, now: SystemTime) -> Option<String> {
        let certificate = CertificateDer::from_pem_file(path).ok()?;
        let certificate = ParsedCertificate::try_from(&certificate).ok()?;
        let what = match validity_fault(&certificate, now) {
            Some(CertificateError::ExpiredContext { not_after, .. }) => {
                format!("expired on {}", date(not_after))
            }
            Some(CertificateError::NotValidYetContext { not_before, .. }) => {
                format!("is not valid before {}", date(not_before))
            }
            _ => match validity_fault(&certificate, now + EXPIRY_NOTICE)? {
                CertificateError::ExpiredContext { not_after, .. } => {
                    format!("expires on {}", date(not_after))
                }
                _ => return None,
            },
        };
        Some(format!("the TLS certificate `{}` {what}; renew it", path.display()))
    }

    /// Returns the first fault that a certificate has at the time `at`; the validity is checked before anything else.
    fn validity_fault(
        certificate: &ParsedCertificate<'_>,
        at: SystemTime,
    ) -> Option<CertificateError> {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        // There are no trusted roots here, so a valid certificate has the fault that its issuer is unknown. The callers
        // ignore that fault.
        let checked = verify_server_cert_signed_by_trust_anchor(
            certificate,
            &RootCertStore::empty(),
            &[],
            UnixTime::since_unix_epoch(at),
            &[],
        );
        match checked {
            Err(rustls::Error::InvalidCertificate(fault)) => Some(fault),
            _ => None,
        }
    }

    fn date(time: UnixTime) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs());
        Timestamp::from(time).as_str().chars().take_while(|c| *c != 'T').collect()
    }

    /// Returns a warning if other users have access to the file of a key.
    #[cfg(unix)]
    fn key_warning(path: &Path) -> Option<String> {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(path).ok()?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        let remedy = key_remedy(found.mode(), is_own)?;
        Some(format!(
            "other users have access to the TLS key `{}` (mode {:03o}); run `{remedy}` on it",
            path.display(),
            found.mode() & 0o777
        ))
    }

    /// Returns the command that closes the file of a key to other users; `None` if it is closed to them.
    #[cfg(unix)]
    fn key_remedy(mode: u32, is_own: bool) -> Option<&'static str> {
        // Allow the group of another user's file, because this process reads such a file by its group, e.g. a secret in
        // Kubernetes.
        let (open, command) = if is_own { (0o077, "chmod 600") } else { (0o007, "chmod o=") };
        (mode & open != 0).then_some(command)
    }

    #[cfg(not(unix))]
    fn key_warning(_: &Path) -> Option<String> {
        None
    }

    /// Returns the modification time and the length of a file; `None` if they cannot be read.
    fn version(path: &Path) -> Option<(SystemTime, u64)> {
        let file = fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len()))
    }

    fn load(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ServerTlsError> {
        let wrong = |path: &Path, why: String| ServerTlsError::File { path: path.to_owned(), why };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            let why = "it has no certificate in PEM (`-----BEGIN CERTIFICATE-----`)";
            return Err(wrong(certificate, why.to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            let why = match error {
                pem::Error::NoItemsFound => {
                    "it has no private key in PEM (`-----BEGIN PRIVATE KEY-----`) without a \
                     passphrase; `openssl pkey` removes the passphrase of a key"
                        .to_owned()
                }
                error => error.to_string(),
            };
            wrong(key, why)
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        #[cfg(feature = "http2")]
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_key_of_another_certificate_is_named_as_the_fault() {
            let mismatch = rustls::InconsistentKeys::KeyMismatch;
            let error = ServerTlsError::from(rustls::Error::from(mismatch)).to_string();
            assert!(error.ends_with(": the key belongs to another certificate"), "{error}");
        }

        #[test]
        #[cfg(unix)]
        fn the_group_may_read_the_key_of_another_user_only() {
            for (mode, is_own, expected) in [
                (0o600, true, None),
                (0o440, true, Some("chmod 600")),
                (0o440, false, None),
                (0o644, false, Some("chmod o=")),
            ] {
                assert_eq!(key_remedy(mode, is_own), expected, "{mode:o} {is_own}");
            }
        }

        #[test]
        fn a_key_with_a_passphrase_is_refused_with_the_remedy() {
            let folder = mgp_testkit::temp_dir();
            let file = |name: &str, label: &str| {
                let path = folder.path().join(name);
                let pem = format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
                fs::write(&path, pem).unwrap();
                path
            };
            let certificate = file("cert.pem", "CERTIFICATE");
            let key = file("key.pem", "ENCRYPTED PRIVATE KEY");
            let error = ServerTls::from_files(certificate, key).unwrap_err().to_string();
            assert!(error.contains("key.pem` cannot be used"), "{error}");
            assert!(error.contains("without a passphrase; `openssl pkey`"), "{error}");
        }
    }
}
