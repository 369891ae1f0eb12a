use tokio::sync::mpsc;

use super::*;

/// Runs batches that report their requests and end when they are released.
struct Bench {
    batcher: Batcher<char, u32, u32>,
    begun: mpsc::UnboundedReceiver<(Vec<u32>, oneshot::Sender<()>)>,
}

fn bench(limits: BatchLimits) -> Bench {
    let (report, begun) = mpsc::unbounded_channel();
    let batcher = Batcher::new(limits, weigh, move |requests: Vec<u32>| {
        let (release, wait) = oneshot::channel();
        let _ = report.send((requests.clone(), release));
        async move {
            let _ = wait.await;
            Ok(requests.into_iter().map(Ok).collect())
        }
    });
    Bench { batcher, begun }
}

impl Bench {
    /// Submits a request, and waits until it is in its lane.
    async fn submit(&self, lane: char, request: u32) -> tokio::task::JoinHandle<()> {
        let batcher = self.batcher.clone();
        let submitted = tokio::spawn(async move {
            assert_eq!(batcher.submit(lane, request).await.unwrap(), request);
        });
        tokio::task::yield_now().await;
        submitted
    }
}

/// Requests weigh a hundredth of their number.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that the batcher takes"
)]
fn weigh(request: &u32) -> usize {
    usize::try_from(*request / 100).unwrap().max(1)
}

const ONE_WRITER: BatchLimits = BatchLimits {
    batches: 1,
    batches_per_lane: 1,
    weight: 4,
    mixes_lanes: true,
};

#[tokio::test]
async fn a_batch_takes_one_request_of_each_lane_in_turn() {
    let mut bench = bench(ONE_WRITER);
    let mut submitted = vec![bench.submit('a', 1).await];
    let (first, release) = bench.begun.recv().await.unwrap();
    assert_eq!(first, [1]);
    for (lane, request) in [('a', 2), ('a', 3), ('a', 4), ('b', 5), ('a', 6), ('b', 7)] {
        submitted.push(bench.submit(lane, request).await);
    }
    release.send(()).unwrap();
    let (second, release) = bench.begun.recv().await.unwrap();
    assert_eq!(second, [5, 2, 7, 3]);
    release.send(()).unwrap();
    let (third, release) = bench.begun.recv().await.unwrap();
    assert_eq!(third, [4, 6]);
    release.send(()).unwrap();
    for submitted in submitted {
        submitted.await.unwrap();
    }
    let lanes = bench.batcher.0.lock();
    assert!(lanes.by_key.is_empty() && lanes.running_batches == 0 && lanes.waiting_requests == 0);
}

#[tokio::test]
async fn a_light_request_waits_for_one_heavy_batch() {
    let mut bench = bench(ONE_WRITER);
    let mut submitted = Vec::new();
    for request in [500, 501, 502, 503] {
        submitted.push(bench.submit('a', request).await);
    }
    let mut order = Vec::new();
    for light in 1..5 {
        let (batch, release) = bench.begun.recv().await.unwrap();
        order.push(batch);
        // While a heavy one runs: as often as it likes, until it was served as much.
        submitted.push(bench.submit('b', light).await);
        release.send(()).unwrap();
        let (batch, release) = bench.begun.recv().await.unwrap();
        order.push(batch);
        release.send(()).unwrap();
    }
    let expected = [500, 1, 501, 2, 502, 3, 503, 4];
    assert_eq!(order, expected.map(|request| vec![request]));
}

#[tokio::test]
async fn lanes_are_served_equal_weights() {
    let mut bench = bench(ONE_WRITER);
    let mut submitted = Vec::new();
    let heavy = [('a', 500), ('a', 501), ('a', 502)];
    for (lane, request) in heavy.into_iter().chain((1..13).map(|light| ('b', light))) {
        submitted.push(bench.submit(lane, request).await);
    }
    let mut weights = HashMap::from([('a', 0), ('b', 0)]);
    while weights[&'a'] < 15 {
        let (batch, release) = bench.begun.recv().await.unwrap();
        for request in batch {
            let lane = if request < 100 { 'b' } else { 'a' };
            *weights.get_mut(&lane).unwrap() += weigh(&request);
        }
        let apart = weights[&'a'].abs_diff(weights[&'b']);
        assert!(apart <= 5, "{weights:?}");
        release.send(()).unwrap();
    }
}

#[tokio::test]
async fn lanes_run_at_the_same_time_within_their_limits() {
    let mut bench = bench(BatchLimits {
        batches: usize::MAX,
        batches_per_lane: 2,
        weight: 8,
        mixes_lanes: false,
    });
    let mut submitted = Vec::new();
    for (lane, request) in [('a', 1), ('a', 2), ('a', 3), ('a', 4), ('b', 5)] {
        submitted.push(bench.submit(lane, request).await);
    }
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.push(bench.begun.recv().await.unwrap());
    }
    let batches: Vec<_> = begun.iter().map(|(batch, _)| batch.clone()).collect();
    assert_eq!(batches, [vec![1], vec![2], vec![5]]);
    assert!(bench.begun.try_recv().is_err(), "two of a lane at most");
    begun.swap_remove(0).1.send(()).unwrap();
    // The waiting requests are for both batches that a lane may have.
    assert_eq!(bench.begun.recv().await.unwrap().0, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_dropped_when_its_caller_left_and_refused_when_it_waited_too_long() {
    let mut bench = bench(ONE_WRITER);
    let _first = bench.submit('a', 1).await;
    let (_, release) = bench.begun.recv().await.unwrap();
    let left = bench.submit('a', 2).await;
    left.abort();
    let batcher = bench.batcher.clone();
    let late = tokio::spawn(async move { batcher.submit('a', 3).await });
    tokio::task::yield_now().await;
    tokio::time::advance(PERMIT_TIMEOUT + Duration::from_millis(1)).await;
    let _last = bench.submit('b', 4).await;
    release.send(()).unwrap();
    assert!(matches!(late.await.unwrap(), Err(StoreError::Overloaded)));
    assert_eq!(bench.begun.recv().await.unwrap().0, [4]);
}

#[tokio::test]
async fn equal_reads_that_wait_are_one() {
    let mut bench = bench(ONE_WRITER);
    let mut read = Vec::new();
    // The first runs already when the others come.
    for request in [1, 1, 2, 1, 2, 1] {
        let batcher = bench.batcher.clone();
        read.push(tokio::spawn(async move {
            assert_eq!(batcher.read('a', request).await.unwrap(), request);
        }));
        tokio::task::yield_now().await;
    }
    for expected in [vec![1], vec![1, 2]] {
        let (batch, release) = bench.begun.recv().await.unwrap();
        assert_eq!(batch, expected);
        release.send(()).unwrap();
    }
    for read in read {
        read.await.unwrap();
    }
}
