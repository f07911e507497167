//! What object stores are opened with: names, values and where they count.
//!
//! An option is called as its environment variable would be, with a dot: `aws.region`,
//! `azure.account_name`, `gcp.service_account`, `http.timeout`. It counts for all stores of its
//! family, or for one place such as `s3://bucket`; what is said of a place, and what is said later,
//! goes before.

use std::fmt;

use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use super::location::Family;
use crate::error::{Error, ErrorKind};
use crate::suggest;

/// The option that keeps credentials from being asked of the machine's metadata service. It is AWS's, and
/// the builder of stores does not know it.
pub(super) const METADATA_DISABLED: &str = "aws_ec2_metadata_disabled";

/// The beginnings of options and environment variables.
const FAMILIES: [(Family, &str, &str); 4] = [
    (Family::Aws, "aws", "AWS_"),
    (Family::Gcp, "gcp", "GOOGLE_"),
    (Family::Azure, "azure", "AZURE_"),
    (Family::Http, "http", ""),
];

/// Options that are no secret and are worth proposing; all others are never shown.
const HARMLESS: [&str; 23] = [
    "aws.region",
    "aws.default_region",
    "aws.endpoint",
    "aws.endpoint_url",
    "aws.allow_http",
    "aws.skip_signature",
    "aws.virtual_hosted_style_request",
    "aws.request_payer",
    "aws.role_arn",
    "aws.ec2_metadata_disabled",
    "aws.timeout",
    "aws.connect_timeout",
    "azure.account_name",
    "azure.endpoint",
    "azure.use_emulator",
    "azure.use_azure_cli",
    "azure.skip_signature",
    "azure.allow_http",
    "gcp.service_account",
    "gcp.skip_signature",
    "gcp.base_url",
    "http.timeout",
    "http.connect_timeout",
];

/// Options that are secrets, for proposals alone.
const SECRET: [&str; 10] = [
    "aws.access_key_id",
    "aws.secret_access_key",
    "aws.session_token",
    "azure.account_key",
    "azure.sas_token",
    "azure.client_secret",
    "azure.tenant_id",
    "azure.client_id",
    "gcp.service_account_key",
    "http.proxy_url",
];

impl Family {
    /// Returns the family of an option, and the option's name in it; `None` for another option.
    pub(crate) fn of_option(name: &str) -> Option<(Self, String)> {
        let lower = name.to_ascii_lowercase();
        let (family, rest) = lower.split_once('.')?;
        let family = match family {
            "google" => "gcp",
            family => family,
        };
        let found = FAMILIES.iter().find(|(_, name, _)| *name == family)?;
        Some((found.0, rest.to_string()))
    }

    fn name(self) -> &'static str {
        let found = FAMILIES.iter().find(|(family, ..)| *family == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// Finds the name that the family's builder knows an option by.
    fn key(self, name: &str) -> Option<String> {
        let with = |prefix: &str| format!("{prefix}_{name}");
        let names = match self {
            Self::Aws => [with("aws"), name.to_string()],
            Self::Gcp => [with("google"), name.to_string()],
            Self::Azure => [with("azure_storage"), with("azure")],
            Self::Http => [name.to_string(), String::new()],
        };
        if self == Self::Aws && with("aws") == METADATA_DISABLED {
            return Some(METADATA_DISABLED.to_string());
        }
        // The place alone says which bucket or container it is.
        let is_known = |name: &String| match self {
            Self::Aws => name
                .parse()
                .is_ok_and(|key: AmazonS3ConfigKey| key != AmazonS3ConfigKey::Bucket),
            Self::Gcp => name
                .parse()
                .is_ok_and(|key: GoogleConfigKey| key != GoogleConfigKey::Bucket),
            Self::Azure => name
                .parse()
                .is_ok_and(|key: AzureConfigKey| key != AzureConfigKey::ContainerName),
            Self::Http => name.parse::<ClientConfigKey>().is_ok(),
        };
        let plain = [name.to_string()];
        names.into_iter().chain(plain).find(is_known)
    }
}

/// Tells whether an option's value may be shown.
pub(crate) fn is_harmless(family: Family, name: &str) -> bool {
    let whole = format!("{}.{name}", family.name());
    HARMLESS.contains(&whole.as_str())
}

/// What object stores are opened with; printing it shows no value.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// In the order in which they were set.
    said: Vec<Said>,
}

#[derive(Clone)]
struct Said {
    /// Empty for all.
    place: String,
    family: Family,
    key: String,
    value: String,
}

impl StoreOptions {
    /// Takes what environment variables say, `AWS_…`, `GOOGLE_…` and `AZURE_…`; others are left out.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut said = Vec::new();
        for (variable, value) in variables {
            for (family, _, prefix) in FAMILIES {
                let name = variable.strip_prefix(prefix).filter(|_| !prefix.is_empty());
                let key = name.and_then(|name| family.key(&name.to_ascii_lowercase()));
                said.extend(key.map(|key| Said {
                    place: String::new(),
                    family,
                    key,
                    value: value.clone(),
                }));
            }
        }
        Self { said }
    }

    /// Sets an option, such as `aws.region`, for a place such as `s3://bucket`; for all if `place`
    /// is empty.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for an option that there is not.
    pub fn set(&mut self, place: &str, name: &str, value: &str) -> Result<(), Error> {
        let known = Family::of_option(name);
        let known = known.and_then(|(family, name)| Some((family, family.key(&name)?)));
        let Some((family, key)) = known else {
            let names = HARMLESS.iter().chain(&SECRET).map(ToString::to_string);
            let names: Vec<String> = names.collect();
            let hint = match suggest::nearest(&names, name) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => "they begin with aws., gcp., azure. or http.".to_string(),
            };
            let message = format!("there is no option {name} of object stores: {hint}");
            return Err(Error::new(ErrorKind::Sql, message));
        };
        self.said.push(Said {
            place: place.trim_end_matches('/').to_string(),
            family,
            key,
            value: value.to_string(),
        });
        Ok(())
    }

    /// Adds what `later` says, which goes before.
    pub fn extend(&mut self, later: Self) {
        self.said.extend(later.said);
    }

    /// Lists what counts for a place, in the builder's names: each is to override those before it.
    pub(crate) fn of(&self, family: Family, place: &str) -> Vec<(&str, &str)> {
        let said = |is_own: bool| {
            self.said
                .iter()
                .filter(move |said| said.family == family)
                .filter(move |said| match is_own {
                    true => said.place == place,
                    false => said.place.is_empty(),
                })
                .map(|said| (said.key.as_str(), said.value.as_str()))
        };
        said(false).chain(said(true)).collect()
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.said.iter().map(|said| (&said.place, &said.key));
        f.debug_list().entries(said).finish()
    }
}

#[cfg(test)]
mod tests;
