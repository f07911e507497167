//! Tokens that are taken, and those that are not.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::{Person, Users};
use super::Jwt;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// An identity provider with one key.
struct Provider {
    id: &'static str,
    key: EcdsaKeyPair,
}

impl Provider {
    fn new(id: &'static str) -> Self {
        let (scheme, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(scheme, document.as_ref(), &random).unwrap();
        Self { id, key }
    }

    fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        json!({
            "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig",
            "x": base64(&point[1..33]), "y": base64(&point[33..]),
        })
    }

    /// Signs claims.
    fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": self.id});
        let message = format!(
            "{}.{}",
            base64(header.to_string()),
            base64(claims.to_string())
        );
        let signed = self.key.sign(&SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", base64(signed.unwrap()))
    }
}

fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64 + seconds
}

/// Claims that are right, but for some.
fn claims(others: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example/", "aud": "tidegate", "sub": "ada", "exp": in_seconds(60),
    });
    for (name, value) in others.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

const TABLE: &str = "[jwt]\nkeys = \"keys\"\nissuer = \"https://id.example/\"\naudience = \"tidegate\"\n\
                     admin = { claim = \"groups\", value = \"admins\" }\n";

fn folder_with(keys: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, keys).unwrap();
    (folder, file)
}

fn users(text: &str, folder: &Path) -> Users {
    Users::parse(text, folder).unwrap()
}

fn refusal(jwt: &Jwt, token: &str) -> String {
    jwt.check(token).unwrap_err().message().to_string()
}

#[test]
fn claims_tell_who_calls() {
    let provider = Provider::new("a");
    let (folder, _) = folder_with(json!({"keys": [provider.jwk()]}).to_string());
    let users = users(TABLE, folder.path());
    let jwt = users.jwt().unwrap();
    let check = |others: Value| jwt.check(&provider.token(&claims(&others))).unwrap();
    let ada = |is_admin| Person {
        name: "ada".into(),
        is_admin,
    };
    assert_eq!(check(json!({})), ada(false));
    assert_eq!(check(json!({"groups": ["staff", "admins"]})), ada(true));
    assert_eq!(check(json!({"groups": "staff admins"})), ada(true));
    assert_eq!(
        check(json!({"groups": ["admins2"], "scope": "admins"})),
        ada(false)
    );
    assert_eq!(check(json!({"aud": ["other", "tidegate"]})), ada(false));
    // Clocks may differ a little.
    assert_eq!(
        check(json!({"exp": in_seconds(-10), "nbf": in_seconds(10)})),
        ada(false)
    );
}

#[test]
fn a_token_that_is_not_right_is_refused_with_the_reason() {
    let (provider, other) = (Provider::new("a"), Provider::new("a"));
    let (folder, _) = folder_with(json!({"keys": [provider.jwk()]}).to_string());
    let users = users(TABLE, folder.path());
    let jwt = users.jwt().unwrap();
    for (others, expect) in [
        (json!({"exp": in_seconds(-60)}), "expired"),
        (json!({"exp": Value::Null}), "lacks a claim"),
        (json!({"nbf": in_seconds(60)}), "not valid yet"),
        (json!({"iss": "https://evil.example/"}), "issuer"),
        (json!({"aud": "other"}), "for others"),
        (json!({"aud": Value::Null}), "lacks a claim"),
        (json!({"sub": ""}), "'sub'"),
        (json!({"sub": 1}), "'sub'"),
        (json!({"sub": "a\nb"}), "'sub'"),
        (json!({"sub": "x".repeat(300)}), "'sub'"),
    ] {
        let said = refusal(jwt, &provider.token(&claims(&others)));
        assert!(said.contains(expect), "{others}: {said}");
    }
    let right = provider.token(&claims(&json!({})));
    let forged = refusal(jwt, &other.token(&claims(&json!({}))));
    assert!(forged.contains("signature is wrong"), "{forged}");
    let (message, _) = right.rsplit_once('.').unwrap();
    let parts: Vec<&str> = right.split('.').collect();
    let none = base64(r#"{"alg":"none"}"#);
    let shared = base64(r#"{"alg":"HS256"}"#);
    for token in [
        String::new(),
        "a.b.c".into(),
        format!("{message}."),
        format!("{none}.{}.", parts[1]),
        format!("{shared}.{}.{}", parts[1], parts[2]),
        format!("{right}x"),
        format!("{right}.x"),
        "x".repeat(20_000),
    ] {
        assert!(jwt.check(&token).is_err(), "{token}");
    }
    let unknown = Provider::new("b").token(&claims(&json!({})));
    assert!(refusal(jwt, &unknown).contains("no key"));
}

#[test]
fn keys_are_read_again_when_their_file_changes() {
    let (old, new) = (Provider::new("old"), Provider::new("new"));
    let (folder, file) = folder_with(json!({"keys": [old.jwk()]}).to_string());
    let users = users(TABLE, folder.path());
    let jwt = users.jwt().unwrap();
    let token = |provider: &Provider| provider.token(&claims(&json!({})));
    let look = || jwt.keys.lock().looked -= 2 * super::LOOK_EVERY;
    assert!(jwt.check(&token(&old)).is_ok());
    std::fs::write(&file, "{ not JSON").unwrap();
    look();
    // What cannot be read changes nothing.
    assert!(jwt.check(&token(&old)).is_ok());
    std::fs::write(
        &file,
        json!({"keys": [new.jwk()], "and": "more"}).to_string(),
    )
    .unwrap();
    look();
    assert!(jwt.check(&token(&new)).is_ok());
    assert!(refusal(jwt, &token(&old)).contains("no key"));
    assert!(super::LOOK_EVERY >= Duration::from_secs(1));
}

/// Made by OpenSSL: `openssl dgst -sha256 -sign`, and with `rsa_padding_mode:pss`.
#[test]
fn a_public_key_in_pem_checks_tokens_of_rsa() {
    let (folder, _) = folder_with(include_bytes!("made_by_openssl/pub.pem"));
    let users = users(TABLE, folder.path());
    let jwt = users.jwt().unwrap();
    let ada = Person {
        name: "ada".into(),
        is_admin: true,
    };
    for token in [
        include_str!("made_by_openssl/RS256.jwt"),
        include_str!("made_by_openssl/PS256.jwt"),
    ] {
        let token = token.trim_end();
        assert_eq!(jwt.check(token).unwrap(), ada);
        let (message, signed) = token.rsplit_once('.').unwrap();
        let forged = format!("{message}.{}", signed.replacen(['a', 'b', 'c'], "d", 1));
        assert!(refusal(jwt, &forged).contains("signature is wrong"));
    }
}

#[test]
fn a_table_that_cannot_be_used_is_refused() {
    let secret = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).to_string();
    for (keys, text, expect) in [
        ("", TABLE.replace("\"keys\"", "\"nowhere\""), "nowhere"),
        ("x", TABLE.into(), "neither"),
        ("{}", TABLE.into(), "keys"),
        ("{\"keys\": []}", TABLE.into(), "no public key"),
        (&secret, TABLE.into(), "shared secret"),
        ("x", TABLE.replace("tidegate", ""), "audience"),
        ("x", TABLE.replace("issuer", "issuers"), "issuers"),
    ] {
        let (folder, _) = folder_with(keys);
        let error = Users::parse(&text, folder.path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}
