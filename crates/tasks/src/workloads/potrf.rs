//! Cholesky factorisation of a real matrix, tile by tile, with OpenBLAS's kernels in one thread each: the tasks of
//! [`Workload::Cholesky`](super::Workload::Cholesky), which do their work.
//!
//! The tiles lie one after the other, row by row of tiles, columns first in each; only the lower half is used.

use crate::api::context::Context;
use crate::dependences::Declaration;
use crate::error::TaskError;
use crate::lifecycle::task::Attributes;
use dlopen2::raw::Library;
use std::ffi::c_char;
use std::sync::Arc;

/// Where distributions have the library.
const LIBRARY: &str = "libopenblas.so.0";
/// How far the product of the factors may be from the matrix, relatively.
const ERROR_MAX: f64 = 1e-9;

type Word = *const c_char;
type Potrf = unsafe extern "C" fn(Word, *const i32, *mut f64, *const i32, *mut i32);
type Trsm = unsafe extern "C" fn(
    Word,
    Word,
    Word,
    Word,
    *const i32,
    *const i32,
    *const f64,
    *const f64,
    *const i32,
    *mut f64,
    *const i32,
);
type Syrk = unsafe extern "C" fn(
    Word,
    Word,
    *const i32,
    *const i32,
    *const f64,
    *const f64,
    *const i32,
    *const f64,
    *mut f64,
    *const i32,
);
type Gemm = unsafe extern "C" fn(
    Word,
    Word,
    *const i32,
    *const i32,
    *const i32,
    *const f64,
    *const f64,
    *const i32,
    *const f64,
    *const i32,
    *const f64,
    *mut f64,
    *const i32,
);

/// The library's functions, which stay for as long as it is loaded.
struct Blas {
    potrf: Potrf,
    trsm: Trsm,
    syrk: Syrk,
    gemm: Gemm,
    _library: Library,
}

impl Blas {
    fn load() -> Result<Blas, String> {
        let said = |error| format!("{error} (apt install libopenblas-dev)");
        let library = Library::open(LIBRARY).map_err(said)?;
        // SAFETY: these are the types of LAPACK's and BLAS's Fortran interfaces in OpenBLAS, whose 32-bit flavour this is.
        unsafe {
            let threads: unsafe extern "C" fn(i32) =
                library.symbol("openblas_set_num_threads").map_err(said)?;
            threads(1);
            Ok(Blas {
                potrf: library.symbol("dpotrf_").map_err(said)?,
                trsm: library.symbol("dtrsm_").map_err(said)?,
                syrk: library.symbol("dsyrk_").map_err(said)?,
                gemm: library.symbol("dgemm_").map_err(said)?,
                _library: library,
            })
        }
    }

    /// The kernel for a task that writes tile `own` and reads these.
    ///
    /// # Safety
    /// Each points to a tile of `order` rows and columns, and nobody else uses them meanwhile, but for reading what is read.
    unsafe fn run(&self, order: i32, reads: [Option<*const f64>; 2], own: *mut f64, diagonal: bool) {
        let n = &raw const order;
        let (one, minus) = (&raw const ONE, &raw const MINUS);
        let word = |text: &'static std::ffi::CStr| text.as_ptr();
        let (lower, plain, transposed) = (word(c"L"), word(c"N"), word(c"T"));
        // SAFETY: the caller's promise; the sizes are those of the tiles.
        unsafe {
            match reads {
                [Some(a), Some(b)] => {
                    (self.gemm)(plain, transposed, n, n, n, minus, a, n, b, n, one, own, n);
                }
                [Some(a), None] if diagonal => (self.syrk)(lower, plain, n, n, minus, a, n, one, own, n),
                [Some(a), None] => {
                    (self.trsm)(word(c"R"), lower, transposed, plain, n, n, one, a, n, own, n);
                }
                _ => {
                    let mut info = 0;
                    (self.potrf)(lower, n, own, n, &raw mut info);
                    assert_eq!(info, 0, "dpotrf: the matrix is positive");
                }
            }
        }
    }
}

static ONE: f64 = 1.0;
static MINUS: f64 = -1.0;

/// A matrix, and what its factorisation takes.
pub struct Factorisation {
    blas: Arc<Blas>,
    tiles: usize,
    tile: usize,
    elements: Vec<f64>,
}

impl Factorisation {
    /// Of a matrix of `tiles` × `tiles` tiles with `tile` × `tile` numbers each.
    ///
    /// # Errors
    /// There is no OpenBLAS; what to do about it.
    pub fn new(tiles: usize, tile: usize) -> Result<Factorisation, String> {
        let elements = vec![0.0; (tiles * tile).pow(2)];
        Ok(Factorisation { blas: Arc::new(Blas::load()?), tiles, tile, elements })
    }

    /// The matrix as it is before it is factorised: symmetric, and positive because its diagonal outweighs the rest.
    pub fn fill(&mut self) {
        let (order, tile) = (self.tiles * self.tile, self.tile);
        for (number, elements) in self.elements.chunks_exact_mut(tile * tile).enumerate() {
            let (row, column) = (number / self.tiles * tile, number % self.tiles * tile);
            for (index, element) in elements.iter_mut().enumerate() {
                *element = value(order, row + index % tile, column + index / tile);
            }
        }
    }

    /// Creates the tasks and waits for them; `cells` are the names of the tiles, and `dependent` what the tasks declare.
    ///
    /// # Errors
    /// A limit of the runtime was reached.
    pub fn run(&mut self, context: &Context<'_>, start: usize) -> Result<(), TaskError> {
        let matrix = self.elements.as_mut_ptr() as usize;
        let (order, bytes) = (self.tile as i32, self.tile * self.tile * size_of::<f64>());
        super::cholesky(start, self.tiles, &mut |declared: &[Declaration]| {
            let number = |declaration: &Declaration| (declaration.start - start) / size_of::<u64>();
            let address = |declaration: &Declaration| matrix + number(declaration) * bytes;
            let (own, reads) = declared.split_last().expect("each task writes a tile");
            let diagonal = number(own) / self.tiles == number(own) % self.tiles;
            let label = match (reads.len(), diagonal) {
                (0, _) => "potrf",
                (1, true) => "syrk",
                (1, false) => "trsm",
                _ => "gemm",
            };
            let (own, reads) = (address(own), [reads.first().map(address), reads.get(1).map(address)]);
            let blas = Arc::clone(&self.blas);
            let body = move |_: &Context<'_>| {
                let reads = reads.map(|read| read.map(|address| address as *const f64));
                // SAFETY: tiles of the matrix, which is there until the wait below is over; each is declared under its name.
                unsafe { blas.run(order, reads, own as *mut f64, diagonal) };
            };
            // SAFETY: as above: what is declared stands for the tiles.
            unsafe { context.submit_raw(Attributes { label, ..Attributes::NONE }, declared, body) };
        });
        context.taskwait()
    }

    /// Whether the factors' product times a vector of ones is the matrix times that.
    ///
    /// # Errors
    /// It is not; where.
    pub fn check(&self) -> Result<(), String> {
        let order = self.tiles * self.tile;
        let factor = |row: usize, column: usize| {
            let tile = row / self.tile * self.tiles + column / self.tile;
            let within = column % self.tile * self.tile + row % self.tile;
            self.elements[tile * self.tile * self.tile + within]
        };
        let inner: Vec<f64> =
            (0..order).map(|column| (column..order).map(|row| factor(row, column)).sum()).collect();
        for row in 0..order {
            let product: f64 = (0..=row).map(|column| factor(row, column) * inner[column]).sum();
            let expected: f64 = (0..order).map(|column| value(order, row, column)).sum();
            let error = (product / expected - 1.0).abs();
            if error.is_nan() || error > ERROR_MAX {
                return Err(format!("potrf: row {row} of L L' x is {product}, of A x {expected}"));
            }
        }
        Ok(())
    }
}

fn value(order: usize, row: usize, column: usize) -> f64 {
    let apart = row.abs_diff(column);
    1.0 / (1 + apart) as f64 + if apart == 0 { order as f64 } else { 0.0 }
}
