//! Judges the scripts of sandboxed servers with the code validator at the level `strict` (MGP §7).

use async_trait::async_trait;
use mgp_discovery::{CodeJudge, CodeVerdict, JudgedScript};
use mgp_security::StandardValidators;
use mgp_types::RpcError;
use tokio::task::spawn_blocking;

/// A judge that checks scripts with [`StandardValidators::check_script`].
pub(super) struct StrictJudge;

#[async_trait]
impl CodeJudge for StrictJudge {
    async fn judge(&self, script: JudgedScript) -> Result<CodeVerdict, RpcError> {
        let check = move || StandardValidators::check_script(&script.language, &script.text);
        let checked = spawn_blocking(check).await;
        match checked.map_err(|error| RpcError::internal("the judge failed").because(error))? {
            Ok(()) => Ok(CodeVerdict::Accepted),
            Err(body) => Ok(CodeVerdict::Rejected(body)),
        }
    }
}
