//! Tokens of an identity provider: a JSON Web Token (RFC 7519) that a key of the users file's `[jwt]`
//! table has signed tells who calls.
//!
//! ```toml
//! [jwt]
//! keys = "jwks.json"                     # a JSON Web Key Set, or a public key in PEM; beside this file
//! issuer = "https://id.example.com/"     # the claim `iss`
//! audience = "tidegate"                  # one of the claim `aud`
//! user_claim = "email"                   # names the user; `sub` unless named
//! admin = { claim = "groups", value = "tidegate-admins" }
//! ```
//!
//! Only signatures by private keys are taken (RSA, ECDSA, Ed25519): whoever can check one with a shared
//! secret could also make tokens. Each call's token is checked anew, so that an expired one ends; the file
//! of keys is read again when it changes.

mod signatures;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tonic::Status;

use super::{Person, UsersError};

/// Clocks of two machines may differ by so many seconds.
const LEEWAY_SECONDS: u64 = 30;
/// Bytes of a token, which travels in a header.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Bytes of the file of keys.
const KEYS_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a user's name.
const NAME_BYTES_MAX: usize = 256;
/// How often it is looked whether the file of keys has changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The `[jwt]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtTable {
    keys: PathBuf,
    issuer: String,
    audience: String,
    #[serde(default = "sub")]
    user_claim: String,
    admin: Option<AdminClaim>,
}

fn sub() -> String {
    "sub".into()
}

/// What an admin's token says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminClaim {
    claim: String,
    value: String,
}

impl AdminClaim {
    /// Tells whether a claim is the value, has it in its list, or among its words, as `scope` does.
    fn is_in(&self, claims: &HashMap<String, Value>) -> bool {
        match claims.get(&self.claim) {
            Some(Value::String(text)) => text.split(' ').any(|word| word == self.value),
            Some(Value::Array(values)) => values.iter().any(|value| *value == *self.value),
            _ => false,
        }
    }
}

/// Checks tokens of an identity provider.
#[derive(Debug)]
pub(crate) struct Jwt {
    table: JwtTable,
    keys: Mutex<Keys>,
}

/// The keys as they were read last.
#[derive(Debug)]
struct Keys {
    keys: Arc<Vec<Key>>,
    version: Option<(SystemTime, u64)>,
    looked: Instant,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    key: DecodingKey,
}

impl Jwt {
    /// Reads the keys of a table, whose path is relative to `folder`.
    pub(super) fn open(mut table: JwtTable, folder: &Path) -> Result<Self, UsersError> {
        signatures::install();
        table.keys = folder.join(table.keys);
        if table.issuer.is_empty() || table.audience.is_empty() || table.user_claim.is_empty() {
            let what = "issuer, audience and user_claim cannot be empty";
            return Err(UsersError::Jwt(what.into()));
        }
        let version = version(&table.keys);
        let keys = read(&table.keys).map_err(UsersError::Jwt)?;
        Ok(Self {
            keys: Mutex::new(Keys {
                keys: Arc::new(keys),
                version,
                looked: Instant::now(),
            }),
            table,
        })
    }

    /// Tells whether a token has the form of those that are checked here: three parts with dots between.
    pub(crate) fn is_jwt(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Finds out whose a token is.
    ///
    /// # Errors
    /// `Unauthenticated`, with what is wrong with the token.
    pub(crate) fn check(&self, token: &str) -> Result<Person, Status> {
        self.person(token).map_err(|why| {
            tracing::warn!(why, "a token was refused");
            Status::unauthenticated(format!("the token is refused: {why}"))
        })
    }

    fn person(&self, token: &str) -> Result<Person, String> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(format!("it has more than {TOKEN_BYTES_MAX} bytes"));
        }
        let header = decode_header(token).map_err(|_| "it is no JSON Web Token".to_string())?;
        let keys = self.keys();
        let mut of_id = keys.iter().filter(|key| match (&key.id, &header.kid) {
            (Some(id), Some(asked)) => id == asked,
            _ => true,
        });
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.table.issuer]);
        validation.set_audience(&[&self.table.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let mut why = "no key of this server has the name and the kind of its signature";
        let fits = |key: &Key| key.key.family().algorithms().contains(&header.alg);
        let claims = of_id.find_map(|key| {
            if !fits(key) {
                return None;
            }
            let read = decode::<HashMap<String, Value>>(token, &key.key, &validation);
            read.map_err(|error| why = said(error.kind())).ok()
        });
        let claims = claims.ok_or(why)?.claims;
        let name = claims.get(&self.table.user_claim).and_then(Value::as_str);
        let name = name.filter(|name| {
            let is_plain = !name
                .chars()
                .any(|letter| letter.is_control() || letter == ':');
            !name.is_empty() && name.len() <= NAME_BYTES_MAX && is_plain
        });
        let name = name.ok_or_else(|| {
            let claim = &self.table.user_claim;
            format!("its claim '{claim}' is not the name of a user")
        })?;
        let admin = self.table.admin.as_ref();
        Ok(Person {
            name: name.into(),
            is_admin: admin.is_some_and(|admin| admin.is_in(&claims)),
        })
    }

    /// Returns the keys, read again if their file has changed.
    fn keys(&self) -> Arc<Vec<Key>> {
        let mut known = self.keys.lock();
        if known.looked.elapsed() >= LOOK_EVERY {
            known.looked = Instant::now();
            let version = version(&self.table.keys);
            if version != known.version {
                match read(&self.table.keys) {
                    Ok(keys) => {
                        known.keys = Arc::new(keys);
                        known.version = version;
                    }
                    Err(why) => tracing::error!(why, "the keys of tokens stay as they were"),
                }
            }
        }
        Arc::clone(&known.keys)
    }
}

fn said(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::ExpiredSignature => "it has expired: get a new one",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "its issuer ('iss') is not this server's",
        ErrorKind::InvalidAudience => "it was issued for others ('aud'), not for this server",
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it lacks a claim, or one is in no valid form: 'exp', 'iss' and 'aud' are needed"
        }
        _ => "it is no valid JSON Web Token",
    }
}

/// Returns what changes when a file does.
fn version(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Reads the keys of a file.
fn read(path: &Path) -> Result<Vec<Key>, String> {
    let wrong = |why: &str| format!("the keys in {} cannot be used: {why}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| wrong(&error.to_string()))?;
    if metadata.len() > KEYS_BYTES_MAX {
        return Err(wrong("the file has more than 1 MiB"));
    }
    let text = std::fs::read(path).map_err(|error| wrong(&error.to_string()))?;
    let keys = match text.trim_ascii_start().starts_with(b"{") {
        true => of_set(&text),
        false => of_pem(&text),
    };
    keys.map_err(|why| wrong(&why))
}

/// Reads a JSON Web Key Set (RFC 7517), without keys that are for other uses or of kinds unknown here.
fn of_set(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut keys = Vec::new();
    for key in &set.keys {
        let Ok(read) = DecodingKey::from_jwk(key) else {
            continue;
        };
        if read.family() == AlgorithmFamily::Hmac {
            let why =
                "a key of the kind 'oct' is a shared secret; name public keys (RSA, EC or OKP)";
            return Err(why.into());
        }
        keys.push(Key {
            id: key.common.key_id.clone(),
            key: read,
        });
    }
    match keys.is_empty() {
        true => Err("it has no public key of RSA, EC or Ed25519".into()),
        false => Ok(keys),
    }
}

/// Reads a public key in PEM.
fn of_pem(text: &[u8]) -> Result<Vec<Key>, String> {
    let forms = [
        DecodingKey::from_rsa_pem,
        DecodingKey::from_ec_pem,
        DecodingKey::from_ed_pem,
    ];
    let key = forms.iter().find_map(|form| form(text).ok());
    let key = key.ok_or("it is neither a JSON Web Key Set nor a public key in PEM")?;
    Ok(vec![Key { id: None, key }])
}

#[cfg(test)]
mod tests;
