//! The writer on a database of its own.

use std::path::PathBuf;

use sqlx::{ConnectOptions, Executor};
use sqlx_sqlite::SqliteJournalMode;

use super::*;
use crate::engine::files;
use crate::engine::wal_index::WalIndex;

/// A writer of a database in a folder of its own.
struct Example {
    folder: PathBuf,
    writer: Writer,
    generations: Arc<Generations>,
}

impl Example {
    async fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("writer-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("example.db");
        files::prepare(&path).unwrap();
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal);
        let mut connection = options.connect().await.unwrap();
        let table = "CREATE TABLE numbers (n INTEGER PRIMARY KEY)";
        connection.execute(table).await.unwrap();
        let file = Arc::new(DataFile::open(&path).unwrap());
        let index = Arc::new(WalIndex::open(&path).unwrap());
        let generations = Arc::new(Generations::new(Arc::clone(&index)));
        let checkpoints = Checkpoints::start(options.clone(), Arc::clone(&file), index).unwrap();
        let shared = Arc::clone(&generations);
        let writer = Writer::start(options, connection, file, shared, checkpoints);
        Self {
            folder,
            writer,
            generations,
        }
    }

    /// Submits a script that inserts some numbers.
    fn insert(&self, numbers: &[i64]) -> tokio::task::JoinHandle<Result<(), StoreError>> {
        let mut script = Writer::script();
        for number in numbers {
            let query = script.statement("INSERT INTO numbers (n) VALUES (");
            query.push_bind(*number).push(")");
        }
        let writer = self.writer.clone();
        tokio::spawn(async move { writer.run(script).await })
    }

    async fn numbers(&self) -> Vec<i64> {
        let mut tx = self.writer.begin().await.unwrap();
        let query = sqlx::query_scalar("SELECT n FROM numbers ORDER BY n");
        query.fetch_all(&mut *tx).await.unwrap()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn scripts_join_the_group_of_a_transaction_and_fail_by_themselves() {
    let example = Example::new().await;
    let mut tx = example.writer.begin().await.unwrap();
    let insert = "INSERT INTO numbers (n) VALUES (1)";
    tx.execute(insert).await.unwrap();
    // The second one fails after its first row, which must not stay.
    let scripts = [&[2][..], &[3, 1], &[4]].map(|numbers| example.insert(numbers));
    tokio::task::yield_now().await;
    tx.commit().await.unwrap();
    let [first, second, third] = scripts;
    first.await.unwrap().unwrap();
    let error = second.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Database(_)), "{error}");
    third.await.unwrap().unwrap();
    assert_eq!(example.numbers().await, [1, 2, 4]);
}

#[tokio::test]
async fn a_transaction_follows_a_script_and_a_dropped_one_leaves_nothing() {
    let example = Example::new().await;
    let held = example.writer.begin().await.unwrap();
    let script = example.insert(&[1]);
    tokio::task::yield_now().await;
    let writer = example.writer.clone();
    let dropped = tokio::spawn(async move {
        let mut tx = writer.begin().await.unwrap();
        let insert = "INSERT INTO numbers (n) VALUES (2)";
        tx.execute(insert).await.unwrap();
    });
    tokio::task::yield_now().await;
    drop(held);
    script.await.unwrap().unwrap();
    dropped.await.unwrap();
    assert_eq!(example.numbers().await, [1]);
}

#[tokio::test]
async fn only_scripts_keep_the_generation() {
    let example = Example::new().await;
    let generation = || example.generations.now().expect("the header is readable");
    // The first commit writes the header.
    example.insert(&[0]).await.unwrap().unwrap();
    let before = generation();
    example.insert(&[1]).await.unwrap().unwrap();
    assert_eq!(generation(), before);
    assert!(example.insert(&[1]).await.unwrap().is_err());
    assert_eq!(generation(), before);
    let mut tx = example.writer.begin().await.unwrap();
    tx.execute("DELETE FROM numbers").await.unwrap();
    tx.commit().await.unwrap();
    let after = generation();
    assert_ne!(after, before);
    assert_eq!(generation(), after);
}
