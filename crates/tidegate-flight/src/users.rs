//! Who may call: a TOML file with names and argon2 hashes, and whose tokens are taken.
//!
//! ```toml
//! [[users]]
//! name = "ada"
//! password = "$argon2id$v=19$m=19456,t=2,p=1$…"   # tidegate serve hash-password
//! admin = true                                    # may see and stop everyone's queries
//! ```
//!
//! A `[jwt]` table lets in whoever has a token of an identity provider, beside these users or in their place.

mod jwt;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use serde::Deserialize;

pub(crate) use jwt::Jwt;
use jwt::JwtTable;

/// Why users cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read.
    #[error("the users file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The text is not TOML of the right form.
    #[error("the users file is wrong: {0}")]
    Form(#[from] toml::de::Error),
    /// A user is wrong.
    #[error("the users file is wrong: user '{name}' {what}")]
    User {
        /// The user's name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// There is nobody in the file.
    #[error(
        "the users file lists no users: add a [[users]] table with name and password, or a [jwt] table"
    )]
    Nobody,
    /// The table of tokens is wrong.
    #[error("the users file is wrong: [jwt]: {0}")]
    Jwt(String),
    /// A password cannot be hashed.
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

/// The users of a server.
#[derive(Default)]
pub struct Users {
    by_name: HashMap<String, User>,
    /// What a name that does not exist is checked against, so that it takes as long.
    nobody: String,
    jwt: Option<Jwt>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.by_name.keys().collect();
        f.debug_struct("Users").field("names", &names).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    users: Vec<User>,
    jwt: Option<JwtTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    name: String,
    password: String,
    #[serde(default)]
    admin: bool,
}

/// Someone whose password or token was right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) is_admin: bool,
}

impl Users {
    /// Reads a users file.
    ///
    /// # Errors
    /// [`UsersError`], with what is wrong.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let text = std::fs::read_to_string(path).map_err(|source| UsersError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads the text of a users file in a folder.
    ///
    /// # Errors
    /// [`UsersError`], with what is wrong.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, UsersError> {
        let file: File = toml::from_str(text)?;
        if file.users.is_empty() && file.jwt.is_none() {
            return Err(UsersError::Nobody);
        }
        let mut by_name = HashMap::new();
        for user in file.users {
            let wrong = |what: &str| UsersError::User {
                name: user.name.clone(),
                what: what.into(),
            };
            if user.name.is_empty() || user.name.contains(':') {
                return Err(wrong("needs a name without a colon"));
            }
            let hash = PasswordHash::new(&user.password);
            if !hash.is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2")) {
                return Err(wrong(
                    "needs an argon2 hash as password: `tidegate serve hash-password` makes one",
                ));
            }
            if by_name.contains_key(&user.name) {
                return Err(wrong("occurs twice"));
            }
            by_name.insert(user.name.clone(), user);
        }
        let jwt = file.jwt.map(|table| Jwt::open(table, folder)).transpose()?;
        Ok(Self {
            by_name,
            nobody: hash_password("")?,
            jwt,
        })
    }

    /// Returns what checks tokens of an identity provider, if the file names one.
    pub(crate) fn jwt(&self) -> Option<&Jwt> {
        self.jwt.as_ref()
    }

    /// Checks a password; takes tens of milliseconds and 19 MB, on purpose.
    pub(crate) fn check(&self, name: &str, password: &str) -> Option<Person> {
        let user = self.by_name.get(name);
        let hash = user.map_or(&self.nobody, |user| &user.password);
        let hash = PasswordHash::new(hash).ok()?;
        let is_right = Argon2::default()
            .verify_password(password.as_bytes(), &hash)
            .is_ok();
        let user = user.filter(|_| is_right)?;
        Some(Person {
            name: user.name.clone(),
            is_admin: user.admin,
        })
    }
}

/// Hashes a password for the users file, with a salt of its own.
///
/// # Errors
/// [`UsersError::Hash`] if the system gives no random bytes.
pub fn hash_password(password: &str) -> Result<String, UsersError> {
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed
        .map(|hash| hash.to_string())
        .map_err(|error| UsersError::Hash(error.to_string()))
}

#[cfg(test)]
mod tests;
