//! Credentials that were checked a short while ago.
//!
//! Some clients send their name and password with each call. Checking a password takes tens of
//! milliseconds on purpose, so the outcome is kept for a few minutes: right ones, so that such calls
//! are quick and logins do not wait behind others, and wrong ones, so that sending the same one again
//! costs nothing. A credential is kept as a hash under a random key of this process, and never as text.
//! The users of a server do not change while it runs; what is kept ends with it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::Mutex;
use tonic::Status;

use crate::random::secret;
use crate::status::defect;
use crate::users::Person;

/// How long an outcome is kept.
const KEPT: Duration = Duration::from_secs(300);
/// Right and wrong credentials that are kept, each.
const KEPT_MAX: usize = 1_024;
/// Bytes of a credential's hash.
const HASH_BYTES: usize = 32;

/// A credential's hash under the key of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Credential([u8; HASH_BYTES]);

/// Outcomes of checks.
pub(super) struct VerifiedCredentials {
    key: [u8; 32],
    right: Mutex<Recent<Person>>,
    wrong: Mutex<Recent<()>>,
}

impl fmt::Debug for VerifiedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedCredentials")
            .finish_non_exhaustive()
    }
}

impl VerifiedCredentials {
    /// # Errors
    /// If the system gives no random bytes.
    pub(super) fn new() -> Result<Self, Status> {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&secret()?);
        key[16..].copy_from_slice(&secret()?);
        Ok(Self {
            key,
            right: Mutex::default(),
            wrong: Mutex::default(),
        })
    }

    /// Hashes a name and a password, with Argon2's smallest cost: the key is what protects the hash.
    pub(super) fn credential(&self, name: &str, password: &str) -> Result<Credential, Status> {
        let failed = |error| defect("a password cannot be hashed", &error);
        let params = Params::new(Params::MIN_M_COST, 1, 1, Some(HASH_BYTES)).map_err(failed)?;
        let (algorithm, version) = (Algorithm::Argon2id, Version::V0x13);
        let hasher = Argon2::new_with_secret(&self.key, algorithm, version, params);
        // The length keeps apart what name and password make together.
        let length = (name.len() as u64).to_le_bytes();
        let text = [&length[..], name.as_bytes(), password.as_bytes()].concat();
        let mut hash = [0; HASH_BYTES];
        let hashed = hasher
            .map_err(failed)?
            .hash_password_into(&text, &self.key, &mut hash);
        hashed.map_err(failed)?;
        Ok(Credential(hash))
    }

    /// Returns the outcome of a check: whose the credential is, or that it is wrong; `None` if it was
    /// not checked lately.
    pub(super) fn find(&self, credential: &Credential) -> Option<Option<Person>> {
        let right = self.right.lock().find(credential);
        right
            .map(Some)
            .or_else(|| self.wrong.lock().find(credential).map(|()| None))
    }

    /// Keeps the outcome of a check.
    pub(super) fn keep(&self, credential: Credential, outcome: Option<Person>) {
        match outcome {
            Some(person) => self.right.lock().keep(credential, person),
            None => self.wrong.lock().keep(credential, ()),
        }
    }
}

/// A bounded number of values, each for a limited time.
struct Recent<V> {
    values: HashMap<Credential, (V, Instant)>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
        }
    }
}

impl<V: Clone> Recent<V> {
    fn find(&self, credential: &Credential) -> Option<V> {
        let (value, since) = self.values.get(credential)?;
        (since.elapsed() <= KEPT).then(|| value.clone())
    }

    fn keep(&mut self, credential: Credential, value: V) {
        if self.values.len() >= KEPT_MAX && !self.values.contains_key(&credential) {
            let oldest = self.values.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(credential, _)| *credential) {
                self.values.remove(&oldest);
            }
        }
        self.values.insert(credential, (value, Instant::now()));
    }
}

#[cfg(test)]
mod tests;
