//! New communicators: who belongs to them, and a context that is free in all of their members.

use super::{Communicator, Member};
use crate::collective::{CallError, Reduction};
use castell_base::Rank;
use castell_engine::{CALLS_AHEAD, CONTEXTS, MASK_WORDS, Mask, Process};
use std::sync::Arc;

/// Why a communicator could not be made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SplitError {
    /// The calls by which the ranks agree failed.
    #[error("the ranks could not agree on a communicator: {0}")]
    Call(#[from] CallError),
    /// The ranks could not exchange what they have.
    #[error("the ranks could not agree on a communicator: the exchange of the program failed: {0}")]
    Exchange(String),
    /// No context is free in all ranks.
    #[error(
        "no more communicators: {} can be open in a process at a time; drop some that are not used any more",
        CONTEXTS - 1
    )]
    Contexts,
}

/// An exchange of the program's own: every member calls it with as many words, and gets those of all members in their order.
pub type Exchange<'a> = dyn FnMut(&[u64], &mut [u64]) -> Result<(), String> + 'a;

/// Times that the ranks look for a context while other threads of theirs do so, too.
const ATTEMPTS: u32 = 10_000;

impl Communicator {
    /// A communicator for the ranks of each colour, in the order of their keys, and of their ranks where keys are equal.
    /// All ranks call it; who has no colour gets none.
    ///
    /// # Errors
    /// The ranks cannot agree: one died, or no context is left.
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Communicator>, SplitError> {
        let mine = [colour.map_or(-1, i64::from), key];
        let mut all = vec![[0i64; 2]; self.size() as usize];
        self.allgather(&[mine], &mut all)?;
        let context = self.agree()?;
        let Some(context) = context else { return Err(SplitError::Contexts) };
        let mut chosen: Vec<(i64, u32)> = (0..)
            .zip(&all)
            .filter(|(_, [of, _])| *of == mine[0])
            .map(|(rank, [_, key])| (*key, rank))
            .collect();
        chosen.sort_unstable();
        let members: Arc<[Rank]> =
            chosen.iter().map(|(_, rank)| self.member.members[*rank as usize]).collect();
        let process = &self.member.process;
        let mine = process.next_call(context);
        let mut ends = [0; 2];
        self.allreduce(&[mine, !mine], &mut ends, Reduction::Maximum)?;
        let numbers = Numbers { first: ends[0], least: !ends[1] };
        let communicator = match colour {
            None => {
                process.close_context(context);
                None
            }
            Some(_) => {
                let rank = chosen.iter().position(|(_, rank)| *rank == self.member.seat.rank);
                let rank = rank.expect("a rank is of its own colour") as u32;
                process.open_context(context, Arc::clone(&members), numbers.first);
                Some(Communicator::new(Member::new(process.clone(), context, rank, members, false)))
            }
        };
        if numbers.are_far_apart() {
            self.barrier()?;
        }
        Ok(communicator)
    }

    /// Another communicator of the same ranks, whose calls have nothing to do with those of this one.
    ///
    /// # Errors
    /// As for [`Communicator::split`].
    pub fn dup(&self) -> Result<Communicator, SplitError> {
        let copy = self.split(Some(0), i64::from(self.rank().0))?;
        Ok(copy.expect("every rank has a colour"))
    }

    /// A communicator of the ranks on this one's host.
    ///
    /// # Errors
    /// As for [`Communicator::split`].
    pub fn split_shared(&self, key: i64) -> Result<Communicator, SplitError> {
        let process = &self.member.process;
        let shared = self.split(Some(process.job().host_of(process.rank())), key)?;
        Ok(shared.expect("every rank has a colour"))
    }

    /// A context that is free in all ranks, which is reserved here; `None`: there is none.
    fn agree(&self) -> Result<Option<u32>, SplitError> {
        let (process, parent) = (&self.member.process, self.member.context);
        process.want_context(parent, true);
        let found = self.agree_in_turn();
        process.want_context(parent, false);
        found
    }

    fn agree_in_turn(&self) -> Result<Option<u32>, SplitError> {
        let (process, parent) = (&self.member.process, self.member.context);
        for _ in 0..ATTEMPTS {
            // Other threads of this process must not reserve what is offered here.
            let offer = process.offer_contexts(parent);
            let mine = offer.unwrap_or([0; MASK_WORDS]);
            let mut common: Mask = [0; MASK_WORDS];
            let agreed = self.allreduce(&mine, &mut common, Reduction::BitAnd);
            let found =
                (0..CONTEXTS).find(|context| common[*context as usize / 64] >> (context % 64) & 1 == 1);
            process.settle_offer(parent, found);
            agreed?;
            if found.is_some() {
                return Ok(found);
            }
            // None is left, or some rank makes its offer to another thread just now.
            let mut busy = [0u8];
            self.allreduce(&[u8::from(offer.is_none())], &mut busy, Reduction::Maximum)?;
            if busy == [0] {
                return Ok(None);
            }
            std::thread::yield_now();
        }
        Ok(None)
    }

    /// A communicator of these ranks of the job, in this order, which no communicator of castell has in common: they agree by
    /// an exchange of the program's own. All of them call it, and nobody else.
    ///
    /// # Errors
    /// No context is left; the exchange failed.
    ///
    /// # Panics
    /// This process is not one of the members.
    pub fn by_exchange(
        process: &Process,
        members: Arc<[Rank]>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Communicator, SplitError> {
        let rank = members.iter().position(|member| *member == process.rank()).expect("one of the members");
        // In whose name: the members know no communicator's context that they have in common.
        let name =
            members.iter().fold(2_166_136_261u32, |hash, rank| (hash ^ rank.0).wrapping_mul(16_777_619));
        process.want_context(name, true);
        let found = find_by_exchange(process, name, members.len(), exchange);
        process.want_context(name, false);
        let context = found?.ok_or(SplitError::Contexts)?;
        let mut all = vec![process.next_call(context); members.len()];
        exchange(&[all[rank]], &mut all).map_err(SplitError::Exchange)?;
        let [first, least] = [all.iter().max(), all.iter().min()].map(|end| end.copied().unwrap_or(0));
        let numbers = Numbers { first, least };
        process.open_context(context, Arc::clone(&members), numbers.first);
        let communicator =
            Communicator::new(Member::new(process.clone(), context, rank as u32, members, false));
        if numbers.are_far_apart() {
            exchange(&[0], &mut all).map_err(SplitError::Exchange)?;
        }
        Ok(communicator)
    }
}

/// How many calls the members have made in a context that they agreed upon, in communicators that used it before.
struct Numbers {
    /// The most, which is the number of the new communicator's first call.
    first: u64,
    least: u64,
}

impl Numbers {
    /// To who is so far behind the first call's messages would look as if they were over: nobody makes it before all know its number.
    fn are_far_apart(&self) -> bool {
        self.first - self.least >= u64::from(CALLS_AHEAD)
    }
}

/// As [`Communicator::agree`] does it.
fn find_by_exchange(
    process: &Process,
    name: u32,
    members: usize,
    exchange: &mut Exchange<'_>,
) -> Result<Option<u32>, SplitError> {
    const WORDS: usize = MASK_WORDS + 1;
    let mut all = vec![0; members * WORDS];
    for _ in 0..ATTEMPTS {
        let offer = process.offer_contexts(name);
        let mut mine = [0; WORDS];
        mine[..MASK_WORDS].copy_from_slice(&offer.unwrap_or_default());
        mine[MASK_WORDS] = u64::from(offer.is_none());
        let agreed = exchange(&mine, &mut all);
        let in_all = |context: &u32| {
            all.chunks_exact(WORDS).all(|one| one[*context as usize / 64] >> (context % 64) & 1 == 1)
        };
        let found = (0..CONTEXTS).find(in_all).filter(|_| agreed.is_ok());
        if offer.is_some() {
            process.settle_offer(name, found);
        }
        agreed.map_err(SplitError::Exchange)?;
        if found.is_some() {
            return Ok(found);
        }
        // None is left, or some rank makes its offer to another thread just now.
        if all.chunks_exact(WORDS).all(|one| one[MASK_WORDS] == 0) {
            return Ok(None);
        }
        std::thread::yield_now();
    }
    Ok(None)
}
