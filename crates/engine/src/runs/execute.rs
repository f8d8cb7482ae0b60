//! Carrying operations out.

use super::Runs;
use super::memory::receive_of;
use super::peer_progress::Block;
use super::reference::{RunRef, token};
use crate::call::call;
use crate::failure::Cause;
use crate::messages::{Messages, Outbound};
use castell_base::{Rank, Tag};
use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::{OpId, Schedule};

/// Who sleeps is woken before more than this is computed. Bytes.
const LOCAL_BYTES_BEFORE_RINGING: u64 = 1024;

impl Runs {
    /// Starts an operation. Says whether it is finished already.
    #[inline]
    pub(super) fn execute(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        schedule: &Schedule,
        op: OpId,
    ) -> Result<bool, Cause> {
        match schedule.op(op) {
            Op::Send { buffer, bytes, dest, tag } => self.send(messages, run, op, (buffer, bytes), dest, tag),
            Op::Recv { buffer, bytes, source, tag } => {
                let context = self.context_of(run);
                let memory = self.space(run).message(buffer, bytes);
                // SAFETY: who ran the schedule answers for user memory, and the run keeps its scratchpad; dependences order the
                // operations that share buffers. The run goes only when its operations have ended or were cancelled.
                let is_done = unsafe { messages.post(token(run, op), context, source, tag, memory) }?;
                if !is_done && source.is_none() {
                    self.expect_anybody(messages, run, op)?;
                }
                Ok(is_done)
            }
            Op::Proxy => Ok(true),
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = count * arithmetic.element().bytes();
                if bytes > LOCAL_BYTES_BEFORE_RINGING {
                    messages.ring();
                    if self.table.expect(run).was_folded(op) {
                        return Ok(true);
                    }
                }
                // SAFETY: who ran the schedule answers for user memory; scratchpad bounds were checked at compile
                // time; dependences order the operations that share buffers.
                unsafe { self.space(run).local(arithmetic, b1, b2, b3, bytes) };
                Ok(true)
            }
            Op::Wtime { b3 } => {
                let now = castell_host::clock::now_seconds().to_ne_bytes();
                // SAFETY: as above; `now` is our own.
                unsafe { self.space(run).scatter(Buffer::Plain(b3), &now) };
                Ok(true)
            }
            Op::Call { function, context } => {
                messages.ring();
                let home = self.home.as_ref().expect("an engine that runs has its home");
                // SAFETY: who ran the schedule promised that this is the address of such a function.
                let is_over = unsafe { call(function, context, home, run, op) };
                if !is_over {
                    // Whoever ends it needs the engine, which is in hand here: not before this is noted.
                    self.deferred.push((run, op));
                }
                Ok(is_over)
            }
            Op::Calc { ns } => Ok(self.calculations.calc(run, op, ns, schedule.traits(op).concurrent)),
            Op::Sleep { ns } => Ok(self.calculations.sleep(run, op, ns)),
            Op::Put { local, bytes, dest, remote } => {
                self.put(messages, run, op, (local, bytes), dest, remote)
            }
            Op::Get { local, bytes, source, remote } => {
                self.get(messages, run, op, (local, bytes), source, remote)
            }
        }
    }

    #[inline]
    fn send(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        op: OpId,
        (buffer, bytes): (Buffer<'_>, u64),
        dest: Rank,
        tag: Tag,
    ) -> Result<bool, Cause> {
        let memory = self.space(run).message(buffer, bytes);
        let found = self.table.expect(run);
        found.starts_send();
        let message = Outbound::tagged(token(run, op), found.number_with(dest), tag, memory);
        // SAFETY: as for receives; nothing writes to a buffer that is being sent.
        unsafe { messages.send(dest, message) }
    }

    /// Starts what only the owner of a run in a block may carry out, or finishes a receive of which only it may write to the buffer.
    pub(super) fn execute_shared(
        &mut self,
        messages: &mut Messages,
        run: RunRef,
        block: Block,
        schedule: &Schedule,
        op: OpId,
    ) -> Result<bool, Cause> {
        match schedule.op(op) {
            Op::Recv { source, tag, .. } => {
                if let Some(message) = block.landed(block.slot_of(op, source, tag)) {
                    let (buffer, _) = receive_of(schedule, op);
                    // SAFETY: who ran the schedule answers for user memory; the message lies apart from it.
                    unsafe { self.space(run).scatter(buffer, message) };
                }
                Ok(true)
            }
            Op::Send { buffer, bytes, dest, tag } => {
                messages.check_peer(dest)?;
                let memory = self.space(run).message(buffer, bytes);
                if self.peer_progress.send(block, memory, dest, tag) {
                    return Ok(true);
                }
                self.execute(messages, run, schedule, op)
            }
            _ => self.execute(messages, run, schedule, op),
        }
    }
}

impl Runs {
    /// Lets time pass.
    pub(crate) fn calculate(&mut self) {
        let now = castell_host::clock::now_ns();
        while let Some((run, op)) = self.calculations.next_due(now) {
            self.finish(run, op);
        }
        let mut passed = self.calculations.passed(now);
        while let Some((run, op)) = self.calculations.next_computed(&mut passed) {
            self.finish(run, op);
        }
    }
}
