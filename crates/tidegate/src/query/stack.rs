//! Futures polled on a large stack.
//!
//! Planning recurses over expressions. What a statement may nest is bounded before it is parsed
//! (`crate::statements`), and these futures give the recursion over whatever passes that bound room
//! on any thread of any runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Stack that must be left before planning goes on where it is.
const RED_ZONE_BYTES: usize = 8 << 20;

/// Stack that is taken otherwise; only pages that are touched cost memory.
const STACK_BYTES: usize = 64 << 20;

/// Polls a future with room to recurse.
pub(crate) async fn on_large_stack<F: Future>(future: F) -> F::Output {
    LargeStack {
        inner: Box::pin(future),
    }
    .await
}

struct LargeStack<F> {
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for LargeStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        stacker::maybe_grow(RED_ZONE_BYTES, STACK_BYTES, || {
            self.inner.as_mut().poll(ctx)
        })
    }
}
