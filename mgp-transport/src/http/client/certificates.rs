//! Root certificates for TLS, and error messages for server certificates that are refused.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Additional root certificates, in PEM format.
#[derive(Clone, Default)]
pub(in crate::http) struct Roots(Vec<Arc<[u8]>>);

impl Roots {
    /// Adds the certificates in a text; the text is parsed later, when a connection is created.
    pub(in crate::http) fn add(&mut self, pem: &[u8]) {
        self.0.push(pem.into());
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.0.len())
    }
}

#[cfg(not(feature = "tls"))]
pub(super) fn tls_error(_error: &(dyn StdError + 'static)) -> Option<String> {
    None
}

#[cfg(feature = "tls")]
pub(super) use self::tls::tls_error;

#[cfg(feature = "tls")]
mod tls {
    use std::io;

    use mgp_types::clip;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{CertificateError, InvalidMessage, RootCertStore};

    use super::super::error::HttpClientError;
    use super::{Roots, StdError};

    /// The maximum number of bytes of the text about a certificate, which can contain many names of hosts.
    const MAX_TEXT_BYTES: usize = 300;

    impl Roots {
        /// Returns the system's root certificates and the additional root certificates.
        pub(in crate::http) fn store(&self) -> Result<RootCertStore, HttpClientError> {
            let wrong = HttpClientError::RootCertificates;
            let mut store = RootCertStore::empty();
            for pem in &self.0 {
                let before = store.len();
                for root in CertificateDer::pem_slice_iter(pem) {
                    let root = root.map_err(|error| wrong(error.to_string()))?;
                    store.add(root).map_err(|error| wrong(error.to_string()))?;
                }
                if store.len() == before {
                    return Err(wrong(
                        "it holds no certificate in PEM (`-----BEGIN CERTIFICATE-----`)".to_owned(),
                    ));
                }
            }
            let system = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(system.certs);
            if store.is_empty() {
                let why =
                    system.errors.first().map_or("there are none".into(), ToString::to_string);
                return Err(HttpClientError::Roots(io::Error::other(why)));
            }
            Ok(store)
        }
    }

    /// Returns an explanation if an invalid certificate, or an answer without TLS, is the cause of the error, else
    /// `None`.
    pub(in crate::http::client) fn tls_error(error: &(dyn StdError + 'static)) -> Option<String> {
        use rustls::Error::{InvalidCertificate, InvalidMessage as Unreadable};

        let mut next = Some(error);
        while let Some(error) = next {
            match error.downcast_ref() {
                Some(InvalidCertificate(wrong)) => return Some(words(wrong)),
                Some(Unreadable(InvalidMessage::InvalidContentType)) => {
                    let why =
                        "its answer is not TLS; if it has no TLS, begin its URL with `http://`";
                    return Some(why.to_owned());
                }
                _ => {}
            }
            next = match error.downcast_ref::<io::Error>() {
                // The `source` of an `io::Error` skips the error that it wraps, so the wrapped error is visited first.
                Some(outer) => outer.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
                None => error.source(),
            };
        }
        None
    }

    fn words(wrong: &CertificateError) -> String {
        use CertificateError as E;
        let text = clip(&wrong.to_string(), MAX_TEXT_BYTES);
        match wrong {
            E::UnknownIssuer => "no authority this machine trusts signed its certificate; if the \
                 server is yours, add the certificate of its authority to those of the system, or \
                 name a file with all of them in `SSL_CERT_FILE` (a program: `root_certificates`)"
                .to_owned(),
            E::NotValidForName | E::NotValidForNameContext { .. } => format!(
                "its certificate is for another host ({text}); connect to the name it is for"
            ),
            E::Expired | E::ExpiredContext { .. } => format!(
                "its certificate has expired ({text}); its operator must renew it, unless the \
                 clock of this machine is wrong"
            ),
            E::NotValidYet | E::NotValidYetContext { .. } => {
                format!(
                    "its certificate is not valid yet ({text}); is the clock of this machine right?"
                )
            }
            // This error of `webpki` has no variant of its own, so it is recognized by its text.
            E::Other(_) if text.contains("CaUsedAsEndEntity") => "its certificate is that of an \
                 authority (`CA:TRUE`); its operator must replace it: `openssl req -x509` creates \
                 one for a server with `-addext basicConstraints=critical,CA:FALSE`"
                .to_owned(),
            _ => format!("its certificate is refused ({text}); its operator must replace it"),
        }
    }
}
