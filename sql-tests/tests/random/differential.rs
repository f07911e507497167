//! Random queries over random tables: `tidegate_sql_tests::differential` says which, and how to choose
//! others.

use tidegate_sql_tests::differential;

#[tokio::test(flavor = "multi_thread")]
async fn lanes_answer_as_datafusion_does() {
    differential::lanes_answer_as_datafusion_does().await;
}
