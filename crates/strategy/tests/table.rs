//! Tables of applications: what is read, what is refused, and that nothing crashes on any text.

use castell_base::Time;
use castell_strategy::ResourceId;
use castell_strategy::applications::Applications;
use proptest::prelude::*;

#[test]
fn all_columns_are_read() {
    let text = "# a comment\n\napplication, instances, steps, arrival_s, every_s, ranking, ranking_energy, one_core_s, gpu_s\n\
                solve, 3, 4, 1.5, 0.25, gpu > one_core, one_core>gpu, 8, 2.5\nplain,,,,,,,1,\n";
    let read = Applications::read(text).expect("a table");
    let [solve, plain] = &read.all[..] else { panic!("{read:?}") };
    assert_eq!((solve.arrivals.count(), solve.steps, plain.arrivals.count(), plain.steps), (3, 4, 1, 1));
    assert_eq!([0, 2].map(|number| solve.arrivals.time(number)), [1_500_000, 2_000_000].map(Time::from_us));
    let gpu = solve.kernels.on(ResourceId(1)).expect("a kernel");
    assert_eq!(gpu.step_time, Some(Time::from_us(625_000)));
    let [performance, energy] = solve.kernels.rankings() else { panic!("{solve:?}") };
    assert_eq!((performance.name.as_str(), energy.name.as_str()), ("performance", "energy"));
    assert_eq!((performance.order[0], energy.order[0]), (ResourceId(1), ResourceId(0)));
    assert!(plain.kernels.on(ResourceId(1)).is_none());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let head = "application,instances,one_core_s,gpu_s\n";
    for (text, line, words) in [
        ("", 1, "no first line"),
        ("application,instances", 1, "a resource at least"),
        ("application,cores,gpu_s", 1, "no column is called `cores`"),
        ("application,gpu_s,gpu_s", 1, "two columns are called `gpu_s`"),
        ("application,_s", 1, "no column is called `_s`"),
        (&format!("{head}a,1,2"), 2, "3 values for 4 columns"),
        (&format!("{head}a,0,1,1"), 2, "`0` is no number of instances"),
        (&format!("{head}#\na,1,-1,1"), 3, "`-1` is no time in seconds"),
        (&format!("{head}a,1,1e400,1"), 2, "is no time in seconds"),
        (&format!("{head}a,1,0,1"), 2, "takes no time"),
        (&format!("{head}a,1,,"), 2, "could never run"),
        (&format!("{head},1,1,1"), 2, "needs a name"),
        (&format!("{head}a,1,1,1\na,1,1,1"), 3, "there already"),
        (&format!("{head}a,999999,1,1\nb,999999,1,1"), 3, "more than 1000000 instances"),
        ("application,ranking,gpu_s,one_core_s\na,gpu,1,1", 2, "once"),
        ("application,ranking,gpu_s\na,tpu,1", 2, "the ranking names `tpu`"),
    ] {
        let error = Applications::read(text).expect_err(text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Applications::read(&text);
    }

    #[test]
    fn any_table_is_read_or_refused(
        columns in proptest::collection::vec("application|instances|steps|arrival_s|every_s|ranking(_[a-z]{0,2})?|[a-c]_s", 1..8),
        cells in proptest::collection::vec("[a-c]>[a-c]|-?[0-9]{0,20}(\\.[0-9]{0,14})?(e[0-9]{1,3})?|[a-z]{0,3}|\\PC{0,4}", 0..40),
    ) {
        let mut text = columns.join(",");
        for line in cells.chunks(columns.len()) {
            text += "\n";
            text += &line.join(",");
        }
        if let Ok(read) = Applications::read(&text) {
            for application in &read.all {
                let kernels = application.kernels.all();
                prop_assert!(!kernels.is_empty() && application.arrivals.count() > 0 && application.steps > 0);
                prop_assert!(kernels.iter().all(|kernel| kernel.step_time > Some(Time::ZERO)));
            }
        }
    }
}
