//! Opens the store of a URL.
//!
//! A request that finds no server, or that a server cannot answer, is tried again a few times and
//! fails within half a minute; the wait for a connection is 5 seconds. `connect_timeout` and
//! `timeout` of each family change what one try may take.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::ReqwestConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{CredentialProvider, ObjectStore, RetryConfig};
use url::Url;

use super::WriteFailures;
use super::access::AllowedPaths;
use super::connector::ConfinedConnector;
use super::http::FilesConnector;
use super::location::{Family, place};
use super::options::{METADATA_DISABLED, StoreOptions};
use super::remote::{Access, NoCredentialsFound, RemoteStore, reason};
use crate::error::{Error, ErrorKind};

/// How often a request is tried again.
const RETRIES_MAX: usize = 3;
/// No try begins after this.
const RETRY_TIMEOUT: Duration = Duration::from_secs(25);

/// Opens the store of a URL; nothing is asked of it yet. A server that redirects is followed to what
/// is allowed.
pub(super) fn open(
    family: Family,
    url: &Url,
    options: &StoreOptions,
    failures: &Arc<WriteFailures>,
    allowed: Option<&AllowedPaths>,
) -> Result<Arc<dyn ObjectStore>, Error> {
    let is_account = family == Family::Azure && url.password().is_none();
    if !(url.username().is_empty() && url.password().is_none() || is_account) {
        let message = "a URL with a user or password is refused, for it would be shown in plans and \
                       messages: leave them out";
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let place = place(url);
    let options = options.of(family, &place);
    let store = build(family, &place, &options, allowed).map_err(|error| {
        let message = format!(
            "'{place}' cannot be opened: {}; its options are wrong or incomplete",
            reason(&error)
        );
        Error::new(ErrorKind::Io, message)
    })?;
    let access = access(family, &options);
    let failures = Arc::clone(failures);
    Ok(Arc::new(RemoteStore::new(
        store, family, place, access, failures,
    )))
}

fn build(
    family: Family,
    place: &str,
    options: &[(&str, &str)],
    allowed: Option<&AllowedPaths>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig {
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    // Whoever writes http:// has said so.
    let is_plain = |key: &&(&str, &str)| key.0.contains("endpoint") && key.1.starts_with("http://");
    let is_plain = options.iter().any(|option| is_plain(&option));
    Ok(match family {
        Family::Aws => {
            let mut builder = AmazonS3Builder::new().with_retry(retry);
            if is_plain {
                builder = builder.with_allow_http(true);
            }
            for (key, value) in options {
                if *key != METADATA_DISABLED {
                    builder = builder.with_config(key.parse()?, *value);
                }
            }
            if asks_nobody(options) {
                builder = builder.with_credentials(Arc::new(NoCredentials));
            }
            Arc::new(builder.with_url(place).build()?)
        }
        Family::Gcp => {
            let mut builder = GoogleCloudStorageBuilder::new().with_retry(retry);
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, *value);
            }
            Arc::new(builder.with_url(place).build()?)
        }
        Family::Azure => {
            let mut builder = MicrosoftAzureBuilder::new().with_retry(retry);
            if is_plain {
                builder = builder.with_allow_http(true);
            }
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, *value);
            }
            Arc::new(builder.with_url(place).build()?)
        }
        Family::Http => {
            let builder = HttpBuilder::new().with_retry(retry).with_url(place);
            let mut builder = match allowed.cloned() {
                Some(allowed) => {
                    builder.with_http_connector(FilesConnector(ConfinedConnector { allowed }))
                }
                None => builder.with_http_connector(FilesConnector(ReqwestConnector::default())),
            };
            if place.starts_with("http://") {
                builder = builder.with_config(object_store::ClientConfigKey::AllowHttp, "true");
            }
            for (key, value) in options {
                builder = builder.with_config(key.parse()?, *value);
            }
            Arc::new(builder.build()?)
        }
    })
}

/// Tells whether the only credentials would be those of the machine's metadata service, which is not to be
/// asked.
fn asks_nobody(options: &[(&str, &str)]) -> bool {
    let disabled = options
        .iter()
        .rev()
        .find(|(key, _)| *key == METADATA_DISABLED);
    let is_disabled = disabled.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
    let gives = |key: &str| {
        matches!(
            key.parse(),
            Ok(AmazonS3ConfigKey::AccessKeyId
                | AmazonS3ConfigKey::SkipSignature
                | AmazonS3ConfigKey::WebIdentityTokenFile
                | AmazonS3ConfigKey::ContainerCredentialsRelativeUri
                | AmazonS3ConfigKey::ContainerCredentialsFullUri)
        )
    };
    is_disabled && !options.iter().any(|(key, _)| gives(key))
}

/// Gives no credentials, and asks nobody for any.
#[derive(Debug)]
struct NoCredentials;

#[async_trait]
impl CredentialProvider for NoCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Err(object_store::Error::Generic {
            store: "S3",
            source: Box::new(NoCredentialsFound),
        })
    }
}

/// Says what is known of the credentials.
fn access(family: Family, options: &[(&str, &str)]) -> Access {
    let says = |wanted: AmazonS3ConfigKey| {
        let mut keys = options.iter().filter_map(|(key, _)| key.parse().ok());
        keys.any(|key: AmazonS3ConfigKey| key == wanted)
    };
    let hint = match family {
        Family::Aws => {
            let is_given = says(AmazonS3ConfigKey::AccessKeyId);
            let is_anyones = !is_given && !says(AmazonS3ConfigKey::SkipSignature);
            let hint = match is_given {
                true => {
                    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or the options \
                     aws.access_key_id, aws.secret_access_key and aws.region"
                }
                false => {
                    "no credentials were found: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
                     AWS_REGION, or AWS_SKIP_SIGNATURE=true for a public bucket"
                }
            };
            return Access { is_anyones, hint };
        }
        Family::Gcp => {
            "set GOOGLE_SERVICE_ACCOUNT to a key file, or GOOGLE_SKIP_SIGNATURE=true for a public \
             bucket"
        }
        Family::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or \
             AZURE_STORAGE_SAS_TOKEN, or AZURE_SKIP_SIGNATURE=true for a public container"
        }
        Family::Http => "the server asks for a login, which is not supported",
    };
    Access {
        is_anyones: false,
        hint,
    }
}

#[cfg(test)]
mod tests;
