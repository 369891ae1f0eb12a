//! Interruptions while Terraform runs and afterwards.

use tokio::signal::unix::{SignalKind, signal};

use crate::base::failure::{Failure, Outcome};

/// Ignores interruptions from now on: Terraform gets them too, and ends in its
/// own way.
pub(super) fn ignore_signals() {
    // A signal with a listener does not end this process, even if the listener is
    // dropped.
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        drop(signal(kind));
    }
}

/// Runs work between and after the processes of Terraform until the user interrupts it.
pub(super) async fn until_interrupted<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        outcome = work => outcome,
        () = interrupted() => Err(Failure::cancelled("cancelled; the change may not have been recorded")),
    }
}

/// Waits for an interruption or a termination.
async fn interrupted() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
