//! Runs a model of several threads in many different orders of their steps, and checks the model's assertions in each.
//!
//! A step ends where a lock of [`mgp_types::sync`] is taken. Timers never expire in a model, so a thread that waits for
//! a lost wake-up waits forever, which makes the model fail. A failure prints the order of the steps; `MODEL_SCHEDULE`
//! runs a test in that order again.

use std::mem::ManuallyDrop;

use mgp_types::sync::interleave::{Checker, is_checked, with_checker};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// The maximum number of preemptions (changes of the running thread) in each order that `PctScheduler` tries.
const MAX_PREEMPTIONS: usize = 3;

/// The size of the stack of each thread in a model; futures without optimization have large stack frames.
const STACK_BYTES: usize = 512 << 10;

const CHECKER: Checker = Checker {
    switch: || shuttle::thread::sleep(std::time::Duration::ZERO),
    wait: shuttle::thread::yield_now,
};

/// Runs a model in a number of random orders, and then in the same number of orders with few preemptions. The
/// environment variable `MODEL_ROUNDS` multiplies the number, and `MODEL_SEED` selects other orders.
pub(crate) fn explore(orders: usize, model: fn()) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // Never drop the runtime. If a model fails, dropping the runtime would wake threads of that model.
    let runtime = ManuallyDrop::new(runtime.enable_time().start_paused(true).build().unwrap());
    let _entered = runtime.enter();
    let number = |name| std::env::var(name).map_or(1, |text| text.parse::<u32>().unwrap());
    let (orders, seed) = (orders * number("MODEL_ROUNDS") as usize, number("MODEL_SEED").into());
    with_checker(Some(CHECKER), || {
        if let Ok(schedule) = std::env::var("MODEL_SCHEDULE") {
            return shuttle::replay(model, &schedule);
        }
        run(RandomScheduler::new_from_seed(seed, orders), model);
        run(PctScheduler::new_from_seed(seed, MAX_PREEMPTIONS, orders), model);
    });
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    shuttle::Runner::new(scheduler, config).run(model);
}

/// Starts a task as a thread of the running model. If no model is running, returns the task.
pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(task: F) -> Option<F> {
    if !is_checked() {
        return Some(task);
    }
    drop(shuttle::future::spawn(task));
    None
}

/// Runs the setup of a model as one step; no other thread runs during it.
pub(crate) fn at_once<R>(setup: impl FnOnce() -> R) -> R {
    with_checker(None, setup)
}
