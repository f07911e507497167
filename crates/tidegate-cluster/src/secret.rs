//! The cluster's secret, and the tokens that each call proves its knowledge with.
//!
//! A token is `v1.<expiry>.<nonce>.<mac>`: seconds since 1970, 16 random bytes, and HMAC-SHA-256 (RFC
//! 2104) over what stands before it. Each process makes its own, for each connection anew; the secret
//! itself never travels.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tonic::{Request, Status};

use crate::error::ClusterError;

/// The fewest bytes of a secret.
const BYTES_MIN: usize = 32;
/// How long a token is good.
const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
const VERSION: &str = "v1";
/// The header of each call.
const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

/// What the processes of a cluster know each other by.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl Secret {
    /// Makes a secret of the bytes of a file; white space at its end does not count.
    ///
    /// # Errors
    /// [`ClusterError::ShortSecret`] below 32 bytes.
    pub fn try_new(bytes: &[u8]) -> Result<Self, ClusterError> {
        let bytes = bytes.trim_ascii_end();
        if bytes.len() < BYTES_MIN {
            return Err(ClusterError::ShortSecret {
                len: bytes.len(),
                min: BYTES_MIN,
            });
        }
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, bytes),
        })
    }

    /// Makes the text of a secret that nobody has had before.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random_text() -> Result<String, ClusterError> {
        let mut bytes = [0_u8; BYTES_MIN];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| ClusterError::Threads(std::io::Error::other("no random numbers")))?;
        Ok(hex(&bytes))
    }

    /// Makes the header of a call.
    pub(crate) fn header(&self) -> Result<(&'static str, String), Status> {
        let mut nonce = [0_u8; 16];
        let filled = SystemRandom::new().fill(&mut nonce);
        filled.map_err(|_| Status::internal("no random numbers"))?;
        let expiry = now().saturating_add(LIFE.as_secs());
        let signed = format!("{VERSION}.{expiry}.{}", hex(&nonce));
        let mac = hmac::sign(&self.key, signed.as_bytes());
        Ok((HEADER, format!("{SCHEME}{signed}.{}", hex(mac.as_ref()))))
    }

    /// Lets a call pass that proves that it knows the secret.
    pub(crate) fn check(&self, request: Request<()>) -> Result<Request<()>, Status> {
        let header = request.metadata().get(HEADER);
        let token = header.and_then(|header| header.to_str().ok()?.strip_prefix(SCHEME));
        match token.is_some_and(|token| self.is_good(token)) {
            true => Ok(request),
            false => Err(Status::unauthenticated(
                "this is a port for processes of the cluster: they share --cluster-secret-file, and \
                 their clocks must agree",
            )),
        }
    }

    fn is_good(&self, token: &str) -> bool {
        let Some((signed, mac)) = token.rsplit_once('.') else {
            return false;
        };
        let Some(mac) = unhex(mac) else {
            return false;
        };
        if hmac::verify(&self.key, signed.as_bytes(), &mac).is_err() {
            return false;
        }
        let mut parts = signed.split('.');
        let version = parts.next();
        let expiry = parts.next().and_then(|expiry| expiry.parse::<u64>().ok());
        version == Some(VERSION) && expiry.is_some_and(|expiry| now() < expiry)
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let digits = (0..text.len()).step_by(2);
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    digits.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use tonic::Request;

    use super::{BYTES_MIN, Secret};

    fn request(value: Option<&str>) -> Request<()> {
        let mut request = Request::new(());
        if let Some(value) = value {
            let value = value.parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    #[test]
    fn only_who_knows_the_secret_is_let_in() {
        let secret = Secret::try_new(&[7; BYTES_MIN]).unwrap();
        let (_, header) = secret.header().unwrap();
        assert!(secret.check(request(Some(&header))).is_ok());
        let other = Secret::try_new(&[8; BYTES_MIN]).unwrap();
        assert!(other.check(request(Some(&header))).is_err());
        assert!(secret.check(request(None)).is_err());
        for at in 0..header.len() {
            let mut wrong = header.clone().into_bytes();
            wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(secret.check(request(Some(&wrong))).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_short_secret_is_none() {
        assert!(Secret::try_new(b"too short\n").is_err());
        assert!(Secret::try_new(&[b' '; 64]).is_err());
        let text = Secret::random_text().unwrap();
        assert!(Secret::try_new(text.as_bytes()).is_ok());
    }

    #[test]
    fn a_token_ends() {
        let secret = Secret::try_new(&[7; BYTES_MIN]).unwrap();
        let signed = "v1.1000.00";
        let mac = ring::hmac::sign(&secret.key, signed.as_bytes());
        let token = format!("{signed}.{}", super::hex(mac.as_ref()));
        assert!(!secret.is_good(&token));
    }
}
