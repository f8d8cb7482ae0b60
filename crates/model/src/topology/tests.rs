use super::*;
use std::collections::BTreeSet;

const LIST: &str = "ranks a b c d\na -- l\nb -- l\nl -- r 50ns 1GB/s\nc -- r\nd -- r";

fn parse(text: &str) -> Result<Topology, TopologyError> {
    Topology::parse(text, &mut |name| match name {
        "list.txt" => Ok(LIST.to_owned()),
        "wrong.txt" => Ok("a b c".to_owned()),
        _ => Err("no such file".to_owned()),
    })
}

fn network(text: &str) -> Topology {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const SMALL: [&str; 16] = [
    "star:ranks=5",
    "fattree:arity=2,levels=1",
    "fattree:arity=2,levels=4",
    "fattree:arity=3,levels=3",
    "fattree:arity=4,levels=2",
    "dragonfly:p=2,a=4,h=2",
    "dragonfly:p=1,a=3,h=2,groups=4",
    "dragonfly:p=3,a=1,h=1",
    "torus:dims=4x3x2",
    "torus:dims=5",
    "torus:dims=1x6",
    "mesh:dims=3x4",
    "hypercube:dims=5",
    "butterfly:arity=2,stages=4",
    "butterfly:arity=3,stages=2",
    "file:list.txt",
];

#[test]
fn every_route_is_a_path_from_sender_to_receiver_without_detour() {
    for text in SMALL {
        let network = network(text);
        let mut used = BTreeSet::new();
        for from in 0..network.ranks() {
            for to in 0..network.ranks() {
                let route = network.route(Rank(from), Rank(to));
                assert_eq!(route.is_empty(), from == to, "{text}");
                let end = route.iter().fold(from, |node, &link| {
                    let (start, end) = network.ends(link);
                    assert_eq!(start, node, "{text}: from {from} to {to} by {route:?}");
                    end
                });
                assert_eq!(end, to, "{text}");
                let different: BTreeSet<&u32> = route.iter().collect();
                assert_eq!(different.len(), route.len(), "{text}: a link twice");
                used.extend(route);
            }
        }
        assert!(used.iter().all(|&link| (link as usize) < network.links()));
    }
}

#[test]
fn ends_name_each_link_once() {
    for text in SMALL {
        let network = network(text);
        let links: Vec<(u32, u32)> = (0..network.links() as u32).map(|link| network.ends(link)).collect();
        let different: BTreeSet<&(u32, u32)> = links.iter().filter(|(from, to)| from != to).collect();
        let loops = links.iter().filter(|(from, to)| from == to).count();
        // In a ring of two both directions lead to the same rank; a butterfly's first and last links end at ranks.
        if !text.contains("x2") {
            assert_eq!(different.len() + loops, links.len(), "{text}");
        }
        assert!(loops == 0 || text.starts_with("mesh") || text.contains("1x"), "{text}");
    }
}

#[test]
fn distances_are_those_of_the_shapes() {
    let hops = |text: &str, from: u32, to: u32| network(text).hops(Rank(from), Rank(to));
    let farthest = |text: &str| {
        let network = network(text);
        let pairs = (0..network.ranks()).flat_map(|from| (0..network.ranks()).map(move |to| (from, to)));
        pairs.map(|(from, to)| network.hops(Rank(from), Rank(to))).max().unwrap()
    };
    for (text, diameter, links) in [
        ("star:ranks=5", 2, 10),
        ("fattree:arity=2,levels=4", 8, 128),
        ("dragonfly:p=2,a=4,h=2", 5, 2 * 72 + 9 * 12 + 72),
        ("torus:dims=4x3x2", 2 + 1 + 1, 24 * 6),
        ("mesh:dims=3x4", 2 + 3, 48),
        ("hypercube:dims=5", 5, 160),
        ("butterfly:arity=2,stages=4", 5, 80),
        ("file:list.txt", 3, 10),
    ] {
        assert_eq!(farthest(text), diameter, "{text}");
        assert_eq!(network(text).links(), links, "{text}");
    }
    assert_eq!(hops("fattree:arity=4,levels=3", 0, 3), 2);
    assert_eq!(hops("fattree:arity=4,levels=3", 0, 15), 4);
    assert_eq!(hops("fattree:arity=4,levels=3", 0, 16), 6);
    assert_eq!(hops("torus:dims=8", 1, 7), 2, "the short way around");
    assert_eq!(hops("mesh:dims=8", 1, 7), 6);
    assert_eq!(hops("hypercube:dims=10", 0, 1023), 10);
}

#[test]
fn shifts_in_a_fat_tree_meet_no_other_message() {
    // The reason for choosing the way up by the destination: shift permutations share no link.
    let network = network("fattree:arity=3,levels=3");
    for shift in 1..27 {
        let mut used = BTreeSet::new();
        for from in 0..27 {
            let route = network.route(Rank(from), Rank((from + shift) % 27));
            assert!(route.into_iter().all(|link| used.insert(link)), "shift by {shift}");
        }
    }
}

#[test]
fn links_cost_what_the_text_says() {
    let torus = network("torus:dims=4x4x4,link=10ns,G=0.1ns");
    assert_eq!(torus.cost(5), LinkCost { latency: Time::from_ns(10), per_byte: PerByte::new(100, 1) });
    assert_eq!(torus.transfer(5, 80), Time::from_ns(8));
    let dragonfly = network("dragonfly:p=1,a=2,h=1,link=10ns,global=300ns,global_G=1GB/s");
    let route = dragonfly.route(Rank(0), Rank(5));
    let latencies: Vec<u64> = route.iter().map(|&link| dragonfly.latency(link).0 / 1_000).collect();
    assert_eq!(latencies.iter().filter(|latency| **latency == 300).count(), 1, "{latencies:?}");
    let listed = network("file:list.txt,link=7ns");
    let route = listed.route(Rank(0), Rank(3));
    let latencies: Vec<u64> = route.iter().map(|&link| listed.latency(link).0 / 1_000).collect();
    assert_eq!(latencies, [7, 50, 7]);
}

#[test]
fn a_printed_network_reads_as_itself() {
    for text in SMALL.into_iter().chain(["dragonfly:p=1,a=2,h=1,global=300ns,global_G=1GB/s"]) {
        let printed = network(text).to_string();
        assert_eq!(network(&printed).to_string(), printed);
        assert!(printed.starts_with(text.split(",global=").next().unwrap()), "{text}: {printed}");
    }
}

#[test]
fn large_networks_need_no_memory() {
    let network = network("fattree:arity=32,levels=5");
    assert_eq!(network.ranks(), 1 << 25);
    assert_eq!(network.hops(Rank(0), Rank((1 << 25) - 1)), 10);
    assert_eq!(parse("hypercube:dims=26").unwrap().hops(Rank(0), Rank((1 << 26) - 1)), 26);
}

#[test]
fn errors_say_what_was_expected() {
    for (text, message) in [
        ("ring:ranks=3", "unknown network `ring`: expected one of star, fattree,"),
        ("star", "star: `ranks` is missing; an example: star:ranks=64"),
        ("star:ranks", "star: expected `key=value`, found `ranks`"),
        ("star:size=3", "star has no `size`; an example"),
        ("star:ranks=0", "star: ranks: expected a whole number of at least 1, found `0`"),
        ("star:ranks=4,ranks=5", "star: `ranks` is given twice"),
        ("star:ranks=2000000000", "star: too large"),
        ("star:ranks=4,link=5", "star: link: expected a time"),
        ("torus:dims=4x", "torus: dims: expected sizes such as 4x4x4, found `4x`"),
        ("torus:dims=0", "torus: dims: expected sizes"),
        ("torus:dims=70000x70000", "torus: too large"),
        ("torus:dims=1024x1024x1024", "torus: too large"),
        ("hypercube:dims=40", "hypercube: too large"),
        ("hypercube:dims=29", "hypercube: too large"),
        ("fattree:arity=1,levels=3", "fattree: arity: expected a whole number of at least 2"),
        ("butterfly:arity=2,stages=31", "butterfly: too large"),
        (
            "dragonfly:p=1,a=2,h=1,groups=4",
            "dragonfly: groups: 2 routers with 1 links to other groups each reach at most 3",
        ),
        ("dragonfly:p=1,a=100000,h=100000", "dragonfly: too large"),
        ("dragonfly:p=9,a=60000,h=60000", "dragonfly: too large"),
        ("torus:dims=4,global=3ns", "torus has no `global`"),
        ("file:none.txt", "cannot read the network none.txt: no such file"),
        ("file:wrong.txt", "wrong.txt: line 1: expected `A -- B"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
}
