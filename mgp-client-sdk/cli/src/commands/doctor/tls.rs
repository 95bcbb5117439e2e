//! Checks the certificate and the key of `mgp serve --http`.

use std::path::Path;
use std::time::SystemTime;

use mgp_discovery::HttpAccessConfig;

use super::report::{Check, Level};
use super::server::split_remedy;
use crate::http_access;

/// Reports files that cannot be used, a certificate that is not valid or expires soon, and a key to which other users
/// have access. `folder` is the state folder.
pub(super) fn check(config: &HttpAccessConfig, folder: &Path) -> Vec<Check> {
    match http_access::tls(config, folder) {
        Ok(None) => Vec::new(),
        Ok(Some(tls)) => {
            let warnings = tls.warnings(SystemTime::now());
            warnings.into_iter().map(|warning| check_with_remedy(Level::Warn, warning)).collect()
        }
        Err(failure) => vec![check_with_remedy(Level::Fail, failure.to_string())],
    }
}

fn check_with_remedy(level: Level, text: String) -> Check {
    match split_remedy(&text) {
        Some((what, fix)) => Check::new("http", level, what).with_fix(fix),
        None => Check::new("http", level, text),
    }
}
