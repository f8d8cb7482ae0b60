//! The headers, where they are, say the same.

#[path = "../../../host/tests/skipped/mod.rs"]
mod skipped;

use super::*;
use std::mem::offset_of;
use std::process::Command;

const HEADERS: &str = "/usr/include/rdma/fi_endpoint.h";

/// What C calls it, and where it is or what it is here.
type Said = Vec<(String, u64)>;

macro_rules! places {
    ($all:ident; $name:literal, $kind:ident: $($there:ident = $here:ident),*) => {
        $($all.push((
            format!("offsetof(struct {}, {})", $name, stringify!($there)),
            offset_of!($kind, $here) as u64,
        ));)*
    };
}

macro_rules! sizes {
    ($all:ident; $($name:literal = $kind:ident),*) => {
        $($all.push((format!("sizeof(struct {})", $name), size_of::<$kind>() as u64));)*
    };
}

macro_rules! values {
    ($all:ident; $($name:ident = $value:expr),*) => {
        $($all.push((stringify!($name).to_owned(), $value as u64));)*
    };
}

fn descriptions(all: &mut Said) {
    places!(all; "fi_tx_attr", TransmitAttributes: caps = caps, msg_order = msg_order, inject_size = inject_size);
    places!(all; "fi_rx_attr", ReceiveAttributes: caps = caps, msg_order = msg_order, size = size);
    places!(all; "fi_ep_attr", EndpointAttributes: type = kind, max_msg_size = max_msg_size);
    places!(all; "fi_domain_attr", DomainAttributes: name = name, threading = threading, data_progress = data_progress,
        resource_mgmt = resource_mgmt, av_type = av_type, mr_mode = mr_mode, mr_key_size = mr_key_size,
        mr_cnt = _mr_cnt);
    places!(all; "fi_fabric_attr", FabricAttributes: name = name, prov_name = prov_name, prov_version = prov_version);
    places!(all; "fi_info", Info: next = next, caps = caps, mode = mode, addr_format = addr_format,
        src_addrlen = src_addrlen, src_addr = src_addr, tx_attr = tx_attr, rx_attr = rx_attr, ep_attr = ep_attr,
        domain_attr = domain_attr, fabric_attr = fabric_attr, nic = _nic);
    sizes!(all;
        "fi_tx_attr" = TransmitAttributes,
        "fi_rx_attr" = ReceiveAttributes,
        "fi_ep_attr" = EndpointAttributes,
        "fi_domain_attr" = DomainAttributes,
        "fi_fabric_attr" = FabricAttributes,
        "fi_info" = Info,
        "fi_av_attr" = AddressesAttributes,
        "fi_cq_attr" = QueueAttributes,
        "fi_cq_msg_entry" = Entry,
        "fi_cq_err_entry" = ErrorEntry
    );
}

fn objects(all: &mut Said) {
    places!(all; "fid", Fid: ops = ops);
    places!(all; "fi_ops", FidOps: close = close, bind = bind, control = control);
    places!(all; "fid_fabric", Fabric: ops = ops);
    places!(all; "fi_ops_fabric", FabricOps: domain = domain, trywait = trywait);
    places!(all; "fid_domain", Domain: ops = ops, mr = mr);
    places!(all; "fi_ops_domain", DomainOps: av_open = av_open, cq_open = cq_open, endpoint = endpoint);
    places!(all; "fi_ops_mr", RegionOps: reg = reg);
    places!(all; "fid_mr", Region: mem_desc = mem_desc, key = key);
    places!(all; "fi_av_attr", AddressesAttributes: count = count, name = name, flags = flags);
    places!(all; "fid_av", Addresses: ops = ops);
    places!(all; "fi_ops_av", AddressesOps: insert = insert);
    places!(all; "fi_cq_attr", QueueAttributes: size = size, format = format, wait_obj = wait_obj, wait_set = wait_set);
    places!(all; "fid_cq", Queue: ops = ops);
    places!(all; "fi_ops_cq", QueueOps: read = read, readerr = readerr);
    places!(all; "fi_cq_msg_entry", Entry: op_context = op_context, flags = flags, len = len);
    places!(all; "fi_cq_err_entry", ErrorEntry: op_context = op_context, flags = flags, err = err);
    places!(all; "fid_ep", Endpoint: cm = cm, msg = msg, rma = rma, tagged = tagged);
    places!(all; "fi_ops_cm", NameOps: getname = getname);
    places!(all; "fi_ops_msg", MessageOps: recv = recv, send = send, inject = inject);
    places!(all; "fi_ops_tagged", TaggedOps: recv = recv, send = send, inject = inject);
    places!(all; "fi_ops_rma", RemoteOps: write = write);
}

fn numbers(all: &mut Said) {
    values!(all;
        FI_MSG = CAP_MSG,
        FI_RMA = CAP_RMA,
        FI_TAGGED = CAP_TAGGED,
        FI_REMOTE_COMM = CAP_REMOTE_COMM,
        FI_WRITE = ACCESS_WRITE,
        FI_RECV = ACCESS_RECEIVE,
        FI_SEND = ACCESS_SEND,
        FI_REMOTE_WRITE = ACCESS_REMOTE_WRITE,
        FI_RECV = FLAG_RECEIVE,
        FI_TRANSMIT = FLAG_TRANSMIT
    );
    values!(all;
        FI_CONTEXT = MODE_CONTEXT,
        FI_CONTEXT2 = MODE_CONTEXT2,
        FI_MR_LOCAL = MR_LOCAL,
        FI_MR_VIRT_ADDR = MR_VIRTUAL_ADDRESS,
        FI_MR_ALLOCATED = MR_ALLOCATED,
        FI_MR_PROV_KEY = MR_PROVIDER_KEY,
        FI_MR_ENDPOINT = MR_ENDPOINT,
        FI_ORDER_SAW = ORDER_SEND_AFTER_WRITE,
        FI_ORDER_SAS = ORDER_SEND_AFTER_SEND
    );
    values!(all;
        FI_THREAD_DOMAIN = THREADING_DOMAIN,
        FI_PROGRESS_MANUAL = PROGRESS_MANUAL,
        FI_RM_ENABLED = RESOURCES_MANAGED,
        FI_EP_RDM = ENDPOINT_RDM,
        FI_SOCKADDR_IN = FORMAT_SOCKADDR_IN,
        FI_SOCKADDR_IN6 = FORMAT_SOCKADDR_IN6,
        FI_WAIT_NONE = WAIT_NONE,
        FI_WAIT_FD = WAIT_DESCRIPTOR,
        FI_CQ_FORMAT_MSG = CQ_MESSAGES,
        FI_GETWAIT = CONTROL_GET_WAIT,
        FI_ENABLE = CONTROL_ENABLE,
        FI_EAGAIN = ERROR_AGAIN,
        FI_EAVAIL = ERROR_AVAILABLE
    );
    all.push(("sizeof(struct fi_context2)".into(), crate::port::CONTEXT_WORDS as u64 * 8));
}

#[test]
fn the_headers_say_the_same() {
    if !std::path::Path::new(HEADERS).exists() {
        return skipped::skip("libfabric's headers", &format!("{HEADERS} is not there"));
    }
    let mut said = Said::new();
    descriptions(&mut said);
    objects(&mut said);
    numbers(&mut said);
    let lines: String = said.iter().map(|(what, _)| format!("  say((uint64_t) ({what}));\n")).collect();
    let program = format!(
        "#include <rdma/fabric.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n\
         #include <rdma/fi_rma.h>\n#include <rdma/fi_tagged.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\
         static void say(uint64_t value) {{ printf(\"%llu\\n\", (unsigned long long) value); }}\n\
         int main(void) {{\n  say(FI_VERSION(1, 17));\n{lines}  return 0;\n}}\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).expect("it is written");
    let compiled = Command::new("gcc").arg("-o").args([&binary, &source]).status().expect("gcc is there");
    assert!(compiled.success());
    let output = Command::new(&binary).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut values = text.lines().map(|line| line.parse::<u64>().expect("a number"));
    assert_eq!(values.next(), Some(VERSION.into()));
    for (what, here) in &said {
        assert_eq!(values.next(), Some(*here), "{what}");
    }
    assert_eq!(values.next(), None);
}
