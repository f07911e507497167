//! Users, tokens and TLS.

use std::path::Path;
use std::time::Duration;

use arrow_flight::sql::client::FlightSqlServiceClient;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tidegate_flight::{Limits, ServeError, Server, ServerOptions, Tls, Users, hash_password};
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::support::{
    ENDLESS, answer, eventually, failure, num_running, options, query, session, start, start_with,
    status_of,
};

pub(crate) fn users() -> Users {
    let (ada, bob) = (hash_password("one").unwrap(), hash_password("two").unwrap());
    let text = format!(
        "[[users]]\nname = \"ada\"\npassword = \"{ada}\"\nadmin = true\n\
         [[users]]\nname = \"bob\"\npassword = \"{bob}\"\n"
    );
    Users::parse(&text, Path::new("")).unwrap()
}

fn closed() -> ServerOptions {
    ServerOptions {
        users: Some(users()),
        ..options()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_gives_a_token_and_a_token_a_session() {
    let server = start_with(session(&[]), closed()).await;
    let client = &mut server.client().await;
    let (code, message) = failure(client, "SELECT 1").await;
    assert_eq!(code, Code::Unauthenticated, "{message}");
    for (name, password) in [("ada", "two"), ("eve", "one"), ("", ""), ("ada", "")] {
        let error = client
            .handshake(name, password)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("wrong"), "{error}");
    }
    client.handshake("ada", "one").await.unwrap();
    assert_eq!(answer(client, "SELECT 1").await, ["1"]);
    // The token is the session, by whatever connection it comes.
    answer(client, "CREATE TABLE temp.own AS VALUES (1)").await;
    let again = &mut server.client().await;
    again.set_token(client.token().unwrap().clone());
    assert_eq!(answer(again, "SELECT * FROM temp.own").await, ["1"]);
    again.set_token("0".repeat(64));
    assert_eq!(failure(again, "SELECT 1").await.0, Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_and_password_may_come_with_each_call() {
    let server = start_with(session(&[]), closed()).await;
    let client = &mut server.client().await;
    client.set_header("authorization", "Basic YWRhOm9uZQ==");
    assert_eq!(answer(client, "SELECT 1").await, ["1"]);
    let users = || -> Vec<String> {
        let sessions = server.session.client_sessions().into_iter();
        sessions.map(|session| session.user.to_string()).collect()
    };
    assert_eq!(users(), ["ada"]);
    // They are a session as long as the connection is there.
    answer(client, "CREATE TABLE temp.own AS VALUES (1)").await;
    answer(client, "SET tidegate.float_sums = 'ordered'").await;
    let level = "SELECT value FROM system.settings WHERE name = 'tidegate.float_sums'";
    for _ in 0..20 {
        assert_eq!(answer(client, "SELECT * FROM temp.own").await, ["1"]);
        assert_eq!(answer(client, level).await, ["ordered"]);
    }
    assert_eq!(server.watch.num_sessions(), 1);
    let other = &mut server.client().await;
    other.set_header("authorization", "basic YWRhOm9uZQ");
    assert!(
        failure(other, "SELECT * FROM temp.own")
            .await
            .1
            .contains("own")
    );
    // Another person on the same connection has another session.
    client.set_header("authorization", "Basic Ym9iOnR3bw==");
    assert!(
        failure(client, "SELECT * FROM temp.own")
            .await
            .1
            .contains("own")
    );
    assert!(users().contains(&"bob".to_string()), "{:?}", users());
    for wrong in [
        "Basic YWRhOnR3bw==",
        "Basic !",
        "Basic",
        "Digest YWRhOm9uZQ==",
        "",
    ] {
        client.set_header("authorization", wrong);
        for _ in 0..2 {
            let (code, message) = failure(client, "SELECT 1").await;
            assert_eq!(code, Code::Unauthenticated, "{wrong}: {message}");
        }
    }
    client.set_header("authorization", "Basic YWRhOm9uZQ==");
    assert_eq!(answer(client, "SELECT * FROM temp.own").await, ["1"]);
    drop(server.client().await);
}

/// A token of an identity provider, which is good until 2100, with the key that checks it beside it.
const JWT: &str = include_str!("../../src/users/jwt/made_by_openssl/RS256.jwt").trim_ascii_end();

/// A users file that takes such tokens, and one name with a password.
pub(crate) fn users_with_tokens() -> Users {
    let bob = hash_password("two").unwrap();
    let text = format!(
        "[[users]]\nname = \"bob\"\npassword = \"{bob}\"\n\
         [jwt]\nkeys = \"pub.pem\"\nissuer = \"https://id.example/\"\naudience = \"tidegate\"\n"
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/users/jwt/made_by_openssl");
    Users::parse(&text, Path::new(folder)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_identity_provider_lets_its_user_in() {
    let options = ServerOptions {
        users: Some(users_with_tokens()),
        ..options()
    };
    let server = start_with(session(&[]), options).await;
    let client = &mut server.client().await;
    client.set_token(JWT.into());
    answer(client, "CREATE TABLE temp.own AS VALUES (1)").await;
    assert_eq!(answer(client, "SELECT * FROM temp.own").await, ["1"]);
    let sessions = server.session.client_sessions();
    let users: Vec<&str> = sessions.iter().map(|session| &*session.user).collect();
    assert_eq!(users, ["ada"]);
    // Another connection is another session, as it is with a name and password on each call.
    let again = &mut server.client().await;
    again.set_token(JWT.into());
    let (_, message) = failure(again, "SELECT * FROM temp.own").await;
    assert!(message.contains("own"), "{message}");
    let (message, signed) = JWT.rsplit_once('.').unwrap();
    again.set_token(format!(
        "{message}.{}",
        signed.replacen(['a', 'b', 'c'], "d", 1)
    ));
    let (code, message) = failure(again, "SELECT 1").await;
    assert_eq!(code, Code::Unauthenticated);
    assert!(message.contains("signature is wrong"), "{message}");
    // Passwords are taken as before.
    let other = &mut server.client().await;
    other.handshake("bob", "two").await.unwrap();
    assert_eq!(answer(other, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_identity_provider_takes_no_such_token() {
    let server = start_with(session(&[]), closed()).await;
    let client = &mut server.client().await;
    client.set_token(JWT.into());
    let (code, message) = failure(client, "SELECT 1").await;
    assert_eq!(code, Code::Unauthenticated);
    assert!(message.contains("unknown"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_fetches_what_another_asked_for() {
    let server = start_with(session(&[]), closed()).await;
    let (ada, bob) = (&mut server.client().await, &mut server.client().await);
    ada.handshake("ada", "one").await.unwrap();
    bob.handshake("bob", "two").await.unwrap();
    let info = ada.execute("SELECT 1".into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let error = status_of(bob.do_get(ticket).await.unwrap_err());
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(crate::support::fetch(ada, info).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_stop_their_own_queries_and_admins_all() {
    let server = start_with(session(&[]), closed()).await;
    let (ada, bob) = (&mut server.client().await, &mut server.client().await);
    ada.handshake("ada", "one").await.unwrap();
    bob.handshake("bob", "two").await.unwrap();
    let running = |user: &str| {
        format!(
            "SELECT query_id FROM system.queries WHERE state = 'running' AND sql LIKE '%{user}%' \
             AND sql NOT LIKE '%system%'"
        )
    };
    for (mut owner, name, is_adas) in [(ada.clone(), "ada", true), (bob.clone(), "bob", false)] {
        let endless = format!("{ENDLESS} -- {name}");
        let task = tokio::spawn(async move { failure(&mut owner, &endless).await });
        let mut id = String::new();
        eventually("the query runs", async || {
            let mut ids = answer(&mut ada.clone(), &running(name)).await;
            id = ids.pop().unwrap_or_default();
            !id.is_empty()
        })
        .await;
        if is_adas {
            assert!(answer(bob, &running(name)).await.is_empty());
            let (code, message) = failure(bob, &format!("KILL QUERY {id}")).await;
            assert_eq!(code, Code::InvalidArgument);
            assert!(message.contains("you may cancel"), "{message}");
        }
        let stopped = answer(ada, &format!("KILL QUERY {id}")).await;
        assert_eq!(stopped, [format!("{id}|stopping")]);
        let (code, message) = task.await.unwrap();
        assert_eq!(code, Code::Cancelled, "{message}");
    }
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_end() {
    let limits = Limits {
        token_life: Duration::from_millis(300),
        ..options().limits
    };
    let server = start_with(session(&[]), ServerOptions { limits, ..closed() }).await;
    let client = &mut server.client().await;
    client.handshake("bob", "two").await.unwrap();
    answer(client, "SELECT 1").await;
    tokio::time::sleep(Duration::from_millis(350)).await;
    let (code, message) = failure(client, "SELECT 1").await;
    assert_eq!(code, Code::Unauthenticated);
    assert!(message.contains("log in again"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_users_has_a_session_for_each_connection() {
    let server = start().await;
    let client = server.client().await;
    let mut clone = client.clone();
    answer(&mut client.clone(), "CREATE TABLE temp.own AS VALUES (1)").await;
    assert_eq!(answer(&mut clone, "SELECT * FROM temp.own").await, ["1"]);
    assert!(
        query(&mut server.client().await, "SELECT * FROM temp.own")
            .await
            .is_err()
    );
    drop((client, clone));
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    // Whoever wants one beyond the connection may log in under any name.
    let named = &mut server.client().await;
    named.handshake("who", "ever").await.unwrap();
    answer(named, "CREATE TABLE temp.kept AS VALUES (2)").await;
    let again = &mut server.client().await;
    again.set_token(named.token().unwrap().clone());
    assert_eq!(answer(again, "SELECT * FROM temp.kept").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_the_certificate_given() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let tls = Tls {
        certificate: cert.pem().into_bytes(),
        key: signing_key.serialize_pem().into_bytes(),
    };
    let server = start_with(
        session(&[]),
        ServerOptions {
            tls: Some(tls.clone()),
            ..closed()
        },
    )
    .await;
    let trusted = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&tls.certificate))
        .domain_name("localhost");
    let url = format!("https://{}", server.address);
    let endpoint = Endpoint::from_shared(url)
        .unwrap()
        .tls_config(trusted)
        .unwrap();
    let client = &mut FlightSqlServiceClient::new(endpoint.connect().await.unwrap());
    client.handshake("bob", "two").await.unwrap();
    assert_eq!(answer(client, "SELECT 1").await, ["1"]);
    // In the clear there is no answer, and the server goes on.
    let clear = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    if let Ok(channel) = clear.connect().await {
        let mut client = FlightSqlServiceClient::new(channel);
        assert!(client.execute("SELECT 1".into(), None).await.is_err());
    }
    assert_eq!(answer(client, "SELECT 2").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_safe_does_not_start() {
    let open = ServerOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..options()
    };
    let error = Server::bind(session(&[]), open).await.unwrap_err();
    assert!(matches!(error, ServeError::Unsafe { .. }), "{error}");
    let broken = ServerOptions {
        tls: Some(Tls {
            certificate: b"no certificate".to_vec(),
            key: b"no key".to_vec(),
        }),
        ..options()
    };
    let error = Server::bind(session(&[]), broken).await.unwrap_err();
    assert!(matches!(error, ServeError::Tls(_)), "{error}");
}
