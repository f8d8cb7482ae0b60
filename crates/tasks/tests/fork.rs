//! A task that forks: the child is told that the runtime is not there, and can have one of its own.

use castell_host::process::fork;
use castell_tasks::data::Data;
use castell_tasks::{Context, Runtime, TaskError};

/// Runs `child` in a fork of this process, inside a task that has created others; the code with which it ends.
fn forked(child: impl Fn(&Context<'_>, &Runtime) -> i32 + Send + Sync) -> i32 {
    let runtime = Runtime::builder().workers(2).build().expect("threads start");
    let body = |context: &Context<'_>| {
        let mut data = Data::new(1);
        context.submit(data.write(), |_, mut data| *data += 1);
        // SAFETY: the other threads sleep, or run the task above, which takes no locks that the child takes.
        let process = unsafe { fork(|| child(context, &runtime)) }.expect("a process");
        let ended = process.wait().expect("ends");
        assert_eq!(*data.get(context).expect("nothing fails here"), 2, "the parent goes on");
        ended.code()
    };
    runtime.run(body).expect("nothing fails here")
}

fn is_told<T>(result: Result<T, TaskError>) -> bool {
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    error.contains("build a runtime of its own here")
}

#[test]
fn the_child_is_told() {
    let code = forked(|context, runtime| {
        let data = Data::new(3);
        context.submit((), |_, ()| panic!("must not run"));
        let handle = context.spawn(data.read(), |_, _| panic!("must not run"));
        let told = [
            is_told(context.taskwait()),
            is_told(context.group(|| ())),
            is_told::<()>(handle.wait(context)),
            is_told(runtime.run(|_| ())),
            is_told(runtime.spawn(|_| ())),
            is_told(runtime.disable_worker(runtime.workers()[0].worker)),
            !context.block_for(std::time::Duration::from_secs(1000)),
        ];
        told.iter().fold(1, |bits, told| bits << 1 | i32::from(*told))
    });
    assert_eq!(code, 0b1111_1111);
}

#[test]
fn the_child_may_have_a_runtime_of_its_own() {
    let code = forked(|_, _| {
        let Ok(runtime) = Runtime::builder().workers(2).build() else { return 1 };
        let sum = runtime.run(|context| {
            let mut sum = Data::new(0);
            (0..10).for_each(|number| context.submit(sum.write(), move |_, mut sum| *sum += number));
            sum.get(context).copied()
        });
        sum.ok().and_then(Result::ok).unwrap_or(0)
    });
    assert_eq!(code, 45);
}

#[test]
fn a_body_that_returns_in_the_child_ends_it() {
    let runtime = Runtime::builder().workers(1).build().expect("threads start");
    // A lock that nobody will give back in the child: it must speak without.
    let speaking = std::io::stderr().lock();
    let pid = runtime.run(|context| {
        context.submit((), |_, ()| ());
        // SAFETY: the child only returns.
        unsafe { libc::fork() }
    });
    // Only the parent gets here.
    drop(speaking);
    let (pid, mut status) = (pid.expect("nothing fails"), 0);
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1, "{status:#x}");
}
