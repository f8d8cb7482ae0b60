//! What a script sees after a thousand events is what a script sees that has just come.

use castell_base::random::Key;
use castell_base::{Rank, Time};
use castell_luau::Script;
use castell_luau::sandbox::Limits;
use castell_strategy::{
    CollectionId, Decision, Fault, Keeper, Kernel, Kernels, Node, Place, ResourceId, ResourceKind, Strategy,
};
use rand_core::RngCore;
use std::sync::Arc;

/// Prints all that it sees, a line for each table.
const TELLS_ALL: &str = r"
    local function shown(value, depth)
        if type(value) ~= 'table' then return tostring(value) end
        if depth == 0 then return `id {value.id}` end
        local keys, parts = {}, {}
        for key in value do table.insert(keys, key) end
        table.sort(keys, function(one, other) return tostring(one) < tostring(other) end)
        for _, key in keys do table.insert(parts, `{key}={shown(value[key], depth - 1)}`) end
        return '{' .. table.concat(parts, ' ') .. '}'
    end
    return {
        choose = function(node)
            print(node.now, node.governor, shown(node.sensors, 1))
            for _, resource in node.resources do
                print(shown(resource, 1), #resource.queue)
                print('named', resource == node.resource[resource.name])
                print('running', shown(resource.running, 3))
                for _, collection in resource.queue do print('queued', shown(collection, 3)) end
            end
            for _, collection in node.waiting do print('waiting', #node.waiting, shown(collection, 3)) end
        end,
    }
";

fn teller() -> Script {
    Script::load("teller.luau", TELLS_ALL, Limits::default()).expect("it is right")
}

fn told(script: &mut Script, node: &Node) -> Vec<String> {
    assert_eq!(script.choose(node).expect("it only looks"), None);
    script.printed().take()
}

/// Decides anything that can be carried out, and compares what the two see before.
struct Compares {
    old: Script,
    random: Box<dyn FnMut(usize) -> usize + Send>,
    seed: u64,
}

impl Strategy for Compares {
    fn name(&self) -> &str {
        "compares"
    }

    fn tick(&self) -> Option<Time> {
        None
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        assert_eq!(told(&mut self.old, node), told(&mut teller(), node), "seed {}", self.seed);
        let ids: Vec<CollectionId> = node.collections().map(|collection| collection.id).collect();
        let Some(&collection) = ids.get((self.random)(ids.len() + 2)) else { return Ok(None) };
        let resource = ResourceId((self.random)(3));
        let found = node.collection(collection).expect("it is there");
        let can = found.kernels.on(resource).is_some()
            && !node.resources()[resource.0].is_forbidden
            && !matches!(found.place, Place::Running(_))
            && found.place != Place::Queued(resource);
        Ok(can.then_some(Decision { collection, resource }))
    }

    fn on_tick(&mut self, _: &Node) -> Result<(), Fault> {
        Ok(())
    }
}

fn kernels(below: &mut impl FnMut(usize) -> usize) -> Arc<Kernels> {
    let all: Vec<Kernel> = (0..3)
        .filter_map(|at| if below(3) > 0 || at == 0 { Some((at, below(2) > 0)) } else { None })
        .map(|(at, is_known)| Kernel {
            resource: ResourceId(at),
            step_time: is_known.then(|| Time::from_us(7)),
        })
        .collect();
    Arc::new(Kernels::new(all, Vec::new()).expect("one of each"))
}

#[test]
fn tables_follow_the_node() {
    for seed in 0..3 {
        let mut stream = Key { seed, rank: Rank(0), operation: 0 }.stream(0);
        let mut below = move |end: usize| (stream.next_u64() % end as u64) as usize;
        let mut random = Key { seed, rank: Rank(1), operation: 0 }.stream(0);
        let names = ["one_core", "all_cores", "gpu"].map(|name| (name.to_owned(), ResourceKind::of(name)));
        let mut node = Node::new(names).expect("three names");
        node.set_forbidden("low", &["gpu".into()]).expect("it is there");
        let random = Box::new(move |end: usize| (random.next_u64() % end as u64) as usize);
        let mut keeper = Keeper::new(node, Box::new(Compares { old: teller(), random, seed }));
        let mut shared = vec![kernels(&mut below)];
        for round in 0..250 {
            let now = Time::from_us(round);
            match below(16) {
                0..6 => {
                    if below(4) == 0 {
                        shared.push(kernels(&mut below));
                    }
                    let of = shared[below(shared.len())].clone();
                    let name = ["a", "b"][below(2)];
                    keeper.register(now, name.into(), of, 1 + below(3) as u32).expect("they are there");
                }
                6..13 => _ = keeper.ended(now, ResourceId(below(3))),
                13 => keeper.set_governor(now, ["high", "low"][below(2)]),
                14 => keeper.set_sensor(now, "power", below(100) as f64),
                _ => {
                    let gone = keeper.node().collections().next().map(|collection| collection.id);
                    gone.into_iter().for_each(|id| keeper.withdraw(now, id));
                }
            }
            // As if another thousand shapes had come: addresses are used again.
            if shared.len() > 8 {
                shared.drain(1..);
            }
        }
        assert_eq!(keeper.strategy(), "compares", "seed {seed}");
    }
}
