//! Steps of compiled programs with large messages, which lie with their senders: in a bounce buffer, in a pool, or in the sender's own buffers, which
//! whoever receives one reads from there.

use super::Own;
use super::line::{Line, Stop};
use crate::failure::Cause;
use crate::process::Process;
use crate::runs::local_plain;
use crate::slot::program::{Operand, Step, Taken};
use crate::slot::{BOUNCE_BYTES, bounce_of};
use castell_base::Rank;
use castell_goal::op::Operator;
use castell_host::clock::now_ns;
use castell_host::memory::{self, CopyError};
use castell_host::process::Pid;
use castell_shm::cma_probe;
use castell_shm::job::RankState;
use std::sync::atomic::{Ordering, fence};

/// What is reduced is read in blocks of so many bytes, which are still in the cache when they are looked at.
const BLOCK_BYTES: usize = 128 << 10;
/// What readers copy in a nanosecond, at the slowest that is worth waiting for.
const BYTES_A_NS: u64 = 2;
/// Marks offsets of messages that stay in their senders' pools; others lie in the senders' bounce buffers.
const IN_POOL: u64 = 1 << 63;

impl Process {
    /// Whether the members of a context read each other's memory, once they know.
    pub fn reads_peers(&self, context: u32) -> Option<bool> {
        self.shared.programs.reads_peers(context)
    }
}

impl Line<'_> {
    /// How dear it is for the members to read each other's memory, if they may: all of them come to the same verdict, in the first call
    /// of the communicator that asks.
    #[inline(always)]
    pub(super) fn reads_peers(&mut self, own: &mut Own) -> Result<Option<u32>, Stop> {
        match own.reads_peers {
            Some(verdict) => Ok(verdict),
            None => self.agree(own),
        }
    }

    #[cold]
    fn agree(&mut self, own: &mut Own) -> Result<Option<u32>, Stop> {
        let (shared, members) = (self.shared, &self.program.peers.members);
        let (job, mask) = (&shared.job, cma_probe::mask_of(members));
        for member in members.iter() {
            let control = job.control(*member);
            let has_joined = || control.state() != RankState::Unborn;
            if !has_joined() {
                self.wait(0, *member, None, &has_joined)?;
            }
        }
        cma_probe::try_to_read(job, job.reads(), shared.me, members);
        // Orders what was told before the look for those that sleep.
        fence(Ordering::SeqCst);
        self.ring_if_seen();
        for member in members.iter() {
            let control = job.control(*member);
            let has_tried = || control.cma_probe.has_tried(mask);
            if !has_tried() {
                self.wait(0, *member, None, &has_tried)?;
            }
        }
        let verdict = cma_probe::all_read(job, members);
        own.reads_peers = Some(verdict);
        Ok(verdict)
    }

    /// A step with a large message.
    ///
    /// # Safety
    /// As for [`Process::execute_program`].
    #[inline(never)]
    pub(super) unsafe fn large_step(&mut self, own: &mut Own, at: usize, step: &Step) -> Result<(), Stop> {
        let (turn, program, behind) = (self.turn, self.program, self.behind);
        match step {
            Step::CopyIn { route, from, copy, offset, bytes, knows } => {
                let from = program.find(*from, behind);
                let pooled = || self.shared.job.in_pool(self.shared.me, from, *bytes);
                let stays = if program.may_stay { pooled() } else { None };
                if !knows
                    && stays.is_none()
                    && let Some(last) = own.progress.bounce_must_have_passed(turn)
                {
                    self.wait_for_all(own, at, last)?;
                }
                if !knows && let Some(last) = self.must_have_passed(own) {
                    self.wait_for_room(own, at, program.names[at].peer, last)?;
                }
                let lies = match (stays, copy) {
                    (Some(offset), _) => {
                        self.has_exposed = true;
                        offset | IN_POOL
                    }
                    (None, Some(bounces)) => {
                        let to = bounces[bounce_of(turn)].wrapping_add(self.bounce_at);
                        // SAFETY: who called answers for user memory; all ranks have passed what was there.
                        unsafe { std::ptr::copy_nonoverlapping(from, to, *bytes) };
                        *offset + self.bounce_at as u64
                    }
                    (None, None) => *offset + self.bounce_at as u64,
                };
                // SAFETY: a word of this frame.
                unsafe { route.of(turn).publish(turn, self.signature, (&raw const lies).cast(), 8) };
                self.is_unrung = true;
            }
            Step::CopyOut { route, bounces, to, bytes } => {
                let place = self.arrived(at, route)?;
                let mut offset = 0u64;
                // SAFETY: a word of this frame; who sends large messages sends where they are.
                unsafe { place.read((&raw mut offset).cast(), 8) };
                let (peer, stays) = (program.names[at].peer, offset & IN_POOL != 0);
                let lies = if stays {
                    self.shared.job.of_pool(peer, offset & !IN_POOL, *bytes)
                } else {
                    let fits = (offset as usize).checked_add(*bytes).is_some_and(|end| end <= BOUNCE_BYTES);
                    assert!(fits, "a message within its sender's bounce buffer");
                    bounces[bounce_of(turn)].wrapping_add(offset as usize)
                };
                match *to {
                    Taken::Lent(message) => program.lend(message, lies),
                    Taken::Copied(to) => {
                        self.ring();
                        // SAFETY: as above; the sender leaves the message alone until this rank has passed the turn.
                        unsafe { std::ptr::copy_nonoverlapping(lies, program.find(to, behind), *bytes) };
                        if stays {
                            self.look_for_failure(at, peer)?;
                        }
                    }
                }
            }
            Step::Apply { arithmetic, operands, bytes } => {
                self.ring();
                let [b1, b2, b3] = operands.map(|operand: Operand| program.find(operand, behind));
                // SAFETY: as above; the program's order keeps to the graph's edges.
                unsafe { local_plain(*arithmetic, b1, b2, b3, *bytes) };
                for operand in operands {
                    if let Operand::Lent { message, .. } = *operand
                        && self.shared.job.is_in_pools(program.find(*operand, behind))
                    {
                        self.look_for_failure(at, program.lender(message))?;
                    }
                }
            }
            _ => unreachable!("steps without large messages are made elsewhere"),
        }
        Ok(())
    }

    /// A step with a message that lies in its sender's buffer.
    ///
    /// # Safety
    /// As for [`Process::execute_program`].
    #[inline(never)]
    pub(super) unsafe fn zero_copy_step(
        &mut self,
        own: &mut Own,
        at: usize,
        step: &Step,
    ) -> Result<(), Stop> {
        let (turn, program) = (self.turn, self.program);
        match step {
            Step::Expose { route, from, knows } => {
                if !knows && let Some(last) = self.must_have_passed(own) {
                    self.wait_for_room(own, at, program.names[at].peer, last)?;
                }
                let address = *from as u64;
                // SAFETY: a word of this frame.
                unsafe { route.of(turn).publish(turn, self.signature, (&raw const address).cast(), 8) };
                self.is_unrung = true;
            }
            Step::Get { route, to, bytes } => {
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
    /// As for [`Process::execute_program`].
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
                let cause = match error {
                    CopyError::Forbidden { .. } => Cause::CopyForbidden { peer },
                    _ => Cause::BadAddress { peer },
                };
                Err(Stop::Failed(at, cause))
            }
        }
    }

    /// An error if the sender of what was read has given the call up: then it may have written there before it was read.
    pub(super) fn look_for_failure(&self, at: usize, peer: Rank) -> Result<(), Stop> {
        // What was read was read before; see `Line::fail`.
        fence(Ordering::SeqCst);
        match self.shared.job.consumer_index(self.set, peer).culprit(self.number) {
            Some(culprit) => Err(Stop::Failed(at, Cause::PeerFailed { peer, culprit: Rank(culprit) })),
            None => Ok(()),
        }
    }

    /// Waits until nobody looks at this rank's buffers any more. Whoever does not either passes the turn before it waits itself.
    pub(super) fn wait_for_readers(&mut self, own: &mut Own) -> Result<(), Stop> {
        self.is_unrung = true;
        self.ring();
        let (program, turn) = (self.program, self.turn);
        // Where each rank has a processor, who still copies is worth waiting for: to sleep and be woken takes longer.
        let until =
            now_ns() + self.shared.patience().spins.min(1) as u64 * program.traffic.bytes / BYTES_A_NS;
        program.peers.readers.iter().try_for_each(|(at, reader)| {
            let consumer_index = self.shared.job.consumer_index(self.set, *reader);
            while consumer_index.passed() < turn && now_ns() < until {
                std::hint::spin_loop();
            }
            self.wait_for_room(own, *at, *reader, turn)
        })
    }
}
