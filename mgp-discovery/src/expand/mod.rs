//! Expansion of `${…}` in configurations, and secrets in clear text (MGP §15.2).
//!
//! `template.rs` parses a text, and `expander.rs` replaces its references: `command.rs` runs the command of `${cmd:…}`,
//! and `secret_file.rs` has the secrets of `${keyring:…}`. `value.rs` has the result, which hides its secrets.
//! `rights.rs` determines the rights of confined programs.
//! `clear_secrets.rs` finds secrets that are written in clear text.

mod clear_secrets;
mod command;
mod expander;
mod rights;
mod secret_file;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod variables;

pub use clear_secrets::{ClearSecret, clear_secrets, describe_target, looks_secret};
pub use expander::{ExpandError, ExpandedServer, ExpandedTarget, Expander, path_variable};
pub(crate) use rights::real;
pub use rights::{ConfinedCode, ProcessRights, private_folder, safe_path};
pub use secret_file::{SecretFile, SecretFileError};
pub(crate) use template::{Piece, closing};
pub use template::{Template, TemplateError};
pub use value::Expanded;
pub use variables::named_variables;
