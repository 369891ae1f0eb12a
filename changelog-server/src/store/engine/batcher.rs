//! Questions that wait at the same moment share one statement.
//!
//! What a request asks of the database is small; getting there is not: on
//! SQLite two switches of thread, on PostgreSQL a round trip. With 32
//! connections that read by id, one statement for all that wait answers three
//! times as many requests as one statement each (see `tests/benches`). No
//! question waits for company: one that comes while a statement runs goes with
//! the next.
//!
//! Questions wait in lanes, one for each organization, and lanes are served in
//! rotation, so that an organization that asks much does not hold up the others.
//!
//! Nothing is kept from one statement to the next, so that an answer is never
//! older than its question.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::StoreError;
use super::fair_share::PERMIT_TIMEOUT;

/// How long a caller waits for what is to be read; it has five seconds in all.
const DEADLINE: Duration = Duration::from_secs(4);

/// How much is done at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<Q> {
    /// Batches that run at the same time.
    pub(crate) batches: usize,
    /// Batches with questions of one lane that run at the same time.
    pub(crate) batches_of_lane: usize,
    /// Questions in a batch.
    pub(crate) size: usize,
    /// Whether questions of several lanes go together.
    pub(crate) mixed: bool,
    /// What a question counts for in a batch, at least 1; one that counts for
    /// more than `size` goes alone.
    pub(crate) weight: fn(&Q) -> usize,
}

/// A way to the work that answers questions `Q` with answers `A`.
pub(crate) struct Batcher<K, Q, A>(Arc<Shared<K, Q, A>>);

impl<K, Q, A> Clone for Batcher<K, Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, Q, A> std::fmt::Debug for Batcher<K, Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batcher")
    }
}

/// What a statement says to all the questions that it was asked, in their
/// order; an error of the whole is everybody's.
pub(crate) type Answers<A> = Result<Vec<Result<A, StoreError>>, StoreError>;

type Work<Q, A> = dyn Fn(Vec<Q>) -> Pin<Box<dyn Future<Output = Answers<A>> + Send>> + Send + Sync;

struct Shared<K, Q, A> {
    limits: Limits<Q>,
    work: Box<Work<Q, A>>,
    lanes: Mutex<Lanes<K, Q, A>>,
}

/// The lanes that have questions or are being served.
struct Lanes<K, Q, A> {
    by_key: HashMap<K, Lane<Q, A>>,
    /// The lanes with questions, the next to be served first.
    rotation: VecDeque<K>,
    running: usize,
    waiting: usize,
}

struct Lane<Q, A> {
    waiting: VecDeque<Asked<Q, A>>,
    running: usize,
    /// Why the last batch with its questions failed as a whole, if it did.
    failure: Option<StoreError>,
}

struct Asked<Q, A> {
    question: Q,
    reply: oneshot::Sender<Result<A, StoreError>>,
    since: Instant,
}

/// Questions that go together.
struct Batch<K, Q, A> {
    lanes: Vec<K>,
    asked: Vec<Asked<Q, A>>,
}

impl<K, Q, A> Batcher<K, Q, A>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
    Q: Send + 'static,
    A: Send + 'static,
{
    /// Makes a batcher whose work answers some questions at once.
    pub(crate) fn new<F, W>(limits: Limits<Q>, work: W) -> Self
    where
        W: Fn(Vec<Q>) -> F + Send + Sync + 'static,
        F: Future<Output = Answers<A>> + Send + 'static,
    {
        Self(Arc::new(Shared {
            limits,
            work: Box::new(move |questions| Box::pin(work(questions))),
            lanes: Mutex::new(Lanes {
                by_key: HashMap::new(),
                rotation: VecDeque::new(),
                running: 0,
                waiting: 0,
            }),
        }))
    }

    /// Asks for something to be read, and waits for the answer, but not for
    /// ever: what is asked just after a database has stopped to answer waits
    /// until that shows, and then for its own turn.
    pub(crate) async fn read(&self, lane: K, question: Q) -> Result<A, StoreError> {
        let answer = tokio::time::timeout(DEADLINE, self.submit(lane, question));
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(
                "the database did not answer in time".into(),
            ))
        })
    }

    /// Asks, and waits for the answer. A question whose caller leaves before its
    /// batch begins is never put to the database.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when the lane has too many questions for each
    /// to be put to the database soon.
    pub(crate) async fn submit(&self, lane: K, question: Q) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        let batch = {
            let mut lanes = self.0.lock();
            let asked = Asked {
                question,
                reply,
                since: Instant::now(),
            };
            lanes.push(lane, asked);
            lanes.next(&self.0.limits)
        };
        if let Some(batch) = batch {
            tokio::spawn(Shared::run(Arc::clone(&self.0), batch));
        }
        let gone = || StoreError::Unavailable("the store is closing".into());
        answer.await.map_err(|_| gone())?
    }
}

impl<K, Q, A> Lanes<K, Q, A>
where
    K: Copy + Eq + Hash,
{
    fn push(&mut self, lane: K, asked: Asked<Q, A>) {
        let queue = self.by_key.entry(lane).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            running: 0,
            failure: None,
        });
        if queue.waiting.is_empty() {
            self.rotation.push_back(lane);
        }
        queue.waiting.push_back(asked);
        self.waiting += 1;
    }

    /// Takes the next batch, if one may begin.
    fn next(&mut self, limits: &Limits<Q>) -> Option<Batch<K, Q, A>> {
        if self.running >= limits.batches {
            return None;
        }
        let mut batch = Batch {
            lanes: Vec::new(),
            asked: Vec::new(),
        };
        // What waits is for all the batches that may run.
        let share = self.waiting.div_ceil(limits.batches);
        let mut room = share.clamp(1, limits.size);
        // How many lanes in a row kept what they have.
        let mut passed = 0;
        while room > 0 && passed < self.rotation.len() {
            let Some(key) = self.rotation.pop_front() else {
                break;
            };
            let Some(lane) = self.by_key.get_mut(&key) else {
                continue;
            };
            let before = (lane.waiting.len(), batch.asked.len());
            if !limits.mixed {
                let share = before.0.div_ceil(limits.batches_of_lane);
                room = share.clamp(1, limits.size);
            }
            let member = batch.lanes.contains(&key);
            if member || lane.running < limits.batches_of_lane {
                // Of several lanes each gives one question at a time.
                let most = if limits.mixed { 1 } else { usize::MAX };
                lane.give(most, &mut room, &mut batch.asked, limits.weight);
            }
            self.waiting -= before.0 - lane.waiting.len();
            let gave = batch.asked.len() > before.1;
            if gave && !member {
                lane.running += 1;
                batch.lanes.push(key);
            }
            if !lane.waiting.is_empty() {
                self.rotation.push_back(key);
                passed += 1;
            } else if lane.running == 0 {
                self.by_key.remove(&key);
            }
            if gave {
                if !limits.mixed {
                    break;
                }
                passed = 0;
            }
        }
        if batch.asked.is_empty() {
            return None;
        }
        self.running += 1;
        Some(batch)
    }

    /// Notes that a batch has ended.
    fn ended(&mut self, batch: &[K], failure: Option<&StoreError>) {
        self.running -= 1;
        for key in batch {
            if let Some(lane) = self.by_key.get_mut(key) {
                lane.running -= 1;
                lane.failure = failure.cloned();
                if lane.running == 0 && lane.waiting.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }
}

impl<Q, A> Lane<Q, A> {
    /// Gives some questions to a batch, as far as there is room; the first of a
    /// batch always goes. A caller that has left gets no answer, and nothing is
    /// done for it; one that has waited too long is refused.
    fn give(
        &mut self,
        most: usize,
        room: &mut usize,
        batch: &mut Vec<Asked<Q, A>>,
        weight: fn(&Q) -> usize,
    ) {
        let mut given = 0;
        while given < most
            && let Some(asked) = self.waiting.pop_front()
        {
            if asked.reply.is_closed() {
                continue;
            }
            if asked.since.elapsed() > PERMIT_TIMEOUT {
                let _ = asked.reply.send(Err(self.refusal()));
                continue;
            }
            let weight = weight(&asked.question);
            if weight > *room && !batch.is_empty() {
                self.waiting.push_front(asked);
                return;
            }
            *room = room.saturating_sub(weight);
            batch.push(asked);
            given += 1;
            if *room == 0 {
                return;
            }
        }
    }

    /// Returns why a question is not put to the database: what it has waited for
    /// has failed, or there are too many others.
    fn refusal(&self) -> StoreError {
        match &self.failure {
            Some(failure @ (StoreError::Blocked(_) | StoreError::Unavailable(_))) => {
                failure.clone()
            }
            Some(failure) => StoreError::Unavailable(failure.to_string()),
            None => StoreError::Overloaded,
        }
    }
}

impl<K, Q, A> Shared<K, Q, A>
where
    K: Copy + Eq + Hash,
{
    fn lock(&self) -> MutexGuard<'_, Lanes<K, Q, A>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a batch, then the next, until nothing waits.
    async fn run(self: Arc<Self>, first: Batch<K, Q, A>) {
        let mut next = Some(first);
        while let Some(Batch { lanes, asked }) = next {
            let mut running = Running {
                shared: &self,
                lanes,
                failure: Some(StoreError::Unavailable("the work stopped".into())),
            };
            let (questions, replies): (Vec<Q>, Vec<_>) = asked
                .into_iter()
                .map(|asked| (asked.question, asked.reply))
                .unzip();
            let answers = (self.work)(questions).await;
            running.failure = answers.as_ref().err().cloned();
            match answers {
                Ok(answers) => {
                    for (reply, answer) in replies.into_iter().zip(answers) {
                        // A caller that has left needs no answer.
                        let _ = reply.send(answer);
                    }
                }
                Err(error) => {
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
            drop(running);
            next = self.lock().next(&self.limits);
        }
    }
}

/// A batch that runs; also one whose work panics has ended.
struct Running<'s, K: Eq + Hash + Copy, Q, A> {
    shared: &'s Shared<K, Q, A>,
    lanes: Vec<K>,
    failure: Option<StoreError>,
}

impl<K: Eq + Hash + Copy, Q, A> Drop for Running<'_, K, Q, A> {
    fn drop(&mut self) {
        let mut lanes = self.shared.lock();
        lanes.ended(&self.lanes, self.failure.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// Work that reports each batch and answers when it is told to.
    struct Bench {
        batcher: Batcher<char, u32, u32>,
        begun: mpsc::UnboundedReceiver<(Vec<u32>, oneshot::Sender<()>)>,
    }

    fn bench(limits: Limits<u32>) -> Bench {
        let (report, begun) = mpsc::unbounded_channel();
        let batcher = Batcher::new(limits, move |questions: Vec<u32>| {
            let (go_on, wait) = oneshot::channel();
            let _ = report.send((questions.clone(), go_on));
            async move {
                let _ = wait.await;
                Ok(questions.into_iter().map(Ok).collect())
            }
        });
        Bench { batcher, begun }
    }

    impl Bench {
        /// Asks, and waits until the question is in its lane.
        async fn ask(&self, lane: char, question: u32) -> tokio::task::JoinHandle<()> {
            let batcher = self.batcher.clone();
            let asking = tokio::spawn(async move {
                assert_eq!(batcher.submit(lane, question).await.unwrap(), question);
            });
            tokio::task::yield_now().await;
            asking
        }
    }

    const ONE_WRITER: Limits<u32> = Limits {
        batches: 1,
        batches_of_lane: 1,
        size: 4,
        mixed: true,
        weight: |question| (*question / 100).max(1) as usize,
    };

    #[tokio::test]
    async fn what_waits_goes_together_one_of_each_lane_after_the_other() {
        let mut bench = bench(ONE_WRITER);
        let mut asking = vec![bench.ask('a', 1).await];
        let (first, go_on) = bench.begun.recv().await.unwrap();
        assert_eq!(first, [1]);
        for (lane, question) in [('a', 2), ('a', 3), ('a', 4), ('b', 5), ('a', 6), ('b', 7)] {
            asking.push(bench.ask(lane, question).await);
        }
        go_on.send(()).unwrap();
        let (second, go_on) = bench.begun.recv().await.unwrap();
        assert_eq!(second, [2, 5, 3, 7]);
        go_on.send(()).unwrap();
        let (third, go_on) = bench.begun.recv().await.unwrap();
        assert_eq!(third, [4, 6]);
        go_on.send(()).unwrap();
        for asking in asking {
            asking.await.unwrap();
        }
        let lanes = bench.batcher.0.lock();
        assert!(lanes.by_key.is_empty() && lanes.running == 0 && lanes.waiting == 0);
    }

    #[tokio::test]
    async fn a_heavy_question_goes_alone_and_holds_up_each_lane_once() {
        let mut bench = bench(ONE_WRITER);
        let _first = bench.ask('a', 1).await;
        let (_, go_on) = bench.begun.recv().await.unwrap();
        let mut asking = Vec::new();
        for (lane, question) in [('a', 500), ('a', 501), ('b', 2), ('a', 502)] {
            asking.push(bench.ask(lane, question).await);
        }
        go_on.send(()).unwrap();
        let mut order = Vec::new();
        for _ in 0..4 {
            let (batch, go_on) = bench.begun.recv().await.unwrap();
            order.push(batch);
            go_on.send(()).unwrap();
        }
        assert_eq!(order, [vec![500], vec![2], vec![501], vec![502]]);
    }

    #[tokio::test]
    async fn lanes_run_beside_each_other_within_their_limits() {
        let mut bench = bench(Limits {
            batches: usize::MAX,
            batches_of_lane: 2,
            size: 8,
            mixed: false,
            weight: |_| 1,
        });
        let mut asking = Vec::new();
        for (lane, question) in [('a', 1), ('a', 2), ('a', 3), ('a', 4), ('b', 5)] {
            asking.push(bench.ask(lane, question).await);
        }
        let mut begun = Vec::new();
        for _ in 0..3 {
            begun.push(bench.begun.recv().await.unwrap());
        }
        let batches: Vec<_> = begun.iter().map(|(batch, _)| batch.clone()).collect();
        assert_eq!(batches, [vec![1], vec![2], vec![5]]);
        assert!(bench.begun.try_recv().is_err(), "two of a lane at most");
        begun.swap_remove(0).1.send(()).unwrap();
        // What waits is for both batches that a lane may have.
        assert_eq!(bench.begun.recv().await.unwrap().0, [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_left_is_not_served_and_who_waited_too_long_is_refused() {
        let mut bench = bench(ONE_WRITER);
        let _first = bench.ask('a', 1).await;
        let (_, go_on) = bench.begun.recv().await.unwrap();
        let left = bench.ask('a', 2).await;
        left.abort();
        let batcher = bench.batcher.clone();
        let late = tokio::spawn(async move { batcher.submit('a', 3).await });
        tokio::task::yield_now().await;
        tokio::time::advance(PERMIT_TIMEOUT + Duration::from_millis(1)).await;
        let _last = bench.ask('b', 4).await;
        go_on.send(()).unwrap();
        assert!(matches!(late.await.unwrap(), Err(StoreError::Overloaded)));
        assert_eq!(bench.begun.recv().await.unwrap().0, [4]);
    }
}
