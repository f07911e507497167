//! Who is let in, who is displaced, and when a silent connection ends.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::{Admitted, ConnectionLimiter, ConnectionLimits, ConnectionSlot, MOMENT, counted};

fn limiter(total: usize, pending_per_address: usize) -> Arc<ConnectionLimiter> {
    ConnectionLimiter::new(ConnectionLimits {
        total,
        pending_per_address,
        pending_idle: Duration::from_millis(200),
    })
}

/// Makes all connections so old that they can be displaced, and admits another.
fn admit(limiter: &Arc<ConnectionLimiter>, last: u8) -> Option<Arc<ConnectionSlot>> {
    for entry in limiter.open.lock().by_number.values_mut() {
        entry.opened -= MOMENT;
    }
    match limiter.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))) {
        Admitted::At(slot) => Some(slot),
        Admitted::Nowhere => None,
        Admitted::NotBefore(_) => panic!("all are old"),
    }
}

#[test]
fn the_oldest_pending_connection_of_an_address_makes_room() {
    let limiter = limiter(100, 2);
    let other = admit(&limiter, 1).unwrap();
    let [first, second, third] = [2, 2, 2].map(|last| admit(&limiter, last).unwrap());
    assert!(first.displaced.is_cancelled());
    assert!(!second.displaced.is_cancelled() && !third.displaced.is_cancelled());
    assert!(!other.displaced.is_cancelled());
    assert_eq!(limiter.counts(), (3, 3));
}

#[test]
fn who_has_authenticated_is_not_displaced_and_not_counted_by_address() {
    let limiter = limiter(3, 1);
    let known = [1, 1].map(|last| {
        let slot = admit(&limiter, last).unwrap();
        slot.authenticated();
        slot
    });
    let pending = admit(&limiter, 2).unwrap();
    // The port is full: the pending one goes, and nobody else.
    let third = admit(&limiter, 3).unwrap();
    assert!(pending.displaced.is_cancelled());
    third.authenticated();
    assert!(admit(&limiter, 4).is_none());
    assert!(known.iter().all(|slot| !slot.displaced.is_cancelled()));
    known[0].leave();
    assert!(admit(&limiter, 4).is_some());
    // One that was displaced has no place to keep, whatever its client does then.
    pending.authenticated();
    pending.leave();
    assert_eq!(limiter.counts(), (3, 1));
}

#[test]
fn a_connection_whose_password_is_checked_goes_last() {
    let limiter = limiter(100, 2);
    let first = admit(&limiter, 1).unwrap();
    let check = first.checking();
    let second = admit(&limiter, 1).unwrap();
    let _third = admit(&limiter, 1).unwrap();
    assert!(!first.displaced.is_cancelled() && second.displaced.is_cancelled());
    drop(check);
    let _fourth = admit(&limiter, 1).unwrap();
    assert!(!first.displaced.is_cancelled(), "its time began again");
    let _fifth = admit(&limiter, 1).unwrap();
    assert!(first.displaced.is_cancelled());
}

#[tokio::test]
async fn none_is_displaced_before_its_moment_is_over() {
    let limiter = limiter(100, 1);
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let first = limiter.place(address).await.unwrap();
    assert!(matches!(limiter.admit(address), Admitted::NotBefore(_)));
    assert!(!first.displaced.is_cancelled());
    let begin = std::time::Instant::now();
    limiter.place(address).await.unwrap();
    assert!(first.displaced.is_cancelled());
    assert!(begin.elapsed() >= MOMENT / 2);
    // Others do not wait for it.
    assert!(matches!(
        limiter.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        Admitted::At(_)
    ));
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let [one, same, other] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"]
        .map(|text| counted(text.parse::<IpAddr>().unwrap()));
    assert_eq!(one, same);
    assert_ne!(one, other);
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    assert_eq!(counted(mapped), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
}

#[tokio::test]
async fn a_silent_connection_ends_and_an_authenticated_one_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limiter = limiter(10, 10);
    let _clients = [
        TcpStream::connect(address).await.unwrap(),
        TcpStream::connect(address).await.unwrap(),
    ];
    let mut silent = limiter.accept(&listener).await;
    let mut known = limiter.accept(&listener).await;
    known.slot().authenticated();
    let error = silent.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    let patience = Duration::from_millis(400);
    let read = tokio::time::timeout(patience, known.read_u8()).await;
    assert!(read.is_err(), "the connection ended: {read:?}");
    drop((silent, known));
    assert_eq!(limiter.counts(), (0, 0));
}

#[tokio::test]
async fn an_answer_and_a_check_extend_the_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let limiter = limiter(10, 10);
    let mut stream = limiter.accept(&listener).await;
    let slot = Arc::clone(stream.slot());
    let check = slot.checking();
    let patience = Duration::from_millis(500);
    let read = tokio::time::timeout(patience, stream.read_u8()).await;
    assert!(read.is_err(), "cut during a check: {read:?}");
    drop(check);
    slot.answered();
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_u8()).await;
    assert!(ended.unwrap().is_err());
}
