//! Measurements from comma-separated text.

use castell_base::Time;

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Size of each message.
    pub bytes: u64,
    /// How many messages were sent one after the other to different ranks, at least 1.
    pub messages: u64,
    /// From the start of the first until the last could be used, in picoseconds.
    pub time_ps: f64,
}

/// What a file of measurements may hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurements {
    /// Times, which a model can be fitted to.
    Samples(Vec<Sample>),
    /// PLB's parameters by message size, as in table 4.1 of "Larger-scale collectives" (2020).
    Parameters(Vec<PlbParameters>),
}

/// α_p and α_r for messages of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlbParameters {
    /// Size of each message.
    pub bytes: u64,
    /// α_p in picoseconds; what was fitted may be negative.
    pub alpha_p_ps: f64,
    /// α_r in picoseconds.
    pub alpha_r_ps: f64,
}

/// Why a text is no table of measurements: where, what, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TableError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub problem: String,
}

impl Measurements {
    /// Reads comma-separated values: a line of column names, then a line a measurement. Empty lines and lines that start
    /// with `#` say nothing; other columns than these are passed over:
    ///
    /// * `bytes` (or `size`): the size of each message;
    /// * `messages`: how many were sent (without this column: 1);
    /// * `time`, with a unit in the name as in `time_us` or `time [us]`, or in each value as in `1.5us`; another column is
    ///   taken if `time_column` names it.
    ///
    /// With columns `alpha_p…` and `alpha_r…` instead of a time, the lines are [`Measurements::Parameters`].
    ///
    /// # Errors
    ///
    /// A missing column or value, something that is no number, negative times.
    pub fn parse(text: &str, time_column: Option<&str>) -> Result<Measurements, TableError> {
        let mut lines = text
            .lines()
            .zip(1..)
            .map(|(line, number)| (line.trim().trim_start_matches('\u{feff}'), number))
            .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let (header, line) = lines.next().unwrap_or(("", 1));
        let header = Header { names: fields(header), line };
        let bytes = header.find("bytes").or_else(|| header.find("size"));
        let bytes = bytes.ok_or_else(|| header.missing("bytes"))?;
        let alphas = (header.find("alpha_p"), header.find("alpha_r"));
        if let (Some(alpha_p), Some(alpha_r), None) = (alphas.0, alphas.1, time_column) {
            let row = |(text, line)| {
                let row = Row { fields: fields(text), line };
                let parameters = PlbParameters {
                    bytes: row.count(&bytes)?,
                    alpha_p_ps: row.signed_time_ps(&alpha_p)?,
                    alpha_r_ps: row.signed_time_ps(&alpha_r)?,
                };
                Ok(parameters)
            };
            return Ok(Measurements::Parameters(lines.map(row).collect::<Result<_, TableError>>()?));
        }
        let messages = header.find("messages");
        let name = time_column.unwrap_or("time");
        let time = header.find(name).ok_or_else(|| header.missing(name))?;
        let row = |(text, line)| {
            let row = Row { fields: fields(text), line };
            let time_ps = row.signed_time_ps(&time)?;
            if time_ps < 0.0 {
                return Err(row.error(format!("{}: a measured time is negative", time.name)));
            }
            let messages = messages.as_ref().map_or(Ok(1), |messages| row.count(messages))?;
            if messages == 0 {
                return Err(row.error("messages: expected at least 1, found 0".to_owned()));
            }
            Ok(Sample { bytes: row.count(&bytes)?, messages, time_ps })
        };
        Ok(Measurements::Samples(lines.map(row).collect::<Result<_, TableError>>()?))
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim()).collect()
}

/// The names of the columns.
struct Header<'a> {
    names: Vec<&'a str>,
    line: usize,
}

/// A column, and what its values are multiplied with if they have no unit.
struct Column<'a> {
    index: usize,
    name: &'a str,
    unit: Option<&'a str>,
}

impl<'a> Header<'a> {
    /// The column of this name, with or without a unit of time after it.
    fn find(&self, wanted: &str) -> Option<Column<'a>> {
        self.names.iter().enumerate().find_map(|(index, &name)| {
            let start = name.get(..wanted.len()).filter(|start| start.eq_ignore_ascii_case(wanted))?;
            let rest = name[start.len()..].trim_matches(|c: char| " _-[]()".contains(c));
            let unit = ["ps", "ns", "us", "µs", "ms", "s"].into_iter().find(|unit| *unit == rest);
            (rest.is_empty() || unit.is_some()).then_some(Column { index, name, unit })
        })
    }

    fn missing(&self, wanted: &str) -> TableError {
        let found = self.names.join(", ");
        let problem = format!(
            "no column `{wanted}`; the first line names the columns, such as `bytes,messages,time_us`, and here it is \
             `{found}`"
        );
        TableError { line: self.line, problem }
    }
}

struct Row<'a> {
    fields: Vec<&'a str>,
    line: usize,
}

impl Row<'_> {
    fn error(&self, problem: String) -> TableError {
        TableError { line: self.line, problem }
    }

    fn field(&self, column: &Column) -> Result<&str, TableError> {
        let field = self.fields.get(column.index).copied().filter(|field| !field.is_empty());
        field.ok_or_else(|| self.error(format!("{}: the value is missing", column.name)))
    }

    fn count(&self, column: &Column) -> Result<u64, TableError> {
        let field = self.field(column)?;
        let wrong = |_| self.error(format!("{}: expected a whole number, found `{field}`", column.name));
        field.parse().map_err(wrong)
    }

    /// In picoseconds.
    fn signed_time_ps(&self, column: &Column) -> Result<f64, TableError> {
        let field = self.field(column)?;
        let name = column.name;
        if let Ok(value) = field.parse::<f64>() {
            let Some(unit) = column.unit else {
                let problem = format!(
                    "{name}: `{field}` has no unit; add one to the column's name, such as `{name}_us`, or to the value"
                );
                return Err(self.error(problem));
            };
            let unit = Time::parse(&format!("1{unit}")).expect("the header's units are times");
            let ps = value * unit.0 as f64;
            let finite = ps.is_finite().then_some(ps);
            return finite.ok_or_else(|| self.error(format!("{name}: `{field}` is no finite time")));
        }
        let (sign, size) = field.strip_prefix('-').map_or((1.0, field), |rest| (-1.0, rest));
        let time = Time::parse(size).map_err(|error| self.error(format!("{name}: {error}")))?;
        Ok(sign * time.0 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> Vec<(u64, u64, f64)> {
        match Measurements::parse(text, None) {
            Ok(Measurements::Samples(samples)) => {
                samples.into_iter().map(|sample| (sample.bytes, sample.messages, sample.time_ps)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn units_stand_in_the_name_or_the_value() {
        assert_eq!(samples("bytes,messages,time_us\n8,2,1.5\n"), [(8, 2, 1.5e6)]);
        assert_eq!(samples("# c\n\nTime [ns], Size\n3.5,64\n1e3,8"), [(64, 1, 3.5e3), (8, 1, 1e6)]);
        assert_eq!(samples("bytes,node,messages,time\n8,a,1,\"2us\"\n"), [(8, 1, 2e6)]);
        assert_eq!(samples("bytes,time\n"), []);
        let other = Measurements::parse("bytes,time_us,least (ms)\n8,5,2", Some("least"));
        let Ok(Measurements::Samples(other)) = other else { panic!("{other:?}") };
        assert_eq!(other[0].time_ps, 2e9);
    }

    #[test]
    fn table_4_1_is_a_table_of_parameters() {
        let text = include_str!("../../../../vectors/model/plb-xc30.csv");
        let Ok(Measurements::Parameters(rows)) = Measurements::parse(text, None) else { panic!() };
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[0], PlbParameters { bytes: 8, alpha_p_ps: 880_000.0, alpha_r_ps: 380_000.0 });
        assert_eq!(
            rows[8],
            PlbParameters { bytes: 524_288, alpha_p_ps: -1_700_000.0, alpha_r_ps: 119_300_000.0 }
        );
    }

    #[test]
    fn wrong_tables_name_line_and_column() {
        for (text, message) in [
            ("", "line 1: no column `bytes`"),
            ("bytes,messages\n", "line 1: no column `time`"),
            ("bytes,time_us\n8", "line 2: time_us: the value is missing"),
            ("bytes,time_us\n\nx,1", "line 3: bytes: expected a whole number, found `x`"),
            ("bytes,time\n8,1.5", "line 2: time: `1.5` has no unit"),
            ("bytes,time\n8,1 day", "line 2: time: expected a time such as"),
            ("bytes,time_us\n8,-1", "line 2: time_us: a measured time is negative"),
            ("bytes,time_us\n8,nan", "line 2: time_us: `nan` is no finite time"),
            ("bytes,messages,time_us\n8,0,1", "line 2: messages: expected at least 1"),
        ] {
            let error = Measurements::parse(text, None).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
