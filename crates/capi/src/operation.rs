//! Adding operations (ESPGOAL 2.2.3), ours among them.

use crate::error::{Error, Result};
use crate::graph::add;
use crate::process::peer;
use crate::types::*;
use castell_base::{Rank, Tag};
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use std::ffi::{c_int, c_void};

/// Below this address there is never memory of a program; an offset that was passed as an address is.
const LOWEST_ADDRESS: u64 = 4096;

/// Sends `count` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Send(
    graph: GOAL_Graph,
    buf: *const c_void,
    count: i64,
    dest: c_int,
    tag: c_int,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_Send", graph, |graph| {
        let bytes = size("count", count)?;
        let place = place("buf", buf, bytes, mem)?;
        Ok(graph.send(place, bytes, peer("dest", dest)?, send_tag(tag)?)?)
    })
}

/// Receives `count` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Recv(
    graph: GOAL_Graph,
    buf: *mut c_void,
    count: i64,
    source: c_int,
    tag: c_int,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_Recv", graph, |graph| {
        let bytes = size("count", count)?;
        let place = place("buf", buf, bytes, mem)?;
        Ok(graph.recv(place, bytes, recv_source(source)?, recv_tag(tag)?)?)
    })
}

/// Sends pieces of memory as one message.
///
/// # Safety
/// `offsets` and `lengths` have `num_elements` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_SendVec(
    graph: GOAL_Graph,
    offsets: *mut *mut c_void,
    lengths: *mut c_int,
    num_elements: c_int,
    dest: c_int,
    tag: c_int,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_SendVec", graph, |graph| {
        // SAFETY: the caller's promise.
        let (memory, blocks) = unsafe { blocks("", offsets, lengths, num_elements, mem)? };
        Ok(graph.send_vec(memory, &blocks, peer("dest", dest)?, send_tag(tag)?)?)
    })
}

/// Receives one message into pieces of memory.
///
/// # Safety
/// `offsets` and `lengths` have `num_elements` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_RecvVec(
    graph: GOAL_Graph,
    offsets: *mut *mut c_void,
    lengths: *mut c_int,
    num_elements: c_int,
    source: c_int,
    tag: c_int,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_RecvVec", graph, |graph| {
        // SAFETY: the caller's promise.
        let (memory, blocks) = unsafe { blocks("", offsets, lengths, num_elements, mem)? };
        Ok(graph.recv_vec(memory, &blocks, recv_source(source)?, recv_tag(tag)?)?)
    })
}

/// `bres[i] = b1[i] op b2[i]`.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_LocalOp(
    graph: GOAL_Graph,
    b1: *const c_void,
    b2: *const c_void,
    bres: *mut c_void,
    op: GOAL_Op,
    dt: GOAL_DataType,
    element_width: c_int,
    num_elements: i64,
    b1_mem: GOAL_MemType,
    b2_mem: GOAL_MemType,
    b3_mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_LocalOp", graph, |graph| {
        if op == GOAL_WTIME {
            return Ok(graph.wtime(place("bres", bres, 8, b3_mem)?)?);
        }
        let arithmetic = arithmetic(op, dt, i64::from(element_width))?;
        let count = size("num_elements", num_elements)?;
        let bytes = count.checked_mul(arithmetic.element().bytes()).ok_or_else(|| {
            Error::new(Code::Count, format!("{count} elements are more than 64 bits can count in bytes"))
        })?;
        let b1 = place("b1", b1, bytes, b1_mem)?;
        let copies = arithmetic.operator() == Operator::Copy;
        let b2 = if copies { Place::VOID } else { place("b2", b2, bytes, b2_mem)? };
        Ok(graph.local(b1, b2, place("bres", bres, bytes, b3_mem)?, arithmetic, count)?)
    })
}

/// The same over lists of blocks.
///
/// # Safety
/// Each array has as many entries as is said behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_LocalOpVec(
    graph: GOAL_Graph,
    buf1: *mut *mut c_void,
    lengths1: *mut c_int,
    num_elements1: c_int,
    buf2: *mut *mut c_void,
    lengths2: *mut c_int,
    num_elements2: c_int,
    buf3: *mut *mut c_void,
    lengths3: *mut c_int,
    num_elements3: c_int,
    datatype: c_int,
    datatype_width: c_int,
    op: c_int,
    b1_temp: GOAL_MemType,
    b2_temp: GOAL_MemType,
    b3_temp: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_LocalOpVec", graph, |graph| {
        let arithmetic = arithmetic(op as GOAL_Op, datatype as GOAL_DataType, i64::from(datatype_width))?;
        let copies = arithmetic.operator() == Operator::Copy;
        // SAFETY: the caller's promise; copy does not look at the second list.
        let (b1, b2, b3) = unsafe {
            let b1 = blocks("1", buf1, lengths1, num_elements1, b1_temp)?;
            let b2 = match copies {
                true => (Memory::Void, Vec::new()),
                false => blocks("2", buf2, lengths2, num_elements2, b2_temp)?,
            };
            (b1, b2, blocks("3", buf3, lengths3, num_elements3, b3_temp)?)
        };
        Ok(graph.local_vec((b1.0, &b1.1), (b2.0, &b2.1), (b3.0, &b3.1), arithmetic)?)
    })
}

/// Computes for `ns` nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Calc(graph: GOAL_Graph, ns: i64) -> GOAL_Vertex {
    add("GOAL_Calc", graph, |graph| Ok(graph.calc(size("ns", ns)?)?))
}

/// Lasts `ns` nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Sleep(graph: GOAL_Graph, ns: i64) -> GOAL_Vertex {
    add("GOAL_Sleep", graph, |graph| Ok(graph.sleep(size("ns", ns)?)?))
}

/// Does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Proxy(graph: GOAL_Graph) -> GOAL_Vertex {
    add("GOAL_Proxy", graph, |graph| Ok(graph.proxy()?))
}

/// Calls `function(context)`.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Call(graph: GOAL_Graph, function: GOAL_Function, context: *mut c_void) -> GOAL_Vertex {
    add("GOAL_Call", graph, |graph| {
        let function = function.ok_or_else(|| Error::new(Code::Buffer, "function is NULL"))?;
        Ok(graph.call(function as usize as u64, context as u64)?)
    })
}

/// Writes into the scratchpad of another rank's matching run.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Put(
    graph: GOAL_Graph,
    buf: *const c_void,
    count: i64,
    dest: c_int,
    remote_offset: i64,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_Put", graph, |graph| {
        let bytes = size("count", count)?;
        let local = place("buf", buf, bytes, mem)?;
        let remote = Place::scratch(size("remote_offset", remote_offset)?);
        Ok(graph.put(local, bytes, peer("dest", dest)?, remote)?)
    })
}

/// Reads from the scratchpad of another rank's matching run.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Get(
    graph: GOAL_Graph,
    buf: *mut c_void,
    count: i64,
    source: c_int,
    remote_offset: i64,
    mem: GOAL_MemType,
) -> GOAL_Vertex {
    add("GOAL_Get", graph, |graph| {
        let bytes = size("count", count)?;
        let local = place("buf", buf, bytes, mem)?;
        let remote = Place::scratch(size("remote_offset", remote_offset)?);
        Ok(graph.get(local, bytes, peer("source", source)?, remote)?)
    })
}

/// A number that may not be below zero.
pub(crate) fn size(what: &str, value: i64) -> Result<u64> {
    u64::try_from(value)
        .map_err(|_| Error::new(Code::Count, format!("{what} is {value}; it must not be below zero")))
}

fn send_tag(tag: c_int) -> Result<Tag> {
    let below_zero = |_| Error::new(Code::Tag, format!("tag is {tag}; tags go from 0 to {}", c_int::MAX));
    u32::try_from(tag).map(Tag).map_err(below_zero)
}

fn recv_tag(tag: c_int) -> Result<Option<Tag>> {
    if tag == GOAL_ANY { Ok(None) } else { send_tag(tag).map(Some) }
}

fn recv_source(source: c_int) -> Result<Option<Rank>> {
    if source == GOAL_ANY { Ok(None) } else { peer("source", source).map(Some) }
}

fn memory(what: &str, mem: GOAL_MemType) -> Result<Memory> {
    match mem {
        GOAL_USERSPACE => Ok(Memory::User),
        GOAL_SCRATCHPAD => Ok(Memory::Scratch),
        _ => Err(Error::new(
            Code::Operation,
            format!("the memory type of {what} is {mem}; pass GOAL_USERSPACE or GOAL_SCRATCHPAD"),
        )),
    }
}

/// The buffer that an argument means.
fn place(what: &str, argument: *const c_void, bytes: u64, mem: GOAL_MemType) -> Result<Place> {
    let memory = memory(what, mem)?;
    check_start(what, argument, bytes, memory)?;
    let offset = argument as u64;
    // No bytes at no address: nothing to hold on to, so the schedule may be saved.
    if memory == Memory::User && offset == 0 { Ok(Place::VOID) } else { Ok(Place { memory, offset }) }
}

fn check_start(what: &str, argument: *const c_void, bytes: u64, memory: Memory) -> Result<()> {
    let offset = argument as u64;
    let message = match memory {
        Memory::User if bytes > 0 && offset < LOWEST_ADDRESS => {
            let name = if offset == 0 { "NULL".to_owned() } else { format!("address {offset}") };
            format!(
                "{what} is {name} in GOAL_USERSPACE, for {bytes} bytes; pass a pointer to memory, or GOAL_SCRATCHPAD \
                 as the memory type (it stands behind the tag) if this is an offset"
            )
        }
        Memory::Scratch if (offset as i64) < 0 => {
            format!("{what} is offset {} in the scratchpad; offsets start at 0", offset as i64)
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::Buffer, message))
}

/// Copies a list of blocks; `number` tells lists of one function apart.
///
/// # Safety
/// Both arrays have `num_elements` entries.
unsafe fn blocks(
    number: &str,
    offsets: *mut *mut c_void,
    lengths: *mut c_int,
    num_elements: c_int,
    mem: GOAL_MemType,
) -> Result<(Memory, Vec<Block>)> {
    let count = size(&format!("num_elements{number}"), i64::from(num_elements))? as usize;
    let memory = memory(&format!("list {number}"), mem)?;
    if count > 0 && (offsets.is_null() || lengths.is_null()) {
        let message =
            format!("a list{number} of {count} blocks is NULL; pass arrays of offsets and of lengths");
        return Err(Error::new(Code::Buffer, message));
    }
    let block = |index: usize| {
        // SAFETY: index is below num_elements; the caller promised as many entries.
        let (offset, length) = unsafe { (*offsets.add(index), *lengths.add(index)) };
        let bytes = size(&format!("lengths{number}[{index}]"), i64::from(length))?;
        check_start(&format!("offsets{number}[{index}]"), offset, bytes, memory)?;
        Ok(Block { offset: offset as u64, bytes })
    };
    Ok((memory, (0..count).map(block).collect::<Result<_>>()?))
}

fn arithmetic(op: GOAL_Op, datatype: GOAL_DataType, width: i64) -> Result<Arithmetic> {
    let illegal = |message: String| Error::new(Code::Operation, message);
    let index = op.wrapping_sub(GOAL_MAX) as usize;
    let operator = *Operator::ALL.get(index).ok_or_else(|| {
        illegal(format!("op is {op}, which is no operator here; pass GOAL_MAX to GOAL_XOR"))
    })?;
    let first = match (datatype, width) {
        (GOAL_SINT, 8 | 16 | 32 | 64) => ElementType::I8,
        (GOAL_UINT, 8 | 16 | 32 | 64) => ElementType::U8,
        (GOAL_FLOAT, 32 | 64) => ElementType::F32,
        (GOAL_FLOAT, 16) => ElementType::F16,
        (GOAL_BFLOAT, 16) => ElementType::Bf16,
        (GOAL_SINT | GOAL_UINT, 1) => {
            return Err(illegal(
                "element_width is 1 bit, but elements are whole bytes: pack bits into integers of 8 or more"
                    .into(),
            ));
        }
        (GOAL_SINT | GOAL_UINT, _) => {
            return Err(illegal(format!("element_width is {width} bits; integers have 8, 16, 32 or 64")));
        }
        (GOAL_FLOAT, _) => {
            return Err(illegal(format!("element_width is {width} bits; GOAL_FLOAT has 16, 32 or 64")));
        }
        (GOAL_BFLOAT, _) => {
            return Err(illegal(format!("element_width is {width} bits; GOAL_BFLOAT has 16")));
        }
        _ => {
            return Err(illegal(format!(
                "the data type is {datatype}; pass GOAL_SINT, GOAL_UINT, GOAL_FLOAT or GOAL_BFLOAT"
            )));
        }
    };
    // The types of a kind follow one another by width.
    let step = (width as u64 / 8 / first.bytes()).ilog2() as usize;
    let element = ElementType::ALL[first as usize + step];
    Arithmetic::new(operator, element).map_err(|error| illegal(error.to_string()))
}
