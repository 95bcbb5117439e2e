//! The steps of the acceptance checks `ext.*`.

use super::{
    Step,
    Step::Tests as TestStep,
    binaries::{LIBRARY, Tests},
};

const CLIENT: &str = "mgp-client-sdk";
const KERNEL: &str = "mgp-kernel";
const LIFECYCLE: &str = "mgp-lifecycle";
const MGP: &str = "mgp";
const SECURITY: &str = "mgp-security";
const SERVER: &str = "mgp-server-sdk";
const TRANSPORT: &str = "mgp-transport";
const TYPES: &str = "mgp-types";

pub(super) const ROWS: &[Step] = &[TestStep(&[
    Tests::of(MGP, "flow").each(&["extensions::"]),
    Tests::of(KERNEL, "extension"),
    Tests::of(CLIENT, "checkpoints"),
    Tests::of(CLIENT, "data_references"),
    Tests::of(SERVER, "multipart"),
    Tests::of(TRANSPORT, "data_references"),
    Tests::of(LIFECYCLE, LIBRARY).each(&["idempotency::", "transaction::"]),
    Tests::of(SECURITY, LIBRARY).each(&["scope::"]),
    Tests::of(TYPES, LIBRARY).each(&["proposal::"]),
])];

pub(super) const BROKER: &[Step] = &[TestStep(&[
    Tests::of(KERNEL, "reference_memory")
        .release()
        .env(&[("REFERENCE_MIB", "1024")])
        .prints(&["1024 MiB by reference:"])
        .bound("8 MiB of memory, 4 KiB to the client"),
    Tests::of(KERNEL, "extension").each(&[
        "a_foreign_agent_and_one_without_a_grant",
        "an_expired_reference_is_refused",
        "a_url_that_could_carry_data_out_of_a_sandbox",
    ]),
    Tests::of(TRANSPORT, "data_references").each(&[
        "an_expired_or_changed_url_is_forbidden",
        "other_services_of_this_machine_and_internal_addresses",
    ]),
])];
