//! Work that is too long for an async worker. While a worker computes, nothing
//! else that waits for it goes on, whichever organization it belongs to.

/// How many bytes of input are worked on at once where they are; the work on
/// more goes to the blocking pool. 8 KiB take well under a millisecond to parse
/// and check, and passing work to another thread costs tens of microseconds.
pub(crate) const INLINE_BYTES: usize = 8 * 1024;

/// Runs work on input of this many bytes: in place when it is short, else on the
/// blocking pool.
pub(crate) async fn run_sized<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= INLINE_BYTES {
        work()
    } else {
        run(work).await
    }
}

/// Runs work on the blocking pool.
///
/// # Panics
/// When the work does, as if it had run here.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this future is dropped with it.
            Err(_) => std::future::pending().await,
        },
    }
}
