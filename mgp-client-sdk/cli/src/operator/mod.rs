//! Checks whether a process is allowed to act as an operator: where the process runs, and the proof that changes
//! require.

mod files;
mod gate;
mod offline;
mod passphrase;

pub(crate) use files::{admit_edit, admit_edit_of, file_of_kernel};
pub(crate) use gate::{Admission, OperatorGate};
pub(crate) use offline::{admit_offline, check_place, configured_proof};
pub(crate) use passphrase::{MAX_PASSPHRASE_BYTES, MIN_PASSPHRASE_CHARS, PassphraseFile};

/// The remedy in the refusal of a process that a host started.
const OUTSIDE_REMEDY: &str = "run it in a terminal outside the host, or set `operator.proof = \"passphrase\"` under `[kernel]`";

const SERVER_REMEDY: &str = "only a process that no server started can be an operator";

/// The remedy in the refusal of a process without a terminal, if changes need a terminal.
const TERMINAL_REMEDY: &str =
    "changes need a terminal (`operator.proof = \"terminal\"`); run it in the foreground of one";

const PASSPHRASE_REMEDY: &str = "changes need the passphrase (`operator.proof = \"passphrase\"`), but none is set; run `mgp operator passphrase set`";
