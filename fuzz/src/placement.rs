//! What has to hold for any text that is given as jobs, slowdowns or run times over cores: the fuzz target asserts it, and so does a
//! quick test of `castell-policy`.

use castell_policy::placement::{Curve, Jobs, Nodes, Rule, Slowdowns, place, shares};

/// Every parser refuses the text or reads it; what is read prints as a text that reads as the same, and can be placed.
pub fn any_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(jobs) = Jobs::parse(text) {
        assert_eq!(Jobs::parse(&jobs.to_string()).as_ref(), Ok(&jobs));
        if jobs.total() <= 10_000 {
            let nodes = Nodes::enough(&jobs, 3);
            let placement =
                place(&jobs, nodes, Rule::Twins, None, f64::INFINITY, 1).expect("there are slots");
            assert!(placement.groups.iter().map(|group| group.nodes).sum::<u64>() <= nodes.nodes);
        }
    }
    if let Ok(slowdowns) = Slowdowns::parse(text) {
        assert_eq!(Slowdowns::parse(&slowdowns.to_string()).as_ref(), Ok(&slowdowns));
        let names = slowdowns.names().iter().take(12);
        let list: String = names.clone().map(|name| format!("{name},2\n")).collect();
        if let Ok(jobs) = Jobs::parse(&list)
            && let Ok(table) = slowdowns.select(jobs.programs().iter().map(|program| program.name.as_str()))
            && jobs.total() > 0
        {
            let nodes = Nodes::enough(&jobs, 2);
            let placement = place(&jobs, nodes, Rule::Optimum, Some(&table), f64::INFINITY, 1);
            placement.expect("without a limit there is a placement").outcome(&table);
        }
    }
    if let Ok(curve) = Curve::parse(text) {
        for share in shares(&curve, &curve, curve.cores_max().min(64)) {
            assert!(share.combined() >= 0.0);
        }
    }
}
