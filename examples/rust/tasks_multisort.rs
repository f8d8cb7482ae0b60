//! Sorts by sorting quarters and merging them, each step a task on the parts that it touches; the parts are lent from level to
//! level.

#[path = "argument.rs"]
mod argument;

use argument::argument;
use castell::tasks::data::{Data, Part, ReadWrite};
use castell::tasks::{Context, Runtime};
use std::sync::LazyLock;
use std::time::Instant;

/// Numbers, and for how many a task sorts by itself: `tasks_multisort [LENGTH [SMALL]]`.
static LENGTH: LazyLock<usize> = LazyLock::new(|| argument(1, 1 << 16));
static SMALL: LazyLock<usize> = LazyLock::new(|| argument(2, 1 << 11));

/// Sorts `data`; `spare`, as long, is overwritten.
fn sort(context: &Context<'_>, data: Part<'_, [u32], ReadWrite>, spare: Part<'_, [u32], ReadWrite>) {
    let small = (*SMALL).max(4); // a quarter has numbers
    let length = data.len();
    if length <= small {
        context.task().label("sort").submit(data.write(), |_, mut data| data.sort_unstable());
        return;
    }
    let accesses = (data.weak_write(), spare.weak_write());
    context.task().label("quarters").submit(accesses, move |context, (data, spare)| {
        let (quarter, half) = (length / 4, length / 2);
        for part in [0..quarter, quarter..half, half..half + quarter, half + quarter..length] {
            sort(context, data.part(part.clone()), spare.part(part));
        }
        merge(context, data.part(0..half), quarter, spare.part(0..half));
        merge(context, data.part(half..length), quarter, spare.part(half..length));
        merge(context, spare.all(), half, data.all());
    });
}

/// Merges what lies before and from `middle` into `into`.
fn merge(
    context: &Context<'_>,
    from: Part<'_, [u32], ReadWrite>,
    middle: usize,
    into: Part<'_, [u32], ReadWrite>,
) {
    context.task().label("merge").submit((from.read(), into.overwrite()), move |_, (from, mut into)| {
        let (mut first, mut second) = from.split_at(middle);
        for place in into.iter_mut() {
            let take = match (first.first(), second.first()) {
                (Some(one), Some(two)) if one <= two => &mut first,
                (Some(_), None) => &mut first,
                _ => &mut second,
            };
            *place = take[0];
            *take = &take[1..];
        }
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let length = *LENGTH;
    let numbers: Vec<u32> = (0..length as u32).map(|index| index.wrapping_mul(2_654_435_761)).collect();
    let runtime = Runtime::builder().build()?;
    let begun = Instant::now();
    let sorted = runtime.run(|context| {
        let (mut data, spare) = (Data::from(numbers.clone()), Data::from(vec![0; length]));
        sort(context, data.all(), spare.all());
        data.get(context).map(|data| data.to_vec())
    })??;
    let time = begun.elapsed();
    let mut serial = numbers;
    serial.sort_unstable();
    assert!(sorted == serial, "tasks and the serial sort differ");
    println!("{length} numbers sorted with {} tasks in {time:.3?}", runtime.tasks_created());
    Ok(())
}
