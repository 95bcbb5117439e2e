//! Watches the state folder of a running kernel, whose files another program can remove or replace.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mgp_kernel::Kernel;
use mgp_types::is_other_file;
use tokio::time::sleep;

use crate::lock::Lock;

const INTERVAL: Duration = Duration::from_secs(2);

/// Waits until the lock file in the state folder is no longer the one that this kernel has locked. Another kernel can
/// then start there, and records of this kernel are lost. While waiting, notes in the kernel whether its database was
/// removed or replaced.
pub(crate) async fn folder_lost(kernel: &Kernel, lock: &Lock, folder: &Path) {
    let database = folder.join("state.db");
    let own = fs::metadata(&database);
    let mut is_noted = false;
    while !lock.is_replaced(folder) {
        let is_lost = match &own {
            Ok(own) => is_other_file(own, &database),
            // Check whether the file exists, because it may have been removed before this watch began.
            Err(_) => matches!(database.try_exists(), Ok(false)),
        };
        if is_lost != is_noted {
            is_noted = is_lost;
            kernel.set_endpoints(|endpoints| endpoints.is_state_lost = is_lost);
            if is_lost {
                let path = database.display();
                tracing::error!("`{path}` was removed or replaced; see `mgp status`");
            }
        }
        sleep(INTERVAL).await;
    }
    tracing::error!("stopping: {}", lost_text(folder));
}

/// Returns the failure of a kernel whose state folder was lost.
pub(crate) fn lost_text(folder: &Path) -> String {
    format!(
        "the state folder `{}` was removed or replaced while a kernel used it",
        folder.display()
    )
}
