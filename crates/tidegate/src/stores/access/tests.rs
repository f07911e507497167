//! Paths are judged by where they lead.

use std::os::unix::fs::symlink;

use super::AllowedPaths;

#[test]
fn paths_are_judged_by_where_they_lead() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("in"), root.join("out"));
    std::fs::create_dir_all(inside.join("deep")).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s").unwrap();
    std::fs::write(inside.join("a"), "a").unwrap();
    symlink(&outside, inside.join("away")).unwrap();
    symlink(inside.join("a"), inside.join("b")).unwrap();
    symlink(outside.join("later"), inside.join("dangling")).unwrap();
    symlink(&inside, outside.join("home")).unwrap();
    let allowed = AllowedPaths::new(std::slice::from_ref(&inside)).unwrap();
    for (path, expect) in [
        ("in", true),
        ("in/a", true),
        ("in/b", true),
        ("in/new", true),
        ("in/deep/er/new", true),
        ("in/deep/../a", true),
        ("out/home/a", true),
        ("", false),
        ("out", false),
        ("out/secret", false),
        ("inside", false),
        ("in/../out/secret", false),
        ("in/away", false),
        ("in/away/secret", false),
        ("in/away/new", false),
        ("in/dangling", false),
        ("in/new/../../out/secret", false),
    ] {
        assert_eq!(allowed.allows(&root.join(path)), expect, "{path}");
    }
}

#[test]
fn nothing_is_allowed_by_default() {
    assert!(!AllowedPaths::default().allows(std::path::Path::new("/")));
    let error = AllowedPaths::new(&["/no/such/folder".into()]).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    for url in [
        "ftp://host",
        "s3://",
        "https://u:p@host",
        "https://host/a?b=c",
    ] {
        assert!(AllowedPaths::new(&[url.into()]).is_err(), "{url}");
    }
}

#[test]
fn buckets_and_hosts_are_allowed_with_what_is_below() {
    let allowed = [
        "s3://all",
        "s3://some/logs",
        "https://host",
        "https://host:81/data/",
    ];
    let allowed = AllowedPaths::new(&allowed.map(Into::into)).unwrap();
    for (url, expect) in [
        ("s3://all/a/b.parquet", true),
        ("s3a://all/a/b.parquet", true),
        ("s3://all/", true),
        ("s3://alles/a", false),
        ("gs://all/a", false),
        ("s3://some/logs/a", true),
        ("s3://some/logs", true),
        ("s3://some/logsmore/a", false),
        ("s3://some/a", false),
        ("s3://some/logs/../a", false),
        ("s3://some/logs/%2e%2e/a", false),
        ("https://host/a.csv", true),
        ("https://host:443/a.csv", true),
        ("http://host/a.csv", false),
        ("https://host:81/data/a.csv", true),
        ("https://host:81/a.csv", false),
        ("https://host.evil/a.csv", false),
        ("https://evil@host/a.csv", false),
        ("/etc/passwd", false),
        ("file:///etc/passwd", false),
    ] {
        let found = allowed.check_text(url).is_ok();
        assert_eq!(found, expect, "{url}");
    }
}
