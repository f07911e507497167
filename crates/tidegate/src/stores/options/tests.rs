//! Variables and options have the same names.

use super::{Family, StoreOptions};

#[test]
fn variables_and_options_have_the_same_names() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_PROFILE", "p"),
        ("AWS_ENDPOINT_URL_S3", "http://e"),
        ("AZURE_STORAGE_ACCOUNT_NAME", "n"),
        ("GOOGLE_SERVICE_ACCOUNT", "s"),
        ("HOME", "h"),
    ];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let mut options = StoreOptions::from_variables(variables);
    for (place, name) in [
        ("", "aws.region"),
        ("s3://b/", "AWS.Access_Key_Id"),
        ("", "aws.timeout"),
        ("", "azure.account_key"),
        ("", "google.service_account_key"),
        ("", "gcp.skip_signature"),
        ("", "http.proxy_url"),
    ] {
        options.set(place, name, "v").unwrap();
    }
    let expect = [
        ("aws_access_key_id", "id"),
        ("aws_endpoint_url_s3", "http://e"),
        ("aws_region", "v"),
        ("aws_timeout", "v"),
        ("aws_access_key_id", "v"),
    ];
    assert_eq!(options.of(Family::Aws, "s3://b"), expect);
    assert_eq!(options.of(Family::Aws, "s3://c"), expect[..4]);
    assert_eq!(options.of(Family::Http, "https://c"), [("proxy_url", "v")]);
    assert_eq!(options.of(Family::Azure, "az://c").len(), 2);
    assert_eq!(options.of(Family::Gcp, "gs://c").len(), 3);
    assert!(!format!("{options:?}").contains("\"v\""), "{options:?}");
}

#[test]
fn mistakes_name_the_nearest_option() {
    for (name, expect) in [
        ("aws.acces_key_id", "did you mean aws.access_key_id?"),
        ("aws.bucket", "there is no option aws.bucket"),
        ("azure.container_name", "there is no option"),
        ("region", "there is no option region"),
    ] {
        let error = StoreOptions::default().set("", name, "v").unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    }
}
