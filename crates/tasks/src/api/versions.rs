//! Tasks with several bodies: one for the processors, others for devices, of which one runs.
//!
//! OmpSs calls that `implements`, StarPU a codelet. Which one runs is decided when the task becomes ready: the one that is expected to be over first,
//! by what those with the same label took so far and by what is queued for each kind of workers; one whose time nobody knows is tried
//! once. A program that knows better says so ([`NewVersions::taking`], [`NewVersions::ranked`]).

use crate::api::context::{Context, NewTask};
use crate::api::data::{Accesses, Declarations};
use crate::api::handle::Handle;
use crate::api::runtime::Runtime;
use crate::dependences::Declaration;
use crate::error::TaskError;
use crate::lifecycle::task::{Attributes, TaskRef, UNDECIDED, flag};
use crate::lifecycle::versions::Version;
use castell_sched::Kind;
pub use castell_sched::versions::{Measured, Versions};
use std::marker::PhantomData;
use std::time::Duration;

/// No version as yet.
pub struct NoBody;

/// Versions, and one more.
pub struct Also<V, F> {
    others: V,
    kind: Kind,
    body: F,
}

impl<V, F> Also<V, F> {
    pub(crate) fn new(others: V, kind: Kind, body: F) -> Also<V, F> {
        Also { others, kind, body }
    }
}

/// Bodies of a task with these accesses, of which one is called and all others are dropped.
pub trait Bodies<A: Accesses, R> {
    /// Calls the one for this kind.
    fn call<'b>(self, kind: Kind, context: &Context<'b>, guards: A::Guards<'b>) -> R;
}

impl<A: Accesses, R> Bodies<A, R> for NoBody {
    fn call<'b>(self, kind: Kind, _: &Context<'b>, _: A::Guards<'b>) -> R {
        unreachable!("a version for kind {} was chosen, which there is none for", kind.0)
    }
}

impl<A, R, V, F> Bodies<A, R> for Also<V, F>
where
    A: Accesses,
    V: Bodies<A, R>,
    F: for<'b> FnOnce(&Context<'b>, A::Guards<'b>) -> R,
{
    fn call<'b>(self, kind: Kind, context: &Context<'b>, guards: A::Guards<'b>) -> R {
        if kind == self.kind { (self.body)(context, guards) } else { self.others.call(kind, context, guards) }
    }
}

/// Bodies of a task of a [graph](crate::replay) with these accesses, of which one is called in each iteration.
pub trait RepeatedBodies<A: Accesses> {
    /// Calls the one for this kind.
    fn call(&self, kind: Kind, context: &Context<'_>, iteration: u64, guards: A::Guards<'_>);
}

impl<A: Accesses> RepeatedBodies<A> for NoBody {
    fn call(&self, kind: Kind, _: &Context<'_>, _: u64, _: A::Guards<'_>) {
        unreachable!("a version for kind {} was chosen, which there is none for", kind.0)
    }
}

impl<A, V, F> RepeatedBodies<A> for Also<V, F>
where
    A: Accesses,
    V: RepeatedBodies<A>,
    F: for<'b> Fn(&Context<'_>, u64, A::Guards<'b>),
{
    fn call(&self, kind: Kind, context: &Context<'_>, iteration: u64, guards: A::Guards<'_>) {
        match kind == self.kind {
            true => (self.body)(context, iteration, guards),
            false => self.others.call(kind, context, iteration, guards),
        }
    }
}

/// A task with several versions that is about to be created: [`NewTask::versions`].
#[must_use = "`submit` or `spawn` creates the task"]
pub struct NewVersions<'c, 't, A, R, V> {
    task: NewTask<'c, 't>,
    accesses: A,
    versions: Versions,
    bodies: V,
    refused: Option<TaskError>,
    result: PhantomData<fn() -> R>,
}

impl<'c, 't> NewTask<'c, 't> {
    /// A task of which there are several versions, for workers of different kinds: exactly one of them runs, and the others are dropped. What
    /// they access, and what they return, is the same. Versions for kinds of which the runtime has no worker are left out.
    ///
    /// ```
    /// use castell_tasks::{LeafKind, Runtime, data::Data};
    ///
    /// let runtime = Runtime::builder().workers(2).device(LeafKind::ACCELERATOR, "my device").build()?;
    /// let sum = runtime.run(|context| {
    ///     let mut sum = Data::new(0);
    ///     for number in 1..=100 {
    ///         let task = context.task().label("add").versions(sum.write());
    ///         let task = task.version(LeafKind::CPU, move |_, mut sum| *sum += number);
    ///         let task = task.version(LeafKind::ACCELERATOR, move |context, mut sum| {
    ///             assert_eq!(context.device::<&str>(), Some(&"my device"));
    ///             *sum += number;
    ///         });
    ///         task.submit();
    ///     }
    ///     sum.get(context).copied()
    /// })??;
    /// assert_eq!(sum, 5050);
    /// assert_eq!(runtime.measured().iter().map(|measured| measured.runs).sum::<u64>(), 100);
    /// # Ok::<(), castell_tasks::TaskError>(())
    /// ```
    pub fn versions<A: Accesses, R>(self, accesses: A) -> NewVersions<'c, 't, A, R, NoBody> {
        NewVersions {
            task: self,
            accesses,
            versions: Versions::default(),
            bodies: NoBody,
            refused: None,
            result: PhantomData,
        }
    }
}

impl<'c, 't, A: Accesses, R, V> NewVersions<'c, 't, A, R, V> {
    /// One more version, for workers of this kind. A second one for the same kind is an error of the task.
    pub fn version<F>(self, kind: Kind, body: F) -> NewVersions<'c, 't, A, R, Also<V, F>>
    where
        F: for<'b> FnOnce(&Context<'b>, A::Guards<'b>) -> R + Send + 'static,
    {
        let NewVersions { task, accesses, mut versions, bodies, refused, result } = self;
        let added = add(&mut versions, kind, task.attributes.label);
        let refused = refused.or(added.err());
        let bodies = Also::new(bodies, kind, body);
        NewVersions { task, accesses, versions, bodies, refused, result }
    }

    /// How long the version takes that was added last: this is believed, whatever is measured.
    pub fn taking(mut self, time: Duration) -> Self {
        take(&mut self.versions, time);
        self
    }

    /// The versions were added best first, whatever they take: the first one runs for which a worker has no other version to run, or else the one with the
    /// shortest queue.
    pub fn ranked(mut self) -> Self {
        self.versions.is_ranked = true;
        self
    }

    /// As [`NewTask::spawn`].
    pub fn spawn(self) -> Handle<R>
    where
        V: Bodies<A, R> + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: the second reference.
        unsafe { Handle::new(self.begin(2)) }
    }

    fn begin(self, references: u32) -> TaskRef
    where
        V: Bodies<A, R> + Send + 'static,
    {
        let NewVersions {
            task: NewTask { context, attributes }, accesses, versions, bodies, refused, ..
        } = self;
        let mut declarations = Declarations::new();
        let checked = refused
            .map_or(Ok(()), Err)
            .and_then(|()| accesses.declare(context.current(), &mut declarations))
            .and_then(|()| declarations.check_disjoint(attributes.label));
        let stored = accesses.store();
        let run = move |context: &Context<'_>, kind: Kind| {
            // SAFETY: the task runs, and this is the only call.
            let guards = unsafe { A::guards(&stored) };
            let result = bodies.call(kind, context, guards);
            // SAFETY: the body is over, and its guards are gone.
            unsafe { A::finish(&stored) };
            result
        };
        let declared = declarations.as_slice();
        // SAFETY: as in `NewTask::begin`.
        unsafe { context.begin_versions(attributes, versions, declared, references, checked, run) }
    }
}

impl<A: Accesses, V: Bodies<A, ()> + Send + 'static> NewVersions<'_, '_, A, (), V> {
    /// As [`NewTask::submit`].
    pub fn submit(self) {
        self.begin(1);
    }
}

/// One more version of the task `label`.
///
/// # Errors
/// There is one for that kind, or there cannot be.
pub(crate) fn add(versions: &mut Versions, kind: Kind, label: &str) -> Result<(), TaskError> {
    if kind.index() >= Kind::COUNT {
        return Err(TaskError::NotADevice { kind: kind.0 });
    }
    let twice = || TaskError::VersionTwice { label: label.to_owned(), kind: name(kind) };
    if versions.add(kind, 0) { Ok(()) } else { Err(twice()) }
}

/// The version that was added last takes so long.
pub(crate) fn take(versions: &mut Versions, time: Duration) {
    versions.set_given(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// A kind of workers, for people.
pub(crate) fn name(kind: Kind) -> String {
    if kind == Kind::CPU { "the processors".to_owned() } else { format!("devices of kind {}", kind.0) }
}

impl<'t> Context<'t> {
    /// Creates a task of which there are several versions: `body` gets the kind of the one that was chosen.
    ///
    /// # Safety
    /// As for [`Context::submit_raw`].
    pub unsafe fn submit_versions_raw<F>(
        &self,
        attributes: Attributes,
        versions: Versions,
        declared: &[Declaration],
        body: F,
    ) where
        F: FnOnce(&Context<'_>, Kind) + Send + 'static,
    {
        let checked = self.check_passed_on(declared);
        // SAFETY: the caller's promise.
        unsafe { self.begin_versions(attributes, versions, declared, 1, checked, body) };
    }

    /// # Safety
    /// As for [`Context::begin`].
    unsafe fn begin_versions<F, R>(
        &self,
        mut attributes: Attributes,
        versions: Versions,
        declared: &[Declaration],
        references: u32,
        checked: Result<(), TaskError>,
        body: F,
    ) -> TaskRef
    where
        F: FnOnce(&Context<'_>, Kind) -> R + Send + 'static,
    {
        let usable = versions.only(|kind| self.thread().shared.workers.has(kind));
        let checked = checked.and_then(|()| match usable.kinds() {
            [] => Err(TaskError::NoVersion {
                label: attributes.label.to_owned(),
                kinds: match versions.kinds() {
                    [] => "no kind of workers".to_owned(),
                    kinds => kinds.iter().map(|&kind| name(kind)).collect::<Vec<_>>().join(" and "),
                },
            }),
            _ => Ok(()),
        });
        attributes.flags |= flag::VERSIONED;
        attributes.kind = UNDECIDED;
        let run = |context: &Context<'_>| {
            context.current().run_version(context.thread(), |kind| body(context, kind))
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.begin(attributes, declared, references, checked, run, |task| {
                let version = task.extras().version.set(Box::new(Version::of(usable)));
                debug_assert!(version.is_ok(), "nobody has seen the task");
            })
        }
    }
}

impl Runtime {
    /// What versions of tasks took so far, by label and kind of workers.
    pub fn measured(&self) -> Vec<Measured> {
        self.shared().versions.measured()
    }
}
