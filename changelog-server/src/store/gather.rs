//! Questions that wait at the same moment share one statement.
//!
//! What a request asks of the database is small; getting there is not: on
//! SQLite two switches of thread, on PostgreSQL a round trip. With 32
//! connections that read by id, one statement for whoever waits answers three
//! times as many requests as one statement each (see `tests/benches`). Nobody
//! waits for company: whoever comes while a statement runs goes with the next.
//!
//! Nothing is kept from one statement to the next, so that an answer is never
//! older than its question.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};

use super::StoreError;

/// How many questions may wait before a caller waits for a place.
const QUEUE: usize = 4_096;

/// How long a caller waits for what is to be read; it has five seconds in all.
const DEADLINE: Duration = Duration::from_secs(4);

/// A way to the tasks that answer questions `Q` with answers `A`.
#[derive(Debug)]
pub(super) struct Gather<Q, A> {
    queue: mpsc::Sender<Asked<Q, A>>,
}

/// A question and where its answer goes.
type Asked<Q, A> = (Q, oneshot::Sender<Result<A, StoreError>>);

/// What a statement says to all the questions that it was asked, in their
/// order; an error of the whole is everybody's.
pub(super) type Answers<A> = Result<Vec<Result<A, StoreError>>, StoreError>;

impl<Q, A> Clone for Gather<Q, A> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
        }
    }
}

impl<Q, A> Gather<Q, A>
where
    Q: Send + 'static,
    A: Send + 'static,
{
    /// Starts some tasks, each of which answers at most so many questions at
    /// once; they end when every `Gather` is gone.
    pub(super) fn start<F, W>(tasks: usize, most: usize, work: W) -> Self
    where
        W: Fn(Vec<Q>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answers<A>> + Send + 'static,
    {
        let (queue, asked) = mpsc::channel(QUEUE);
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..tasks {
            tokio::spawn(answer(Arc::clone(&asked), tasks, most, work.clone()));
        }
        Self { queue }
    }

    /// Asks for something to be read, and waits for the answer, but not for
    /// ever: what is asked just after a database has stopped to answer waits
    /// until that shows, and then for its own turn.
    pub(super) async fn read(&self, question: Q) -> Result<A, StoreError> {
        let late = || StoreError::Unavailable("the database did not answer in time".into());
        tokio::time::timeout(DEADLINE, self.ask(question))
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, question: Q) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || StoreError::Unavailable("the store is closing".into());
        self.queue
            .send((question, reply))
            .await
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn answer<Q, A, F, W>(
    asked: Arc<Mutex<mpsc::Receiver<Asked<Q, A>>>>,
    tasks: usize,
    most: usize,
    work: W,
) where
    W: Fn(Vec<Q>) -> F,
    F: Future<Output = Answers<A>>,
{
    loop {
        let mut batch = Vec::new();
        let mut asked = asked.lock().await;
        // What waits is for all the tasks.
        let share = asked.len().div_ceil(tasks).clamp(1, most);
        if asked.recv_many(&mut batch, share).await == 0 {
            return;
        }
        drop(asked);
        let (questions, replies): (Vec<Q>, Vec<_>) = batch.into_iter().unzip();
        match work(questions).await {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // Whoever has left needs no answer.
                    let _ = reply.send(answer);
                }
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}
