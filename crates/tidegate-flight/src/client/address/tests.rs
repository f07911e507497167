//! URLs name a host and a port.

use super::super::ConnectOptions;
use super::Address;

fn options(url: &str, password: Option<&str>) -> ConnectOptions {
    ConnectOptions {
        url: url.into(),
        password: password.map(Into::into),
        ..ConnectOptions::default()
    }
}

#[test]
fn urls_name_a_host_and_a_port() {
    for (url, host, port, is_tls) in [
        ("grpc+tls://db.example:1", "db.example", 1, true),
        ("grpc+tls://db.example", "db.example", 31337, true),
        ("grpc://127.0.0.1:8/", "127.0.0.1", 8, false),
        ("grpc+tcp://[::1]:9", "[::1]", 9, false),
        ("grpc+tls://[::1]", "[::1]", 31337, true),
    ] {
        let expect = Address {
            host: host.into(),
            port,
            is_tls,
        };
        assert_eq!(Address::parse(&options(url, None)).unwrap(), expect);
    }
    for url in [
        "localhost:31337",
        "https://host",
        "grpc://",
        "grpc://:1",
        "grpc://host:port",
        "grpc://host:99999",
        "grpc://host/db",
    ] {
        assert!(Address::parse(&options(url, None)).is_err(), "{url}");
    }
}

#[test]
fn passwords_do_not_travel_in_the_clear() {
    let parse = |url: &str| Address::parse(&options(url, Some("hush")));
    for url in ["grpc://localhost", "grpc://[::1]", "grpc+tls://db.example"] {
        assert!(parse(url).is_ok(), "{url}");
    }
    let error = parse("grpc://db.example").unwrap_err().to_string();
    assert!(
        error.contains("use TLS") && !error.contains("hush"),
        "{error}"
    );
    let error = parse("grpc://me:hush@db.example").unwrap_err().to_string();
    assert!(
        error.contains("--user") && !error.contains("hush"),
        "{error}"
    );
}
