//! Which processor this is, as `/proc/cpuinfo` says.

use std::path::Path;

/// A processor's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// `AuthenticAMD`, `GenuineIntel`.
    pub vendor: String,
    /// The family, decimal as the kernel prints it.
    pub family: u32,
    /// The model.
    pub model: u32,
    /// What it calls itself.
    pub name: String,
    /// A hypervisor says that it is there.
    pub is_virtual: bool,
}

impl Processor {
    /// Of this machine; empty fields where the kernel does not say. `root` is `/`.
    pub fn of_machine(root: &Path) -> Processor {
        Processor::parse(&std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
    }

    /// From the text of `/proc/cpuinfo`: the first processor's.
    pub fn parse(text: &str) -> Processor {
        let field = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let mut values = lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
            values.next().unwrap_or_default()
        };
        Processor {
            vendor: field("vendor_id").to_owned(),
            family: field("cpu family").parse().unwrap_or(0),
            model: field("model").parse().unwrap_or(0),
            name: field("model name").to_owned(),
            is_virtual: field("flags").split(' ').any(|flag| flag == "hypervisor"),
        }
    }
}

impl std::fmt::Display for Processor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Processor { vendor, family, model, name, .. } = self;
        if vendor.is_empty() {
            return out.write_str("a processor that /proc/cpuinfo does not name");
        }
        write!(out, "{name} ({vendor}, family {family}, model {model})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_is_read() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
                    flags\t\t: fpu hypervisor lahf_lm\n\nprocessor\t: 1\nmodel\t\t: 99\n";
        let processor = Processor::parse(text);
        assert_eq!((processor.family, processor.model, processor.is_virtual), (25, 17, true));
        assert_eq!(processor.to_string(), "AMD EPYC (AuthenticAMD, family 25, model 17)");
        assert_eq!(Processor::parse("nonsense"), Processor::default());
    }
}
