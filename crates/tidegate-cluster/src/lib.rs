//! One statement over several executors: stages, shares, membership and loss.
