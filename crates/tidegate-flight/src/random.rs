//! Bytes that nobody can guess, and how they are written.

use rand::TryRngCore;
use rand::rngs::OsRng;
use tonic::Status;

/// Random bytes that name a session or a token.
pub(crate) type Secret = [u8; 16];

/// Makes bytes that nobody can guess.
pub(crate) fn secret() -> Result<Secret, Status> {
    let mut bytes = Secret::default();
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| {
        Status::unavailable(format!("the system gives no random bytes: {error}"))
    })?;
    Ok(bytes)
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
