//! Work that is too long for an async worker: while a worker computes, all other
//! requests on it wait.

/// Up to this many bytes of input are processed in place; work on more goes to
/// the blocking pool. 8 KiB take well under a millisecond to parse and check, and
/// passing work to another thread costs tens of microseconds.
pub(crate) const MAX_INLINE_BYTES: usize = 8 * 1024;

/// Runs work on an input of `bytes` bytes: in place if the input is small, else
/// on the blocking pool.
pub(crate) async fn run_sized<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= MAX_INLINE_BYTES {
        work()
    } else {
        run(work).await
    }
}

/// Runs work on the blocking pool.
///
/// # Panics
/// When the work panics, as if it had run in place.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and drops this future as well.
            Err(_) => std::future::pending().await,
        },
    }
}
