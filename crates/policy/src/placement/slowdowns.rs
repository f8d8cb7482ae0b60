//! How much a program suffers beside another.

use super::Error;
use std::collections::HashMap;

/// Programs in one table, at most.
const PROGRAMS_MAX: usize = 20_000;
/// A factor, at most.
const FACTOR_MAX: f64 = 1e6;

/// Directed slowdowns: by which factor a program runs longer beside another than alone. 1 is no slowdown, 1.25 a quarter longer.
///
/// ```
/// use castell_policy::placement::Slowdowns;
///
/// let table = Slowdowns::parse("program,cg,ep\ncg,1.8,5%\nep,1,1\n").unwrap();
/// assert_eq!((table.of(0, 1), table.of(1, 0)), (1.05, 1.0)); // cg beside ep, ep beside cg
/// assert_eq!(Slowdowns::parse(&table.to_string()).unwrap(), table);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdowns {
    names: Vec<String>,
    /// Row by row: the row's program beside the column's.
    factors: Vec<f64>,
}

impl Slowdowns {
    /// A table from a function of (program, its neighbour).
    ///
    /// # Panics
    ///
    /// If a factor is no number, negative or above a million.
    pub fn from_fn(names: Vec<String>, factor: impl Fn(usize, usize) -> f64) -> Slowdowns {
        let programs = names.len();
        let pairs = (0..programs).flat_map(|row| (0..programs).map(move |column| (row, column)));
        let factors: Vec<f64> = pairs.map(|(row, column)| factor(row, column)).collect();
        assert!(factors.iter().all(|factor| (0.0..=FACTOR_MAX).contains(factor)), "a factor out of range");
        Slowdowns { names, factors }
    }

    /// Reads a table with commas: a header row (its first field is free, then names), then a row for each program: its name and how
    /// much longer it runs beside each program of the header, as a factor (`1.25`) or in percent more (`25%`). Empty lines and
    /// those that begin with `#` are left out. Rows may stand in any order.
    ///
    /// # Errors
    ///
    /// [`Error::Slowdown`] with the first line that is wrong.
    pub fn parse(text: &str) -> Result<Slowdowns, Error> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |line: usize, reason: String| Error::Slowdown { line, reason };
        let (at, header) = lines.next().ok_or_else(|| wrong(1, "there is no header row of names".into()))?;
        let names: Vec<String> = header.split(',').skip(1).map(|name| name.trim().to_owned()).collect();
        if names.is_empty() || names.len() > PROGRAMS_MAX {
            let reason = format!("a header names 1 to {PROGRAMS_MAX} programs behind its first field");
            return Err(wrong(at, reason));
        }
        let mut position = HashMap::new();
        for (column, name) in names.iter().enumerate() {
            if name.is_empty() || position.insert(name.as_str(), column).is_some() {
                return Err(wrong(at, format!("{name:?} is named twice, or no name")));
            }
        }
        let mut rows: Vec<Option<Vec<f64>>> = vec![None; names.len()];
        for (at, line) in lines {
            let mut fields = line.split(',').map(str::trim);
            let name = fields.next().unwrap_or_default();
            let row = *position
                .get(name)
                .ok_or_else(|| wrong(at, format!("the row of {name:?} has no column in the header")))?;
            let factors: Result<Vec<f64>, Error> =
                fields.map(|field| factor(field).map_err(|reason| wrong(at, reason))).collect();
            let factors = factors?;
            if factors.len() != names.len() {
                let reason = format!("{} slowdowns where the header has {}", factors.len(), names.len());
                return Err(wrong(at, reason));
            }
            if rows[row].replace(factors).is_some() {
                return Err(wrong(at, format!("a second row of {name:?}")));
            }
        }
        let missing = rows.iter().position(Option::is_none);
        if let Some(missing) = missing {
            return Err(wrong(at, format!("{:?} has a column, but no row", names[missing])));
        }
        Ok(Slowdowns { factors: rows.into_iter().flatten().flatten().collect(), names })
    }

    /// The programs, in the order of rows and columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Factor by which the program runs longer beside the neighbour.
    #[inline]
    pub fn of(&self, program: usize, neighbour: usize) -> f64 {
        self.factors[program * self.names.len() + neighbour]
    }

    /// The table for these programs only, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if one of them has no row.
    pub fn select<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Slowdowns, Error> {
        let position: HashMap<&str, usize> =
            self.names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let chosen: Result<Vec<usize>, Error> = names
            .into_iter()
            .map(|name| position.get(name).copied().ok_or_else(|| Error::Unknown(name.to_owned())))
            .collect();
        let chosen = chosen?;
        let names = chosen.iter().map(|&at| self.names[at].clone()).collect();
        Ok(Slowdowns::from_fn(names, |row, column| self.of(chosen[row], chosen[column])))
    }
}

fn factor(field: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let factor = match field.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| 1.0 + percent / 100.0),
        None => number(field),
    };
    factor
        .filter(|factor| (0.0..=FACTOR_MAX).contains(factor))
        .ok_or_else(|| format!("{field:?} is no slowdown, such as 1.25 or 25%, between 0 and {FACTOR_MAX}"))
}

impl std::fmt::Display for Slowdowns {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "program,{}", self.names.join(","))?;
        for (row, name) in self.names.iter().enumerate() {
            write!(out, "{name}")?;
            (0..self.names.len()).try_for_each(|column| write!(out, ",{}", self.of(row, column)))?;
            writeln!(out)?;
        }
        Ok(())
    }
}
