//! Who is let into a cluster.

use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tidegate_cluster::{
    Cluster, ClusterError, ClusterTls, Executor, ExecutorOptions, Links, Secret,
};

use crate::nodes::{Nodes, SECRET, bound, builder, links};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_secret_is_refused() {
    let nodes = Nodes::alone().await;
    let stranger = bound(
        "x",
        builder().build().unwrap(),
        vec![nodes.url.clone()],
        links("another secret of 32 bytes or so"),
    )
    .await;
    let ended = stranger.unwrap().run(std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let Err(ClusterError::Refused(why)) = ended.unwrap() else {
        panic!("it was let in");
    };
    assert!(why.contains("--cluster-secret-file"), "{why}");
    assert_eq!(nodes.num_ready(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_answers_only_its_cluster() {
    let nodes = Nodes::start(1).await;
    let url = nodes
        .rows("SELECT url FROM system.executors")
        .await
        .remove(0);
    // A scheduler with another secret does not even learn the executor's version.
    let channel = tonic::transport::Endpoint::from_shared(url)
        .unwrap()
        .connect()
        .await
        .unwrap();
    let channel = datafusion_distributed::grpc::BoxCloneSyncChannel::new(channel);
    let mut client = datafusion_distributed::grpc::create_worker_client(channel);
    let asked = client
        .get_worker_info(datafusion_distributed::GetWorkerInfoRequest {})
        .await;
    let refused = asked.err().unwrap().to_string();
    assert!(refused.contains("--cluster-secret-file"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_is_not_talked_over_in_the_clear() {
    let session = builder().build().unwrap();
    let cluster = Cluster::new(links(SECRET)).unwrap();
    let refused = cluster.listen(&session, ([0, 0, 0, 0], 0).into()).await;
    assert!(matches!(refused, Err(ClusterError::InTheClear { .. })));
    let options = ExecutorOptions {
        name: "e".into(),
        listen: ([0, 0, 0, 0], 0).into(),
        advertise: None,
        join: vec!["http://127.0.0.1:1".parse().unwrap()],
        links: links(SECRET),
        ends_with_scheduler: false,
        drain: Duration::ZERO,
    };
    let refused = Executor::bind(session, options).await;
    assert!(matches!(refused, Err(ClusterError::InTheClear { .. })));
    assert!(Secret::try_new(b"short").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_talk_over_tls() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
    let tls = ClusterTls {
        certificate: cert.pem().into_bytes(),
        key: signing_key.serialize_pem().into_bytes(),
        ca: cert.pem().into_bytes(),
    };
    let links = Links {
        tls: Some(tls),
        ..links(SECRET)
    };
    let nodes = Nodes::linked(links.clone(), 2).await;
    assert_eq!(nodes.url.scheme(), "https");
    let alone = builder().build().unwrap();
    let sql = "SELECT id1, count(*) FROM h2o_g1(100000, 10) GROUP BY id1";
    nodes.same(&alone, sql).await;
    // Whoever trusts another certificate does not join.
    let other = generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
    let mut stranger = links;
    if let Some(tls) = &mut stranger.tls {
        tls.ca = other.cert.pem().into_bytes();
    }
    let stranger = bound(
        "x",
        builder().build().unwrap(),
        vec![nodes.url.clone()],
        stranger,
    )
    .await;
    let running = stranger.unwrap().run(std::future::pending());
    let joined = tokio::time::timeout(Duration::from_secs(2), running).await;
    assert!(joined.is_err());
    assert_eq!(nodes.num_ready(), 2);
}
