//! Without credentials nobody is asked if that is forbidden.

use std::sync::Arc;

use url::Url;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::{Family, StoreOptions, place};
use super::open;

fn opened(url: &str, given: &[(&str, &str)]) -> Result<String, String> {
    let url: Url = url.parse().unwrap();
    let mut options = StoreOptions::default();
    for (name, value) in given {
        options.set(&place(&url), name, value).unwrap();
    }
    let family = Family::of(url.scheme()).unwrap();
    let store = open(family, &url, &options, &Arc::default(), None);
    store
        .map(|store| store.to_string())
        .map_err(|error| error.to_string())
}

/// Asks for an object of a store of S3.
async fn asked(given: &[(&str, &str)]) -> String {
    let url: Url = "s3://b/k".parse().unwrap();
    let mut options = StoreOptions::default();
    for (name, value) in given {
        options.set("", name, value).unwrap();
    }
    let store = open(Family::Aws, &url, &options, &Arc::default(), None).unwrap();
    store.head(&Path::from("k")).await.unwrap_err().to_string()
}

#[tokio::test]
async fn without_credentials_nobody_is_asked_if_that_is_forbidden() {
    let message = asked(&[("aws.ec2_metadata_disabled", "TRUE")]).await;
    assert!(message.contains("'s3://b/k' cannot be read: no credentials were found: set AWS_"));
    assert!(message.contains("AWS_SKIP_SIGNATURE"), "{message}");
}

#[tokio::test]
async fn what_the_metadata_service_answers_is_not_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let answer =
                b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    let message = asked(&[("aws.metadata_endpoint", &endpoint)]).await;
    assert!(
        message.contains("no credentials were found: set AWS_"),
        "{message}"
    );
    assert!(
        !message.contains("403") && !message.contains("denied"),
        "{message}"
    );
}

#[test]
fn every_kind_of_url_opens_a_store() {
    let named = [
        ("azure.account_name", "n"),
        ("azure.skip_signature", "true"),
    ];
    for (url, given, expect) in [
        ("s3://b/k", &[][..], "s3://b"),
        ("s3a://b/", &[("aws.region", "x")], "s3://b"),
        ("gs://b/", &[("gcp.skip_signature", "true")], "gs://b"),
        ("az://c/k", &named, "az://c"),
        (
            "abfss://c@n.dfs.core.windows.net/k",
            &named[1..],
            "abfss://c@n.dfs.core.windows.net",
        ),
        ("https://h:8/k", &[("http.timeout", "1s")], "https://h:8"),
        ("http://h/k", &[], "http://h"),
    ] {
        assert_eq!(opened(url, given).as_deref(), Ok(expect));
    }
}

#[test]
fn what_cannot_be_opened_says_why_without_its_secrets() {
    for (url, given, expect) in [
        ("az://c/k", &[][..], "'az://c' cannot be opened"),
        (
            "s3://b/k",
            &[("aws.skip_signature", "hush")],
            "'s3://b' cannot",
        ),
        (
            "gs://b/",
            &[("gcp.service_account_key", "hush")],
            "'gs://b'",
        ),
        (
            "s3://me:hush@b/",
            &[],
            "a URL with a user or password is refused",
        ),
        (
            "https://hush@h/",
            &[],
            "a URL with a user or password is refused",
        ),
    ] {
        let message = opened(url, given).unwrap_err();
        assert!(message.contains(expect), "{message}");
        assert!(
            url.starts_with("s3://b") || !message.contains("hush"),
            "{message}"
        );
    }
}
