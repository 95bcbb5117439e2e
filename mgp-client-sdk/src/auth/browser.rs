//! How a person gets to the login and back.
//!
//! Applies to: outbound.

use mgp_types::service::BoxFuture;

use super::error::AuthError;

/// Takes a person to the authorization server, and tells where they came back.
///
/// What comes back is checked by the client: state, issuer and address. A [`LoopbackBrowser`](super::LoopbackBrowser) is
/// there for programs on a person's machine.
pub trait Browser: Send + Sync + 'static {
    /// Where logins come back to; asked before each login, since a client registers with it.
    ///
    /// `registered` is what the client is registered with; the same is best, another makes it register anew.
    ///
    /// # Errors
    /// That nothing can come back ([`AuthError::browser`]).
    fn redirect_uri(
        &self,
        registered: Option<&str>,
    ) -> impl Future<Output = Result<String, AuthError>> + Send;

    /// Takes a person to an address, and gives the whole URL they were sent back to.
    ///
    /// # Errors
    /// That they did not come back ([`AuthError::browser`]).
    fn authorize(&self, url: &str) -> impl Future<Output = Result<String, AuthError>> + Send;
}

/// A browser whose type is forgotten.
pub(super) trait AnyBrowser: Send + Sync {
    fn redirect_uri<'a>(
        &'a self,
        registered: Option<&'a str>,
    ) -> BoxFuture<'a, Result<String, AuthError>>;

    fn authorize<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, AuthError>>;
}

impl<B: Browser> AnyBrowser for B {
    fn redirect_uri<'a>(
        &'a self,
        registered: Option<&'a str>,
    ) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(Browser::redirect_uri(self, registered))
    }

    fn authorize<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(Browser::authorize(self, url))
    }
}
