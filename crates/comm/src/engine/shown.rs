//! Steps of straight lines with messages that lie in their senders' buffers: whoever receives one reads the sender's memory.

use super::Comm;
use super::failure::Cause;
use super::memory::local_plain;
use super::straight::{Line, Own, Stop};
use crate::job::RankState;
use crate::reach;
use crate::slot::program::{Operand, Step, Taken};
use castell_base::Rank;
use castell_goal::op::Operator;
use castell_host::clock::now_ns;
use castell_host::memory::{self, CopyError};
use castell_host::process::Pid;
use std::sync::atomic::{Ordering, fence};

/// What is reduced is read in blocks of so many bytes, which are still in the cache when they are looked at.
const BLOCK_BYTES: usize = 128 << 10;
/// What readers copy in a nanosecond, at the slowest that is worth waiting for.
const BYTES_A_NS: u64 = 2;

impl Comm {
    /// Whether the members of a context read each other's memory, once they know.
    pub(crate) fn reads_peers(&self, context: u32) -> Option<bool> {
        self.shared.straight.may_show(context)
    }
}

impl Line<'_> {
    /// Whether the members may read each other's memory: all of them come to the same verdict, in the first call of the
    /// communicator that asks.
    #[inline(always)]
    pub(super) fn may_show(&mut self, own: &mut Own) -> Result<bool, Stop> {
        match own.may_show {
            Some(verdict) => Ok(verdict),
            None => self.agree(own),
        }
    }

    #[cold]
    fn agree(&mut self, own: &mut Own) -> Result<bool, Stop> {
        let (shared, members) = (self.shared, &self.program.members);
        let (job, mask) = (&shared.job, reach::mask_of(members));
        for member in members.iter() {
            let control = job.control(*member);
            let has_joined = || control.state() != RankState::Unborn;
            if !has_joined() {
                self.wait(0, *member, None, &has_joined)?;
            }
        }
        reach::try_to_read(job, shared.me, members);
        // Orders what was told before the look for those that sleep.
        fence(Ordering::SeqCst);
        self.ring_if_seen();
        for member in members.iter() {
            let control = job.control(*member);
            let has_tried = || control.reach.has_tried(mask);
            if !has_tried() {
                self.wait(0, *member, None, &has_tried)?;
            }
        }
        let verdict = reach::all_read(job, members);
        own.may_show = Some(verdict);
        Ok(verdict)
    }

    /// A step with a message that lies in its sender's buffer.
    ///
    /// # Safety
    /// As for [`Comm::execute_straight`].
    #[inline(never)]
    pub(super) unsafe fn shown_step(&mut self, own: &mut Own, at: usize, step: &Step) -> Result<(), Stop> {
        let (turn, program) = (self.turn, self.program);
        match step {
            Step::Show { route, from, knows } => {
                if !knows && let Some(last) = own.progress.must_have_passed(turn, program.cycle) {
                    self.wait_for_room(own, at, program.names[at].peer, last)?;
                }
                let address = *from as u64;
                // SAFETY: a word of this frame.
                unsafe { route.of(turn).publish(turn, self.signature, (&raw const address).cast(), 8) };
                self.is_unrung = true;
            }
            Step::Look { route, to, bytes } => {
                let place = self.arrived(at, route)?;
                let mut address = 0u64;
                // SAFETY: a word of this frame; who shows a message sends its address.
                unsafe { place.read((&raw mut address).cast(), 8) };
                match *to {
                    Taken::Lent(message) => program.lend(message, address as *mut u8),
                    Taken::Copied(to) => {
                        self.ring();
                        let (peer, to) = (program.names[at].peer, program.find(to, 0));
                        // SAFETY: the caller's promise.
                        unsafe { self.read(at, peer, address as usize, to, *bytes)? };
                        self.look_for_failure(at, peer)?;
                    }
                }
            }
            Step::Combine { operands, .. } => {
                self.ring();
                // SAFETY: the caller's promise.
                unsafe { self.combine(own, at, step)? };
                for operand in operands {
                    if let Operand::Lent { message, .. } = operand {
                        self.look_for_failure(at, program.lender(*message))?;
                    }
                }
            }
            _ => unreachable!("other steps are made elsewhere"),
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Comm::execute_straight`].
    unsafe fn combine(&mut self, own: &mut Own, at: usize, step: &Step) -> Result<(), Stop> {
        let program = self.program;
        let Step::Combine { arithmetic, operands, bytes } = step else { unreachable!("asked before") };
        let (arithmetic, [b1, b2, b3], bytes) = (*arithmetic, *operands, *bytes as usize);
        let to = program.find(b3, 0);
        if let (Operator::Copy, Operand::Lent { message, .. }) = (arithmetic.operator(), b1) {
            let from = program.find(b1, 0) as usize;
            // SAFETY: handed on from the caller.
            return unsafe { self.read(at, program.lender(message), from, to, bytes) };
        }
        if own.blocks.is_empty() {
            own.blocks = vec![0; 2 * BLOCK_BYTES / size_of::<u128>()].into();
        }
        let base = own.blocks.as_mut_ptr().cast::<u8>();
        let width = arithmetic.element().bytes() as usize;
        let most = BLOCK_BYTES / width * width;
        let mut done = 0;
        while done < bytes {
            let block = most.min(bytes - done);
            let mut found = [std::ptr::null_mut(); 2];
            for (index, operand) in [b1, b2].into_iter().enumerate() {
                let lies = program.find(operand, 0).wrapping_add(done);
                found[index] = match operand {
                    Operand::Lent { message, .. } => {
                        let here = base.wrapping_add(index * BLOCK_BYTES);
                        // SAFETY: a block of this context's own.
                        unsafe { self.read(at, program.lender(message), lies as usize, here, block)? };
                        here
                    }
                    _ => lies,
                };
            }
            // SAFETY: handed on from the caller; operands overlap wholly or not at all, so blocks may go one by one.
            unsafe { local_plain(arithmetic, found[0], found[1], to.wrapping_add(done), block as u64) };
            done += block;
        }
        Ok(())
    }

    /// Reads a peer's memory.
    ///
    /// # Safety
    /// `to` is writable for so many bytes.
    unsafe fn read(
        &mut self,
        at: usize,
        peer: Rank,
        from: usize,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Stop> {
        let pid = Pid::from_raw(self.shared.job.control(peer).pid() as i32).expect("it has joined");
        // SAFETY: handed on from the caller.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        match memory::read(pid, from, to) {
            Ok(()) => Ok(()),
            // Its death will be announced.
            Err(CopyError::PeerGone { .. }) => self.wait(at, peer, None, &|| false),
            Err(error) => {
                // Who gave the call up may have unmapped its memory since.
                self.look_for_failure(at, peer)?;
                Err((
                    at,
                    match error {
                        CopyError::Forbidden { .. } => Cause::CopyForbidden { peer },
                        _ => Cause::BadAddress { peer },
                    },
                ))
            }
        }
    }

    /// An error if the sender of what was read has given the call up: then it may have written there before it was read.
    pub(super) fn look_for_failure(&self, at: usize, peer: Rank) -> Result<(), Stop> {
        // What was read was read before; see `Line::fail`.
        fence(Ordering::SeqCst);
        match self.shared.job.standing(self.context, peer).culprit(self.number) {
            Some(culprit) => Err((at, Cause::PeerFailed { peer, culprit: Rank(culprit) })),
            None => Ok(()),
        }
    }

    /// Waits until nobody looks at this rank's buffers any more. Whoever does not either passes the turn before it waits itself.
    pub(super) fn wait_for_readers(&mut self, own: &mut Own) -> Result<(), Stop> {
        self.is_unrung = true;
        self.ring();
        let (program, turn) = (self.program, self.turn);
        // Where each rank has a processor, who still copies is worth waiting for: to sleep and be woken takes longer.
        let until = now_ns() + self.shared.patience().spins.min(1) as u64 * program.bytes / BYTES_A_NS;
        program.readers.iter().try_for_each(|(at, reader)| {
            let standing = self.shared.job.standing(self.context, *reader);
            while standing.passed() < turn && now_ns() < until {
                std::hint::spin_loop();
            }
            self.wait_for_room(own, *at, *reader, turn)
        })
    }
}
